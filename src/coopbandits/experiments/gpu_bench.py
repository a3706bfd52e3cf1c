"""What the GPU engine does on the device at hand: arms equal to the CPU engine's, and times.

``python -m coopbandits.experiments.gpu_bench``, or ``make bench-gpu``, prints three tables. A time
is that of the second call, so that nothing is compiled in it; recording is included. *Playing*
leaves out what is done once before the first stage, such as uploading the graph.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from coopbandits.core.registry import parse_policy
from coopbandits.network import Network
from coopbandits.problems import GaussianBandit
from coopbandits.results.statistics import columns
from coopbandits.sim import cpu, gpu
from coopbandits.sim.gpu.backend import backend
from coopbandits.sim.record import Record, Task
from coopbandits.sim.setup import Setup, recorded_rounds

STAGED = "dducb:mixing_rounds=24,lambda_bound=0.7"


@dataclass(frozen=True)
class Case:
    """Some runs of a policy on a graph, with 17 arms of which one is better."""

    name: str
    policy: str
    graph: str
    horizon: int
    runs: int

    def task(self, keep: str = "") -> Task:
        """Return what is played."""
        problem = GaussianBandit([1.0] + [0.8] * 16)
        rounds = recorded_rounds(self.horizon)
        setup = Setup(problem, network_of(self.graph), self.horizon, rounds, self.runs, 0, keep)
        return Task(setup, parse_policy(self.policy))

    def pulls(self) -> int:
        """Return the number of agent-rounds."""
        return network_of(self.graph).num_agents * self.horizon * self.runs


EQUAL = (
    Case("stages, dense", "dducb", "cycle:100", 10_000, 10),
    Case("stages, sparse", STAGED, "regular:8,2000", 1000, 5),
    Case("own sums, bonus", "independent-ucb", "cycle:100", 10_000, 10),
    Case("own sums, draws", "independent-ts", "cycle:100", 10_000, 10),
    Case("consensus, whole runs", "dec-ts", "cycle:100", 10_000, 10),
    Case("consensus, rounds", "dec-ts", "regular:8,2000", 1000, 5),
)
TIMED = (
    Case("W2: 1000 runs", "dducb", "cycle:100", 10_000, 1000),
    Case("W2: 16 384 runs", "dducb", "cycle:100", 10_000, 16_384),
    Case("W3: 2112 runs", "dec-ts", "cycle:100", 1000, 2112),
    Case("W1: one run", STAGED, "regular:8,1000000", 10_000, 1),
    Case("W4: one run", "dec-ts", "regular:8,1000000", 40, 1),
)


@cache
def network_of(graph: str) -> Network:
    """Return a network, made once."""
    return Network.from_spec(graph)


def compare(case: Case) -> dict[str, Any]:
    """Play on both engines, and count the arms that differ."""
    task = case.task("arms")
    started = time.perf_counter()
    found = gpu.ENGINE.play(task, range(case.runs), lambda _: None)
    seconds = time.perf_counter() - started
    with cpu.ENGINE.session(None):
        expected = cpu.ENGINE.play(task, range(case.runs), lambda _: None)
    differing = int(np.count_nonzero(found.arms != expected.arms))
    return {
        "family": case.name,
        "arms": expected.arms.size,
        "differing": differing,
        "rewards off by": f"{_error(found, expected):.1e}",
        "first call": f"{seconds:.1f} s",
    }


def _error(found: Record, expected: Record) -> float:
    return float(np.max(np.abs(found.rewards / expected.rewards - 1.0)))


def timed(case: Case) -> dict[str, Any]:
    """Play twice, and time the second."""
    task = case.task()
    ticks: list[tuple[float, int]] = []
    for _ in range(2):
        ticks.clear()
        started = time.perf_counter()
        gpu.ENGINE.play(
            task, range(case.runs), lambda pulls: ticks.append((time.perf_counter(), pulls))
        )
        whole = time.perf_counter() - started
    playing = started + whole - ticks[0][0]  # launches return at once, and the end waits for all
    pulls = sum(pulls for _, pulls in ticks[1:])
    each = pulls / network_of(case.graph).num_agents
    return {
        "case": case.name,
        "policy": case.policy,
        "whole": f"{whole * 1e3:.1f} ms",
        "playing": f"{playing * 1e3:.1f} ms",
        "µs per run-round": f"{playing * 1e6 / each:.3g}",
        "agent-rounds/s": f"{pulls / playing:.3g}",
    }


def main(words: list[str]) -> None:
    """Print all tables; with words only the cases whose names begin with one of them."""
    there: Any = backend()
    say = sys.stdout.write
    say(f"device: {there.name}\n")
    if hasattr(there, "copy_rate"):
        say(f"copy: {there.copy_rate() / 1e12:.2f} TB/s read and written\n")
    chosen = tuple(words) or ("",)
    for cases, play in ((EQUAL, compare), (TIMED, timed)):
        rows = []
        for case in cases:
            if case.name.startswith(chosen):
                rows.append(play(case))
                say(f"{rows[-1]}\n")
                sys.stdout.flush()
        if rows:
            cells = [tuple(rows[0]), *(tuple(map(str, row.values())) for row in rows)]
            say("\n" + "\n".join(columns(cells)) + "\n\n")
    for name, used in getattr(there, "usage", {}).items():
        say(f"{name}: {used[0]} registers, {used[1]} bytes of local memory\n")


if __name__ == "__main__":
    main(sys.argv[1:])
