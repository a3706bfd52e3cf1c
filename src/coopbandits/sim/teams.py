"""The engine of teams: all agents of all runs at once, with a rule of their own, in arrays."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import cast

import numpy as np

from coopbandits.core.contract import LocalView, Vector
from coopbandits.core.policy import Policy
from coopbandits.core.team import Arms, Team
from coopbandits.problems.tables import OWN_GAP
from coopbandits.sim.engine import Engine, one_thread
from coopbandits.sim.record import Record, Task, Tick
from coopbandits.sim.reference import CHUNK, local_views
from coopbandits.sim.tapes import DECISIONS, REWARDS, agent_keys, tape_words, variates


class TeamsEngine:
    """Plays policies that have a team, where nothing goes wrong."""

    name = "teams"

    def obstacle(self, task: Task) -> str | None:
        """Return why a task cannot be played as a team, or None."""
        if task.policy.central or task.policy.parts is not None:
            return "has no team"
        if task.clocks is not None:
            return "has no team on own clocks"
        if task.faults:
            return f"has no team for faults {task.faults.spelling}"
        if not speaks_for(task.policy, "make_team", "make_agent"):
            return "has no team"
        if make_team(task, range(1)) is None:
            return "has no team"
        if task.tables.allowed is not None:
            return "has no team for agents that may not play all arms"
        return None

    def run_bytes(self, task: Task) -> int:
        """Return the bytes of agents, their tapes, and tables of shuffled arms."""
        table = task.tables.rows.nbytes if task.shuffle_arms else 0
        return task.network.num_agents * (100 * task.problem.num_arms + 32 * CHUNK) + table

    def session(self, threads: int | None) -> AbstractContextManager[None]:
        """Use one thread."""
        return one_thread(threads)

    def play(self, task: Task, runs: range, tick: Tick) -> Record:
        """Play some runs together."""
        return play(task, runs, tick)


ENGINE: Engine = TeamsEngine()


def speaks_for(thing: object, form: str, original: str) -> bool:
    """Return whether a team is of the class that says what is played one by one.

    A subclass that changes the one inherits the other, which no longer goes with it.
    """
    first = [
        next(place for place, cls in enumerate(type(thing).__mro__) if name in vars(cls))
        for name in (form, original)
    ]
    return first[0] <= first[1]


def make_team(task: Task, runs: Sequence[int]) -> Team | None:
    """Return the agents of some runs, one run after another, if there is such a form."""
    views = [
        _moved(view, place * task.network.num_agents)
        for place, run in enumerate(runs)
        for view in local_views(task, run)
    ]
    return cast("Policy", task.policy).make_team(views)


def _moved(view: LocalView, by: int) -> LocalView:
    """Return what an agent knows, its neighbours being found so many places further on."""
    weights = {j + by: weight for j, weight in view.neighbor_weights.items()}
    return replace(view, neighbor_weights=weights)


def play(task: Task, runs: range, tick: Tick) -> Record:
    """Play what the reference engine plays where everybody acts and every message arrives."""
    record, num_agents = Record.empty(task, len(runs)), task.network.num_agents
    team, ledger = make_team(task, runs), Ledger(task, runs, record)
    assert team is not None  # noqa: S101  `obstacle` says so
    keys = [
        np.concatenate([agent_keys(task.seed, stream, run, num_agents) for run in runs])
        for stream in (REWARDS, DECISIONS)
    ]
    for t in range(task.horizon):
        at = t % CHUNK
        if at == 0:
            chunk = min(CHUNK, task.horizon - t)
            tape = variates(task.problem.variate, tape_words(keys[REWARDS], t, chunk)).T
            decisions = tape_words(keys[DECISIONS], t, chunk).T
        arms = team.choose(decisions[at])
        team.learn(arms, ledger.pay(t, arms, tape[at]))
        sent = team.exchange()
        ledger.messages += sent.messages
        ledger.values += sent.values
        ledger.write(t)
        tick(num_agents * len(runs))
    return ledger.close()


class Ledger:
    """What the pulls of some runs pay and cost, and what was sent, by agent."""

    def __init__(self, task: Task, runs: range, record: Record) -> None:
        self.task, self.record, self.kept = task, record, 0
        self.shape = (len(runs), task.network.num_agents)
        found = [task.tables.ordered(task.arm_order(run)) for run in runs]
        self.table, self.prices = (np.concatenate(each) for each in zip(*found, strict=True))
        first = len(found[0][0]) * np.arange(len(runs))[:, None]
        self.starts = (first + task.tables.places).ravel()
        self.agents = np.arange(self.starts.size)
        self.pulls = np.zeros((self.starts.size, task.problem.num_arms), dtype=np.int64)
        self.regret, self.costs = np.zeros(self.shape), np.zeros((len(runs), 3))
        self.rewards = np.zeros(len(runs))
        self.messages, self.values = (np.zeros(self.starts.size, dtype=np.int64) for _ in range(2))

    def pay(self, done: int, arms: Arms, variates: Vector) -> Vector:
        """Enter one pull of every agent; return what they pay."""
        tables = self.task.tables
        segment = tables.segment(done) if tables.starts.size > 1 else 0
        rows = self.starts + segment * self.pulls.shape[1] + arms
        paid = self.task.problem.paid(self.table, rows, variates)
        prices = self.prices[rows].reshape(*self.shape, 3)
        self.regret += prices[:, :, OWN_GAP]
        self.costs += prices.sum(axis=1)
        self.rewards += paid.reshape(self.shape).sum(axis=1)
        self.pulls[self.agents, arms] += 1
        if self.task.keep == "arms":
            self.record.arms[:, :, done] = arms.reshape(self.shape)
        return paid

    def write(self, done: int) -> None:
        """Record all so far, where this round is recorded."""
        if done + 1 != self.task.rounds[self.kept]:
            return
        record, kept = self.record, self.kept
        record.arm_counts[:, kept] = self.pulls.reshape(*self.shape, -1).sum(axis=1)
        record.rewards[:, kept] = self.rewards
        record.costs[:, kept] = self.costs
        record.worst[:, kept] = self.regret.max(axis=1)
        record.values[:, kept] = self.values.reshape(self.shape).sum(axis=1)
        self.kept += 1

    def close(self) -> Record:
        """Record what is told of whole runs."""
        sent = self.messages.reshape(self.shape).sum(axis=1)
        self.record.messages[:] = self.record.delivered[:] = sent
        if self.task.keep:
            self.record.agent_pulls[:] = self.pulls.reshape(*self.shape, -1)
        return self.record
