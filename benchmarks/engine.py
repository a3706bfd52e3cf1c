"""What an agent-round costs, in units of drawing one normal variate.

Machines differ and are noisy, so no time is reported alone. The unit is what numpy needs per value
of ``Generator(PCG64).standard_normal(out=…)`` with 100 000 values; policy and unit are timed in
turn, in the same process and thread, and the smallest of several timings of each counts.
"""

from __future__ import annotations

import multiprocessing
import resource
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numba
import numpy as np

from benchmarks.parts import push_sum_script
from coopbandits.core.registry import parse_policy
from coopbandits.network import Network
from coopbandits.problems import BernoulliBandit, GaussianBandit
from coopbandits.results.statistics import columns
from coopbandits.sim import simulate

REPEATS = 7
UNIT_VALUES = 100_000
UNIT_FILLS = 20


@dataclass(frozen=True)
class Case:
    """One thing to time: `runs` of a policy on a graph, with one arm better than the others.

    Rewards are normal, or 0 and 1 if `binary`; `faults` as in `simulate`.
    """

    group: str
    policy: str
    graph: str
    num_arms: int = 17
    horizon: int = 10_000
    runs: int = 10
    threads: int = 1
    binary: bool = False
    faults: str = "none"

    def player(self) -> Callable[[], None]:
        """Return the function to time; what a user pays once per network is done beforehand."""
        network = Network.from_spec(self.graph)
        network.lambda2  # noqa: B018  computed once and kept
        others = self.num_arms - 1
        problem = (
            BernoulliBandit([0.6] + [0.4] * others)
            if self.binary
            else GaussianBandit([1.0] + [0.8] * others)
        )
        policy = parse_policy(self.policy)

        def play() -> None:
            simulate(
                problem, network, policy, self.horizon, self.runs,
                faults=self.faults, threads=self.threads, progress=False,
            )  # fmt: skip

        return play

    @property
    def agent_rounds(self) -> int:
        """Pulls in one timing."""
        return int(Network.from_spec(self.graph).num_agents * self.horizon * self.runs)


@dataclass(frozen=True)
class Timing:
    """A case, its cost in draws and in nanoseconds, and the peak memory so far."""

    case: Case
    draws: float
    nanoseconds: float
    unit_nanoseconds: float
    peak_megabytes: float


@dataclass(frozen=True)
class Script(Case):
    """The same in a script that knows nothing but numpy; see `parts.push_sum_script`."""

    def player(self) -> Callable[[], None]:
        """Return the function to time."""
        network, _, loss = Network.from_spec(self.graph), *self.faults.split("=")
        neighbors = np.argwhere(network.adjacency)[:, 1].reshape(network.num_agents, -1)
        means = np.array([1.0] + [0.8] * (self.num_arms - 1))

        def play() -> None:
            push_sum_script(neighbors, means, 1.0, self.horizon, self.runs, float(loss))

        return play


OWN = "benchmarks.parts"
"""Parts as a user would write them."""

INDICES_BESIDE = ("local-sums", "running-consensus", "tree-sums", "flooded-pulls", "staged-mixing")
"""Aggregations on which a user's own index is timed beside the shipped one."""

CASES = (
    Case("policy", "dducb", "cycle:100"),
    Case("policy", "dducb", "grid:15x15"),
    Case("policy", "dducb:own_pulls=false", "cycle:100"),
    Case("policy", "dducb:own_pulls=false", "grid:15x15"),
    Case("policy", "independent-ucb", "cycle:100"),
    Case("policy", "coop-ucb:gamma=1.01", "cycle:100", runs=2),
    Case("policy", "coop-ucb2:gamma=1.01", "grid:15x15", runs=2),
    Case("policy", "dec-ts", "cycle:100", runs=2),
    Case("policy", "dec-ts:family=bernoulli", "cycle:100", runs=1, binary=True),
    Case("policy", "ucb-network", "cycle:100", runs=2),
    Case("policy", "mp-ucb:hop_limit=10", "cycle:100", runs=2),
    Case("policy", "central-ts", "cycle:100", runs=2),
    *(
        Case("discount", f"{policy}:discount=0.995", "cycle:100", runs=2)
        for policy in ("independent-ucb", "independent-ts", "central-ucb", "central-ts")
    ),
    Case("loss 30 %", "gossip-ts", "cycle:100", runs=2, faults="loss=0.3"),
    Case("loss 30 %", "tree-ts", "cycle:100", runs=2, faults="loss=0.3"),
    Case(
        "loss 30 %", "tree-ts:family=bernoulli", "cycle:100", runs=1, binary=True, faults="loss=0.3"
    ),
    Case("arms", "dducb", "cycle:100", num_arms=2),
    Case("arms", "dducb", "cycle:100", num_arms=50),
    Case("horizon", "dducb", "cycle:100", horizon=1_000, runs=50),
    Case("horizon", "dducb", "cycle:100", horizon=100_000, runs=1),
    Case("agents", "dducb", "regular:3,1000", horizon=500, runs=5),
    Case("agents", "dducb", "regular:3,10000", horizon=500, runs=1),
    Case("agents", "dducb", "regular:3,100000", horizon=500, runs=1),
    Case("agents", "ledger-ts", "regular:4,100,seed=1", horizon=500, runs=50),
    Case("agents", "ledger-ts", "regular:4,5000,seed=1", horizon=500, runs=1),
    *(
        Case("own index", f"{aggregation}*{index}", "cycle:100", horizon=2_000, runs=2)
        for aggregation in INDICES_BESIDE
        for index in ("ucb", f"{OWN}:OwnUCB", f"{OWN}:OwnBonus")
    ),
    *(
        Case(
            "KL-UCB", f"running-consensus*{index}", "cycle:100", horizon=2_000, runs=2, binary=True
        )
        for index in ("kl-ucb:family=bernoulli", f"{OWN}:OwnKLUCB:family=bernoulli")
    ),
    *(
        Timed("own aggregation", policy, "regular:8,100,seed=1", horizon=1_000, faults="loss=0.2")
        for Timed, policy in ((Case, f"{OWN}:OwnPushSum*ucb"), (Script, "numpy script"))
    ),
)


