"""A user's own file: parts of every kind, some of them wrong on purpose."""

# mypy: ignore-errors

from dataclasses import dataclass
from typing import ClassVar

import networkx as nx
import numpy as np

import coopbandits as cb
from coopbandits.network.faults import AWAY, Kind, draws, place_keys
from coopbandits.problems.rewards import LOCATION_SCALE, RewardForm
from coopbandits.sim.clocks import Clocks


@dataclass(frozen=True)
class MyPolicy(cb.Policy):
    constant: float = 4.0
    name: ClassVar[str] = "mine"

    def make_agent(self, view):
        return cb.IndependentUCB(self.constant).make_agent(view)


class Plain(cb.Policy):
    name = "plain"

    def make_agent(self, view):
        return cb.IndependentUCB().make_agent(view)


@dataclass(frozen=True)
class Needy(MyPolicy):
    step: int = 0

    def __post_init__(self):
        if self.step < 0:
            raise ValueError("step must not\nbe negative")


@dataclass
class Thawed(Plain):
    constant: float = 4.0


class MyProblem(cb.Problem):
    def __init__(self, gap, arms=3, means=None):
        means = np.append(gap, np.zeros(arms - 1)) if means is None else np.array(means)
        table = np.column_stack([means, np.ones(means.size)])
        super().__init__(means, 1.0, RewardForm(LOCATION_SCALE, table))

    def describe(self):
        return {"problem": "own", "means": self.means.tolist()}


class MyLottery(cb.Problem):
    def __init__(self, chances, prize=1.0):
        means = [prize * chance for chance in chances]
        super().__init__(means, prize / 2, numbers=[[chance, prize] for chance in chances])

    @staticmethod
    def reward(numbers, variate):
        return numbers[1] if variate < numbers[0] else 0.0

    def describe(self):
        return {"problem": "lottery", "numbers": self.kernel_form().table.tolist()}


def no_problem():
    return 3


def two_arms(gap):
    return cb.GaussianBandit([gap, 0.0])


@dataclass(frozen=True)
class MyLoss(Kind):
    share: float
    every: int = 1
    name: ClassVar[str] = "my-loss"
    form: ClassVar[str] = "{share}[@{every}]"
    touches: ClassVar[str] = "messages"

    def begin(self, links, key):
        keys = place_keys(key, links.senders.size)
        return lambda rounds: draws(keys, rounds // self.every) < self.share


@dataclass(frozen=True)
class AnyTimeLoss(MyLoss):
    name: ClassVar[str] = "any-time-loss"

    @property
    def loss_without_rounds(self):
        return self.share


@dataclass(frozen=True)
class Nap(Kind):
    share: float
    name: ClassVar[str] = "nap"
    form: ClassVar[str] = "{share}"
    touches: ClassVar[str] = "agents"

    def begin(self, links, key):
        keys = place_keys(key, links.network.num_agents)
        return lambda rounds: np.where(draws(keys, rounds) < self.share, AWAY, 0).astype(np.uint8)


@dataclass(frozen=True)
class Late(Kind):
    rounds: int
    told: int = 2
    name: ClassVar[str] = "late"
    form: ClassVar[str] = "{rounds}[:{told}]"
    touches: ClassVar[str] = "delay"

    @property
    def longest_delay(self):
        return self.told

    def begin(self, links, key):
        return lambda rounds: np.full((rounds.size, links.senders.size), self.rounds)


@dataclass(frozen=True)
class Misshapen(MyLoss):
    def begin(self, links, key):
        return lambda rounds: np.zeros(3, dtype=bool)


@dataclass(frozen=True)
class Halves(MyLoss):
    def begin(self, links, key):
        return lambda rounds: np.full((len(rounds), links.senders.size), 0.5)


@dataclass(frozen=True)
class Formless(Kind):
    name: ClassVar[str] = "formless"

    def begin(self, links, key):
        return None


@dataclass(frozen=True)
class Storm(MyLoss):
    stop: int = 100
    end: int = 200
    form: ClassVar[str] = "{share}[@{every}..{stop}[:{end}]]"


@dataclass(frozen=True)
class Untold(MyLoss):
    day: int = 100


@dataclass(frozen=True)
class Overtold(MyLoss):
    form: ClassVar[str] = "{share}@{every}:{day}"


@dataclass(frozen=True)
class Lost(MyLoss):
    touches: ClassVar[str] = "mesages"


def wheel(size, seed=0):
    return nx.wheel_graph(size)


def chain(size, extra=0):
    return [(i, i + 1) for i in range(size + extra - 1)]


def drawn(size, chance, seed):
    return nx.gnp_random_graph(size, chance, seed=seed)


def broken(size):
    raise ValueError("no such graph")


@dataclass(frozen=True)
class MyClocks(Clocks):
    name: ClassVar[str] = "mine"

    def gap(self, drawn, *, first):
        return 2.0 * drawn
