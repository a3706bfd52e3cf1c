"""Linear models on a flood of totals in which nothing fails.

What an agent knows of another is as old as it is far away, so no entry is kept: in every round an
agent adds the pull that reaches it now from every other, by a table of who is how far away. What
messages say of whom does not depend on what is added up; so they are counted by the kernel of the
plain flood, which plays nothing but that.
"""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.aggregate import FloodedTotals
from coopbandits.core.aggregate.entries import HEADER
from coopbandits.core.draws import Words
from coopbandits.core.errors import InputError
from coopbandits.core.index import UCB
from coopbandits.core.policy import Parts, combine
from coopbandits.core.statistic import Registers
from coopbandits.problems import GaussianBandit
from coopbandits.problems.linear import LinearBandit
from coopbandits.problems.tables import BEST, NETWORK_GAP, OWN_GAP
from coopbandits.sim.cpu.choice_forms import AGENTS, AHEAD, CONTEXT, FACTOR, MEMORY, TIME, TROUBLE
from coopbandits.sim.cpu.choices import choose, compiled_linear_choice
from coopbandits.sim.cpu.compiling import for_threads, inner
from coopbandits.sim.cpu.flood import play_together
from coopbandits.sim.cpu.flooding import find_balls
from coopbandits.sim.cpu.launch import launch
from coopbandits.sim.cpu.leaves import count_up_to, normal, uniform, variate, word_at
from coopbandits.sim.cpu.runs import TROUBLES, Rule, index_numbers
from coopbandits.sim.cpu.world import enter, keep_worst, make_tally, make_world, span, write_record
from coopbandits.sim.record import Record, Task, Tick
from coopbandits.sim.setup import Setup
from coopbandits.sim.tapes import CONTEXTS, keys_of_runs

Floats = NDArray[np.float64]

SPHERE, GAUSSIAN, TABLE = range(3)
KINDS = {"sphere": SPHERE, "gaussian": GAUSSIAN, "table": TABLE}


