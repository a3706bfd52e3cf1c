r"""Players that collide: rhoRand, MCTopM, RandTopM, Selfish and time division.

Besson and Kaufmann, "Multi-player bandits revisited", ALT 2018, and two algorithms that they
compare with: rhoRand (Anandkumar, Michael, Tang and Swami, "Distributed algorithms for learning and
cognitive medium access", IEEE JSAC 2011) and time-division fair sharing, TDFS (Liu and Zhao,
"Distributed learning in multi-armed bandit with multiple players", IEEE TSP 2010).

**Model.** M players share K arms. Two or more on one arm in a round collide and earn nothing.
Players do not communicate; each notices the others only by its own collisions. With *sensing* a
player also sees what its arm would have paid.

**Algorithms.** Player j keeps KL-UCB indices :math:`U_k(t)` of what it sensed. :math:`\hat M(t)`
are the M arms with the largest indices, A(t) is the arm just played.

*rhoRand* plays the arm with the ρ-th largest index, and draws another rank ρ of 1 to M after a
collision.

*TDFS* has an offset o and plays, in round t, the arm with the ((t + o) mod M)-th largest index, so
that players with different offsets share the M best arms evenly. It draws another offset after a
collision.

*RandTopM*:

* after a collision, :math:`A(t+1) \sim \mathcal U(\hat M(t))`;
* else, if :math:`A(t) \notin \hat M(t)`,
  :math:`A(t+1) \sim \mathcal U(\hat M(t) \cap \{k : U_k(t-1) \le U_{A(t)}(t-1)\})`;
* else :math:`A(t+1) = A(t)`.

*MCTopM* adds a chair: a player is seated once it was on its arm without a collision, and ignores
collisions as long as that arm is among the M best.

*Selfish* needs neither sensing nor M. Each player runs KL-UCB on what it *earned*, so that a
collision counts as a reward of 0 and makes the arm less attractive:
:math:`A(t+1) = \arg\max_k \tilde U_k(t)`.

**Guarantee.** A RandTopM player plays a bad arm k at most
:math:`\ln T/kl(\mu_k, \mu_M) + o(\ln T)` times, which no player without communication can improve
on (`collision_bound`); that its collisions are logarithmic is proved for MCTopM only. Selfish has
no guarantee: with a small probability two players stay in step and collide forever, so its expected
regret is linear.

**Differs from the papers.** TDFS is a *reconstruction*: the paper learns each rank separately.
Otherwise nothing known. The printed algorithm of RandTopM nests the first rule in the second one;
the paper's text and the authors' code react to every collision, and so does this.

**Oracles.** The bounds that the authors print; SMPyBandits, their package, run beside it; and a
vectorised second implementation in ``tests/literature/naive_players.py``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from coopbandits.core.errors import InputError
from coopbandits.core.special import bernoulli_divergence, bernoulli_upper
from coopbandits.literature.models import (
    Counts,
    Dice,
    Floats,
    Lines,
    Model,
    Outcome,
    Played,
    read_means,
    require_sizes,
)
from coopbandits.results.statistics import mean_text


class Player(ABC):
    r"""One player: own counts, and KL-UCB's :math:`\max\{q : n_k\,kl(\hat\mu_k, q) \le \ln t\}`.

    Parameters
    ----------
    num_arms, players : int
        K and M.
    dice : Dice
        The player's own chance.
    """

    name: ClassVar[str]

    def __init__(self, num_arms: int, players: int, dice: Dice) -> None:
        self.players, self.dice = players, dice
        self.counts, self.sums = np.zeros(num_arms), np.zeros(num_arms)
        self.indices = [math.inf] * num_arms

    @abstractmethod
    def choose(self) -> int:
        """Return the arm to play."""

    @abstractmethod
    def react(self, arm: int, collided: bool, before: list[float]) -> None:
        """React to a collision, or to none; `before` are the indices before this round."""

    def observe(self, arm: int, sensed: float, collided: bool) -> None:
        before = self.indices
        self.counts[arm] += 1.0
        self.sums[arm] += sensed
        log = math.log(self.counts.sum())
        self.indices = [
            bernoulli_upper(s / n, log / n) if n > 0.0 else math.inf
            for s, n in zip(self.sums.tolist(), self.counts.tolist(), strict=True)
        ]
        self.react(arm, collided, before)

    def ranked(self) -> list[int]:
        """Return the arms by falling index, equal ones in any order."""
        ties = self.dice.uniforms(len(self.indices)).tolist()
        return sorted(range(len(ties)), key=lambda k: (-self.indices[k], ties[k]))


class RhoRand(Player):
    """rhoRand (Anandkumar, Michael, Tang, Swami 2011): the arm of the own rank."""

    name = "rho-rand"

    def __init__(self, num_arms: int, players: int, dice: Dice) -> None:
        super().__init__(num_arms, players, dice)
        self.rank = dice.one_of(range(players))

    def choose(self) -> int:
        return self.ranked()[self.rank]

    def react(self, arm: int, collided: bool, before: list[float]) -> None:
        if collided:
            self.rank = self.dice.one_of(range(self.players))


class MCTopM(Player):
    """MCTopM (Besson, Kaufmann 2018): musical chairs among the M best arms."""

    name = "mc-top-m"

    def __init__(self, num_arms: int, players: int, dice: Dice) -> None:
        super().__init__(num_arms, players, dice)
        self.arm, self.seated = dice.one_of(range(num_arms)), False

    def choose(self) -> int:
        return self.arm

    def react(self, arm: int, collided: bool, before: list[float]) -> None:
        best = self.ranked()[: self.players]
        if arm not in best:
            modest = [k for k in best if before[k] <= before[arm]]
            self.arm, self.seated = self.dice.one_of(modest or best), False
        elif collided and not self.seated:
            self.arm = self.dice.one_of(best)
        else:
            self.seated = True


class TDFS(Player):
    """Time-division fair sharing (Liu, Zhao 2010)."""

    name = "tdfs"

    def __init__(self, num_arms: int, players: int, dice: Dice) -> None:
        super().__init__(num_arms, players, dice)
        self.offset, self.rounds = dice.one_of(range(players)), 0

    def choose(self) -> int:
        return self.ranked()[(self.rounds + self.offset) % self.players]

    def react(self, arm: int, collided: bool, before: list[float]) -> None:
        self.rounds += 1
        if collided:
            self.offset = self.dice.one_of(range(self.players))


class RandTopM(Player):
    """RandTopM (Besson, Kaufmann 2018): MCTopM without chairs."""

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
    """Selfish (Besson, Kaufmann 2018): KL-UCB on own rewards; a collision is a reward of 0."""

    name = "selfish"

    def choose(self) -> int:
        return self.ranked()[0]

    def observe(self, arm: int, sensed: float, collided: bool) -> None:
        super().observe(arm, 0.0 if collided else sensed, collided)

    def react(self, arm: int, collided: bool, before: list[float]) -> None:
        """Do nothing: a collision only shows in the reward."""


@dataclass(frozen=True)
class Collisions(Outcome):
    """What became of some runs.

    Regret is what M players on the M best arms would have earned in expectation, less what the arms
    played without a collision pay in expectation; a player's, an even share of the first less what
    its own arms pay. Nothing is sent.

    Attributes
    ----------
    collisions : (run,)
        How often a player met another.
    pulls : (run, player, arm)
        How often each player played each arm.
    """

    collisions: Counts
    pulls: Counts

    @property
    def facts(self) -> Lines:
        return [*super().facts, ("collisions", mean_text(self.collisions))]


def play_collisions(
    means: Sequence[float],
    kind: type[Player],
    players: int,
    horizon: int,
    runs: int = 1,
    seed: int = 0,
) -> Collisions:
    """Let M players of one kind play.

    Parameters
    ----------
    means : sequence of float
        The chance of each arm to pay 1.
    kind : type of Player
        `RhoRand`, `MCTopM`, `TDFS`, `RandTopM` or `Selfish`.
    players : int
        M, at most the number of arms.
    horizon, runs, seed : int
        As in `simulate`.

    Examples
    --------
    >>> from coopbandits.literature import MCTopM, play_collisions
    >>> play_collisions([0.9, 0.8, 0.1], MCTopM, players=2, horizon=50).pulls.sum()
    np.int64(100)
    """
    chances = read_means(means)
    require_sizes(players=players, horizon=horizon, runs=runs, seed=seed)
    require_fit(chances, players)
    pulls = np.zeros((runs, players, chances.size), dtype=np.int64)
    earned, met = np.zeros((runs, players)), np.zeros(runs, dtype=np.int64)
    for run in range(runs):
        tape = Dice(seed, run, 0)
        team = [kind(chances.size, players, Dice(seed, run, 1 + j)) for j in range(players)]
        for _ in range(horizon):
            paid = (tape.uniforms(chances.size) < chances).astype(float).tolist()
            arms = [player.choose() for player in team]
            for j, (player, arm) in enumerate(zip(team, arms, strict=True)):
                collided = arms.count(arm) > 1
                player.observe(arm, paid[arm], collided)
                pulls[run, j, arm] += 1
                met[run] += collided
                earned[run, j] += 0.0 if collided else chances[arm]
    share = float(np.sort(chances)[-players:].mean())
    nothing = np.zeros(runs, dtype=np.int64)  # is sent
    return Collisions(nothing, nothing, horizon * share - earned, met, pulls)


def collision_bound(means: Sequence[float], players: int, horizon: int) -> float:
    r"""Return what M players who do not talk lose at least, for large horizons.

    .. math:: M \sum_{k > M} \frac{μ_M - μ_k}{kl(μ_k, μ_M)} \ln T

    with means in falling order (Besson, Kaufmann 2018). It is 0 where the arms after the M-th are
    none, and infinite where one of them is as good.
    """
    chances = np.sort(read_means(means))[::-1]
    require_sizes(players=players, horizon=horizon)
    require_fit(chances, players)
    last = float(chances[players - 1])
    total = 0.0
    for worse in chances[players:].tolist():
        if worse == last:
            return math.inf
        total += (last - worse) / bernoulli_divergence(worse, last)
    return players * total * math.log(horizon)


def require_fit(chances: Floats, players: int) -> None:
    if players > chances.size:
        raise InputError(
            f"there are {players} players and {chances.size} arms; give at most one player per arm"
        )


@dataclass(frozen=True)
class Colliding(Model):
    """Players that collide and do not talk."""

    kind: ClassVar[type[Player]]

    def play(self, played: Played) -> Lines:
        means, agents, horizon, runs, seed = played
        regret, worst, *rest = play_collisions(means, self.kind, agents, horizon, runs, seed).lines
        bound = f"{collision_bound(means, agents, horizon):.1f}"
        return [regret, worst, ("lower bound for long horizons", bound), *rest]


@dataclass(frozen=True)
class RhoRandModel(Colliding):
    """Players that collide: ranks, drawn again after a collision (Anandkumar et al. 2011)."""

    kind = RhoRand
    name: ClassVar[str] = "rho-rand"


@dataclass(frozen=True)
class MCTopMModel(Colliding):
    """Players that collide: musical chairs on the best arms (Besson, Kaufmann 2018)."""

    kind = MCTopM
    name: ClassVar[str] = "mc-top-m"


@dataclass(frozen=True)
class TDFSModel(Colliding):
    """Players that collide: the best arms in turn (Liu, Zhao 2010)."""

    kind = TDFS
    name: ClassVar[str] = "tdfs"


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
