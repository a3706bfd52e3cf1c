"""`simulate`: policies on a problem and a network, on the same tapes, as one labelled result."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.checks import require_count, require_flag
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.core.policy import AnyPolicy
from coopbandits.network import Faults, Network
from coopbandits.problems import Problem
from coopbandits.results import Result
from coopbandits.sim import asynchronous, cpu, reference
from coopbandits.sim.clocks import Clocks
from coopbandits.sim.conditions import check_conditions, read_conditions
from coopbandits.sim.labels import label, settings
from coopbandits.sim.progress import Progress, note
from coopbandits.sim.record import Record, Task, Tick, restore_order

ENGINES = ("auto", "cpu", "reference")
CURVE_POINTS = 200

BATCH_PULLS = 200_000_000
BATCH_BYTES = 500_000_000
"""Runs are played together up to this much work and memory; a batch is what Ctrl-C can lose."""


class SimulationInterrupted(KeyboardInterrupt):
    """Ctrl-C during `simulate`; `result` holds the runs that every policy finished, or None."""

    def __init__(self, result: Result | None, kept: int, runs: int) -> None:
        super().__init__(f"interrupted: kept {kept} of {runs} runs")
        self.result = result
        self.kept = kept


def simulate(
    problem: Problem,
    network: Network,
    policies: AnyPolicy | Sequence[AnyPolicy],
    horizon: int,
    runs: int = 1,
    seed: int = 0,
    engine: str = "auto",
    *,
    rounds: int | Sequence[int] | None = None,
    keep: str = "",
    shuffle_arms: bool = False,
    faults: Faults | str | None = None,
    clocks: Clocks | str | None = None,
    threads: int | None = None,
    progress: bool | None = None,
) -> Result:
    """Play every policy `runs` times for `horizon` rounds.

    Parameters
    ----------
    problem, network : Problem, Network
        The world beyond and between the agents.
    policies : Policy or sequence of Policy
        What to compare; all see the same rewards (common random numbers).
    horizon : int
        T, rounds: pulls per agent, on average where agents have clocks of their own.
    runs, seed : int
        Independent repetitions, and the seed they all follow from.
    engine : {"auto", "cpu", "reference"}
        How to compute; the result is the same. A policy without a compiled kernel is played by the
        reference engine, and a note says so.
    rounds : int, sequence of int or None
        After which rounds to record: so many log-spaced ones (200 unless told), or these. The last
        round is always recorded.
    keep : {"", "agents", "arms"}
        Keep pulls per agent, or every single arm as well: N × T numbers per run.
    shuffle_arms : bool
        Let policies meet the arms in another order in every run, the same for all of them. Ties go
        to the lowest arm, so a best arm that always stands first flatters. What is recorded is
        told by the problem's own arms.
    faults : Faults, str or None
        What goes wrong between agents, such as ``"loss=0.3,sleep=0.1"``.
    clocks : Clocks, str or None
        When agents pull and gossip, such as ``"poisson:ratio=10"``; in common rounds unless given.
        Of faults only loss goes with it.
    threads : int or None
        How many threads the compiled engine uses; None for all. The result is the same.
    progress : bool or None
        Show a progress bar; None shows one on a terminal when it takes longer than a second.

    Returns
    -------
    Result

    Raises
    ------
    SimulationInterrupted
        On Ctrl-C; its `result` has the runs that all policies finished.
    """
    tasks = _tasks(
        problem, network, policies, horizon, runs, seed, rounds, keep, shuffle_arms, faults, clocks
    )
    horizon, runs = tasks[0].horizon, tasks[0].num_runs
    engines = [_engine(engine, task) for task in tasks]
    started = time.perf_counter()
    finished: list[list[Record]] = []
    with (
        cpu.threads(threads),
        Progress(network.num_agents * horizon * runs * len(tasks), progress) as bar,
    ):
        try:
            for batch in _batches(tasks[0], runs, engines):
                pairs = zip(engines, tasks, strict=True)
                finished.append([_play(name, task, batch, bar.advance) for name, task in pairs])
        except KeyboardInterrupt:
            pass  # what was finished is returned below, with the interruption
    seconds = time.perf_counter() - started
    kept = sum(batch[0].messages.size for batch in finished)
    result = label(tasks, finished, engines, seconds) if finished else None
    if kept < runs or result is None:
        raise SimulationInterrupted(result, kept, runs)
    return result


def plan(
    problem: Problem,
    network: Network,
    policies: AnyPolicy | Sequence[AnyPolicy],
    horizon: int,
    runs: int = 1,
    seed: int = 0,
    *,
    shuffle_arms: bool = False,
    faults: Faults | str | None = None,
    clocks: Clocks | str | None = None,
) -> dict[str, Any]:
    """Return the settings that the result of `simulate` will have, without playing."""
    tasks = _tasks(
        problem, network, policies, horizon, runs, seed, None, "", shuffle_arms, faults, clocks
    )
    return settings(tasks, tasks[0].num_runs)


def _tasks(
    problem: Problem,
    network: Network,
    policies: AnyPolicy | Sequence[AnyPolicy],
    horizon: int,
    runs: int,
    seed: int,
    rounds: int | Sequence[int] | None,
    keep: str,
    shuffle_arms: bool,
    faults: Faults | str | None,
    clocks: Clocks | str | None,
) -> list[Task]:
    """Check all settings; return one task per policy."""
    chosen = _check(problem, network, policies, horizon, runs, seed, keep)
    horizon, runs, seed = int(horizon), int(runs), int(seed)  # numpy's integers are no plain data
    kept_rounds = recorded_rounds(horizon, rounds)
    require_flag("shuffle_arms", shuffle_arms)
    conditions = read_conditions(faults, clocks)
    order = (kept_rounds, keep, runs, shuffle_arms, *conditions)
    tasks = [Task(problem, network, policy, horizon, seed, *order) for policy in chosen]
    for task in tasks:
        check_conditions(task)
    return tasks


def recorded_rounds(horizon: int, rounds: int | Sequence[int] | None) -> NDArray[np.int64]:
    """Return the rounds to record, ascending, the horizon included."""
    if rounds is None or not isinstance(rounds, Iterable):
        points = CURVE_POINTS if rounds is None else rounds
        require_count("rounds", points)
        wanted = np.rint(np.geomspace(1, horizon, points if points > 1 else 0)).astype(np.int64)
    else:
        wanted = np.asarray(rounds)
        whole = wanted.ndim == 1 and (wanted.dtype.kind in "iu" or wanted.size == 0)
        if not whole or not ((wanted >= 1) & (wanted <= horizon)).all():
            raise InputError(
                f"rounds must be whole numbers in 1 to {horizon} (the horizon); got {rounds}"
            )
    return np.unique(np.append(wanted, horizon)).astype(np.int64)


PLAY = {"cpu": cpu.play, "reference": reference.play}


def _play(engine: str, task: Task, runs: range, tick: Tick) -> Record:
    if task.clocks is None:
        record = PLAY[engine](task, runs, tick)
    else:
        record = asynchronous.play(task, task.clocks, runs, tick)
    return restore_order(record, task, runs)


def _engine(wanted: str, task: Task) -> str:
    """Return the engine that will play a task."""
    if wanted not in ENGINES:
        raise unknown_name("engine", wanted, ENGINES)
    if wanted == "reference":
        return wanted
    obstacle = cpu.obstacle(task)
    if obstacle is None:
        return "cpu"
    note(
        f"{task.policy.spelling} has no compiled kernel{obstacle}, so the slower reference engine "
        "plays it"
    )
    return "reference"


def _batches(task: Task, runs: int, engines: list[str]) -> list[range]:
    """Cut the runs into batches that are played at once; no result depends on how."""
    agents, arms = task.network.num_agents, task.problem.num_arms
    table = task.problem.kernel_form().table.nbytes if task.shuffle_arms else 0
    size = min(BATCH_PULLS // (agents * task.horizon), BATCH_BYTES // (agents * arms * 100 + table))
    size = 1 if "reference" in engines else max(1, size)
    return [range(start, min(start + size, runs)) for start in range(0, runs, size)]


def _check(
    problem: Problem,
    network: Network,
    policies: AnyPolicy | Sequence[AnyPolicy],
    horizon: int,
    runs: int,
    seed: int,
    keep: str,
) -> list[AnyPolicy]:
    if not isinstance(problem, Problem):
        raise InputError(f"problem is {problem!r}; give one such as cb.GaussianBandit([1, 0])")
    if not isinstance(network, Network):
        raise InputError(f"network is {network!r}; wrap a graph as cb.Network(graph)")
    chosen = _check_policies(policies)
    require_count("horizon", horizon)
    require_count("runs", runs)
    require_count("seed", seed, least=0)
    if keep not in ("", "agents", "arms"):
        raise unknown_name("value of keep", str(keep), ["agents", "arms"])
    if horizon < problem.num_arms:
        warnings.warn(
            f"horizon {horizon} is below the number of arms {problem.num_arms}: agents that first "
            "pull every arm once stop inside those initial pulls",
            stacklevel=4,
        )
    return chosen


def _check_policies(policies: AnyPolicy | Sequence[AnyPolicy]) -> list[AnyPolicy]:
    if isinstance(policies, str) or not isinstance(policies, AnyPolicy | Iterable):
        raise InputError(f"policies is {policies!r}; give instances such as cb.DDUCB()")
    chosen = [policies] if isinstance(policies, AnyPolicy) else list(policies)
    if not chosen:
        raise InputError("no policy was given; give at least one, such as cb.DDUCB()")
    for policy in chosen:
        if not isinstance(policy, AnyPolicy):
            raise InputError(f"{policy!r} is no policy; give instances such as cb.DDUCB()")
    spellings = [policy.spelling for policy in chosen]
    for spelling in spellings:
        if spellings.count(spelling) > 1:
            raise InputError(f"policy {spelling} was given twice; give each once")
    return chosen
