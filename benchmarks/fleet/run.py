"""The benchmark of agents: its settings, its rows, and their targets.

A ring of agents on one machine, beside a bare ping-pong over the same transport (`ping_pong`). The
cost of a round is CPU time, not wall-clock time, since processes share the machine's cores. Of
several windows the cheapest counts, and of several timings the smallest, since other programs may
run too; of restarts the median counts. Load over HTTP is put on one agent alone (`serving`).
"""

from __future__ import annotations

import asyncio
import json
import shutil
import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.fleet import fleets
from benchmarks.fleet.bandits import Shape, time_bandits
from benchmarks.fleet.load import NO_WRK
from benchmarks.fleet.ping_pong import Seat, ping_pong
from benchmarks.fleet.processes import Window, require_proc
from benchmarks.fleet.rows import HEADER, Row, cells
from benchmarks.fleet.servers import BANDIT, Version, agent
from benchmarks.fleet.serving import Serving, time_load
from coopbandits.core.statistic import ArmSums
from coopbandits.fleet.local.agents import HOST, prepared
from coopbandits.fleet.local.settings import Settings
from coopbandits.network import Network
from coopbandits.problems import BernoulliBandit
from coopbandits.results.statistics import columns

FREE = 1e6
"""A pace that no agent can keep, so that rounds follow each other without a pause."""

COST = {False: 250.0, True: 150.0}
"""Target microseconds per agent-round, without and with uvloop."""

FEATURES = 20
"""How many numbers are told of a request, where features are timed."""

LOOPS = {False: "asyncio", True: "uvloop"}


@dataclass(frozen=True)
class Case:
    """A policy, the pace of its rounds, and that of the applications beside the agents."""

    policy: str
    rounds_per_second: float
    pulls_per_second: float = 0.0

    @property
    def words(self) -> str:
        """The case as the table shows it."""
        free = self.rounds_per_second >= FREE
        pace = "free" if free else f"{self.rounds_per_second:g}/s"
        pulls = f", {self.pulls_per_second:g} pulls/s" if self.pulls_per_second else ""
        return f"{self.policy}, {pace}{pulls}"


@dataclass(frozen=True)
class Plan:
    """Settings of the benchmark.

    Attributes
    ----------
    num_agents, num_arms : int
        N, on a ring, and K.
    windows, seconds : int and float
        Number of measurements of the cost of a round, and the length of each.
    calls : int
        Choices per timing of `choose`.
    repeats : int
        Timings of `choose`, and of restarts.
    cases : tuple of Case
        What to measure; the first policy must not wait for neighbours. Floods end rounds only
        while there are pulls.
    loops : tuple of bool
        Without uvloop, and with it.
    serving : Serving
        Load over HTTP.
    shape : Shape
        Several bandits in one agent.
    beside : Path or None
        A source tree or a Python with another version, which is put under the same load in turn.
    """

    num_agents: int = 8
    num_arms: int = 17
    windows: int = 4
    seconds: float = 3.0
    calls: int = 1000
    repeats: int = 5
    cases: tuple[Case, ...] = (
        Case("flood-ts", 200.0, 20.0),
        Case("tree-ts", 200.0),
        Case("tree-ts", FREE),
        Case("dec-ts", FREE),
        Case("dducb", FREE),
    )
    loops: tuple[bool, ...] = (False, True)
    serving: Serving = field(default_factory=Serving)
    shape: Shape = field(default_factory=Shape)
    beside: Path | None = None

    @property
    def parts(self) -> int:
        """How many parts `run_bench` yields."""
        return (2 + len(self.cases)) * len(self.loops) + 3 + self.serving.parts

    def settings(self, case: Case, *, uvloop: bool) -> Settings:
        """Return the fleet of a case."""
        return Settings(
            Network.from_spec(f"cycle:{self.num_agents}", weights="metropolis"),
            BernoulliBandit([0.6] + [0.4] * (self.num_arms - 1)),
            case.policy,
            rounds_per_second=case.rounds_per_second,
            pulls_per_second=case.pulls_per_second or 1.0,
            uvloop=uvloop,
        )


PLAN = Plan()


def run_bench(plan: Plan = PLAN) -> Iterator[list[Row]]:
    """Yield the rows, part by part."""
    require_proc()
    bare = {}
    for uvloop in plan.loops:
        windows = play_bare(plan, uvloop=uvloop)
        bare[uvloop] = cheapest = min(windows, key=lambda window: window.cost)
        yield cost_rows("bare ping-pong", uvloop, windows, cheapest.cost)
    pace = plan.cases[0].rounds_per_second
    for uvloop in plan.loops:
        windows = play_bare(plan, uvloop=uvloop, pace=pace)
        yield cost_rows(f"bare ping-pong, {pace:g}/s", uvloop, windows, bare[uvloop].cost)
    for case in plan.cases:
        for uvloop in plan.loops:
            yield asyncio.run(time_rounds(plan, case, uvloop=uvloop, bare=bare[uvloop].cost))
    yield asyncio.run(time_service(plan))
    yield asyncio.run(time_features(plan))
    yield time_bandits(plan.shape)
    yield from time_load(plan.serving, plan.beside)


