"""Teams in the array engine: all agents of a policy with a rule of its own in one object."""

from __future__ import annotations

from typing import cast

import numpy as np

from coopbandits.core.policy import Policy
from coopbandits.core.team import Team
from coopbandits.sim.mail import Counts
from coopbandits.sim.record import Record, Task, Tick
from coopbandits.sim.reference import CHUNK, Account, local_views
from coopbandits.sim.tapes import DECISIONS, REWARDS, agent_keys, tape_words, variates


def obstacle(task: Task) -> str | None:
    """Return why a policy without parts cannot be played as a team, or None."""
    if make_team(task, 0) is None:
        return "has no array form"
    if task.tables.allowed is not None:
        return "has no array form for agents that may not play all arms"
    return None


def make_team(task: Task, run: int) -> Team | None:
    """Return the team of one run, if there is one."""
    return cast("Policy", task.policy).make_team(local_views(task, run))


def play(task: Task, runs: range, tick: Tick) -> Record:
    """Play some runs, one after another."""
    record = Record.empty(task, len(runs))
    for row, run in enumerate(runs):
        team = make_team(task, run)
        assert team is not None  # noqa: S101  `obstacle` says so
        _play_run(task, team, run, record, row, tick)
    return record


def _play_run(task: Task, team: Team, run: int, record: Record, row: int, tick: Tick) -> None:
    """Play what the reference engine plays where everybody acts and every message arrives."""
    agents = np.arange(task.network.num_agents)
    keys = [agent_keys(task.seed, stream, run, agents.size) for stream in (REWARDS, DECISIONS)]
    pulls = np.zeros((agents.size, task.problem.num_arms), dtype=np.int64)
    account, counts = Account(task, run), Counts()
    table, _ = task.tables.ordered(task.arm_order(run))
    reward_total, kept = 0.0, 0
    for t in range(task.horizon):
        at = t % CHUNK
        if at == 0:
            chunk = min(CHUNK, task.horizon - t)
            tape = variates(task.problem.variate, tape_words(keys[REWARDS], t, chunk)).T
            decisions = tape_words(keys[DECISIONS], t, chunk).T
        account.begin(t)
        arms = team.choose(decisions[at])
        paid = task.problem.paid(table, account.places + account.shift + arms, tape[at])
        team.learn(arms, paid)
        pulls[agents, arms] += 1
        account.book(agents, arms)
        reward_total += float(paid.sum())
        sent = team.exchange()
        counts.sent += sent.messages
        counts.delivered += sent.messages
        counts.values += sent.values
        if task.keep == "arms":
            record.arms[row, :, t] = arms
        if t + 1 == task.rounds[kept]:
            record.arm_counts[row, kept] = pulls.sum(axis=0)
            record.rewards[row, kept] = reward_total
            account.write(record, row, kept)
            record.values[row, kept] = counts.values
            kept += 1
        tick(agents.size)
    counts.write(record, row)
    if task.keep:
        record.agent_pulls[row] = pulls
