r"""RandTopM and Selfish: Besson and Kaufmann, "Multi-player bandits revisited", ALT 2018.

**Model.** M players share K arms. Two or more on one arm in a round collide and earn nothing.
Players do not communicate; with *sensing* a player also sees what its arm would have paid.

**RandTopM** needs sensing and M. Player j keeps KL-UCB indices :math:`U_k(t)` of what it sensed.
:math:`\hat M(t)` are the M arms with the largest indices, A(t) is the arm just played:

* after a collision, :math:`A(t+1) \sim \mathcal U(\hat M(t))`;
* else, if :math:`A(t) \notin \hat M(t)`,
  :math:`A(t+1) \sim \mathcal U(\hat M(t) \cap \{k : U_k(t-1) \le U_{A(t)}(t-1)\})`;
* else :math:`A(t+1) = A(t)`.

MCTopM (`coopbandits.models.players`) adds a chair: a seated player ignores collisions.

**Selfish** needs neither. Each player runs KL-UCB on what it *earned*, so that a collision counts
as a reward of 0 and makes the arm less attractive: :math:`A(t+1) = \arg\max_k \tilde U_k(t)`.

**Guarantee.** A RandTopM player plays a bad arm k at most
:math:`\ln T/kl(\mu_k, \mu_M) + o(\ln T)` times, which no player without communication can improve
on; that its collisions are logarithmic is proved for MCTopM only. Selfish has no guarantee: with a
small probability two players stay in step and collide forever, so its expected regret is linear.

**Differs from the paper.** Nothing known. The printed algorithm of RandTopM nests the first rule
in the second one; the paper's text and the authors' code react to every collision, and so does
this.

**Oracles.** The text of the paper; SMPyBandits, the authors' package, run beside it; and a
vectorised second implementation in ``tests/literature/naive_players.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coopbandits.models.catalogue import Colliding
from coopbandits.models.coins import Dice
from coopbandits.models.players import Player


class RandTopM(Player):
    """Plays one of the M best arms; draws another one after a collision."""

    name = "rand-top-m"

    def __init__(self, num_arms: int, players: int, dice: Dice) -> None:
        super().__init__(num_arms, players, dice)
        self.arm = dice.one_of(range(num_arms))

    def choose(self) -> int:
        return self.arm

    def react(self, arm: int, collided: bool, before: list[float]) -> None:
        best = self.ranked()[: self.players]
        if collided:
            self.arm = self.dice.one_of(best)
        elif arm not in best:
            # An arm that overtook this one is among the best, so the list is empty only while
            # untried arms tie at infinity.
            smaller = [k for k in best if before[k] <= before[arm]]
            self.arm = self.dice.one_of(smaller or best)


class Selfish(Player):
    """Plays KL-UCB on its own rewards; a collision is a reward of 0."""

    name = "selfish"

    def choose(self) -> int:
        return self.ranked()[0]

    def observe(self, arm: int, sensed: float, collided: bool) -> None:
        super().observe(arm, 0.0 if collided else sensed, collided)

    def react(self, arm: int, collided: bool, before: list[float]) -> None:
        """Do nothing: a collision only shows in the reward."""


@dataclass(frozen=True)
class RandTopMModel(Colliding):
    """Players that collide: a random one of the best arms (Besson, Kaufmann 2018)."""

    kind = RandTopM
    name: ClassVar[str] = "rand-top-m"


@dataclass(frozen=True)
class SelfishModel(Colliding):
    """Players that collide and only see their rewards (Besson, Kaufmann 2018)."""

    kind = Selfish
    name: ClassVar[str] = "selfish"
