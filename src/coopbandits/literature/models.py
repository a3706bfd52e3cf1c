"""Models of the literature with drivers of their own: what they share.

In a *model* an agent is, sees or may do something else than in the rest of the package, so models
share neither agents nor engines with it. All rewards are 0 or 1, and drivers are plain loops, meant
to be read. Here are their random numbers, pure functions of seed and place (`Dice`); arms, as
probabilities of a reward of 1; the outcome of some runs; and `MODELS`, all models by name, as the
command line runs them: ``ducb4:step=0.02``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coopbandits.core.checks import require_count
from coopbandits.core.draws import stream_key, uniform_of, uniforms, word_at, words
from coopbandits.core.errors import InputError
from coopbandits.core.registry import Registry, concrete
from coopbandits.core.spelling import Named, parse_named
from coopbandits.results.statistics import mean_text

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
Lines = list[tuple[str, str]]
"""Label and value of each line of a report."""

PIECE = 2**20
"""Numbers that lie in memory at a time."""


class Dice:
    """Uniform numbers in a row, from one key."""

    def __init__(self, *place: int) -> None:
        self.key, self.drawn = stream_key(*place), 0

    def uniform(self) -> float:
        self.drawn += 1
        return uniform_of(word_at(self.key, self.drawn - 1))

    def uniforms(self, count: int) -> Floats:
        counters = np.arange(self.drawn, self.drawn + count, dtype=np.uint64)
        self.drawn += count
        return uniforms(words(self.key, counters))

    def share_below(self, chance: float, count: int) -> float:
        """Return how large a part of the next numbers is below a chance; count them in pieces."""
        below = 0
        for drawn in range(0, count, PIECE):
            below += int(np.count_nonzero(self.uniforms(min(PIECE, count - drawn)) < chance))
        return below / count

    def one_of(self, choices: Sequence[int]) -> int:
        return choices[int(self.uniform() * len(choices))]

    def shuffled(self, count: int) -> list[int]:
        """Return 0 … count − 1 in any order."""
        order: list[int] = np.argsort(self.uniforms(count), kind="stable").tolist()
        return order


def read_means(means: Sequence[float]) -> Floats:
    """Return the means of at least two arms, probabilities of 1, or reject them."""
    found = np.asarray(means, dtype=np.float64)
    if found.ndim != 1 or found.size < 2 or not ((found >= 0.0) & (found <= 1.0)).all():
        raise InputError(f"means are {means}; give at least two numbers from 0 to 1, one per arm")
    return found


def read_chances(means: ArrayLike) -> Floats:
    try:
        found = np.asarray(means, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            "means are not an array of numbers; give numbers from 0 to 1, in rows of equal length"
        ) from None
    outside = found[~((found >= 0.0) & (found <= 1.0))]
    if outside.size:
        raise InputError(f"a mean is {outside[0]:.12g}; give numbers from 0 to 1")
    return found


def read_table(means: ArrayLike) -> Floats:
    """Return a table of reward probabilities, one row per agent and one column per arm."""
    found = read_chances(means)
    if found.ndim != 2 or found.shape[0] < 1 or found.shape[1] < 2:
        raise InputError(
            f"means have shape {found.shape}; give one row per agent with a number for each of at "
            "least two arms"
        )
    return found


def vary(means: Sequence[float], agents: int, spread: float) -> Floats:
    r"""Return a table of means that differ between agents and average to `means`.

    Agent i has :math:`\mu_{ik} = \mu_k + s\cos 2π(i/N + k/K)`, so that agents prefer different
    arms; the cosines of N > 1 agents add up to 0.
    """
    chances = read_means(means)
    require_sizes(agents=agents)
    room = float(min(chances.min(), 1.0 - chances.max()))
    if not 0.0 <= spread <= room + 1e-12:  # 1 − 0.9 is a little less than 0.1
        raise InputError(
            f"spread is {spread}; means plus and minus the spread must stay between 0 and 1, so "
            f"give a number from 0 to {room:.12g}"
        )
    if agents == 1:
        return chances[None, :]
    turns = np.arange(agents)[:, None] / agents + np.arange(chances.size) / chances.size
    table: Floats = np.clip(chances + spread * np.cos(2.0 * np.pi * turns), 0.0, 1.0)
    return table


def require_sizes(**counts: int) -> None:
    """Check numbers of players, rounds and runs."""
    for name, value in counts.items():
        require_count(name, value, least=0 if name == "seed" else 1)


@dataclass(frozen=True)
class Traffic:
    """What was sent.

    Attributes
    ----------
    messages, values : (run,)
        Messages from one agent to one other, and the numbers in them.
    """

    messages: Counts
    values: Counts

    @property
    def bits(self) -> Counts:
        """Bits sent (run,): 64 per value."""
        return 64 * self.values

    @property
    def facts(self) -> Lines:
        """What the command line reports besides what was sent."""
        return []

    @property
    def lines(self) -> Lines:
        sent = {"messages": self.messages, "values sent": self.values, "bits sent": self.bits}
        spaced = [(name, f"{n.mean():,.0f}".replace(",", "\u2009")) for name, n in sent.items()]
        return [*self.facts, *spaced]


@dataclass(frozen=True)
class Outcome(Traffic):
    """Regret and traffic of some runs.

    Attributes
    ----------
    agent_regret : (run, agent)
        Of every agent, against the arm that the model calls best for it: the best arm where all
        agents have the same arms.
    """

    agent_regret: Floats

    @property
    def regret(self) -> Floats:
        """Of all agents together (run,)."""
        total: Floats = self.agent_regret.sum(axis=1)
        return total

    @property
    def worst(self) -> Floats:
        """Of the agent that lost most (run,)."""
        largest: Floats = self.agent_regret.max(axis=1)
        return largest

    @property
    def facts(self) -> Lines:
        return [("regret of all", mean_text(self.regret)), ("worst agent", mean_text(self.worst))]


class Played(NamedTuple):
    """What the command line sets for every model."""

    means: Sequence[float]
    agents: int
    horizon: int
    runs: int
    seed: int


@dataclass(frozen=True)
class Model(Named, ABC):
    """One model of the literature with its settings."""

    @abstractmethod
    def play(self, played: Played) -> Lines:
        """Run the model and report on it."""


MODELS: Registry[type[Model]] = Registry(
    "model",
    "coopbandits.models",
    {
        "rho-rand": "besson2018.RhoRandModel",
        "mc-top-m": "besson2018.MCTopMModel",
        "tdfs": "besson2018.TDFSModel",
        "many-exchanges": "hillel2013.ManyExchanges",
        "one-exchange": "hillel2013.OneExchange",
        "pull-or-tell": "chakraborty2017.PullOrTell",
        "one-observer": "kar2011.OneObserver",
        "rand-top-m": "besson2018.RandTopMModel",
        "selfish": "besson2018.SelfishModel",
        "ducb4": "kalathil2014.DUCB4Model",
        "de3": "nayyar2016.DE3Model",
        "majority-vote": "shahrampour2017.MajorityVote",
        "global-feedback": "xu2015.GlobalFeedback",
        "collaborate": "awerbuch2008.Collaborate",
    },
    concrete(Model),
    "a frozen dataclass derived from coopbandits.literature.models.Model that defines play",
)
Model.registry = MODELS


def parse_model(text: str) -> Model:
    return parse_named(MODELS, text)
