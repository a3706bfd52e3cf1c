"""Features, rewards and accounts of linear bandits, for the kernels that play them."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.draws import Words
from coopbandits.core.errors import InputError
from coopbandits.core.policy import Parts
from coopbandits.core.statistic import Registers
from coopbandits.problems.linear import LinearBandit
from coopbandits.problems.tables import BEST, NETWORK_GAP, OWN_GAP
from coopbandits.sim.cpu.booking import keep_worst
from coopbandits.sim.cpu.choice_forms import MEMORY, TROUBLE
from coopbandits.sim.cpu.choices import compiled_linear_choice
from coopbandits.sim.cpu.compiling import inner
from coopbandits.sim.cpu.leaves import normal, uniform, word_at
from coopbandits.sim.cpu.runs import TROUBLES, Rule, index_numbers
from coopbandits.sim.cpu.world import make_tally, make_world, write_record
from coopbandits.sim.record import Record, Task, Tick
from coopbandits.sim.tapes import CONTEXTS, keys_of_runs

Floats = NDArray[np.float64]

SPHERE, GAUSSIAN, TABLE = range(3)
KINDS = {"sphere": SPHERE, "gaussian": GAUSSIAN, "table": TABLE}


class Scene(NamedTuple):
    """What features are drawn of, as in `Features`, and what they are worth.

    `theta` (table, model, d) has the coefficients of every group and segment, in the order of
    `Tables.theta`; `common` (segment, model, d) are the network's averages, empty where there is
    one group. `order` (run, place) is the arm at every place, `allowed` (agent, place) is 1 where
    an agent may play it, empty where all may play all. `models` is how many an agent has, 0 where
    its statistic looks at no features, and `nonnegative` says which registers are never negative.
    `room` is where features begin in the scratch of a choice, and `regrets` (run, agent, round)
    keeps every agent's, where that is asked for.
    """

    kind: int
    rows: int
    words: int
    table: Floats
    theta: Floats
    common: Floats
    allowed: Floats
    nonnegative: NDArray[np.bool_]
    sigma: float
    order: NDArray[np.int64]
    keys: Words
    size: int
    models: int
    room: int
    regrets: Floats
    pulls: NDArray[np.int64]


class LinearRuns:
    """Some runs of one task in progress; see `Runs`, which is for sums per arm."""

    def __init__(self, parts: Parts, task: Task, runs: range, tick: Tick) -> None:
        self.parts, self.task, self.tick, self.done = parts, task, tick, 0
        registers = parts.registers(task.problem.num_arms, task.num_features)
        self.shape = (len(runs), task.network.num_agents, registers.size)
        self.masks = task.tables.masks(task.arm_order(runs[0]))
        self.choice = compiled_linear_choice(
            parts.index, registers.one_context, is_masked=self.masks is not None
        )
        self.world, self.record = make_world(task, runs), Record.empty(task, len(runs))
        self.tally = make_tally(task, self.world)
        self.memory = np.zeros((*self.shape[:2], MEMORY))
        self.numbers = index_numbers(parts, task)
        self.scene = make_scene(task, runs, registers, self.record)

    def rule(self) -> tuple[Rule, Floats]:
        """Return the compiled choice, and the index's numbers per agent or one row for all."""
        numbers, arms = self.numbers, self.task.problem.num_arms
        if self.masks is not None:
            each = np.broadcast_to(numbers, (self.shape[1], numbers.shape[1]))
            numbers = np.ascontiguousarray(np.concatenate([self.masks, each], axis=1))
        rule = Rule(
            self.choice.address, numbers.shape[1] if len(numbers) > 1 else 0, arms,
            self.scene.size, self.scene.room, self.parts.index.random, self.masks is not None,
            stopping=False,
        )  # fmt: skip
        return rule, numbers

    def played(self, rounds: int) -> None:
        """Advance by some rounds; raise if a choice failed in them."""
        trouble = float(self.memory[..., TROUBLE].max(initial=0.0))
        if trouble > 0.0:
            raise InputError(f"index {self.parts.index.spelling} {TROUBLES[trouble]}")
        self.done += rounds
        self.tick(rounds * self.shape[0] * self.shape[1])

    def finish(self, messages: NDArray[np.int64]) -> Record:
        """Return the record, with the messages (run, recorded round, 4) as `Runs.finish` does."""
        totals = messages.cumsum(axis=1)
        self.record.values[:] = totals[:, :, 0]
        for at, name in enumerate(("messages", "delivered", "lost"), start=1):
            getattr(self.record, name)[:] = totals[:, -1, at]
        write_record(self.tally, self.record)
        return self.record


def make_scene(
    task: Task, runs: range, registers: Registers, record: Record, room: int = 0
) -> Scene:
    """Return the features of some runs, for agents with these registers.

    `room` is the scratch of a choice that looks at no features.
    """
    size, arms, tables = task.problem.num_features, task.problem.num_arms, task.tables
    linear = cast("LinearBandit", getattr(task.problem, "base", task.problem))
    features, theta = linear.features, cast("Floats", tables.theta)  # there is one in context
    models = 0 if registers.num_features == 0 else arms if registers.one_context else 1
    common = tables.averaged(theta) if len(theta) > 1 else theta[0, :0]
    masks = tables.masks(task.arm_order(runs[0]))
    thetas = -1, arms if theta.ndim == 4 else 1, size
    return Scene(
        kind=KINDS[features.kind],
        rows=features.rows,
        words=features.words,
        table=features.table,
        theta=theta.reshape(thetas).copy(),
        common=common.reshape(thetas).copy() if common.size else np.zeros((0, 1, size)),
        allowed=np.zeros((0, arms)) if masks is None else masks,
        nonnegative=registers.nonnegative,
        sigma=task.sigma,
        order=np.stack([task.arm_order(run) for run in runs]),
        keys=keys_of_runs(task.seed, CONTEXTS, runs, task.network.num_agents),
        size=size,
        models=models,
        room=models * (size + 1) ** 2 + arms if models else room,
        regrets=record.agent_regret,
        pulls=record.agent_pulls,
    )


