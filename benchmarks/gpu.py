"""What the GPU engine does on the device at hand: arms equal to the CPU engine's, and times.

``python -m benchmarks.gpu``, or ``make bench-gpu``, prints tables; words pick
some of them, or cases by the beginnings of their names. A time is that of the second call, so that
nothing is compiled in it; recording is included. *Playing* leaves out what is done once before the
first stage, such as uploading the graph.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from coopbandits.core.registry import parse_policy
from coopbandits.experiments.paper.play import make_part
from coopbandits.experiments.paper.settings import FIGURES, HORIZON, LINES
from coopbandits.network import Network
from coopbandits.problems import GaussianBandit
from coopbandits.results.statistics import columns
from coopbandits.sim import cpu, gpu
from coopbandits.sim.gpu.backend import backend
from coopbandits.sim.record import Record, Task
from coopbandits.sim.setup import PRECISIONS, Setup, recorded_rounds
from coopbandits.sim.simulate import simulate

MODULE = "benchmarks.gpu"
STAGED = "dducb:mixing_rounds=24,lambda_bound=0.7"


@dataclass(frozen=True)
class Case:
    """Some runs of a policy on a graph, with 17 arms of which one is better.

    `beside` are rounds and runs in which the CPU engine is timed; its rate depends on neither.
    """

    name: str
    policy: str
    graph: str
    horizon: int
    runs: int
    beside: tuple[int, int] = (0, 0)
    precision: str = PRECISIONS[0]

    def task(self, keep: str = "") -> Task:
        """Return what is played."""
        problem = GaussianBandit([1.0] + [0.8] * 16)
        rounds = recorded_rounds(self.horizon)
        setup = Setup(
            problem, network_of(self.graph), self.horizon, rounds, self.runs, 0, keep,
            precision=self.precision,
        )  # fmt: skip
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
    Case("central", "central-ts", "cycle:100", 10_000, 10),
)
TIMED = (
    Case("W1: one run", STAGED, "regular:8,1000000", 10_000, 1, (60, 1)),
    Case("W2: 1000 runs", "dducb", "cycle:100", 10_000, 1000, (10_000, 64)),
    Case("W2: 16 384 runs", "dducb", "cycle:100", 10_000, 16_384, (10_000, 64)),
    Case("W3: 2112 runs", "dec-ts", "cycle:100", 1000, 2112, (1000, 32)),
    Case("W4: one run", "dec-ts", "regular:8,1000000", 1000, 1, (3, 1)),
)
CHECKED = tuple(replace(case, horizon=120, runs=3) for case in EQUAL)
"""Small, since a sanitizer takes a hundred times as long."""


@cache
def network_of(graph: str) -> Network:
    """Return a network, made once."""
    return Network.from_spec(graph)


def play_on(engine: Any, task: Task) -> tuple[Record, float]:
    """Play all runs of a task; return the record, and the seconds that took."""
    with engine.session(None):
        started = time.perf_counter()
        record = engine.play(task, range(task.num_runs), lambda _: None)
        return record, time.perf_counter() - started


def compare(case: Case) -> dict[str, Any]:
    """Play on both engines, and count the arms that differ; in single precision as well."""
    found, _ = play_on(gpu.ENGINE, case.task("arms"))
    expected, _ = play_on(cpu.ENGINE, case.task("arms"))
    single, _ = play_on(gpu.ENGINE, replace(case, precision=PRECISIONS[1]).task("arms"))
    return {
        "family": case.name,
        "arms": expected.arms.size,
        "differing": int(np.count_nonzero(found.arms != expected.arms)),
        "rewards off by": f"{np.max(np.abs(found.rewards / expected.rewards - 1.0)):.1e}",
        "float32: differing": int(np.count_nonzero(single.arms != expected.arms)),
        "regret": f"{_regret(expected):.1f}",
        "float32: regret": f"{_regret(single):.1f}",
    }


def _regret(record: Record) -> float:
    return float(0.2 * record.arm_counts[:, -1, 1:].sum(axis=1).mean())


def timed(case: Case) -> dict[str, Any]:
    """Play twice, and time the second."""
    task = case.task()
    ticks: list[tuple[float, int]] = []
    for _ in range(2):
        ticks.clear()
        started = time.perf_counter()
        record = gpu.ENGINE.play(
            task, range(case.runs), lambda pulls: ticks.append((time.perf_counter(), pulls))
        )
        whole = time.perf_counter() - started
    playing = started + whole - ticks[0][0]  # launches return at once, and the end waits for all
    pulls = sum(pulls for _, pulls in ticks[1:])
    each = pulls / network_of(case.graph).num_agents
    return {
        "case": case.name,
        "precision": case.precision,
        "whole": f"{whole * 1e3:.1f} ms",
        "playing": f"{playing * 1e3:.1f} ms",
        "µs per run-round": f"{playing * 1e6 / each:.3g}",
        "agent-rounds/s": f"{pulls / playing:.3g}",
        "CPU engine": f"{cpu_rate(case):.3g}",
        "regret": f"{_regret(record):.1f}",
    }


@cache
def cpu_rate(case: Case) -> float:
    """Return the agent-rounds that the CPU engine plays in a second, on all cores."""
    horizon, runs = case.beside
    if not horizon:
        return float("nan")
    smaller = replace(case, horizon=horizon, runs=runs, precision=PRECISIONS[0])
    for _ in range(2):
        _, seconds = play_on(cpu.ENGINE, smaller.task())
    return smaller.pulls() / seconds


def kernels(case: Case) -> dict[str, Any]:
    """Play once more, kernel by kernel, and tell where the time goes."""
    there: Any = backend()
    there.times = {}
    gpu.ENGINE.play(case.task(), range(case.runs), lambda _: None)
    spent, there.times = there.times, None
    told = [f"{name} {sum(each) * 1e3:.1f} ms in {len(each)}" for name, each in spent.items()]
    row: dict[str, Any] = {"case": case.name, "precision": case.precision}
    return row | {"kernels": ", ".join(told), "mixing": mixing_rate(case, spent)}


def mixing_rate(case: Case, spent: dict[str, list[float]]) -> str:
    """Return the bytes that sparse mixing of one arm moves in a second, in sectors of 32 bytes."""
    if "mix_sparse" not in spent:
        return ""
    agents = network_of(case.graph).num_agents
    pair = 16 if case.precision == PRECISIONS[0] else 8
    moved = agents * (8 * 32 + 32 + 3 * pair)  # neighbours' pairs, who they are, own and written
    fastest = float(np.median(spent["mix_sparse"]))
    return f"{moved / fastest / 1e12:.2f} TB/s ({fastest * 1e6:.1f} µs a step)"


def reproduced(runs: int) -> dict[str, Any]:
    """Play all curves of `reproduce`, as often as its cells are different, twice."""
    parts = [
        make_part(figure, line, HORIZON, runs, 0) for figure in FIGURES.values() for line in LINES
    ]
    cells = {part.cell.id: part.cell for part in parts}.values()
    seconds = []
    for _ in range(2):
        started = time.perf_counter()
        for cell in cells:
            simulate(
                cell.problem, cell.network, cell.policy, cell.horizon, cell.runs, cell.seed, "gpu",
                progress=False,
            )  # fmt: skip
        seconds.append(time.perf_counter() - started)
    first, again = (f"{each:.2f} s" for each in seconds)
    return {"curves of reproduce": len(cells), "runs": runs, "first": first, "again": again}


def sanitized(tool: str) -> dict[str, Any]:
    """Play small cases under one of NVIDIA's checkers."""
    command = shutil.which("compute-sanitizer")
    if command is None:
        return {"tool": tool, "found": "compute-sanitizer is not there"}
    # cuda-core asks the driver for a context before there is one, which is no error of a kernel.
    quiet = ["--report-api-errors", "no"] if tool == "memcheck" else []
    words = [command, "--tool", tool, *quiet, sys.executable, "-m", MODULE, "checked"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, errors="replace")  # noqa: S603  a tool
    told = done.stdout.splitlines()
    last = [line for line in told if "SUMMARY" in line or "played" in line]
    first = [line for line in told if line.startswith("=========")][1:6]
    is_clean = " 0 " in last[-1] if last else False
    return {
        "tool": tool,
        "found": "; ".join(last if is_clean else [*first, *last, done.stderr[-300:]]),
    }


