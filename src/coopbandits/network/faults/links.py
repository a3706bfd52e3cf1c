"""The links of a network in a fixed order, and the random draws of faults for them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.contract import Vector
from coopbandits.core.draws import Words, uniforms, words, words_of
from coopbandits.network.network import Network

Rounds = NDArray[np.int64]
"""Some rounds in a row, counted from 0."""

Mask = NDArray[np.bool_]


class Links(NamedTuple):
    """Every directed link of a network, in the order of the rows of its adjacency.

    Link e leads from `senders[e]` to `receivers[e]`; links are sorted by receiver, then by sender,
    as the entries of `network.adjacency` in CSR form (row = receiver, column = sender).

    Attributes
    ----------
    network : Network
        The network they belong to.
    receivers, senders : array of int
        Their ends.
    pair : array of int
        A number shared by both directions of a link: the index of the first of them.
    """

    network: Network
    receivers: NDArray[np.int64]
    senders: NDArray[np.int64]
    pair: NDArray[np.int64]


def directed_links(network: Network) -> Links:
    """Return the directed links of a network."""
    receivers = np.repeat(np.arange(network.num_agents), network.degrees)
    senders = network.adjacency.indices.astype(np.int64)
    # Sorted by sender first, position e holds the link in the opposite direction of link e.
    reverse = np.lexsort((receivers, senders))
    return Links(network, receivers, senders, np.minimum(np.arange(senders.size), reverse))


def place_keys(key: int, count: int) -> Words:
    """Return a key for each of some agents or links."""
    return words(key, np.arange(count, dtype=np.uint64))


def draws(keys: Words, rounds: Rounds) -> Vector:
    """Return one uniform per round (rows) and key (columns)."""
    return uniforms(words_of(keys[None, :], rounds.astype(np.uint64)[:, None]))


def happens(keys: Words, rounds: Rounds, probability: float) -> Mask:
    """Return ``draws(keys, rounds) < probability``, without making uniforms of words."""
    least = math.ceil(probability * 2.0**52 - 0.5) << 12
    if least > 0xFFFFFFFFFFFFFFFF:
        return np.ones((rounds.size, keys.size), dtype=np.bool_)
    found: Mask = words_of(keys[None, :], rounds.astype(np.uint64)[:, None]) < np.uint64(least)
    return found


def chosen(keys: Words, share: float) -> Mask:
    """Choose a share of some agents or links, rounded: those with the smallest keys."""
    mask = np.zeros(keys.size, dtype=np.bool_)
    mask[np.argsort(keys)[: round(share * keys.size)]] = True
    return mask


class Spells:
    """Agents or links that alternate between up and down, for a geometric number of rounds each.

    Rounds must be asked for in order, from 0. In the first round each is down with its long-run
    probability.
    """

    def __init__(self, keys: Words, mean_up: float, mean_down: float) -> None:
        self.keys, self.mean_up, self.mean_down = keys, mean_up, mean_down
        self.down = np.zeros(keys.size, dtype=np.bool_)

    def __call__(self, rounds: Rounds) -> Mask:
        """Return which are down in each round."""
        drawn = draws(self.keys, rounds)
        found = np.empty(drawn.shape, dtype=np.bool_)
        for row, now in enumerate(rounds):
            ends = np.where(self.down, 1.0 / self.mean_down, 1.0 / self.mean_up)
            if now == 0:
                ends = np.full(ends.shape, self.mean_down / (self.mean_up + self.mean_down))
            self.down = self.down ^ (drawn[row] < ends)
            found[row] = self.down
        return found
