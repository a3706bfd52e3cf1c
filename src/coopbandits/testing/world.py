"""A small driver: one agent per node, phase by phase, so that a check can look between the phases.

It is not a simulator: it counts nothing and is slow. A round is `pull`, `send`, `deliver`; `play`
does all three. Words and rewards are a function of the seed, the round and the agent alone.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import networkx as nx
import numpy as np

from coopbandits.core.draws import normals, words
from coopbandits.network import Network
from coopbandits.sim.setup import global_knowledge
from coopbandits.sim.tapes import identity_words, secret_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from coopbandits.core import Agent, LocalView, Policy, State, Vector

Messages = dict[tuple[int, int], "Vector"]
"""(sender, receiver) to what is sent; silence is left out."""


class Pull(NamedTuple):
    """What one agent was given and did in one round."""

    word: int
    arm: int
    reward: float


class Round(NamedTuple):
    """What happened in one round: one pull per agent, and the messages."""

    pulls: list[Pull]
    messages: Messages


@dataclass(frozen=True)
class Trial:
    """A policy under check and the size of the worlds it is checked in.

    `told` names what agents are told beyond what the policy says that they need.
    """

    policy: Policy
    num_arms: int
    rounds: int
    seed: int
    told: frozenset[str] = frozenset()

    def views(self) -> list[LocalView]:
        """Return what agents of different degrees may know."""
        return self.world("star").views

    def worlds(self) -> Iterator[World]:
        """Yield a fresh world on every graph: several shapes, and an agent with nobody around."""
        return (self.world(name) for name in GRAPHS)

    def world(self, graph: str, *, num_arms: int | None = None, other: bool = False) -> World:
        """Return a fresh world; an `other` one has other words, and its best arm is the last."""
        arms = num_arms or self.num_arms
        means = np.linspace(0.0, 1.0, arms) if other else np.linspace(1.0, 0.0, arms)
        return World(self.policy, graph, means, self.seed + other, self.told)


class World:
    """Agents on a graph, made by one policy, with the rewards of unit-variance normal arms."""

    def __init__(
        self,
        policy: Policy,
        graph: str,
        means: Vector,
        seed: int,
        told: frozenset[str] = frozenset(),
    ) -> None:
        self.policy, self.graph, self.means, self.seed = policy, graph, means, seed
        self.network = network(graph)
        self.views = local_views(self.network, policy.needs | told, means.size, seed)
        self.agents = [self.fresh(i) for i in range(len(self.views))]
        self.rounds = 0

    def fresh(self, agent: int) -> Agent:
        """Return a new agent of one node."""
        return self.policy.make_agent(self.views[agent])

    def where(self, agent: int | None = None) -> str:
        """Say which round, and which agent if it is about one."""
        who = "" if agent is None else f"agent {agent}, "
        return f"{who}{self.graph} of {len(self.agents)}, round {self.rounds}"

    @property
    def links(self) -> list[tuple[int, int]]:
        """Every (sender, receiver)."""
        return [(view.agent_id, j) for view in self.views for j in view.neighbor_weights]

    def draw(self) -> tuple[list[int], list[float]]:
        """Return this round's word and standard normal noise of every agent."""
        count = len(self.agents)
        counters = np.arange(2 * count, dtype=np.uint64) + np.uint64(2 * count * self.rounds)
        drawn = words(self.seed, counters)
        return drawn[:count].tolist(), normals(drawn[count:]).tolist()

    def pull(self) -> list[Pull]:
        """Let every agent choose and observe once."""
        pulls = []
        for agent, word, noise in zip(self.agents, *self.draw(), strict=True):
            arm = agent.choose(word)
            reward = float(self.means[arm]) + noise
            agent.observe(arm, reward)
            pulls.append(Pull(word, arm, reward))
        return pulls

    def send(self) -> Messages:
        """Ask every agent for a message to every neighbour, once."""
        asked = ((link, self.agents[link[0]].outgoing(link[1])) for link in self.links)
        return {link: message.copy() for link, message in asked if message is not None}

    def deliver(self, messages: Messages) -> None:
        """Hand every agent what was sent to it, which ends the round."""
        inboxes: list[dict[int, Vector]] = [{} for _ in self.agents]
        for (sender, receiver), values in messages.items():
            inboxes[receiver][sender] = values
        for agent, inbox in zip(self.agents, inboxes, strict=True):
            agent.receive(inbox)
        self.rounds += 1

    def play(self) -> Round:
        """Play one round; the messages returned are not the arrays the agents were handed."""
        pulls, messages = self.pull(), self.send()
        self.deliver({link: values.copy() for link, values in messages.items()})
        return Round(pulls, messages)

    def states(self) -> list[State]:
        """Return every agent's exported state, cut loose from the agent."""
        return [reread(agent.export_state()) for agent in self.agents]

    def restart(self) -> None:
        """Replace every agent by a fresh one that got its state as JSON."""
        for i, state in enumerate(self.states()):
            self.agents[i] = self.fresh(i)
            self.agents[i].restore_state(state)


GRAPHS = {
    "cycle": nx.cycle_graph(4),
    "star": nx.star_graph(3),
    "complete graph": nx.complete_graph(5),
    "single node": nx.empty_graph(1),
}
"""The graphs of the checks; the complete graph has every agent id that the cycle has."""


@cache
def network(graph: str) -> Network:
    """Return one of the graphs as a network, made once: to make it takes longer than to play it."""
    return Network(GRAPHS[graph])


def local_views(
    network: Network, needs: frozenset[str], num_arms: int, seed: int
) -> list[LocalView]:
    """Return what each agent may know: its row of P, and what the policy declares that it needs."""
    with warnings.catch_warnings():
        # That ε_c hangs on the eigenvectors chosen is of no use to know of the checker's graphs.
        warnings.simplefilter("ignore")
        known = global_knowledge(network, needs)
    views = [
        network.local_view(i, num_arms=num_arms, sigma=1.0, needs=needs, global_knowledge=own)
        for i, own in enumerate(known)
    ]
    identities = identity_words(seed, 0, len(views))
    return [
        replace(
            view,
            random_word=identities[i] if "random_word" in needs else 0,
            secret=secret_of(seed, "", 0, i, 0) if "secret" in needs else b"",
        )
        for i, view in enumerate(views)
    ]


def reread(state: State) -> State:
    """Return what JSON makes of a state."""
    copy: State = json.loads(json.dumps(state))
    return copy


def same_messages(left: Messages, right: Messages) -> bool:
    """Whether the same links carry the same values, to the bit."""
    return left.keys() == right.keys() and all(
        np.array_equal(left[link], right[link]) for link in left
    )
