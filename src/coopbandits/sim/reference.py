"""The reference engine, the specification: one agent per node, messages really delivered."""

from __future__ import annotations

import numpy as np

from coopbandits.core.agent import Agent, Vector
from coopbandits.core.policy import Policy
from coopbandits.network import Network
from coopbandits.sim.record import Record, Task, Tick
from coopbandits.sim.tapes import DECISIONS, REWARDS, agent_keys, tape_words, variates

CHUNK = 256
"""Pulls per agent for which the tapes are made at once."""


def play(task: Task, runs: range, tick: Tick) -> Record:
    """Play some runs, one after another."""
    record = Record.empty(task, len(runs))
    for row, run in enumerate(runs):
        _play_run(task, run, record, row, tick)
    return record


def make_agents(network: Network, policy: Policy, num_arms: int, sigma: float) -> list[Agent]:
    """Return one fresh agent per node, each told its LocalView alone."""
    return [
        policy.make_agent(network.local_view(i, num_arms=num_arms, sigma=sigma, needs=policy.needs))
        for i in range(network.num_agents)
    ]


def _play_run(task: Task, run: int, record: Record, row: int, tick: Tick) -> None:
    problem, network = task.problem, task.network
    agents = make_agents(network, task.policy, problem.num_arms, problem.sigma)
    keys = [agent_keys(task.seed, stream, run, len(agents)) for stream in (REWARDS, DECISIONS)]
    pulls = np.zeros((len(agents), problem.num_arms), dtype=np.int64)
    everyone = np.arange(len(agents))
    reward_total, values, kept = 0.0, 0, 0
    for t in range(task.horizon):
        at = t % CHUNK
        if at == 0:
            chunk = min(CHUNK, task.horizon - t)
            tape = variates(problem.variate, tape_words(keys[REWARDS], t, chunk))
            decisions = tape_words(keys[DECISIONS], t, chunk).tolist()
        arms = np.array([agent.choose(decisions[i][at]) for i, agent in enumerate(agents)])
        rewards = problem.rewards(arms, tape[:, at])
        for agent, arm, reward in zip(agents, arms.tolist(), rewards.tolist(), strict=True):
            agent.observe(arm, reward)
        pulls[everyone, arms] += 1
        reward_total += float(rewards.sum())
        sent, messages = exchange(network, agents)
        values += sent
        record.messages[row] += messages
        if task.keep == "arms":
            record.arms[row, :, t] = arms
        if t + 1 == task.rounds[kept]:
            record.arm_counts[row, kept] = pulls.sum(axis=0)
            record.rewards[row, kept] = reward_total
            record.values[row, kept] = values
            kept += 1
        tick(len(agents))
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