class LinearWorld(NamedTuple):
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
        self.linear = make_linear_world(task, runs, registers, self.record)

    def rule(self) -> tuple[Rule, Floats]:
        """Return the compiled choice, and the index's numbers per agent or one row for all."""
        numbers, arms = self.numbers, self.task.problem.num_arms
        if self.masks is not None:
            each = np.broadcast_to(numbers, (self.shape[1], numbers.shape[1]))
            numbers = np.ascontiguousarray(np.concatenate([self.masks, each], axis=1))
        rule = Rule(
            self.choice.address, numbers.shape[1] if len(numbers) > 1 else 0, arms,
            self.linear.size, self.linear.room, self.parts.index.random, self.masks is not None,
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


def make_linear_world(
    task: Task, runs: range, registers: Registers, record: Record, room: int = 0
) -> LinearWorld:
    """Return the features of some runs, for agents with these registers.

    `room` is the scratch of a choice that looks at no features.
    """
    size, arms, tables = task.problem.num_features, task.problem.num_arms, task.tables
    bandit = cast("LinearBandit", getattr(task.problem, "base", task.problem))
    features, theta = bandit.features, cast("Floats", tables.theta)  # there is one in context
    models = 0 if registers.num_features == 0 else arms if registers.one_context else 1
    common = tables.averaged(theta) if len(theta) > 1 else theta[0, :0]
    masks = tables.masks(task.arm_order(runs[0]))
    thetas = -1, arms if theta.ndim == 4 else 1, size
    return LinearWorld(
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
def look_around(linear: Any, run: int, done: int, cubics: Any, scratch: Any, means: Any) -> None:
    """Draw the features of all agents into the scratch of the choice, and what arms then pay."""
    for agent in range(means.shape[0]):
        look(linear, run, agent, done, cubics, scratch)
        expect(linear, run, agent, linear.theta, 0, scratch, means)


@inner
def look(linear: Any, run: int, agent: int, done: int, cubics: Any, scratch: Any) -> None:
    """Draw the features that one agent sees at its pull number `done`, for all arms."""
    num_arms, size = linear.order.shape[1], linear.size
    for k in range(num_arms):
        at = linear.room + (agent * num_arms + k) * size
        if linear.rows == 1 and k > 0:
            for j in range(size):
                scratch[at + j] = scratch[at - size + j]
        else:
            draw(linear, linear.keys[run, agent], done, linear.order[run, k], cubics, scratch, at)


@inner
def expect(
    linear: Any, run: int, agent: int, theta: Any, table: int, scratch: Any, means: Any
) -> None:
    """Write what arms pay an agent on average, in the context that it sees."""
    num_arms, size = linear.order.shape[1], linear.size
    for k in range(num_arms):
        at = linear.room + (agent * num_arms + k) * size
        model, mean = linear.order[run, k] if theta.shape[1] > 1 else 0, 0.0
        for j in range(size):
            mean += scratch[at + j] * theta[table, model, j]
        means[agent, k] = mean


@inner
def draw(linear: Any, key: Any, done: int, arm: int, cubics: Any, scratch: Any, at: int) -> None:
    """Draw the features of one arm, or of all where they share them."""
    row, size = arm if linear.rows > 1 else 0, linear.size
    if linear.kind == TABLE:
        place = row if linear.words > 1 else 0
        u = uniform(word_at(key, done * linear.words + place))
        entry = min(int(u * linear.table.shape[0]), linear.table.shape[0] - 1)
        for j in range(size):
            scratch[at + j] = linear.table[entry, row if linear.table.shape[1] > 1 else 0, j]
        return
    first, length = done * linear.words + row * size, 0.0
    for j in range(size):
        x = normal(word_at(key, first + j), cubics)
        scratch[at + j] = x
        length += x * x
    if linear.kind == SPHERE:
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
    """Add any agent's pull of an arm to this agent's registers."""
    width = np.uintp(pulls.shape[1])  # unsigned: nothing counts from the end
    row, source = np.uintp(agent), np.uintp(other)
    first = np.uintp(arm) * width if models > 1 else np.uintp(0)
    for i in range(width):
        rows[row, first + i] += pulls[source, i]


@inner
def book_pull(
    linear: Any, tally: Any, run: int, block: int, slot: int, done: int, agent: int, arm: int,
    reward: float, means: Any,
) -> None:  # fmt: skip
    """Enter a pull and what it cost; `tally` is that of the run."""
    best = means[agent, 0]
    for k in range(1, means.shape[1]):
        best = max(best, means[agent, k])
    gap, at = best - means[agent, arm], agent // block
    tally.costs[at, slot, OWN_GAP] += gap
    tally.costs[at, slot, NETWORK_GAP] += gap
    tally.costs[at, slot, BEST] += best
    tally.regrets[agent] += gap
    enter(tally, at, slot, agent, arm, done, done + 1, reward)
    if linear.pulls.shape[1] > 0:
        linear.pulls[run, agent, arm] += 1


@inner
def note_regrets(linear: Any, tally: Any, run: int, block: int, slot: int) -> None:
    """Keep regrets at the end of a recorded round."""
    for agent in range(tally.regrets.size):
        keep_worst(tally, agent // block, slot, agent)
        if linear.regrets.shape[1] > 0:
            linear.regrets[run, agent, slot] = tally.regrets[agent]


SPAN_PULLS = 100_000
"""Pulls of one run played between two reports of progress."""

SETTLED = 4
"""Rounds after which acknowledgements have come back, with one to spare."""

MOST_BYTES = 2_000_000_000
"""Most bytes for the latest pulls of all agents in one run."""


class Recent(NamedTuple):
    """The latest rounds (run, round, agent): what every pull adds to its model, and its arm."""

    pulls: NDArray[np.float64]
    arms: NDArray[np.int64]


def excess(parts: Parts, task: Task) -> bool:
    """Tell whether a flood is too large: its rounds on the way are at most as many as agents."""
    width = parts.registers(task.problem.num_arms, task.num_features).size
    return 8 * width * task.network.num_agents**2 > MOST_BYTES


def play_linear_flood(parts: Parts, task: Task, runs: range, tick: Tick) -> Record:
    """Play some runs of an index on linear models that are flooded."""
    balls = find_balls(task.network, task.network.num_agents)
    state = LinearRuns(parts, task, runs, tick)
    num_runs, agents = state.shape[:2]
    rows, known = np.zeros(state.shape), np.ones((num_runs, agents, 2))
    known[:, :, 1] = 0.0
    shape = (num_runs, max(1, balls.starts.shape[1] - 1), agents)
    width = state.shape[2] // state.linear.models
    recent = Recent(np.zeros((*shape, width)), np.zeros(shape, dtype=np.int64))
    most = max(1, SPAN_PULLS // agents)
    while state.done < task.horizon:
        rounds = min(most, task.horizon - state.done)
        address = state.choice.address
        given = span(task, state.done, rounds), state.linear, *balls, address, state.numbers
        own = state.world, state.tally, rows, known, recent, state.memory
        launch(_play_run, num_runs, given, own)
        state.played(rounds)
    sent = count_entries(task, state.shape[2], balls.starts.shape[1] - 1)
    return state.finish(np.repeat(sent, num_runs, axis=0))


def count_entries(task: Task, size: int, hops: int) -> NDArray[np.int64]:
    """Return what is sent until every recorded round, (1, round, 4), with so many registers.

    Without faults nothing is random, so the first run speaks for all. Once news has come from as
    many hops away as there are, every entry changes in every round, and all are like the last.
    """
    setup, policy = task.setup, combine(FloodedTotals(), UCB())
    played = min(setup.horizon, hops + SETTLED)
    plain = Setup(GaussianBandit([0.0]), setup.network, played, np.arange(1, played + 1))
    record = play_together(policy.parts, Task(plain, policy), range(1), lambda _pulls: None)
    links = record.messages[0] // played
    entries = np.diff(record.values[0], prepend=0) - HEADER * links
    entries //= HEADER + policy.parts.registers(1).size
    sent = HEADER * links + (HEADER + size) * entries
    until = np.minimum(setup.rounds, played)
    totals = sent.cumsum()[until - 1] + (setup.rounds - until) * sent[-1]
    values, messages = (np.diff(each, prepend=0) for each in (totals, links * setup.rounds))
    return np.stack([values, messages, messages, np.zeros_like(values)], axis=1)[None]


@for_threads(allocates=True)
def _play_run(
    run: int, span: Any, linear: Any, starts: Any, members: Any, address: int, numbers: Any,
    world: Any, tally: Any, rows: Any, known: Any, latest: Any, memory: Any,
) -> None:  # fmt: skip
    recent, arms = latest.pulls, latest.arms
    agents, num_arms = rows.shape[0], world.num_arms
    scratch = np.empty(linear.room + agents * num_arms * linear.size)
    means, lasts = np.empty((agents, num_arms)), np.zeros(agents, np.int64)
    contexts = np.ones((agents, CONTEXT))
    for r in range(span.rounds):
        done = span.first + r
        slot = span.slot + count_up_to(span.stops, r)
        for agent in range(agents):
            behind = known[agent, 1]
            contexts[agent, FACTOR], contexts[agent, TIME] = 1.0, 2.0
            contexts[agent, AGENTS] = known[agent, 0]
            ahead = known[agent, 0] * done / behind if behind > 0.0 else 1.0
            contexts[agent, AHEAD] = max(1.0, ahead)
        look_around(linear, run, done, world.cubics, scratch, means)
        choose(
            address, rows, rows.shape[1], contexts, CONTEXT, world.decision_keys, done,
            numbers, 0, memory, scratch, lasts, 0, agents, num_arms, linear.size,
        )  # fmt: skip
        now = done % recent.shape[0]
        _pull(
            world, linear, tally, run, slot, done, scratch, means, lasts, rows, recent[now],
            arms[now],
        )  # fmt: skip
        _hear(linear.models, rows, known, recent, arms, starts, members, done)
        if span.stops[slot - span.slot] == r + 1:
            note_regrets(linear, tally, run, world.block, slot)


@inner
def _pull(
    world: Any, linear: Any, tally: Any, run: int, slot: int, done: int, scratch: Any, means: Any,
    lasts: Any, rows: Any, pulls: Any, arms: Any,
) -> None:  # fmt: skip
    """Let all agents pull, and put the pulls down for the others."""
    size, num_arms = linear.size, means.shape[1]
    for agent in range(rows.shape[0]):
        arm = lasts[agent]
        z = variate(True, word_at(world.reward_keys[agent], done), world.cubics)
        reward = means[agent, arm] + linear.sigma * z
        at = linear.room + (agent * num_arms + arm) * size
        write_pull(pulls, agent, scratch, at, size, reward)
        add_pull(rows, agent, arm, linear.models, pulls, agent)
        arms[agent] = arm
        book_pull(linear, tally, run, world.block, slot, done, agent, arm, reward, means)


@inner
def _hear(
    models: int, rows: Any, known: Any, recent: Any, arms: Any, starts: Any, members: Any, done: int
) -> None:
    """Let all agents add what reaches them now: from d hops away a pull made d − 1 rounds ago."""
    levels = starts.shape[1] - 1
    for agent in range(rows.shape[0]):
        for level in range(min(levels, done + 1)):
            then = (done - level) % recent.shape[0]
            for place in range(starts[agent, level], starts[agent, level + 1]):
                other = members[place]
                if other != agent:
                    add_pull(rows, agent, arms[then, other], models, recent[then], other)
            if level == done and levels > 0:  # heard of for the first time
                known[agent, 0] += starts[agent, level + 1] - starts[agent, level]
                known[agent, 0] -= level == 0  # the agent itself
        known[agent, 1] += known[agent, 0]
