"""A fleet on the in-memory transport, one pull per round: the simulation, to the last bit."""

from __future__ import annotations

import asyncio
from itertools import chain, count
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from numpy.typing import NDArray

from coopbandits.core import Policy, parse_policy
from coopbandits.fleet.address import Address
from coopbandits.fleet.config import NodeConfig
from coopbandits.fleet.process.assemble import make_shell, open_bandits
from coopbandits.fleet.process.shell import Shell
from coopbandits.fleet.protocol.node import Node
from coopbandits.fleet.storage.disk import MemoryDisk
from coopbandits.fleet.storage.replica import Replica
from coopbandits.fleet.transport.memory import MemoryNetwork
from coopbandits.network import Network
from coopbandits.problems import BernoulliBandit, GaussianBandit, Problem, reward_from_variate
from coopbandits.sim import simulate
from coopbandits.sim.record import Task
from coopbandits.sim.reference import Agents
from coopbandits.sim.setup import Setup
from coopbandits.sim.tapes import (
    DECISIONS,
    REWARDS,
    agent_keys,
    identity_words,
    tape_words,
    variates,
)
from tests.torture.process import name, number
from tests.torture.schedule import START

from .bandits import only

pytestmark = pytest.mark.plays

SEED, HORIZON = 3, 80
MEANS = [1.0, 0.8, 0.7, 0.5]
Arms = NDArray[np.int64]
GRAPHS: dict[str, nx.Graph[int]] = {
    "cycle": nx.cycle_graph(6),
    "star": nx.star_graph(4),
    "path": nx.path_graph(5),
}
POLICIES = (
    "dducb", "dducb:accelerated=false,own_pulls=false", "dducb:values_per_message=3",
    "dducb:num_agents=estimate,lambda_bound=estimate", "coop-ucb2:gamma=1.01", "dec-ts",
    "dec-ts:family=bernoulli",
)  # fmt: skip


def problem_for(policy: Policy) -> Problem:
    return BernoulliBandit(MEANS) if "bernoulli" in policy.spelling else GaussianBandit(MEANS)


def make_fleet(network: Network, graph: nx.Graph[int], policy: Policy) -> list[Shell]:
    needs = policy.needs
    bandit = only(
        policy.spelling, tuple("abcd"), sigma=1.0, epoch=0, rounds_per_second=1e9,
        num_agents=network.num_agents if "num_agents" in needs else None,
        lambda_bound=network.lambda2 if "lambda_bound" in needs else None,
    )  # fmt: skip
    wires, shells = MemoryNetwork(), []
    for i, identity_word in enumerate(identity_words(SEED, 0, network.num_agents)):
        others = {name(j): Address("127.0.0.1", 1) for j in sorted(graph.neighbors(i))}
        config = NodeConfig(
            bandit.cluster, name(i), Path("unused"), others, bandits={bandit.name: bandit}
        )
        words = chain([identity_word], count(i + 1))
        bandits = open_bandits(config, MemoryDisk(), lambda: 0.0, words.__next__, number)
        wire = wires.transport(name(i), others)
        shells.append(make_shell(config, bandits, wire, lambda: START, number))
    return shells


def replica_of(node: Node) -> Replica:
    (found,) = node.bandits.replicas.values()
    return found


def tapes(problem: Problem, size: int) -> tuple[NDArray[np.float64], list[list[int]]]:
    """Return the simulation's variates of rewards and words of decisions, by agent and round."""
    keys = [agent_keys(SEED, stream, 0, size) for stream in (REWARDS, DECISIONS)]
    rewards = variates(problem.variate, tape_words(keys[0], 0, HORIZON))
    return rewards, tape_words(keys[1], 0, HORIZON).tolist()


async def play_fleet(problem: Problem, shells: list[Shell]) -> Arms:
    """Pull once in every agent and round; return the arms."""
    size, nodes = len(shells), [shell.node for shell in shells]
    rewards, decisions = tapes(problem, size)
    form = problem.kernel_form()
    arms = np.zeros((size, HORIZON), dtype=np.int64)
    replicas = [replica_of(node) for node in nodes]
    for shell in shells:
        await shell.transport.start(shell)
    sessions = [session for node in nodes for session in node.sessions.by_number.values()]
    while not all(peer.met for session in sessions for peer in session.peers.values()):
        await asyncio.sleep(0)
    for t in range(HORIZON):
        for i, replica in enumerate(replicas):
            ticket, arms[i, t] = replica.choose(decisions[i][t], None, START)
            paid = reward_from_variate(form.kind, form.table, arms[i, t], rewards[i, t])
            replica.observe(ticket, float(paid))
        for shell in shells:
            shell.tick()
        while min(replica.rounds for replica in replicas) <= t:
            await asyncio.sleep(0)
    for shell in shells:
        await shell.transport.stop()
    return arms


def states_of_simulation(network: Network, policy: Policy, arms: Arms) -> list[object]:
    """Play the arms by the reference engine's agents, on the same tapes; return their states."""
    problem = problem_for(policy)
    setup = Setup(problem, network, HORIZON, np.array([HORIZON]), seed=SEED)
    task = Task(setup, policy)
    players = Agents(task, policy, 0)
    rewards, decisions = tapes(problem, network.num_agents)
    form = problem.kernel_form()
    everybody = list(range(network.num_agents))
    for t in range(HORIZON):

        def reward(agent: int, arm: int, t: int = t) -> float:
            return float(reward_from_variate(form.kind, form.table, arm, float(rewards[agent, t])))

        played = players.pull(everybody, [row[t] for row in decisions], reward)
        assert played == arms[:, t].tolist()
        players.end_round([0] * network.adjacency.nnz)
    return [agent.export_state()["aggregation"] for agent in players.agents]


CASES = [(policy, "cycle") for policy in POLICIES]
CASES += [(policy, graph) for policy in POLICIES[:4:3] for graph in ("star", "path")]


@pytest.mark.covering
@pytest.mark.parametrize(("policy", "graph"), CASES)
def test_the_fleet_is_the_simulation(policy: str, graph: str) -> None:
    network, chosen = Network(GRAPHS[graph], weights="metropolis"), parse_policy(policy)
    assert isinstance(chosen, Policy)
    shells = make_fleet(network, GRAPHS[graph], chosen)
    problem = problem_for(chosen)
    arms = asyncio.run(play_fleet(problem, shells))
    result = simulate(
        problem, network, [chosen], HORIZON, runs=1, seed=SEED, engine="reference", keep="arms"
    )
    np.testing.assert_array_equal(arms, result.arms.values[0, 0])
    states = [replica_of(each.node).agent.export_state()["aggregation"] for each in shells]
    assert states == states_of_simulation(network, chosen, arms), "the same floats"
