"""The agents of one run as the compiled driver sees them: their fields in one block of memory."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import carray, cfunc

from coopbandits.core.aggregate.central import CentralAggregation, central_view
from coopbandits.core.aggregate.fields import (
    Aggregation,
    Layout,
    sizes_of,
    state_class,
)
from coopbandits.core.contract import LocalView, Vector
from coopbandits.core.policy import AnyPolicy, Parts
from coopbandits.core.population import restricted_view
from coopbandits.core.sources import Source
from coopbandits.core.statistic import Registers
from coopbandits.sim.cpu.choice_forms import CONTEXT, STOP_MEMORY
from coopbandits.sim.cpu.choices import SIGNATURE, Compiled, compiled_choice
from coopbandits.sim.cpu.runs import LinkTable, Rule, Runs
from coopbandits.sim.driver.rounds import late_slots, sit_out
from coopbandits.sim.driver.steps import DIMS, MOST_SIZES, numbers_type
from coopbandits.sim.record import Task
from coopbandits.sim.reference import local_views, renewed

WORD = 8
"""Bytes of a number."""

MOST_BYTES = 2_000_000_000
"""What agents remember, and messages, take at most this much memory in one run."""


class Memory(NamedTuple):
    """State of all agents of one run, and what their functions read and write.

    Single numbers are bytes in `me`: as records, the driver would be compiled for every layout.
    `rows` (link) is where in the box a message that is the same for all neighbours stands: in one
    row per sender if it arrives in its round, else in the link's.
    """

    me: Any
    block: Any
    indptr: Any
    reverse: Any
    rows: Any
    sizes: Any
    box: Any
    lengths: Any
    totals: Any
    certain: Any
    pulls: Any
    lasts: Any


class Form(NamedTuple):
    """What the memory of an aggregation is made of.

    Attributes
    ----------
    layout : Layout
        Its fields.
    most : int
        Values of a message, at most.
    decay : float
        What registers count after one more round.
    """

    layout: Layout
    most: int
    decay: float


def played_parts(policy: AnyPolicy) -> Parts | None:
    """Return the parts that agents of a policy play, on rewards as they are or from a source."""
    if policy.plays_parts:
        return policy.parts
    return policy.at_source[1] if policy.at_source else None


def source_of(policy: AnyPolicy) -> Source | None:
    """Return what rewards pass before they count, unless the policy makes agents itself."""
    return policy.at_source[0] if policy.at_source else None


def players(policy: AnyPolicy) -> tuple[AnyPolicy, ...]:
    """Return the policies whose agents take part, all of which play parts; else nothing."""
    if source_of(policy) is not None:
        return (policy,)
    return policy.members if policy.plays_parts else ()


def aggregation_of(policy: AnyPolicy) -> Aggregation | None:
    """Return the aggregation of a policy if it is one on fields and the policy plays its parts.

    Of a controller it is what that remembers.
    """
    parts = played_parts(policy)
    if parts is None:
        return None
    spec = parts.aggregation
    if isinstance(spec, CentralAggregation):
        return spec.memory(parts.index)
    return spec if isinstance(spec, Aggregation) else None


def form_of(policy: AnyPolicy, task: Task) -> Form:
    """Return what the memory of agents that play a policy is made of."""
    spec = aggregation_of(policy)
    assert spec is not None  # noqa: S101  the driver plays no others
    registers = registers_of(policy, task)
    fading = spec.decaying(registers)  # may have registers of its own
    is_told = policy.central or "num_agents" in policy.needs or spec.finds_out
    told = task.network.num_agents if is_told else 0
    sizes = sizes_of(fading, 1, told, room=task.network.num_agents)
    layout = spec.layout(sizes, fading.decay)
    if source := source_of(policy):
        numbers, arrays = source.layout(task.problem.num_arms)
        layout = Layout(layout.numbers + numbers, layout.arrays + arrays)
    return Form(layout, spec.widest(sizes, registers), fading.decay)


def registers_of(policy: AnyPolicy, task: Task) -> Registers:
    """Return the registers of a policy's statistic."""
    parts = played_parts(policy)
    assert parts is not None  # noqa: S101  the driver plays no others
    return parts.registers(task.problem.num_arms, task.num_features)