def run_bench(cases: Sequence[Case] | None = None, repeats: int = REPEATS) -> Iterator[Timing]:
    """Time every case; by default all of `CASES`."""
    for case in CASES if cases is None else cases:
        yield time_case(case, repeats)


def time_case(case: Case, repeats: int = REPEATS) -> Timing:
    """Time one case and the unit in turn; the smallest of `repeats` timings of each counts."""
    play = case.player()
    play()  # compiles
    unit = make_unit()
    times = [(_seconds(unit), _seconds(play)) for _ in range(repeats)]
    unit_ns = min(first for first, _ in times) / (UNIT_FILLS * UNIT_VALUES) * 1e9
    case_ns = min(second for _, second in times) / case.agent_rounds * 1e9
    return Timing(case, case_ns / unit_ns, case_ns, unit_ns, peak_megabytes())


def make_unit() -> Callable[[], None]:
    """Return a function that draws `UNIT_FILLS` times 100 000 normals."""
    # The unit is numpy's own generator by definition; no result depends on it.
    generator = np.random.Generator(np.random.PCG64(0))  # noqa: TID251  the unit itself
    buffer = np.empty(UNIT_VALUES)

    def draw() -> None:
        for _ in range(UNIT_FILLS):
            generator.standard_normal(out=buffer)

    return draw


def _seconds(call: Callable[[], Any]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def peak_megabytes() -> float:
    """Return the largest resident size of this process so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


@dataclass(frozen=True)
class SpeedUp:
    """How much faster two threads are, and two independent processes."""

    threads: float
    processes: float

    @property
    def ratio(self) -> float:
        """The threads' speed-up over the processes'."""
        return self.threads / self.processes


def time_threads(case: Case = CASES[0], repeats: int = REPEATS) -> SpeedUp | None:
    """Compare one run in two threads with two runs in two processes; None on one core."""
    if numba.config.NUMBA_NUM_THREADS < 2:
        return None
    one, two = case.player(), Case(**{**asdict(case), "threads": 2}).player()
    one(), two()
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(2, timeout=600)  # do not wait for ever for a process that died
    helper = context.Process(target=_busy, args=(case, barrier, repeats))
    helper.start()
    alone, threaded, together = [], [], []
    for _ in range(repeats):
        alone.append(_seconds(one))
        threaded.append(_seconds(two))
        barrier.wait()
        together.append(_seconds(one))
        barrier.wait()
    helper.join()
    return SpeedUp(min(alone) / min(threaded), 2 * min(alone) / min(together))


def _busy(case: Case, barrier: Any, repeats: int) -> None:
    play = case.player()
    play()
    for _ in range(repeats):
        barrier.wait()
        play()
        barrier.wait()


HEADER = ("case", "graph", "K", "T", "draws", "ns", "peak MB")


def row(timing: Timing) -> tuple[str, ...]:
    """Return the cells of one line of the table."""
    case = timing.case
    policy = case.policy.replace(f"{OWN}:", "")
    return (
        f"{case.group}: {policy}", case.graph, f"{case.num_arms}", f"{case.horizon}",
        f"{timing.draws:.2f}", f"{timing.nanoseconds:.1f}", f"{timing.peak_megabytes:.0f}",
    )  # fmt: skip


def table(timings: list[Timing], speed_up: SpeedUp | None) -> str:
    """Return the table as text."""
    unit = min(timing.unit_nanoseconds for timing in timings)
    lines = [f"cost of one agent-round; 1 draw = {unit:.1f} ns here, one thread", ""]
    lines += columns([HEADER, *map(row, timings)])
    if speed_up is None:
        return "\n".join([*lines, "", "one core: there is no speed-up of threads to measure"])
    lines += [
        "",
        f"two threads are {speed_up.threads:.2f} times as fast as one; two independent processes "
        f"do {speed_up.processes:.2f} times the work of one; ratio {speed_up.ratio:.2f}",
    ]
    return "\n".join(lines)


def as_json(timings: list[Timing], speed_up: SpeedUp | None) -> dict[str, Any]:
    """Return all numbers."""
    return {
        "timings": [asdict(timing) for timing in timings],
        "speed_up": speed_up and {**asdict(speed_up), "ratio": speed_up.ratio},
    }