def play_bare(plan: Plan, *, uvloop: bool, pace: float = 0.0) -> list[Window]:
    """Play ping-pong with the messages that most policies send, 2K values each."""
    settings = plan.settings(plan.cases[0], uvloop=uvloop)
    values = ArmSums().registers(plan.num_arms).size
    with (
        TemporaryDirectory(prefix="coopbandits-") as folder,
        prepared(Path(folder), settings) as places,
    ):
        rest = Path(folder) / "certificates", uvloop, values, plan.windows, plan.seconds, pace
        return ping_pong([
            Seat(
                place.id,
                place.listen,
                {places[j].id: places[j].listen for j in settings.network.neighbors(agent)},
                *rest,
            )
            for agent, place in enumerate(places)
        ])  # fmt: skip


def cost_rows(what: str, uvloop: bool, windows: list[Window], bare: float) -> list[Row]:
    """Return the rows for the cost of a round and for the pace."""
    cost, loop = min(window.cost for window in windows), LOOPS[uvloop]
    target = None if what.startswith("bare") else COST[uvloop]
    return [
        Row(f"{what}: computing per agent-round", loop, cost, "µs", target, ratio=cost / bare),
        Row(f"{what}: pace", loop, max(window.pace for window in windows), "rounds/s"),
    ]


async def time_rounds(plan: Plan, case: Case, *, uvloop: bool, bare: float) -> list[Row]:
    """Measure rounds; in the first case, where no agent waits, also with one agent dead."""
    settings, pulling = plan.settings(case, uvloop=uvloop), case.pulls_per_second > 0.0
    async with fleets.standing(settings, pulling=pulling) as stage:
        members = stage.members.all
        windows = [await fleets.watch(members, plan.seconds) for _ in range(plan.windows)]
        rows = cost_rows(case.words, uvloop, windows, bare)
        rows.append(
            Row(f"{case.words}: memory", LOOPS[uvloop], fleets.megabytes(members), "MB", 80.0)
        )
        if case is plan.cases[0]:
            await members[0].kill()
            left = await fleets.watch(members[1:], plan.seconds)
            before = statistics.median(window.pace for window in windows)
            what = f"{case.words}: pace with a dead agent, over before"
            rows.append(Row(what, LOOPS[uvloop], left.pace / before, "", 0.95, rising=True))
    return rows


async def time_service(plan: Plan) -> list[Row]:
    """Measure the latency of answers and the time to restart after a kill, at 20 rounds/s."""
    case, loop = Case("flood-ts", 20.0), LOOPS[False]
    async with fleets.standing(plan.settings(case, uvloop=False), pulling=False) as stage:
        first, *others = stage.members.all
        found = [
            await fleets.time_choices(first.place.api, plan.calls) for _ in range(plan.repeats)
        ]
        back = [
            await fleets.time_restart(stage, others[k % len(others)]) for k in range(plan.repeats)
        ]
    return [
        Row(f"{case.words}: choose, median", loop, min(each.p50 for each in found), "ms"),
        Row(f"{case.words}: choose, 99th percentile", loop, min(e.p99 for e in found), "ms", 1.0),
        Row(f"{case.words}: killed, to first round", loop, statistics.median(back), "s", 1.0),
    ]


async def time_features(plan: Plan) -> list[Row]:
    """Measure the latency of choices with features, by one agent, a model of each arm."""
    features = {f"x{k}": (0.0, 1.0) for k in range(FEATURES)}
    context = {name: (k + 0.5) / FEATURES for k, name in enumerate(features)}
    body = json.dumps({"context": context}).encode()
    with agent(Version(), "process", plan.num_arms, features) as server:
        api = f"{HOST}:{server.port}"
        found = [
            await fleets.time_choices(api, plan.calls, body, BANDIT) for _ in range(plan.repeats)
        ]
    what, loop = f"one agent, {FEATURES} features: choose", LOOPS[False]
    return [
        Row(f"{what}, median", loop, min(each.p50 for each in found), "ms"),
        Row(f"{what}, 99th percentile", loop, min(each.p99 for each in found), "ms", 1.5),
    ]


def table(rows: list[Row], plan: Plan = PLAN) -> str:
    """Return the table as text."""
    title = f"real agents: a ring of {plan.num_agents}, {plan.num_arms} arms, mutual TLS"
    lines = columns([HEADER, *map(cells, rows)], left=(0, 1, 3))
    notes = [] if shutil.which("wrk") else ["", NO_WRK]
    return "\n".join([title, "", *(line.rstrip() for line in lines), *notes])
