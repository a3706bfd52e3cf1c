r"""Players who prefer different arms: matchings, the auction that finds them, and its price.

The model that dUCB4 (`kalathil2014`) and dE3 (`nayyar2016`) share. M players choose among K ≥ M
arms; arm k pays player i 1 with probability :math:`\mu_{ik}`. Players on the same arm collide, so
what can be earned is a *matching*, a different arm for every player. Regret is measured against the
matching with the largest total :math:`\sum_i \mu_{i,k_i}`.

Players have no channel of their own to talk on: they communicate by the arms that they play, and in
a round spent on that nobody earns anything.

**Distributed bipartite matching** is Bertsekas' auction (1988). Every arm has a price, 0 at first.
As long as a player has no arm, it bids for the arm with the largest value less price,
:math:`k = \arg\max_k v_{ik} - p_k`; its bid raises the price by how much better the arm is than the
second best, plus ε, and takes the arm from its owner. All players hear the bid, so all know the
prices. The matching that is left is worth at least the best one less Mε, and since every bid
raises a price by ε or more, it takes at most :math:`(M - 1)(\lfloor V/ε\rfloor + 1) + 1` bids,
V being the largest difference between two values of one player.

**Oracle.** `scipy.optimize.linear_sum_assignment`, and all matchings by enumeration.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from coopbandits.core.checks import require_positive
from coopbandits.core.errors import InputError
from coopbandits.models.coins import Dice, Floats, require_sizes
from coopbandits.models.outcome import Counts, Outcome


@dataclass(frozen=True)
class Matched(Outcome):
    """Outcome of players who look for a matching.

    A player's regret is against its arm in the best matching, so it can be negative.

    Attributes
    ----------
    auctions : (run,)
        How often a matching was looked for.
    silent_rounds : (run,)
        Rounds spent on communication, in which nobody earned anything.
    """

    auctions: Counts
    silent_rounds: Counts


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
        """Rounds in which arms were pulled so far."""
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
    """Put the runs of one problem together."""
    chances = tables[0].chances
    due = horizon * chances[np.arange(len(chances)), best_matching(chances)]
    count = [(t.messages, t.values, t.auctions, t.silent) for t in tables]
    messages, values, auctions, silent = np.array(count, dtype=np.int64).T
    regret = due - np.array([table.earned for table in tables])
    return Matched(messages, values, regret, auctions, silent)


def require_matching(chances: Floats, step: float, **counts: int) -> None:
    """Check what `ducb4` and `de3` are given."""
    require_sizes(**counts)
    require_positive("step", step)
    players, arms = chances.shape
    if players > arms:
        raise InputError(
            f"there are {players} players and {arms} arms; give at most one player per arm"
        )
