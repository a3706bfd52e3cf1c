"""The reference engine, the specification: one agent per node, messages really delivered."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from coopbandits.core.agent import Agent, Vector
from coopbandits.core.central import CentralPolicy
from coopbandits.core.policy import Policy
from coopbandits.network import Network
from coopbandits.problems import reward_from_variate
from coopbandits.sim.knowledge import global_knowledge
from coopbandits.sim.record import Record, Task, Tick
from coopbandits.sim.tapes import (
    DECISIONS,
    REWARDS,
    agent_keys,
    birth_words,
    tape_words,
    variates,
)

CHUNK = 256
"""Pulls per agent for which the tapes are made at once."""


def play(task: Task, runs: range, tick: Tick) -> Record:
    """Play some runs, one after another."""
    record = Record.empty(task, len(runs))
    for row, run in enumerate(runs):
        _play_run(task, run, record, row, tick)
    return record


class Players(ABC):
    """Whoever makes the pulls of a round: agents that exchange messages, or one controller."""

    @abstractmethod
    def pull(self, words: list[int], reward: Callable[[int, int], float]) -> list[int]:
        """Let every agent pull once, paid by `reward(agent, arm)`; return the arms."""

    def end_round(self) -> tuple[int, int]:
        """End the round; return the values and the messages that were sent."""
        return 0, 0


class Agents(Players):
    """One agent object per node, each told its LocalView alone."""

    def __init__(self, task: Task, policy: Policy, run: int) -> None:
        problem, self.network = task.problem, task.network
        known = global_knowledge(self.network, policy.needs)
        views = [
            self.network.local_view(
                i,
                num_arms=problem.num_arms,
                sigma=problem.sigma,
                needs=policy.needs,
                global_knowledge=known[i],
            )
            for i in range(self.network.num_agents)
        ]
        if "random_word" in policy.needs:
            words = birth_words(task.seed, run, len(views))
            views = [replace(view, random_word=words[view.agent_id]) for view in views]
        self.agents = [policy.make_agent(view) for view in views]

    def pull(self, words: list[int], reward: Callable[[int, int], float]) -> list[int]:
        """Let all choose before any is paid."""
        arms = [agent.choose(word) for agent, word in zip(self.agents, words, strict=True)]
        for i, (agent, arm) in enumerate(zip(self.agents, arms, strict=True)):
            agent.observe(arm, reward(i, arm))
        return arms

    def end_round(self) -> tuple[int, int]:
        """Deliver one round of messages."""
        return exchange(self.network, self.agents)


class Central(Players):
    """One controller for all agents."""

    def __init__(self, task: Task, policy: CentralPolicy) -> None:
        self.controller = policy.make_controller(task.problem.num_arms, task.problem.sigma)

    def pull(self, words: list[int], reward: Callable[[int, int], float]) -> list[int]:
        """Let the controller choose and see, agent by agent."""
        arms = []
        for i, word in enumerate(words):
            arms.append(self.controller.choose(word))
            self.controller.observe(arms[-1], reward(i, arms[-1]))
        return arms

    def end_round(self) -> tuple[int, int]:
        """Tell the controller that the round is over."""
        self.controller.end_round()
        return 0, 0


def make_players(task: Task, run: int) -> Players:
    """Return whoever plays a task's policy in one run."""
    policy = task.policy
    return Agents(task, policy, run) if isinstance(policy, Policy) else Central(task, policy)


def _play_run(task: Task, run: int, record: Record, row: int, tick: Tick) -> None:
    problem, num_agents = task.problem, task.network.num_agents
    players = make_players(task, run)
    keys = [agent_keys(task.seed, stream, run, num_agents) for stream in (REWARDS, DECISIONS)]
    pulls = np.zeros((num_agents, problem.num_arms), dtype=np.int64)
    everyone = np.arange(num_agents)
    form = problem.kernel_form()
    table = form.table[task.arm_order(run)]
    paid = np.zeros(num_agents)
    reward_total, values, kept = 0.0, 0, 0

    def reward(agent: int, arm: int) -> float:
        paid[agent] = reward_from_variate(form.kind, table, arm, tape[agent, at])
        return float(paid[agent])

    for t in range(task.horizon):
        at = t % CHUNK
        if at == 0:
            chunk = min(CHUNK, task.horizon - t)
            tape = variates(problem.variate, tape_words(keys[REWARDS], t, chunk))
            decisions = tape_words(keys[DECISIONS], t, chunk)
        arms = np.array(players.pull(decisions[:, at].tolist(), reward))
        pulls[everyone, arms] += 1
        reward_total += float(paid.sum())
        sent, messages = players.end_round()
        values += sent
        record.messages[row] += messages
        if task.keep == "arms":
            record.arms[row, :, t] = arms
        if t + 1 == task.rounds[kept]:
            record.arm_counts[row, kept] = pulls.sum(axis=0)
            record.rewards[row, kept] = reward_total
            record.values[row, kept] = values
            kept += 1
        tick(num_agents)
    if task.keep:
        record.agent_pulls[row] = pulls


def exchange(network: Network, agents: list[Agent]) -> tuple[int, int]:
    """Deliver one round of messages; return the values and the messages that were sent."""
    inboxes: list[dict[int, Vector]] = [{} for _ in agents]
    for sender, agent in enumerate(agents):
        for neighbor in network.neighbors(sender):
            message = agent.outgoing(neighbor)
            if message is not None:
                inboxes[neighbor][sender] = message
    for agent, inbox in zip(agents, inboxes, strict=True):
        agent.receive(inbox)
    return _count(inboxes)


def _count(inboxes: list[dict[int, Vector]]) -> tuple[int, int]:
    return (
        sum(message.size for inbox in inboxes for message in inbox.values()),
        sum(len(inbox) for inbox in inboxes),
    )
