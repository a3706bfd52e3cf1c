"""What a model of the literature is to the command line, and the models of this package.

`coopbandits.literature.catalogue` adds those of the literature package and finds all of them by
name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from coopbandits.core.spelling import Named
from coopbandits.models.best_arm import BestArm, many_exchanges, one_exchange
from coopbandits.models.broadcast import pull_or_tell
from coopbandits.models.collisions import collision_bound, play_collisions
from coopbandits.models.observer import one_observer
from coopbandits.models.outcome import Counts, Outcome
from coopbandits.models.players import TDFS, MCTopM, Player, RhoRand
from coopbandits.network import Network
from coopbandits.results.statistics import mean_text


class Played(NamedTuple):
    """What the command line sets for every model."""

    means: Sequence[float]
    agents: int
    horizon: int
    runs: int
    seed: int


Lines = list[tuple[str, str]]
"""Label and value of each line of a report."""


@dataclass(frozen=True)
class Model(Named, ABC):
    """One model of the literature with its settings."""

    @abstractmethod
    def play(self, played: Played) -> Lines:
        """Run the model and report on it."""


@dataclass(frozen=True)
class Colliding(Model):
    """Players that collide and do not talk."""

    kind: ClassVar[type[Player]]

    def play(self, played: Played) -> Lines:
        """Let players collide."""
        means, agents, horizon, runs, seed = played
        result = play_collisions(means, self.kind, agents, horizon, runs, seed)
        return [
            *regret_lines(result),
            ("lower bound for long horizons", f"{collision_bound(means, agents, horizon):.1f}"),
            ("collisions", mean_text(result.collisions)),
            *traffic_lines(result.messages, result.values),
        ]


@dataclass(frozen=True)
class RhoRandModel(Colliding):
    """Players that collide: ranks, drawn anew after a collision (Anandkumar et al. 2011)."""

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
class ManyExchanges(Model):
    """The best arm with an exchange after every round of pulls (Hillel et al. 2013).

    The horizon is not asked for: it ends when it is sure.
    """

    delta: float = 0.1
    tolerance: float = 0.0
    name: ClassVar[str] = "many-exchanges"

    def play(self, played: Played) -> Lines:
        """Look for the best arm."""
        found = many_exchanges(
            played.means, played.agents, self.delta, self.tolerance, played.runs, played.seed
        )
        return _named(found, played, self.tolerance)


@dataclass(frozen=True)
class OneExchange(Model):
    """The best arm with one exchange, after as many pulls as the horizon (Hillel et al. 2013)."""

    name: ClassVar[str] = "one-exchange"

    def play(self, played: Played) -> Lines:
        """Look for the best arm."""
        means, agents, horizon, runs, seed = played
        return _named(one_exchange(means, agents, horizon, runs, seed), played)


@dataclass(frozen=True)
class PullOrTell(Model):
    """Rounds are spent on pulling or on telling (Chakraborty et al. 2017)."""

    eagerness: float = 1.0
    name: ClassVar[str] = "pull-or-tell"

    def play(self, played: Played) -> Lines:
        """Let agents pull or tell."""
        means, agents, horizon, runs, seed = played
        result = pull_or_tell(means, agents, horizon, self.eagerness, runs, seed)
        rounds = ("rounds spent on telling", mean_text(result.told))
        return [*regret_lines(result), rounds, *traffic_lines(result.messages, result.values)]


@dataclass(frozen=True)
class OneObserver(Model):
    """One agent sees rewards, the others follow by consensus on a cycle (Kar et al. 2011)."""

    observer: int = 0
    name: ClassVar[str] = "one-observer"

    def play(self, played: Played) -> Lines:
        """Let agents follow the observer."""
        means, agents, horizon, runs, seed = played
        network = Network.from_spec(f"cycle:{agents}")
        result = one_observer(means, network, horizon, self.observer, runs, seed)
        return [*regret_lines(result), *traffic_lines(result.messages, result.values)]


MODELS: tuple[type[Model], ...] = (
    RhoRandModel, MCTopMModel, TDFSModel, ManyExchanges, OneExchange, PullOrTell, OneObserver,
)  # fmt: skip


def _named(found: BestArm, played: Played, tolerance: float = 0.0) -> Lines:
    means = np.asarray(played.means, dtype=np.float64)
    # Arms may tie, and differences round: 0.9 − 0.7 is a little more than 0.2.
    right = means.max() - means[found.arms] <= tolerance * (1.0 + 1e-9)
    what = "an arm within the tolerance" if tolerance else "the best arm"
    return [
        (f"runs that named {what}", f"{int(right.sum())} of {played.runs}"),
        ("pulls of one player", mean_text(found.pulls)),
        ("exchanges", mean_text(found.exchanges)),
        *traffic_lines(found.messages, found.values),
    ]


def regret_lines(result: Outcome) -> Lines:
    return [
        ("regret of all", mean_text(result.regret)),
        ("worst agent", mean_text(result.worst)),
    ]


def traffic_lines(messages: Counts, values: Counts) -> Lines:
    """Describe what was sent, at 64 bits per value."""
    said = (f"{number.mean():,.0f}".replace(",", "\u2009") for number in (messages, values))
    bits = f"{64 * values.mean():,.0f}".replace(",", "\u2009")
    return list(zip(("messages", "values sent", "bits sent"), (*said, bits), strict=True))
