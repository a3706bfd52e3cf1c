"""A small fleet under any interleaving of choices, rewards, rounds and restarts."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from .fleet import (
    GRAPHS,
    exchange,
    gossip_matrix,
    make_agent,
    make_agents,
    played_values,
    staged,
    through_json,
)
from .variants import VARIANTS

NUM_ARMS, SIZE = 3, 4
SOME = (
    "default", "plain", "unaccelerated", "neighbors", "remix", "remix-plain", "remix-neighbors",
    "short", "short-plain", "short-budget", "short-neighbors", "one-step", "agents-between",
)  # fmt: skip

agent_ids = st.integers(0, SIZE - 1)
arm_ids = st.integers(0, NUM_ARMS - 1)
rewards = st.floats(-1e3, 1e3)


class FleetMachine(RuleBasedStateMachine):
    """Every reward ends up in the mass of the fleet, and no number is ever NaN."""

    @initialize(variant=st.sampled_from(SOME))
    def start(self, variant: str) -> None:
        self.policy = VARIANTS[variant]
        self.agents = make_agents(self.policy, gossip_matrix(GRAPHS["path-4"]), NUM_ARMS)
        self.observed = np.zeros(2 * NUM_ARMS)

    def give(self, agent_id: int, arm: int, reward: float) -> None:
        self.agents[agent_id].observe(arm, reward)
        self.observed[arm] += reward
        self.observed[NUM_ARMS + arm] += 1.0

    @rule(agent_id=agent_ids, word=st.integers(0, 2**64 - 1))
    def choose(self, agent_id: int, word: int) -> None:
        agent = self.agents[agent_id]
        before = agent.export_state()
        arm = agent.choose(word)
        before["open_pulls"][arm] += 1
        assert agent.export_state() == before

    @rule(agent_id=agent_ids, allowed=st.sets(arm_ids, min_size=1))
    def choose_among(self, agent_id: int, allowed: set[int]) -> None:
        assert self.agents[agent_id].choose(0, list(allowed)) in allowed

    @rule(agent_id=agent_ids, arm=arm_ids, reward=rewards)
    def observe(self, agent_id: int, arm: int, reward: float) -> None:
        self.give(agent_id, arm, reward)

    @rule(rounds=st.integers(1, 8), reward=rewards, pull=st.booleans())
    def play(self, rounds: int, reward: float, pull: bool) -> None:
        for _ in range(rounds):
            for agent_id, agent in enumerate(self.agents):
                if pull:
                    self.give(agent_id, agent.choose(0), reward + agent_id)
            exchange(self.agents)

    @rule(agent_id=agent_ids)
    def restart(self, agent_id: int) -> None:
        old = self.agents[agent_id]
        new = make_agent(self.policy, old.view)
        new.restore_state(through_json(old.export_state()))
        assert new.export_state() == old.export_state()
        self.agents[agent_id] = new

    @invariant()
    def mass_is_conserved(self) -> None:
        parts = [
            part
            for agent in map(staged, self.agents)
            for part in (agent.accumulated, agent.in_flight, agent.fresh)
        ]
        size = max(1.0, float(np.abs(parts).max()), float(np.abs(self.observed).max()))
        assert np.abs(np.sum(parts, axis=0) - self.observed).max() <= 1e-9 * size

    @invariant()
    def indices_are_numbers(self) -> None:
        for agent in self.agents:
            estimate = agent.machine.estimate()
            assert np.isfinite([*estimate.sums, *estimate.counts, estimate.time]).all()
            assert estimate.time >= 2.0
            values = played_values(agent, estimate)
            assert not np.isnan(values).any()
            assert not np.isneginf(values).any()

    @invariant()
    def open_pulls_are_not_negative(self) -> None:
        assert all((agent.open_pulls >= 0).all() for agent in self.agents)


TestFleetMachine = FleetMachine.TestCase
TestFleetMachine.settings = settings(
    max_examples=15, stateful_step_count=20, deadline=None, derandomize=True, database=None
)
