"""Populations, compiled: one choice for agents that play several indices on one aggregation.

Where members differ in settings of the aggregation, its `start` writes them into the fields of each
agent. Which index an agent plays is the last of its numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray, cfunc

from coopbandits.core.contract import Vector
from coopbandits.sim.cpu.choices import SIGNATURE, Compiled, compiled_choice
from coopbandits.sim.cpu.runs import Rule, Runs
from coopbandits.sim.record import Task


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
