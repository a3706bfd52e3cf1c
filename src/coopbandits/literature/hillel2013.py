r"""The best arm by several players with few exchanges.

Hillel, Karnin, Koren, Lempel and Somekh, "Distributed exploration in multi-armed bandits", NIPS
2013. `one_exchange` is a *reconstruction*.

**Model.** N players pull the same arms at the same time, and look for the best one. What counts is
how many pulls each of them makes, and how often they talk: in an exchange all tell all others.

**With an exchange after every round of pulls**, in round r every player pulls every arm left
:math:`\lceil 2/(N ε_r^2) \ln(4 K r^2/δ)\rceil` times, :math:`ε_r = 2^{-r}`; by the means of all
these pulls, arms more than :math:`ε_r` below the best are dropped. The probability of naming a
wrong arm is below δ, and pulls per player fall as 1/N.

**With one exchange**, in the end, every player takes :math:`6K/\sqrt N` random arms, finds the best
of them by halving with half of its pulls, estimates that one again with the rest, and tells arm and
mean. Of the arms named by at least :math:`\sqrt N` players, the one with the largest average wins;
if there is none, that named most often. Pulls per player fall as :math:`1/\sqrt N`.

**Differs from the paper.** Sequential halving for a player's best arm is ours.

**Oracles.** Binomial probabilities of dropping the best arm; errors against δ; pulls by formula.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from coopbandits.core.checks import require_number
from coopbandits.core.errors import InputError
from coopbandits.literature.models import (
    Counts,
    Dice,
    Floats,
    Lines,
    Model,
    Played,
    Traffic,
    read_means,
    require_sizes,
)
from coopbandits.results.statistics import mean_text

MOST_PULLS = 10**10
"""Of one arm by all players before an exchange: some minutes."""


@dataclass(frozen=True)
class BestArm(Traffic):
    """Outcome of some runs; in an exchange all players tell all others.

    Attributes
    ----------
    arms : (run,)
        The arm that was named.
    pulls : (run,)
        Pulls of one player.
    exchanges : (run,)
        How often all told each other something.
    """

    arms: Counts
    pulls: Counts
    exchanges: Counts

    @property
    def facts(self) -> Lines:
        return [
            ("pulls of one player", mean_text(self.pulls)),
            ("exchanges", mean_text(self.exchanges)),
        ]


def many_exchanges(
    means: Sequence[float],
    players: int,
    delta: float,
    tolerance: float = 0.0,
    runs: int = 1,
    seed: int = 0,
) -> BestArm:
    """Find the best arm with an exchange after every round of pulls.

    Parameters
    ----------
    means : sequence of float
        The chance of each arm to pay 1.
    players : int
        N; pulls per player fall as 1/N.
    delta : float
        δ, the largest probability to name a wrong arm.
    tolerance : float
        How much below the best an arm may be that is named; 0 for the best itself.
    runs, seed : int
        As in `simulate`.
    """
    chances = read_means(means)
    require_sizes(players=players, runs=runs, seed=seed)
    require_number("delta", delta, "a number between 0 and 1", 0.0, 1.0)
    if not 0.0 <= tolerance < 1.0:
        raise InputError(f"tolerance is {tolerance}; it must be a number in [0, 1)")
    _require_one_best(chances, tolerance)
    _require_time(chances, players, delta, tolerance)
    found = [
        _exchange_until_sure(chances, players, delta, tolerance, Dice(seed, run))
        for run in range(runs)
    ]
    arms, pulls, exchanges, told = np.array(found, dtype=np.int64).T
    others = players * (players - 1)
    return BestArm(others * exchanges, others * told, arms, pulls, exchanges)


def _exchange_until_sure(
    chances: Floats, players: int, delta: float, tolerance: float, dice: Dice
) -> tuple[int, int, int, int]:
    """Return the arm, pulls of a player, exchanges, and values that it told each of the others."""
    left, pulls, told, exchanges, width = list(range(chances.size)), 0, 0, 0, 1.0
    means = np.zeros(chances.size)
    while len(left) > 1 and width >= tolerance / 2.0:
        exchanges, width = exchanges + 1, width / 2.0
        each = _pulls(chances.size, players, delta, exchanges)
        pulls, told = pulls + each * len(left), told + len(left)
        for k in left:
            means[k] = dice.share_below(chances[k], players * each)
        best = max(means[k] for k in left)
        left = [k for k in left if means[k] >= best - width]
    return max(left, key=lambda k: means[k]), pulls, exchanges, told


def _pulls(arms: int, players: int, delta: float, exchange: int) -> int:
    """Return the pulls of every arm by every player before an exchange, ⌈2/(N ε²) ln(4K r²/δ)⌉."""
    width = 0.5**exchange
    return math.ceil(2.0 / (players * width**2) * math.log(4.0 * arms * exchange**2 / delta))


def one_exchange(
    means: Sequence[float], players: int, budget: int, runs: int = 1, seed: int = 0
) -> BestArm:
    r"""Find the best arm with a single exchange, in the end.

    Parameters
    ----------
    means : sequence of float
        The chance of each arm to pay 1.
    players : int
        N; the same certainty takes about :math:`1/\sqrt N` of one player's pulls.
    budget : int
        How many pulls a player makes at most; at least four for every arm that it takes.
    runs, seed : int
        As in `simulate`.
    """
    chances = read_means(means)
    require_sizes(players=players, budget=budget, runs=runs, seed=seed)
    taken = min(chances.size, math.ceil(6.0 * chances.size / math.sqrt(players)))
    if budget < 4 * taken:
        raise InputError(
            f"budget is {budget}, and a player takes {taken} arms; give at least {4 * taken} pulls"
        )
    arms = [
        winner([_champion(chances, taken, budget, Dice(seed, run, j)) for j in range(players)])
        for run in range(runs)
    ]
    ones = np.ones(runs, dtype=np.int64)
    messages = players * (players - 1) * ones  # an arm and its mean
    return BestArm(messages, 2 * messages, np.array(arms, dtype=np.int64), budget * ones, ones)


def _champion(chances: Floats, taken: int, budget: int, dice: Dice) -> tuple[int, float]:
    """Return the best of some random arms by halving, and its mean by other pulls."""
    left = dice.shuffled(chances.size)[:taken]
    rounds = max(1, math.ceil(math.log2(taken)))
    while len(left) > 1:
        each = max(1, budget // 2 // rounds // len(left))
        paid = {k: dice.share_below(chances[k], each) for k in left}
        left = sorted(left, key=lambda k: -paid[k])[: -(-len(left) // 2)]
    return left[0], dice.share_below(chances[left[0]], budget - budget // 2)


def winner(told: list[tuple[int, float]]) -> int:
    values: dict[int, list[float]] = {}
    for arm, mean in told:
        values.setdefault(arm, []).append(mean)
    often = {arm: named for arm, named in values.items() if len(named) ** 2 >= len(told)}
    if often:
        return max(often, key=lambda arm: sum(often[arm]) / len(often[arm]))
    return max(values, key=lambda arm: len(values[arm]))


def _require_one_best(chances: Floats, tolerance: float) -> None:
    first, second = np.sort(chances)[-1:-3:-1].tolist()
    if tolerance == 0.0 and first == second:
        raise InputError(
            f"two arms have the largest mean {first:g}, so there is no best arm to find; give a "
            "tolerance above 0"
        )


def _require_time(chances: Floats, players: int, delta: float, tolerance: float) -> None:
    """Reject arms so close that the round that tells them apart would take too long."""
    first, second = np.sort(chances)[-1:-3:-1].tolist()
    exchange, width, pulls = 0, 1.0, 0
    while width > first - second and width >= tolerance / 2.0 and pulls <= MOST_PULLS:
        exchange, width = exchange + 1, width / 2.0
        pulls = players * _pulls(chances.size, players, delta, exchange)
    if pulls > MOST_PULLS:
        raise InputError(
            f"the best arms have the means {first:.12g} and {second:.12g}, and telling them apart "
            f"takes more than {MOST_PULLS:.0e} pulls of each; give means further apart, or a "
            "larger tolerance"
        )


@dataclass(frozen=True)
class ManyExchanges(Model):
    """The best arm with an exchange after every round of pulls (Hillel et al. 2013).

    The horizon is not asked for: it ends when it is sure.
    """

    delta: float = 0.1
    tolerance: float = 0.0
    name: ClassVar[str] = "many-exchanges"

    def play(self, played: Played) -> Lines:
        found = many_exchanges(
            played.means, played.agents, self.delta, self.tolerance, played.runs, played.seed
        )
        return _named(found, played, self.tolerance)


@dataclass(frozen=True)
class OneExchange(Model):
    """The best arm with one exchange, after as many pulls as the horizon (Hillel et al. 2013)."""

    name: ClassVar[str] = "one-exchange"

    def play(self, played: Played) -> Lines:
        means, agents, horizon, runs, seed = played
        return _named(one_exchange(means, agents, horizon, runs, seed), played)


def _named(found: BestArm, played: Played, tolerance: float = 0.0) -> Lines:
    means = np.asarray(played.means, dtype=np.float64)
    # Arms may tie, and differences round: 0.9 − 0.7 is a little more than 0.2.
    right = means.max() - means[found.arms] <= tolerance * (1.0 + 1e-9)
    what = "an arm within the tolerance" if tolerance else "the best arm"
    return [(f"runs that named {what}", f"{int(right.sum())} of {played.runs}"), *found.lines]
