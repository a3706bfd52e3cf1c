r"""dUCB4: players agree on arms by auctions on their indices (Kalathil, Nayyar and Jain 2014).

Reconstruction, from the abstract and from memory, of "Decentralized learning for multiplayer
multiarmed bandits", IEEE Transactions on Information Theory 2014.

**Model**, shared with dE3 (`nayyar2016`). M players choose among K ≥ M arms; arm k pays player i 1
with probability :math:`\mu_{ik}`. Players on the same arm collide, so what can be earned is a
*matching*, a different arm for every player. Regret is measured against the matching with the
largest total :math:`\sum_i \mu_{i,k_i}`. Players have no channel of their own to talk on: they
communicate by the arms that they play, and in a round spent on that no player earns anything.

**Distributed bipartite matching** is Bertsekas' auction (1988). Every arm has a price, 0 at first.
As long as a player has no arm, it bids for the arm with the largest value less price,
:math:`k = \arg\max_k v_{ik} - p_k`; its bid raises the price by how much better the arm is than the
second best, plus ε, and takes the arm from its owner. All players hear the bid, so all know the
prices. The matching that is left is worth at least the best one less Mε, and since every bid
raises a price by ε or more, it takes at most :math:`(M - 1)(\lfloor V/ε\rfloor + 1) + 1` bids,
V being the largest difference between two values of one player.

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

**Oracles.** Frames at powers of two on arms without noise; for the auction
`scipy.optimize.linear_sum_assignment`, and all matchings by enumeration.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment

from coopbandits.core.checks import require_positive
from coopbandits.core.errors import InputError
from coopbandits.literature.models import (
    Counts,
    Dice,
    Floats,
    Lines,
    Model,
    Outcome,
    Played,
    read_table,
    require_sizes,
    vary,
)
from coopbandits.results.statistics import mean_text


@dataclass(frozen=True)
class Matched(Outcome):
    """Outcome of players who look for a matching.

    A player's regret is against its arm in the best matching, so it can be negative.

    Attributes
    ----------
    auctions : (run,)
        How often a matching was looked for.
    silent_rounds : (run,)
        Rounds spent on communication, in which no player earned anything.
    """

    auctions: Counts
    silent_rounds: Counts

    @property
    def facts(self) -> Lines:
        return [
            *super().facts,
            ("auctions", mean_text(self.auctions)),
            ("rounds spent on communication", mean_text(self.silent_rounds)),
        ]


def best_matching(values: Floats) -> list[int]:
    """Return the arm of every player (player, arm) in the matching with the largest total."""
    found: list[int] = linear_sum_assignment(values, maximize=True)[1].tolist()
    return found


def auction(values: Floats, step: float) -> tuple[list[int], int]:
    """Return the arm of every player by an auction with ε = `step`, and the number of bids.

    Players bid one at a time, the lowest number first.
    """
    players, arms = values.shape
    prices = np.zeros(arms)
    owner = [-1] * arms
    held = [-1] * players
    bids = 0
    while -1 in held:
        player = held.index(-1)
        worth = values[player] - prices
        arm = int(worth.argmax())
        second = float(np.partition(worth, -2)[-2])
        prices[arm] += float(worth[arm]) - second + step
        if owner[arm] >= 0:
            held[owner[arm]] = -1
        owner[arm], held[player] = player, arm
        bids += 1
    return held, bids


class Table:
    """One run: rounds that are left, what each player knows and earned, and what was sent."""

    def __init__(self, chances: Floats, horizon: int, bid_rounds: int, dice: Dice) -> None:
        self.chances, self.left, self.bid_rounds, self.dice = chances, horizon, bid_rounds, dice
        self.sums, self.counts = np.zeros_like(chances), np.zeros_like(chances)
        self.earned = np.zeros(len(chances))
        self.auctions = self.silent = self.messages = self.values = 0
        self._players = np.arange(len(chances))

    @property
    def rounds(self) -> int:
        return int(self.counts[0].sum())

    def pull(self, arms: list[int], rounds: int = 1, learn: bool = True) -> None:
        """Play a matching for some rounds, or until the horizon is reached."""
        rounds = min(rounds, self.left)
        self.left -= rounds
        place = (self._players, arms)
        self.earned += rounds * self.chances[place]
        if learn:
            drawn = self.dice.uniforms(rounds * len(arms)).reshape(rounds, len(arms))
            self.sums[place] += (drawn < self.chances[place]).sum(axis=0)
            self.counts[place] += rounds

    def pull_all_arms(self) -> None:
        """Let every player play every arm once: player i plays arm i + s in step s."""
        for s in range(self.chances.shape[1]):
            self.pull([(i + s) % self.chances.shape[1] for i in self._players.tolist()])

    def match(self, values: Floats, step: float) -> list[int]:
        """Hold an auction; every bid takes `bid_rounds` and names an arm and a price."""
        arms, bids = auction(values, step)
        self.auctions += 1
        self.broadcast(bids * self.bid_rounds, bids, 2)
        return arms

    def broadcast(self, rounds: int, messages: int, size: int) -> None:
        """Spend rounds on messages of some values that reach all other players."""
        others = len(self.chances) - 1
        if others > 0:  # one player alone has nothing to say
            spent = min(rounds, self.left)
            self.left, self.silent = self.left - spent, self.silent + spent
            sent = messages * spent // rounds * others  # the others do not fit into the horizon
            self.messages += sent
            self.values += sent * size


def matched(tables: list[Table], horizon: int) -> Matched:
    chances = tables[0].chances
    due = horizon * chances[np.arange(len(chances)), best_matching(chances)]
    count = [(t.messages, t.values, t.auctions, t.silent) for t in tables]
    messages, values, auctions, silent = np.array(count, dtype=np.int64).T
    regret = due - np.array([table.earned for table in tables])
    return Matched(messages, values, regret, auctions, silent)


def require_matching(chances: Floats, step: float, **counts: int) -> None:
    require_sizes(**counts)
    require_positive("step", step)
    players, arms = chances.shape
    if players > arms:
        raise InputError(
            f"there are {players} players and {arms} arms; give at most one player per arm"
        )


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
        return ducb4(table, horizon, self.step, self.bid_rounds, runs, seed).lines