def checked() -> None:
    """Play what a sanitizer watches."""
    for precision in PRECISIONS:
        for case in CHECKED:
            play_on(gpu.ENGINE, replace(case, precision=precision).task())
    sys.stdout.write(f"played {len(CHECKED)} families in {len(PRECISIONS)} precisions\n")


def tables(words: list[str]) -> Iterator[tuple[str, Callable[[Any], dict[str, Any]], list[Any]]]:
    """Return the name of every table, what makes a row, and of what."""
    both = [replace(case, precision=precision) for case in TIMED for precision in PRECISIONS]
    on_device = hasattr(backend(), "times")
    every: list[tuple[str, Callable[[Any], dict[str, Any]], list[Any]]] = [
        ("equal", compare, list(EQUAL)),
        ("timed", timed, both),
        ("kernels", kernels, both if on_device else []),
        ("reproduce", reproduced, [10, 1000]),
        ("sanitizers", sanitized, ["memcheck", "racecheck"] if on_device else []),
    ]
    known = {name for name, _, _ in every}
    chosen, prefixes = known & set(words), tuple(word for word in words if word not in known)
    for name, play, given in every:
        if not chosen or name in chosen:
            yield (
                name,
                play,
                [
                    each
                    for each in given
                    if not prefixes or getattr(each, "name", str(each)).startswith(prefixes)
                ],
            )


def main(words: list[str]) -> None:
    """Print all tables, or those that are named."""
    if words == ["checked"]:
        return checked()
    there: Any = backend()
    say = sys.stdout.write
    say(f"device: {there.name}\n")
    if hasattr(there, "copy_rate"):
        say(f"copy: {there.copy_rate() / 1e12:.2f} TB/s read and written\n")
    for name, play, given in tables(words):
        rows = []
        for each in given:
            rows.append(play(each))
            say(f"{name}: {rows[-1]}\n")
            sys.stdout.flush()
        if rows:
            cells = [tuple(rows[0]), *(tuple(map(str, row.values())) for row in rows)]
            say("\n" + "\n".join(columns(cells)) + "\n\n")
    for name, used in getattr(there, "usage", {}).items():
        say(f"{name}: {used[0]} registers, {used[1]} bytes of local memory\n")
    return None


if __name__ == "__main__":
    main(sys.argv[1:])
