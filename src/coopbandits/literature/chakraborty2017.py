r"""Pull or tell: in a round an agent either pulls an arm or tells all others its last reward.

Chakraborty, Chua, Das and Juba, "Coordinated versus decentralized exploration in multi-agent
multi-armed bandits", IJCAI 2017. *Reconstruction*: the model is theirs, the rule is ours.

**Model.** N agents play the same arms. A round spent on telling earns nothing, so communication
costs a pull; an arm and its reward go to all others.

**Algorithm.** Every agent plays UCB on its own pulls and what others told. It tells its last
reward, instead of pulling, while fewer than :math:`c\,\ln t` rewards of that arm have been told.

**Differs from the paper.** The text was not available: theirs tells by the value of information.

**Oracles.** UCB in a plain loop for one agent; counts of messages by hand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from coopbandits.core.checks import require_nonnegative
from coopbandits.core.choice import best_arm
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


@dataclass(frozen=True)
class Broadcasts(Outcome):
    """Outcome of agents that pull or tell; a round spent on telling loses the best arm's mean.

    Attributes
    ----------
    told : (run,)
        How many rounds of agents were spent on telling.
    """

    told: Counts

    @property
    def facts(self) -> Lines:
        return [*super().facts, ("rounds spent on telling", mean_text(self.told))]


def pull_or_tell(
    means: Sequence[float],
    agents: int,
    horizon: int,
    eagerness: float = 1.0,
    runs: int = 1,
    seed: int = 0,
) -> Broadcasts:
    """Let agents play UCB on their own pulls and what others told.

    Parameters
    ----------
    means : sequence of float
        The chance of each arm to pay 1.
    agents : int
        N.
    horizon, runs, seed : int
        As in `simulate`.
    eagerness : float
        c; 0 for agents that never talk.
    """
    chances = read_means(means)
    require_sizes(agents=agents, horizon=horizon, runs=runs, seed=seed)
    require_nonnegative("eagerness", eagerness)
    regret, told = np.zeros((runs, agents)), np.zeros(runs, dtype=np.int64)
    for run in range(runs):
        regret[run], told[run] = _play(chances, agents, horizon, eagerness, Dice(seed, run))
    messages = (agents - 1) * told
    return Broadcasts(messages, 2 * messages, regret, told)


def _play(
    chances: Floats, agents: int, horizon: int, eagerness: float, dice: Dice
) -> tuple[Floats, int]:
    own, public = np.zeros((agents, 2, chances.size)), np.zeros((2, chances.size))
    last: list[tuple[int, float] | None] = [None] * agents  # what is not told yet
    regret, told, best = np.zeros(agents), 0, float(chances.max())
    for t in range(1, horizon + 1):
        news = np.zeros_like(public)
        for i in range(agents):
            kept = last[i]
            if kept is not None and public[1, kept[0]] < eagerness * math.log(t):
                news[:, kept[0]] += kept[1], 1.0
                own[i, :, kept[0]] -= kept[1], 1.0  # from now on it is public
                last[i] = None
                regret[i], told = regret[i] + best, told + 1
                continue
            arm = _ucb(own[i] + public)
            paid = float(dice.uniform() < chances[arm])
            own[i, :, arm] += paid, 1.0
            last[i] = arm, paid
            regret[i] += best - float(chances[arm])
        public += news
    return regret, told


def _ucb(known: Floats) -> int:
    """Return the arm with the largest μ̂ + √(ln s/(2n)): B = 2 for rewards in [0, 1]."""
    sums, counts = known.tolist()
    log = math.log(max(1.0, sum(counts)))
    values = [
        s / n + math.sqrt(log / (2.0 * n)) if n > 0.0 else math.inf
        for s, n in zip(sums, counts, strict=True)
    ]
    return best_arm(values)


@dataclass(frozen=True)
class PullOrTell(Model):
    """Rounds are spent on pulling or on telling (Chakraborty et al. 2017)."""

    eagerness: float = 1.0
    name: ClassVar[str] = "pull-or-tell"

    def play(self, played: Played) -> Lines:
        means, agents, horizon, runs, seed = played
        return pull_or_tell(means, agents, horizon, self.eagerness, runs, seed).lines