def run_bytes(task: Task) -> int:
    """Return about how many bytes one run takes, beside its record."""
    policy, agents = players(task.policy)[0], task.network.num_agents
    holders = 1 if policy.central else agents
    (layout, most, _), width = form_of(policy, task), registers_of(policy, task).size
    of_link = most + 3  # its place in the box; and of the tables of links
    of_agent = 3 * width + CONTEXT + STOP_MEMORY
    of_holder = numbers_type(layout).itemsize // WORD
    for field in layout.arrays:
        size = int(np.prod(field.shape, dtype=np.int64))
        of_link, of_holder = (
            of_link + size * field.per_link,
            of_holder + size * (not field.per_link),
        )
    of_link += late_slots(task) * (most + 2)
    if task.clocks is not None:  # slots of letters, and their places in the queue
        of_link += int(2 + 2 * task.clocks.latency * task.clocks.gossip) * (most + 8)
    if task.keep:
        of_agent += width
    if task.tables.in_context:
        of_agent += task.problem.num_arms * (task.problem.num_features + 2)
    of_inbox = most * int(task.network.degrees.max(initial=0))
    table = task.tables.rows.nbytes + task.tables.costs.nbytes if task.shuffle_arms else 0
    of_agents = agents * of_agent + holders * of_holder
    return WORD * (of_agents + of_inbox + 2 * task.network.num_edges * of_link) + table


def excess(task: Task) -> str | None:
    """Return a phrase on how much memory a run takes, or None if it fits.

    Only where messages grow with the number of agents, and what agents remember of each other, it
    may be too much.
    """
    policy = players(task.policy)[0]
    spec, needed = aggregation_of(policy), run_bytes(task)
    if spec is None or not spec.grows or needed <= MOST_BYTES:
        return None
    return (
        f" for {task.network.num_agents} agents with {task.network.num_edges} links, since a run "
        f"would take {needed / 1e9:.3g} GB for what they remember and messages of up to "
        f"{form_of(policy, task).most} values, more than {MOST_BYTES / 1e9:.3g} GB"
    )


class Agents:
    """All agents of one run, or the controller in their place."""

    def __init__(self, task: Task, run: int, table: LinkTable, width: int) -> None:
        pulling = task.network.num_agents
        policies = [task.policy.played_by(i) for i in range(pulling)]
        if task.policy.central:
            policies, self.views = (
                [task.policy],
                [central_view(task.problem.num_arms, task.sigma, pulling)],
            )
        else:
            self.views = [
                restricted_view(view, policy.needs)
                for view, policy in zip(local_views(task, run), policies, strict=True)
            ]
        self.specs = [aggregation_of(policy) for policy in policies]
        self.source = source_of(policies[0])
        agents, links = len(self.views), table.senders.size
        self.layout, most, _ = form_of(policies[0], task)
        self.registers = [registers_of(policy, task) for policy in policies]
        dims = [size for field in self.layout.arrays for size in field.shape]
        given = np.zeros(MOST_SIZES, dtype=np.int64)
        given[: DIMS + len(dims)] = [width, most, agents, *dims]
        lengths = [
            (links if field.per_link else agents) * int(np.prod(field.shape, dtype=np.int64))
            for field in self.layout.arrays
        ]
        arrives = task.clocks is None and late_slots(task) == 0
        rows = table.senders if arrives else np.arange(links)
        most_links = int(np.diff(table.indptr).max(initial=0))
        me = np.zeros(agents, dtype=numbers_type(self.layout))
        self.memory = Memory(
            me.view(np.uint8), np.zeros(sum(lengths)), table.indptr, table.reverse, rows, given,
            np.zeros((links + most_links, most)), np.zeros(links, dtype=np.int64),
            np.zeros((agents, width)), np.zeros((agents, width)), np.zeros((pulling, width)),
            np.zeros(pulling, dtype=np.int64),
        )  # fmt: skip
        self.numbers = me.view(np.recarray)
        self.arrays, at = [], 0
        for field, length in zip(self.layout.arrays, lengths, strict=True):
            array = self.memory.block[at : at + length]
            array = array.view(np.int64) if field.whole else array
            holders = links if field.per_link else agents
            self.arrays.append(array.reshape((holders, *field.shape)))
            at += length
        self.kind = state_class(tuple(field.name for field in self.layout.arrays))
        self.task, self.run, self.lost_memories = task, run, [0] * agents
        for agent in range(agents):
            self._start(agent, self.views[agent])

    def state(self, agent: int) -> Any:
        """Return what the functions of one agent see."""
        first, stop = self.memory.indptr[agent : agent + 2]
        parts = [
            array[first:stop] if field.per_link else array[agent]
            for field, array in zip(self.layout.arrays, self.arrays, strict=True)
        ]
        return self.kind(self.numbers[agent], *parts)

    def _start(self, agent: int, view: LocalView) -> None:
        spec = self.specs[agent]
        assert spec is not None  # noqa: S101  the driver plays no others
        spec.begin(self.state(agent), view, spec.decaying(self.registers[agent]))
        if self.source is not None:
            self.source.start(self.state(agent), view)

    def renew(self, step: Any, agent: int, rounds: int) -> None:
        """Replace an agent by a fresh one that has sat out all rounds so far."""
        self.numbers[agent] = np.zeros((), dtype=self.numbers.dtype)
        for part in self.state(agent)[1:]:
            part[...] = 0
        self.lost_memories[agent] += 1
        self._start(
            agent, renewed(self.views[agent], self.task, self.run, self.lost_memories[agent])
        )
        sit_out(step, self.memory, agent, rounds)


