"""Faults of links: nothing is sent over a link that is down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from coopbandits.core.checks import require_count
from coopbandits.core.contract import Vector
from coopbandits.core.errors import InputError
from coopbandits.network.adjacency import breadth_first_depths, read_adjacency
from coopbandits.network.faults.kind import (
    Effect,
    Kind,
    require_mean_rounds,
    require_share,
    require_window,
)
from coopbandits.network.faults.links import (
    Links,
    Mask,
    Rounds,
    Spells,
    chosen,
    draws,
    place_keys,
)
from coopbandits.network.network import Network
from coopbandits.network.specs import parse_graph


@dataclass(frozen=True)
class Churn(Kind):
    """Links go up and down, both directions together, for these mean numbers of rounds."""

    up: float
    down: float
    name: ClassVar[str] = "churn"
    form: ClassVar[str] = "{up}..{down}"
    touches: ClassVar[str] = "links"

    def __post_init__(self) -> None:
        """Refuse spells shorter than a round."""
        require_mean_rounds(self, "up")
        require_mean_rounds(self, "down")

    def begin(self, links: Links, key: int) -> Effect:
        """Return the outages of one run."""
        return Spells(place_keys(key, links.senders.size)[links.pair], self.up, self.down)


@dataclass(frozen=True)
class OneWay(Kind):
    """A share of the links works in one direction only, for the whole run."""

    share: float
    name: ClassVar[str] = "one-way"
    form: ClassVar[str] = "{share}"
    touches: ClassVar[str] = "links"

    def __post_init__(self) -> None:
        """Refuse a share outside 0 to 1."""
        require_share(self, "share")

    def begin(self, links: Links, key: int) -> Effect:
        """Return the directions that are down in one run."""
        keys = place_keys(key, links.pair.size)
        first = links.pair == np.arange(links.pair.size)  # one direction of every link
        affected = np.zeros(first.size, dtype=np.bool_)
        affected[first] = chosen(keys[first], self.share)
        toss = keys[links.pair] % np.uint64(2) == 1
        down = affected[links.pair] & (toss == first)
        return lambda rounds: np.broadcast_to(down, (rounds.size, down.size))


@dataclass(frozen=True)
class Partition(Kind):
    """The network is cut in two from round `start` until round `stop`, or for good.

    The first part has this share of the agents, at least one and not all: those nearest to an agent
    drawn at random, so that the part is connected.
    """

    share: float
    start: int
    stop: int | None = None
    name: ClassVar[str] = "partition"
    form: ClassVar[str] = "{share}@{start}[..{stop}]"
    touches: ClassVar[str] = "links"

    def __post_init__(self) -> None:
        """Refuse an impossible share or span of rounds."""
        require_share(self, "share")
        require_window(self, self.start, self.stop)

    def begin(self, links: Links, key: int) -> Effect:
        """Return the cut of one run."""
        part = self._first_part(links.network, key)
        cut = part[links.senders] != part[links.receivers]
        return lambda rounds: within(rounds, self.start, self.stop)[:, None] & cut

    def _first_part(self, network: Network, key: int) -> Mask:
        agents = network.num_agents
        centre = int(place_keys(key, agents).argmin())
        nearest = np.argsort(breadth_first_depths(network.adjacency, centre), kind="stable")
        part = np.zeros(agents, dtype=np.bool_)
        part[nearest[: min(max(1, round(self.share * agents)), agents - 1)]] = True
        return part


@dataclass(frozen=True)
class Redraw(Kind):
    """Every `rounds` rounds the links are redrawn: each is present with this probability."""

    every: int
    probability: float
    name: ClassVar[str] = "redraw"
    form: ClassVar[str] = "{every}:{probability}"
    touches: ClassVar[str] = "links"

    def __post_init__(self) -> None:
        """Refuse an impossible number of rounds or probability."""
        require_count("every of redraw", self.every)
        require_share(self, "probability")

    def begin(self, links: Links, key: int) -> Effect:
        """Return the missing links of one run."""
        keys = place_keys(key, links.senders.size)[links.pair]

        def down(rounds: Rounds) -> Mask:
            epochs, place = np.unique(rounds // self.every, return_inverse=True)
            missing: Mask = draws(keys, epochs) > self.probability
            return missing[place]

        return down


@dataclass(frozen=True)
class Pairs(Kind):
    """Every agent talks to one neighbour at most: a random maximal matching of the links.

    It is drawn anew every `every` rounds. Links are taken in random order, each unless one of its
    ends has a partner already, so no two neighbours are both left alone.
    """

    every: int = 1
    name: ClassVar[str] = "pairs"
    form: ClassVar[str] = "{every}"
    touches: ClassVar[str] = "links"

    def __post_init__(self) -> None:
        """Refuse an impossible number of rounds."""
        require_count("every of pairs", self.every)

    def begin(self, links: Links, key: int) -> Effect:
        """Return the links without a pair in one run."""
        keys = place_keys(key, links.senders.size)[links.pair]

        def down(rounds: Rounds) -> Mask:
            epochs, place = np.unique(rounds // self.every, return_inverse=True)
            drawn = draws(keys, epochs)
            unpaired: Mask = np.array([~matching(links, row) for row in drawn], dtype=np.bool_)
            return unpaired.reshape(drawn.shape)[place]

        return down


def matching(links: Links, order: Vector) -> Mask:
    """Return the links, both directions of each, that a greedy pass in this order takes."""
    taken = np.zeros(order.size, dtype=np.bool_)
    left = np.ones(order.size, dtype=np.bool_)
    while left.any():
        # All that come first at both ends are taken at once, which a pass one by one takes too.
        first = np.full(links.network.num_agents, np.inf)
        np.minimum.at(first, links.senders[left], order[left])
        chosen_now = left & (order == first[links.senders]) & (order == first[links.receivers])
        taken |= chosen_now
        paired = np.zeros(first.size, dtype=np.bool_)
        paired[links.senders[chosen_now]] = True
        left &= ~(paired[links.senders] | paired[links.receivers])
    return taken


@dataclass(frozen=True)
class Graphs(Kind):
    """Several graphs in turn, each for `rounds` rounds; the network must contain their union.

    The graphs are spelt as for `parse_graph`, separated by bars: ``cycle:9|grid:3x3``. The same
    text is the shorthand of their union.
    """

    every: int
    graphs: str
    name: ClassVar[str] = "graphs"
    form: ClassVar[str] = "{every}:{graphs}"
    touches: ClassVar[str] = "links"

    def __post_init__(self) -> None:
        """Refuse an impossible number of rounds and unknown graphs."""
        require_count("every of graphs", self.every)
        for graph in self._graphs():
            read_adjacency(parse_graph(graph))

    def _graphs(self) -> list[str]:
        return self.graphs.split("|")

    @classmethod
    def parse(cls, text: str) -> Kind:
        """Read the text after ``graphs=``."""
        every, colon, graphs = text.partition(":")
        if not colon or not every.isdecimal():
            raise InputError(
                f"fault {f'graphs={text}'!r} is malformed; write {cls.usage()}, "
                "for instance graphs=50:cycle:9|grid:3x3"
            )
        return cls(int(every), graphs)

    def begin(self, links: Links, key: int) -> Effect:
        """Return the missing links; nothing is random."""
        del key
        missing = np.stack([self._missing(graph, links) for graph in self._graphs()])
        return lambda rounds: missing[rounds // self.every % len(missing)]

    def _missing(self, graph: str, links: Links) -> Mask:
        adjacency, labels = read_adjacency(parse_graph(graph))
        if labels != links.network.labels:
            raise InputError(
                f"graph {graph} has other agents ({len(labels)}) than the network "
                f"({links.network.num_agents}); give graphs of the same agents"
            )
        present = np.asarray(adjacency[links.receivers, links.senders]).ravel() > 0
        if present.sum() < adjacency.nnz:
            raise InputError(
                f"graph {graph} has links that the network lacks; make the network of all graphs: "
                f"Network.from_spec('{self.graphs}')"
            )
        return ~present


def within(rounds: Rounds, start: int, stop: int | None) -> Mask:
    """Return which rounds, counted from 0, lie in start … stop − 1, counted from 1."""
    return (rounds + 1 >= start) & (stop is None or rounds + 1 < stop)
