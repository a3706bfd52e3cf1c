"""What a setting costs: the same policy with and without it, timed in turn.

Times are of the processor, not of the clock on the wall, so that other work on the machine counts
little; the smallest of several of each counts, and what is looked at is their ratio or difference.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from coopbandits.core.errors import InputError
from coopbandits.core.registry import parse_policy
from coopbandits.network import Network
from coopbandits.problems import GaussianBandit, LinearBandit, Problem, drift, sites
from coopbandits.results.statistics import columns
from coopbandits.sim import simulate

REPEATS = 9
SIZE = 10
"""Arms, and features, of linear problems."""


def _theta() -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.linspace(-1.0, 1.0, SIZE) / 2.0


MEANS = [1.0] + [0.8] * 16
PLAIN = GaussianBandit(MEANS)
PROBLEMS: dict[str, Problem] = {
    "plain": PLAIN,
    # Tables are (almost) alike, so that policies play as on the plain problem: where the best arm
    # moves they also do other things, which takes dducb a tenth more time.
    "drift": drift(PLAIN, dict.fromkeys(range(100, 2000, 100), MEANS)),
    "sites": sites(PLAIN, 1e-9),
    "ten arms": GaussianBandit([1.0] + [0.8] * (SIZE - 1)),
    "linear": LinearBandit(_theta(), num_arms=SIZE),
    "a model per arm": LinearBandit(
        np.stack([np.roll(_theta(), k) for k in range(SIZE)]), features="gaussian"
    ),
}


@dataclass(frozen=True)
class Play:
    """What is timed: a policy on one of the problems, by one engine."""

    policy: str
    problem: str = "plain"
    graph: str = "grid:4x5"
    horizon: int = 2_000
    runs: int = 4
    engine: str = "cpu"

    def player(self) -> Callable[[], float]:
        """Return a function that plays, and returns the seconds of the processor that it took."""
        network, policy = Network.from_spec(self.graph), parse_policy(self.policy)
        network.lambda2  # noqa: B018  computed once and kept
        problem = PROBLEMS[self.problem]

        def play() -> float:
            started = time.process_time()
            result = simulate(
                problem, network, policy, self.horizon, self.runs,
                engine=self.engine, threads=1, progress=False,
            )  # fmt: skip
            took = time.process_time() - started
            if result.meta["engines"] != [self.engine]:
                raise InputError(
                    f"{self.policy} was to be timed on engine {self.engine!r}, and was played by "
                    f"{result.meta['engines'][0]!r}; repair the list of settings"
                )
            return took

        return play

    @property
    def agent_rounds(self) -> int:
        """Pulls in one timing."""
        return int(Network.from_spec(self.graph).num_agents * self.horizon * self.runs)


@dataclass(frozen=True)
class Setting:
    """A policy with a setting, beside the same without, and what it may cost.

    Parameters
    ----------
    most_times : float
        How many times as long it may take; 0 where that does not matter.
    most_above, most : float
        By how many microseconds per agent-round it may take longer, and how many in all.
    """

    group: str
    plain: Play
    other: Play
    most_times: float = 0.0
    most_above: float = 0.0
    most: float = 0.0


@dataclass(frozen=True)
class Cost:
    """A setting, and nanoseconds per agent-round without and with it."""

    setting: Setting
    plain: float
    other: float

    @property
    def times(self) -> float:
        """How many times as long it takes."""
        return self.other / self.plain

    @property
    def above(self) -> float:
        """By how many microseconds it takes longer."""
        return (self.other - self.plain) / 1e3

    @property
    def asked(self) -> str:
        """What is asked for, or nothing."""
        setting = self.setting
        if setting.most_times:
            return f"≤ {setting.most_times:.2f} times"
        if setting.most_above:
            return f"≤ {setting.most_above:g} µs more"
        return f"≤ {setting.most:g} µs" if setting.most else ""

    @property
    def met(self) -> bool:
        """Whether that holds; so it does where nothing is asked for."""
        setting = self.setting
        return (
            (not setting.most_times or self.times <= setting.most_times)
            and (not setting.most_above or self.above <= setting.most_above)
            and (not setting.most or self.other / 1e3 <= setting.most)
        )


def _linear(aggregation: str, plain: str) -> Iterator[Setting]:
    """Yield linear Thompson sampling on an aggregation, compiled, beside the plain policy."""
    beside = Play(plain, "ten arms")
    yield Setting(
        "one model", beside, Play(f"{aggregation}*lin-ts", "linear", horizon=500), most=4.0
    )
    each = Play(f"{aggregation}*lin-ts:disjoint=true", "a model per arm", horizon=200, runs=2)
    yield Setting("a model per arm", beside, each)


SLOW: dict[str, Any] = {"engine": "reference", "horizon": 100, "runs": 1}

SETTINGS = (
    *(
        Setting("discount", Play(policy), Play(f"{policy}:discount=0.995"), most_times=1.15)
        for policy in ("dec-ts", "tree-ts", "flood-ts")
    ),
    *(
        Setting("world", Play(policy), Play(policy, world), most_times=1.1)
        for policy in ("dducb", "dec-ts", "tree-ts", "flood-ts", "independent-ts")
        for world in ("drift", "sites")
    ),
    *_linear("local-sums", "independent-ts"),
    *_linear("tree-sums", "tree-ts"),
    *_linear("flooded-totals", "flood-ts"),
    *(
        Setting(
            "one model, not compiled",
            Play(plain, "linear", **SLOW),  # blind, on the same problem: drawing it costs as much
            Play(f"{aggregation}*{index}", "linear", **SLOW),
            most_above=60.0,
        )
        for aggregation, plain in (("tree-sums", "tree-ts"), ("flooded-totals", "flood-ts"))
        for index in ("lin-ts", "lin-ucb")
    ),
)


def time_settings(settings: Sequence[Setting] = SETTINGS, repeats: int = REPEATS) -> Iterator[Cost]:
    """Time every setting and what it is compared with in turn; the smallest times count."""
    for setting in settings:
        plain, other = setting.plain.player(), setting.other.player()
        plain(), other()  # compiles
        times = [(plain(), other()) for _ in range(repeats)]
        yield Cost(
            setting,
            min(first for first, _ in times) / setting.plain.agent_rounds * 1e9,
            min(second for _, second in times) / setting.other.agent_rounds * 1e9,
        )


HEADER = ("setting", "problem", "ns without", "ns with", "times", "µs more", "asked for", "met")


def row(cost: Cost) -> tuple[str, ...]:
    """Return the cells of one line of the table."""
    play, met = cost.setting.other, "yes" if cost.met else "no"
    return (
        f"{cost.setting.group}: {play.policy}", play.problem, f"{cost.plain:.0f}",
        f"{cost.other:.0f}", f"{cost.times:.2f}", f"{cost.above:.2f}", cost.asked,
        met if cost.asked else "",
    )  # fmt: skip


def table(costs: Sequence[Cost]) -> str:
    """Return the table as text."""
    lines = ["what settings cost per agent-round, in time of the processor, one thread", ""]
    return "\n".join([*lines, *columns([HEADER, *map(row, costs)], left=(0, 1, 6, 7))])


def as_json(costs: Sequence[Cost]) -> list[dict[str, Any]]:
    """Return all numbers."""
    return [{**asdict(cost), "asked": cost.asked, "met": cost.met} for cost in costs]
