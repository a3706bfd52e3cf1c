r"""dUCB4: players agree on arms by auctions on their indices (Kalathil, Nayyar and Jain 2014).

Reconstruction, from the abstract and from memory, of "Decentralized learning for multiplayer
multiarmed bandits", IEEE Transactions on Information Theory 2014.

**Model.** `matching`: arms pay different players differently, players on one arm collide, and there
is no channel to talk on, so every round of communication adds to regret.

**Algorithm.** After every player has played every arm once, a counter η starts at 1.

* If η is a power of two, a *decision frame* is held: player i computes

  .. math:: g_{ik} = \hat\mu_{ik} + \sqrt{\frac{(M + 2)\ln n_i}{n_{ik}}}, \qquad
      n_i = \sum_k n_{ik},

  and takes part in an auction on these indices. M *interrupt* rounds follow, one per player: a
  player whose arm has changed signals it, and then all set η to 1.
* All play the arms of the last matching for one round, and η grows by 1.

While the matching stays the same, frames are at powers of two, so their number is logarithmic in
the time between changes. Changes are caused by plays of bad matchings, of which there are
:math:`O(\ln T)`; together that is :math:`O(\ln^2 T)` frames. If several matchings are best,
players change between them, and frames become rare later.

**Guarantee** (the abstract's): expected regret grows at most as near-:math:`O(\ln^2 T)`. "Near" is,
as far as we remember, for ε that decreases slowly where the smallest difference between two
matchings is not known.

**Differs from the paper.** The text was not available: frames, index and interrupt phase are from
memory. Players bid in turn instead of in parallel, ε is fixed, and a bid takes `bid_rounds` rounds
whatever its precision. Markovian rewards are left out.

**Oracles.** Frames at powers of two on arms without noise; `matching`'s for the auction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from coopbandits.literature.matching import Matched, Table, matched, require_matching
from coopbandits.models.catalogue import (
    Lines,
    Model,
    Played,
    regret_lines,
    traffic_lines,
)
from coopbandits.models.coins import Dice, read_table, vary
from coopbandits.results.statistics import mean_text


def ducb4(
    means: ArrayLike,
    horizon: int,
    step: float = 0.05,
    bid_rounds: int = 1,
    runs: int = 1,
    seed: int = 0,
) -> Matched:
    """Let players agree on matchings by auctions on their upper confidence bounds.

    Parameters
    ----------
    means : (player, arm)
        The probability of each player's reward of each arm to be 1; at most as many players as
        arms.
    horizon, runs, seed : int
        As in `simulate`.
    step : float
        ε of the auction. A matching may be worth M·ε less than the best one, so give less than the
        gap between the two best matchings divided by M + 1 where it is known.
    bid_rounds : int
        Rounds that it takes to make a bid known.

    Examples
    --------
    >>> from coopbandits.literature import ducb4
    >>> result = ducb4([[0.9, 0.1, 0.5], [0.8, 0.2, 0.1]], horizon=2000)
    >>> result.agent_regret.shape
    (1, 2)
    """
    chances = read_table(means)
    require_matching(chances, step, horizon=horizon, bid_rounds=bid_rounds, runs=runs, seed=seed)
    tables = [Table(chances, horizon, bid_rounds, Dice(seed, run)) for run in range(runs)]
    for table in tables:
        _play(table, step)
    return matched(tables, horizon)


def _play(table: Table, step: float) -> None:
    players = len(table.chances)
    table.pull_all_arms()
    counter, arms = 1, [-1] * players
    while table.left > 0:
        width = np.sqrt((players + 2) * math.log(table.rounds) / table.counts)
        found = table.match(table.sums / table.counts + width, step)
        changed = sum(old != new for old, new in zip(arms, found, strict=True))
        table.broadcast(players, changed, 1)
        if changed:
            counter, arms = 1, found
        table.pull(arms, rounds=counter)  # until the counter is the next power of two
        counter *= 2


@dataclass(frozen=True)
class DUCB4Model(Model):
    """Players that agree on arms by auctions on indices (Kalathil et al. 2014, reconstruction).

    `spread` is how far the players' means are from the ones given.
    """

    spread: float = 0.1
    step: float = 0.05
    bid_rounds: int = 1
    name: ClassVar[str] = "ducb4"

    def play(self, played: Played) -> Lines:
        means, agents, horizon, runs, seed = played
        table = vary(means, agents, self.spread)
        return matching_lines(ducb4(table, horizon, self.step, self.bid_rounds, runs, seed))


def matching_lines(result: Matched) -> Lines:
    return [
        *regret_lines(result),
        ("auctions", mean_text(result.auctions)),
        ("rounds spent on communication", mean_text(result.silent_rounds)),
        *traffic_lines(result.messages, result.values),
    ]
