r"""dE3: explore, hold one auction, exploit twice as long (Nayyar, Kalathil and Jain 2016).

Reconstruction, from the abstract and from memory, of "On regret-optimal learning in decentralized
multiplayer multiarmed bandits", IEEE Transactions on Control of Network Systems (arXiv 1505.00553).

**Model.** As for dUCB4 (`kalathil2014`): every round of communication adds to regret.

**Algorithm.** E³ stands for exponentially spaced exploration and exploitation. Epoch l = 1, 2, …
has three phases:

1. *exploration*: every player plays every arm :math:`\lceil γ l^{δ}\rceil` times, one after the
   other in an order without collisions;
2. *auction*: one auction on the means :math:`\hat\mu_{ik}` of all exploration rounds so far;
3. *exploitation*: all play their arms of that matching for :math:`2^l` rounds.

There are :math:`\log_2 T` epochs, so exploration and auctions take :math:`O(\ln^{1+δ} T)` rounds.
After epoch l every arm has about :math:`γ l^{1+δ}` samples; the probability of a bad matching is
:math:`e^{-c\,l^{1+δ}}`, and :math:`\sum_l 2^l e^{-c\,l^{1+δ}}` is finite for every δ > 0, also
where the smallest difference c between matchings is not known. With δ = 0 it is finite only if γ
is large enough for this difference.

**Guarantee** (the abstract's): expected regret grows at most as :math:`O(\ln^{1+δ} T)`, and as
:math:`O(\ln T)` under an assumption, which we take to be a known smallest difference.

**Differs from the paper.** The text was not available: how exploration grows is derived from the
abstract's rate. Players bid in turn, ε is fixed, a bid takes `bid_rounds` rounds, and rewards of
the exploitation phase are not used. E³-TS, with posterior draws, is left out.

**Oracles.** The number of rounds in each phase by hand; those of `kalathil2014` for the auction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from numpy.typing import ArrayLike

from coopbandits.core.checks import require_nonnegative
from coopbandits.literature.kalathil2014 import Matched, Table, matched, require_matching
from coopbandits.literature.models import Dice, Lines, Model, Played, read_table, vary


def de3(
    means: ArrayLike,
    horizon: int,
    explore: int = 4,
    growth: float = 0.5,
    step: float = 0.05,
    bid_rounds: int = 1,
    runs: int = 1,
    seed: int = 0,
) -> Matched:
    """Let players explore, agree by one auction, and exploit, in epochs that double.

    Parameters
    ----------
    means : (player, arm)
        The probability of each player's reward of each arm to be 1; at most as many players as
        arms.
    horizon, runs, seed : int
        As in `simulate`.
    explore : int
        γ, how often a player plays each arm in the first epoch.
    growth : float
        δ; 0 for as many in every epoch.
    step, bid_rounds
        As in `ducb4`.

    Examples
    --------
    >>> from coopbandits.literature import de3
    >>> de3([[0.9, 0.1, 0.5], [0.8, 0.2, 0.1]], horizon=2000).auctions.tolist()
    [10]
    """
    chances = read_table(means)
    require_matching(
        chances, step, horizon=horizon, explore=explore, bid_rounds=bid_rounds, runs=runs,
        seed=seed,
    )  # fmt: skip
    require_nonnegative("growth", growth)
    tables = [Table(chances, horizon, bid_rounds, Dice(seed, run)) for run in range(runs)]
    for table in tables:
        _play(table, explore, growth, step)
    return matched(tables, horizon)


def _play(table: Table, explore: int, growth: float, step: float) -> None:
    epoch = 0
    while table.left > 0:
        epoch += 1
        for _ in range(min(math.ceil(explore * epoch**growth), table.left)):
            table.pull_all_arms()
        if table.left > 0:
            arms = table.match(table.sums / table.counts, step)
            table.pull(arms, rounds=2**epoch, learn=False)


@dataclass(frozen=True)
class DE3Model(Model):
    """Players that explore, hold an auction and exploit (Nayyar et al. 2016, reconstruction).

    `spread` is how far the players' means are from the ones given.
    """

    spread: float = 0.1
    explore: int = 4
    growth: float = 0.5
    step: float = 0.05
    bid_rounds: int = 1
    name: ClassVar[str] = "de3"

    def play(self, played: Played) -> Lines:
        means, agents, horizon, runs, seed = played
        table = vary(means, agents, self.spread)
        return de3(
            table, horizon, self.explore, self.growth, self.step, self.bid_rounds, runs, seed
        ).lines