@inner
def look_around(scene: Any, run: int, done: int, cubics: Any, scratch: Any, means: Any) -> None:
    """Draw the features of all agents into the scratch of the choice, and what arms then pay."""
    for agent in range(means.shape[0]):
        look(scene, run, agent, done, cubics, scratch)
        expect(scene, run, agent, scene.theta, 0, scratch, means)


@inner
def look(scene: Any, run: int, agent: int, done: int, cubics: Any, scratch: Any) -> None:
    """Draw the features that one agent sees at its pull number `done`, for all arms."""
    num_arms, size = scene.order.shape[1], scene.size
    for k in range(num_arms):
        at = scene.room + (agent * num_arms + k) * size
        if scene.rows == 1 and k > 0:
            for j in range(size):
                scratch[at + j] = scratch[at - size + j]
        else:
            draw(scene, scene.keys[run, agent], done, scene.order[run, k], cubics, scratch, at)


@inner
def expect(
    scene: Any, run: int, agent: int, theta: Any, table: int, scratch: Any, means: Any
) -> None:
    """Write what arms pay an agent on average, in the context that it sees."""
    num_arms, size = scene.order.shape[1], scene.size
    for k in range(num_arms):
        at = scene.room + (agent * num_arms + k) * size
        model, mean = scene.order[run, k] if theta.shape[1] > 1 else 0, 0.0
        for j in range(size):
            mean += scratch[at + j] * theta[table, model, j]
        means[agent, k] = mean


@inner
def draw(scene: Any, key: Any, done: int, arm: int, cubics: Any, scratch: Any, at: int) -> None:
    """Draw the features of one arm, or of all where they share them."""
    row, size = arm if scene.rows > 1 else 0, scene.size
    if scene.kind == TABLE:
        place = row if scene.words > 1 else 0
        u = uniform(word_at(key, done * scene.words + place))
        entry = min(int(u * scene.table.shape[0]), scene.table.shape[0] - 1)
        for j in range(size):
            scratch[at + j] = scene.table[entry, row if scene.table.shape[1] > 1 else 0, j]
        return
    first, length = done * scene.words + row * size, 0.0
    for j in range(size):
        x = normal(word_at(key, first + j), cubics)
        scratch[at + j] = x
        length += x * x
    if scene.kind == SPHERE:
        shrunk = 1.0 / np.sqrt(length)
        for j in range(size):
            scratch[at + j] *= shrunk


@inner
def write_pull(pulls: Any, agent: int, xs: Any, at: int, size: int, reward: float) -> None:
    """Write what a pull adds to the registers of its model; its features begin at `at`."""
    place = size
    for i in range(size):
        x = xs[at + i]
        pulls[agent, i] = reward * x
        for j in range(i, size):
            pulls[agent, place] = x * xs[at + j]
            place += 1
    pulls[agent, place] = 1.0


@inner
def add_pull(rows: Any, agent: int, arm: int, models: int, pulls: Any, other: int) -> None:
    """Add somebody's pull of an arm to an agent's registers."""
    width = np.uintp(pulls.shape[1])  # unsigned: nothing counts from the end
    row, source = np.uintp(agent), np.uintp(other)
    first = np.uintp(arm) * width if models > 1 else np.uintp(0)
    for i in range(width):
        rows[row, first + i] += pulls[source, i]


@inner
def book_pull(
    scene: Any, tally: Any, run: int, block: int, slot: int, done: int, agent: int, arm: int,
    reward: float, means: Any,
) -> None:  # fmt: skip
    """Enter what a pull paid and cost."""
    best = means[agent, 0]
    for k in range(1, means.shape[1]):
        best = max(best, means[agent, k])
    gap, at = best - means[agent, arm], agent // block
    tally.counts[run, at, slot, arm] += 1
    tally.rewards[run, at, slot] += reward
    tally.costs[run, at, slot, OWN_GAP] += gap
    tally.costs[run, at, slot, NETWORK_GAP] += gap
    tally.costs[run, at, slot, BEST] += best
    tally.regrets[run, agent] += gap
    if tally.arms.shape[2] > 0:
        tally.arms[run, agent, done] = arm
    if scene.pulls.shape[1] > 0:
        scene.pulls[run, agent, arm] += 1


@inner
def note_regrets(scene: Any, tally: Any, run: int, block: int, slot: int) -> None:
    """Keep regrets at the end of a recorded round."""
    for agent in range(tally.regrets.shape[1]):
        keep_worst(tally.worst[run, agent // block], slot, tally.regrets[run, agent])
        if scene.regrets.shape[1] > 0:
            scene.regrets[run, agent, slot] = tally.regrets[run, agent]
