"""Staged mixing, and own sums: agents play alone for many rounds, then a stage is mixed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.choice import NO_INFORMATION
from coopbandits.core.policy import Parts
from coopbandits.sim.cpu.pulls import Reading
from coopbandits.sim.cpu.runs import explorations_of, most_rounds
from coopbandits.sim.cpu.staged import StageOperator, Stages
from coopbandits.sim.gpu.backend import Backend, Launch
from coopbandits.sim.gpu.runs import (
    DeviceRuns,
    discount_of,
    links_there,
    passed_of,
    units_of_the_end,
)
from coopbandits.sim.record import Record, Task, Tick

RESIDENT = {8: 384, 4: 640}
"""Agents that a multiprocessor is to hold at a time, by the bytes of a real number: more of them
have fewer registers each."""

BLOCK = 64
"""Threads of a block of `play`; 32 where many arms take much memory. With larger blocks the last
ones of a launch leave more of the device idle."""

NEAR = 8
"""Variates an agent makes at a time: the more, the fewer lanes idle while others make tails."""

MOST_SHARED = 100_000
"""Bytes of shared memory that a block of 64 may take."""

MOST_BOOKED = 64
"""Arms of which an agent remembers, in a word, whether it has written over them."""

SPAN_PULLS = 200_000_000
"""Pulls between two reports of progress, where a stage never ends."""


def play_local(parts: Parts, task: Task, runs: range, tick: Tick, backend: Backend) -> Record:
    """Play some runs on own sums: one stage that never ends, in spans."""
    times = np.maximum(2.0, passed_of(parts, task.horizon))
    most = max(1, SPAN_PULLS // (len(runs) * task.network.num_agents))
    most = min(most, most_rounds(discount_of(parts)))
    spans = [(first, min(most, task.horizon - first)) for first in range(0, task.horizon, most)]
    state = DeviceRuns(parts, task, runs, tick, backend, lambda: spans)
    player = Player(state, times, 1.0, task.horizon)
    fresh = state.registers()
    reading = Reading(own_pulls=True, weight=1.0, least=NO_INFORMATION, num_agents=1.0)
    for number in range(len(spans)):
        player.play(number, fresh, fresh, 1.0, reading)
    return state.finish()


def play_staged(parts: Parts, task: Task, runs: range, tick: Tick, backend: Backend) -> Record:
    return DeviceStages(parts, task, runs, tick, backend).play()


class Player:
    """Lets all agents play a span, by a bonus or by any index."""

    def __init__(
        self, state: DeviceRuns, times: NDArray[np.float64], num_agents: float, stage: int
    ) -> None:
        self.state = state
        found = None
        if state.discount == 1.0:
            found = explorations_of(state.parts, state.task, times, num_agents, stage)
        self.levels = state.upload(times if found is None else found)
        self.step = state.real.itemsize  # totals, variates and ledger:
        variates = 0 if found is None else NEAR
        each = self.step * (2 * state.num_arms + variates) + 8 * state.lines
        self.block = BLOCK if each * BLOCK <= MOST_SHARED else 32
        self.shared = each * self.block
        constants = state.constants(
            BLOCK=self.block, RESIDENT=RESIDENT[self.step] // self.block, NEAR=NEAR,
            HAS_BONUS=int(found is not None),
        )  # fmt: skip
        self.kernels = state.compiled(("play.cu",), constants)
        groups = -(-state.num_runs // 32)
        self.live_shape = (state.num_arms, groups)
        self.is_anew = False
        self.readings: dict[tuple[Reading, float], Any] = {}
        self.live = self.new_live()

    def new_live(self) -> Any:
        """Return flags for arms that some agent pulled, by groups of 32 runs."""
        return self.state.backend.zeros(self.live_shape, np.int32)

    def play(self, number: int, read: Any, fresh: Any, factor: float, reading: Reading) -> None:
        """Play one span, on `factor` times what is read; new pulls are added to the fresh ones."""
        state = self.state
        if (reading, factor) not in self.readings:
            told = [factor, reading.weight, reading.least, reading.num_agents]
            whole = np.array([reading.own_pulls, self.is_anew], np.int64).view(np.float64)
            self.readings[reading, factor] = state.backend.upload(np.append(told, whole))
        size = Launch(-(-state.everywhere // self.block), 1, self.block, self.shared)
        self.kernels.launch(
            "play", size, state.world, state.tally, state.spans.address(number), read, fresh,
            self.levels.address + self.step * int(state.spans.firsts[number]),
            self.readings[reading, factor], state.numbers_there, self.live,
        )  # fmt: skip
        state.played(number)


class DeviceStages:
    """The pipeline of `sim.cpu.staged.Stages`, whose numbers it takes, on a device."""

    def __init__(self, parts: Parts, task: Task, runs: range, tick: Tick, backend: Backend) -> None:
        registers = parts.statistic.registers(task.problem.num_arms)
        shape = (0, task.network.num_agents, registers.size)
        # What is never played there takes no memory: of the CPU engine only its numbers are used.
        numbers: Any = SimpleNamespace(
            task=task,
            parts=parts,
            shape=shape,
            discount=discount_of(parts),
            record=Record.empty(task, 1),
        )
        self.stages = Stages(numbers)
        self.shared, self.reading = self.stages.shared, self.stages.reading
        self.state = DeviceRuns(parts, task, runs, tick, backend, self._spans, units_of_the_end)
        self.player = Player(
            self.state, self.stages.times, self.reading.num_agents, self.stages.stage_rounds
        )
        self.fresh, self.in_flight = self.state.registers(), self.state.registers()
        self.accumulated = self.state.registers()
        self.live_in_flight = self.player.new_live()
        self.mixer = Mixer(self.state, self.stages.operator)
        self.player.is_anew = self.mixer.leaves_values
        if self.stages.spec.remix:
            self.remixer = Mixer(self.state, self.stages.remix)

    def _spans(self) -> list[tuple[int, int]]:
        horizon, task = self.stages.state.task.horizon, self.stages.state.task
        initial, stage = min(task.problem.num_arms, horizon), self.stages.stage_rounds
        starts = range(initial, horizon, stage)
        return [(0, initial), *((first, min(stage, horizon - first)) for first in starts)]

    def play(self) -> Record:
        state, player = self.state, self.player
        last = len(state.spans.rounds) - 1
        at_once = self.reading._replace(own_pulls=True)
        player.play(0, self.accumulated, self.fresh, 0.0, at_once)
        for number in range(1, last + 1):
            self._pass_on()
            self._age(int(state.spans.rounds[number]))
            is_first = number == 1
            read = self.in_flight if is_first else self.accumulated
            factor = self.reading.weight if is_first else float(self.shared.fewest_agents)
            player.play(number, read, self.fresh, factor, self.reading)
            if number < last:
                self._end_stage()
        self.stages.count_values()
        sent = self.stages.state.record
        return state.finish(sent.values[0], int(sent.messages[0]))

    def _pass_on(self) -> None:
        """Put what is fresh in flight; what was there has been mixed, and is cleared."""
        self.fresh, self.in_flight = self.in_flight, self.fresh
        self.player.live, self.live_in_flight = self.live_in_flight, self.player.live
        self.state.backend.clear(self.player.live, 0, self.player.live.nbytes)

    def _age(self, rounds: int) -> None:
        """Bring what is remembered to the units of a stage: those of its end."""
        if (factor := self.state.discount**rounds) != 1.0:
            for values in (self.accumulated, self.in_flight):
                self.mixer.scale(values, factor)

    def _end_stage(self) -> None:
        if self.stages.spec.remix:
            self.accumulated = self.remixer.apply(self.accumulated)
        self.mixer.add_to(self.accumulated, self.in_flight, self.live_in_flight)


class Mixer:
    """A `StageOperator` on the device."""

    def __init__(self, state: DeviceRuns, operator: StageOperator) -> None:
        self.state, self.operator = state, operator
        degree = 0
        self.tiles = -(-state.num_agents // 128)
        wide = 16 // state.real.itemsize  # factors that are read at a time
        self.warps = 16 // wide
        self.each = wide * -(-state.num_agents // (16 * self.tiles))  # agents of a warp
        if operator.dense is not None:
            self.dense = state.upload(operator.dense)
        else:
            self.spare = state.registers()
            degree, self.links = links_there(state, operator.matrix)
        # Agents then write over all arms; where few are alive, clearing those takes less.
        self.leaves_values = operator.dense is not None and state.num_arms <= MOST_BOOKED
        self.lists: dict[tuple[int, ...], Any] = {}
        self.kernels = state.compiled(
            ("mix.cu",),
            state.constants(DEGREE=degree, WARPS=self.warps, EACH=self.each, HAS_BONUS=1),
        )

    def add_to(self, accumulated: Any, values: Any, live: Any) -> None:
        """Add the mixed values to `accumulated`; clears `values`, or leaves them as they are."""
        state, backend = self.state, self.state.backend
        if self.operator.dense is not None:
            groups = -(-state.num_runs // 32)
            shared = state.real.itemsize * 16 * (2 * 32 + self.warps * self.each)
            size = Launch(groups * self.tiles, state.num_arms, 32 * self.warps, shared)
            self.kernels.launch(
                "mix_dense", size, self.dense, values, accumulated, live, state.num_agents,
                state.num_runs,
            )  # fmt: skip
            if not self.leaves_values:
                backend.clear(values, 0, values.nbytes)
            return
        alive = np.flatnonzero(backend.download(live).any(axis=1))
        self._step_through(alive, values, accumulated)
        slab = values.nbytes // state.num_arms
        for arm in alive.tolist():
            backend.clear(values, arm * slab, slab)

    def apply(self, values: Any) -> Any:
        """Return the mixed values; may take the place of the spare ones."""
        if self.operator.dense is not None:
            mixed = self.state.registers()
            everyone = self.state.backend.upload(
                np.ones((self.state.num_arms, -(-self.state.num_runs // 32)), np.int32)
            )
            self.add_to(mixed, values, everyone)
            return mixed
        mixed, self.spare = self._step_through(np.arange(self.state.num_arms), values, None)
        return mixed

    def scale(self, values: Any, factor: float) -> None:
        size = self.state.num_arms * self.state.everywhere
        self.kernels.launch("scale", Launch(-(-size // 128), 1, 128), values, size, factor)

    def _listed(self, arms: tuple[int, ...]) -> Any:
        """Return a list of arms on the device; mostly there are few different ones."""
        if arms not in self.lists:
            self.lists[arms] = self.state.backend.upload(np.array(arms, dtype=np.int32))
        return self.lists[arms]

    def _step_through(self, alive: NDArray[Any], values: Any, accumulated: Any) -> tuple[Any, Any]:
        """Make all steps with some arms; returns where the result is, and the other array."""
        state, operator = self.state, self.operator
        there = self._listed(tuple(alive.tolist()))
        size = Launch(-(-state.everywhere // 128), alive.size, 128)
        before, rho = self.spare, 0.0
        for step in range(operator.steps):
            lead, drop = 1.0, 0.0
            if operator.lambda_bound:
                factor = (2.0 if rho else 1.0) / operator.lambda_bound
                rho, old = 1.0 / (factor - rho), rho
                lead, drop = rho * factor, rho * old
            is_last = step + 1 == operator.steps and accumulated is not None
            self.kernels.launch(
                "mix_sparse", size, *self.links, values, before, accumulated or values, there,
                state.num_agents, state.num_runs, lead, drop, np.int32(is_last),
            )  # fmt: skip
            values, before = before, values
        return values, before