# Populations, compiled: one choice for agents that play several indices on one aggregation.
#
# Where members differ in settings of the aggregation, its `start` writes them into the fields of
# each agent. Which index an agent plays is the last of its numbers.


def mixed_choice(state: Runs, task: Task) -> tuple[Compiled, Rule, Vector]:
    """Return the choice of a population, and everybody's numbers in rows of the same length."""
    members, agents = task.policy.members, task.network.num_agents
    choice: Compiled | None = None
    rules, rows = [], []
    for number, member in enumerate(members):
        assert member.parts is not None  # noqa: S101  the driver plays no others
        rule, numbers = state.rule_without_choice(member.parts)
        made = compiled_choice(member.parts.index, is_masked=rule.masked)
        choice = made if choice is None else _either(choice, made, number)
        rules.append(rule)
        rows.append(numbers)
    assert choice is not None  # noqa: S101  there is a member
    stride = 1 + max(numbers.shape[1] for numbers in rows)
    together = np.zeros((agents, stride))
    for agent in range(agents):
        member_of = members.index(task.policy.played_by(agent))
        numbers = rows[member_of]
        together[agent, : numbers.shape[1]] = numbers[agent % len(numbers)]
        together[agent, -1] = member_of
    scratch, is_random = max(rule.scratch for rule in rules), any(rule.random for rule in rules)
    rule = rules[0]._replace(
        address=choice.address, numbers_stride=stride, scratch=scratch, random=is_random
    )
    return choice, rule, together


def _either(others: Compiled, own: Compiled, number: int) -> Compiled:
    """Return the choice by which agents of one member play its own, and all others theirs.

    It calls both by their addresses, so numba cannot file it; but there is little to compile.
    """
    choose_others, choose_own, member = others.function, own.function, float(number)

    def choose(
        rows_at: Any, row_stride: int, contexts_at: Any, context_stride: int, keys_at: Any,
        pull: int, numbers_at: Any, numbers_stride: int, memory_at: Any, scratch_at: Any,
        arms_at: Any, start: int, end: int, num_arms: int, num_squares: int,
    ) -> int:  # fmt: skip
        numbers, done = carray(numbers_at, 1 << 40), 1
        while start < end:
            place = start * numbers_stride + numbers_stride - 1
            is_own, stop = numbers[place] == member, start + 1
            while stop < end and (numbers[place + numbers_stride] == member) == is_own:
                place, stop = place + numbers_stride, stop + 1
            if is_own:
                done &= choose_own(
                    rows_at, row_stride, contexts_at, context_stride, keys_at, pull, numbers_at,
                    numbers_stride, memory_at, scratch_at, arms_at, start, stop, num_arms,
                    num_squares,
                )  # fmt: skip
            else:
                done &= choose_others(
                    rows_at, row_stride, contexts_at, context_stride, keys_at, pull, numbers_at,
                    numbers_stride, memory_at, scratch_at, arms_at, start, stop, num_arms,
                    num_squares,
                )  # fmt: skip
            start = stop
        return done

    return Compiled(cfunc(SIGNATURE)(choose))
