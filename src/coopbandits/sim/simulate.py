"""`simulate`: play policies on the same tapes, and return one labelled result."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from coopbandits.core.errors import InputError
from coopbandits.core.policy import AnyPolicy
from coopbandits.core.registry import parse_policy
from coopbandits.network import Faults, Network
from coopbandits.problems import Problem
from coopbandits.results import Result
from coopbandits.sim.clocks import Clocks
from coopbandits.sim.engine import AUTO, Engine, choose
from coopbandits.sim.labels import label, settings
from coopbandits.sim.progress import Progress
from coopbandits.sim.record import (
    Record,
    Task,
    add_agent_regret,
    add_frames,
    add_scatter,
    restore_order,
)
from coopbandits.sim.setup import (
    PRECISIONS,
    Setup,
    Stop,
    read_conditions,
    read_stop,
    read_world,
    recorded_rounds,
)

Policies = AnyPolicy | str | Sequence[AnyPolicy | str]

BATCH_PULLS = 200_000_000
BATCH_BYTES = 500_000_000
"""Most work and memory of a batch of runs; Ctrl-C loses at most the current batch."""
BATCH_SECONDS = 2.0
"""What a batch of all policies should take, unless it has only one run per thread."""
FIRST_SHARE = 20
"""The first batch, whose speed is not known yet, has this part of the most pulls: about a second.
Each batch costs some ms."""
GROWTH = 8
"""How many times as many runs the next batch may have: the first one is slow, where it compiles."""


class SimulationInterrupted(KeyboardInterrupt):
    """Ctrl-C during `simulate`.

    `result` holds the runs that all policies finished; or, where there is no such run, those of the
    policies that finished some; or None.
    """

    def __init__(
        self, result: Result | None, kept: int, runs: int, *, all_policies: bool = True
    ) -> None:
        alone = f", of {', '.join(result.policies)} alone" if result and not all_policies else ""
        super().__init__(f"interrupted: kept {kept} of {runs} runs{alone}")
        self.result = result
        self.kept = kept


def simulate(
    problem: Problem | str,
    network: Network | str,
    policies: Policies,
    horizon: int,
    runs: int = 1,
    seed: int = 0,
    engine: str = AUTO,
    *,
    rounds: int | Sequence[int] | None = None,
    keep: str = "",
    shuffle_arms: bool = False,
    faults: Faults | str | None = None,
    clocks: Clocks | str | None = None,
    stop: Stop | float | str | None = None,
    precision: str = PRECISIONS[0],
    threads: int | None = None,
    progress: bool | None = None,
) -> Result:
    """Play every policy `runs` times for `horizon` rounds.

    Parameters
    ----------
    problem, network : Problem and Network, or str
        The world beyond and between the agents; also as on the command line, such as
        ``"bernoulli:0.6,0.5"`` and ``"cycle:20"``.
    policies : Policy, str or sequence of these
        What to compare, also as on the command line, ``"tree-sums*kl-ucb"``; all see the same
        rewards (common random numbers).
    horizon : int
        T, rounds: pulls per agent, on average where agents have clocks of their own.
    runs, seed : int
        Independent repetitions, and the seed they all follow from.
    engine : str
        "auto" for the fastest that can play the policy, or the name of one; the result is the
        same. What the named engine cannot play falls back to "reference", with a note; what "gpu"
        cannot, to the fastest other one.
    rounds : int, sequence of int or None
        The rounds after which to record, or how many log-spaced ones (200 by default). The last
        round is always recorded.
    keep : {"", "agents", "curves", "arms", "watch"}
        Keep pulls per agent; or their regret in every recorded round as well; or every single arm
        too: N × T numbers per run. "watch" keeps pulls per agent, and the first run frame by frame
        for `coopbandits dashboard`.
    shuffle_arms : bool
        Shuffle the arms in every run, in the same way for all policies. Ties go to the lowest arm,
        so a best arm that always comes first flatters. Results use the problem's own order.
    faults : Faults, str or None
        What goes wrong between agents, such as ``"loss=0.3,sleep=0.1"``.
    clocks : Clocks, str or None
        When agents pull and gossip, such as ``"poisson:ratio=10"``; in common rounds unless given.
        The only fault that can be combined with clocks is loss.
    stop : Stop, float, str or None
        Record when every agent could have stopped, since with this confidence it knew the best arm,
        and what it would have recommended; agents play on, so that regret stays comparable. 0.95,
        or ``cb.Stop(0.95, within=0.1)`` for an arm that is at most so much worse.
    precision : {"float64", "float32"}
        What agents compute with. Single precision, for ``engine="gpu"`` alone, is faster and plays
        other arms where two are close.
    threads : int or None
        How many threads an engine may use; None for all. The result is the same.
    progress : bool or None
        Show a progress bar; None shows one on a terminal once it has taken over a second.

    Returns
    -------
    Result

    Raises
    ------
    SimulationInterrupted
        On Ctrl-C; its `result` has what is complete. Runs are played a few at a time, each few by
        all policies, so that little is lost.
    """
    setup = Setup(
        *read_world(problem, network), horizon, recorded_rounds(horizon, rounds), runs, seed, keep,
        shuffle_arms, *read_conditions(faults, clocks), read_stop(stop), precision,
    )  # fmt: skip
    return play(setup, policies, engine, threads=threads, progress=progress)


def play(
    setup: Setup,
    policies: Policies,
    engine: str = AUTO,
    *,
    threads: int | None = None,
    progress: bool | None = None,
) -> Result:
    """Play every policy in one setup; other arguments as for `simulate`."""
    tasks = _tasks(setup, policies)
    if setup.horizon < setup.problem.num_arms:
        warnings.warn(
            f"horizon {setup.horizon} is below the number of arms {setup.problem.num_arms}: agents "
            "that first pull every arm once stop inside those initial pulls",
            stacklevel=3,  # point at the caller of `simulate`
        )
    engines = [choose(engine, task) for task in tasks]
    work = setup.network.num_agents * setup.horizon * setup.runs * len(tasks)
    started = time.perf_counter()
    finished: list[list[Record]] = []  # by batch, then by policy
    with ExitStack() as stack:
        for one in dict.fromkeys(engines):
            stack.enter_context(one.session(threads))
        bar = stack.enter_context(Progress(work, progress))
        try:
            for runs in _batches(tasks, engines, threads):
                finished.append([])
                for one, task in zip(engines, tasks, strict=True):
                    record = restore_order(one.play(task, runs, bar.advance), task, runs)
                    record = add_frames(add_scatter(record, task, runs), task, runs)
                    finished[-1].append(add_agent_regret(record, task))
        except MemoryError as error:
            raise InputError(
                f"{setup.network.num_agents} agents for {setup.horizon} rounds do not fit into "
                f"memory ({error}); use a smaller horizon or graph, or keep less"
            ) from error
        except KeyboardInterrupt:
            pass  # what is complete is handed over below, with the interruption
    seconds = time.perf_counter() - started
    # The batches that all policies finished, or else the first one, of the policies that did.
    batches, ended = [batch for batch in finished if len(batch) == len(tasks)], len(tasks)
    if not batches and finished and finished[0]:
        batches, ended = finished[:1], len(finished[0])
    kept = sum(batch[0].messages.size for batch in batches)
    names = [engine.name for engine in engines]
    result = label(tasks[:ended], batches, names[:ended], seconds) if kept else None
    everyone = ended == len(tasks)
    if kept < setup.runs or not everyone or result is None:
        raise SimulationInterrupted(result, kept, setup.runs, all_policies=everyone)
    return result


def plan(setup: Setup, policies: Policies) -> dict[str, Any]:
    """Return the settings that the result of `play` will have, without playing."""
    return settings(setup, [task.given for task in _tasks(setup, policies)])


def _batches(tasks: list[Task], engines: list[Engine], threads: int | None) -> Iterator[range]:
    """Split the runs into batches that are played together; results do not depend on how.

    Later ones are as long as the time of the last one suggests.
    """
    setup = tasks[0].setup
    pulls_of_run = setup.network.num_agents * setup.horizon
    most_pulls = min(getattr(engine, "batch_pulls", BATCH_PULLS) for engine in engines)
    most = most_pulls // pulls_of_run
    for engine, task in zip(engines, tasks, strict=True):
        needed = engine.run_bytes(task)
        most = 1 if needed is None else min(most, BATCH_BYTES // needed)
    most = max(1, most)
    least = min(most, threads or os.cpu_count() or 1)
    size = min(most, max(least, most_pulls // (FIRST_SHARE * len(tasks) * pulls_of_run)))
    start = 0
    while start < tasks[0].num_runs:
        began = time.perf_counter()
        yield range(start, min(start + size, tasks[0].num_runs))
        start += size
        fitting = BATCH_SECONDS / max(time.perf_counter() - began, 1e-9) * size
        size = max(least, int(min(most, fitting, GROWTH * size)))


def read_policy(given: Any) -> AnyPolicy:
    """Return a policy, parsed if given as text."""
    policy = parse_policy(given) if isinstance(given, str) else given
    if not isinstance(policy, AnyPolicy):
        raise InputError(f"{policy!r} is no policy; give instances such as cb.DDUCB(), or names")
    return policy


def _tasks(setup: Setup, policies: Policies) -> list[Task]:
    if not isinstance(policies, AnyPolicy | Iterable):
        raise InputError(f"policies is {policies!r}; give instances such as cb.DDUCB(), or names")
    given = [policies] if isinstance(policies, AnyPolicy | str) else list(policies)
    if not given:
        raise InputError("no policy was given; give at least one, such as cb.DDUCB()")
    chosen = [read_policy(each) for each in given]
    spellings = [policy.spelling for policy in chosen]
    for spelling in spellings:
        if spellings.count(spelling) > 1:
            raise InputError(f"policy {spelling} was given twice; give each once")
    return [Task(setup, policy) for policy in chosen]
