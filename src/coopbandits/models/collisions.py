"""Players on one set of arms who do not talk: two on one arm in a round both earn nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coopbandits.core.errors import InputError
from coopbandits.core.special import bernoulli_divergence
from coopbandits.models.coins import Dice, Floats, read_means, require_sizes
from coopbandits.models.outcome import Counts, Outcome, silence
from coopbandits.models.players import Player


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
        `RhoRand`, `MCTopM` or `TDFS`.
    players : int
        M, at most the number of arms.
    horizon, runs, seed : int
        As in `simulate`.

    Examples
    --------
    >>> from coopbandits.models import MCTopM, play_collisions
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
    return Collisions(*silence(runs), horizon * share - earned, met, pulls)


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
    """Refuse more players than arms."""
    if players > chances.size:
        raise InputError(
            f"there are {players} players and {chances.size} arms; give at most one player per arm"
        )
