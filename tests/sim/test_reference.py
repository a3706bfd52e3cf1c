"""The reference engine: who is told what, what is delivered, what is counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from coopbandits import DDUCB, GaussianBandit, Network
from coopbandits.core import CentralUCB, TreeTS
from coopbandits.core.aggregate import Controller
from coopbandits.core.policy import AnyPolicy
from coopbandits.core.registry import EXAMPLES, parse_policy
from coopbandits.literature import CoopUCB
from coopbandits.sim import reference
from coopbandits.sim.record import Record, Task, join
from coopbandits.sim.setup import Setup
from coopbandits.sim.tapes import (
    DECISIONS,
    REWARDS,
    agent_keys,
    identity_words,
    tape_words,
    variates,
)
from coopbandits.theory.epsilon_c import epsilon_c

from .policies import Fixed, Recording, UpwardAgent

PROBLEM = GaussianBandit([0.2, 1.0, 0.6], sigma=0.5)
NETWORK = Network.from_spec("star:5")


def task(policy: AnyPolicy, horizon: int = 30, keep: str = "arms") -> Task:
    rounds = np.arange(1, horizon + 1)
    return Task(Setup(PROBLEM, NETWORK, horizon, rounds, 4, 9, keep), policy)


def ignore(amount: int) -> None:
    pass


def same(left: Record, right: Record) -> bool:
    pairs = [(getattr(left, field.name), getattr(right, field.name)) for field in fields(Record)]
    return all(np.array_equal(a, b) for a, b in pairs)


def test_agents_are_told_no_more_than_they_need() -> None:
    policy = Recording()
    reference.Agents(task(policy), policy, 0)
    views = [agent.view for agent in policy.agents]
    assert [view.agent_id for view in views] == list(range(5))
    assert all(view.num_agents is None and view.lambda_bound is None for view in views)
    assert all(view.random_word == 0 for view in views)
    assert all((view.num_arms, view.sigma) == (3, 0.5) for view in views)
    hub = next(view for view in views if len(view.neighbor_weights) == 4)
    assert hub.own_weight == NETWORK.matrix[hub.agent_id, hub.agent_id]
    assert all(view.global_knowledge == {} for view in views)
    told = [agent.view for agent in reference.Agents(task(DDUCB()), DDUCB(), 0).agents]
    assert all(view.num_agents == 5 and view.lambda_bound == NETWORK.lambda2 for view in told)
    assert all(view.global_knowledge == {} for view in told)


def test_agents_are_told_the_random_word_of_their_run() -> None:
    policy = TreeTS()
    for run in (0, 3):
        agents = reference.Agents(task(policy), policy, run).agents
        assert [agent.view.random_word for agent in agents] == identity_words(9, run, 5)


def test_agents_are_told_their_own_global_knowledge() -> None:
    policy = CoopUCB(2.0)
    views = [agent.view for agent in reference.Agents(task(policy), policy, 0).agents]
    assert [view.global_knowledge for view in views] == [
        {"epsilon_c:closed": value} for value in epsilon_c(NETWORK)
    ]
    assert all(view.num_agents == 5 and view.lambda_bound is None for view in views)


class Watched(CentralUCB):
    """Keeps what its controller was asked and told."""

    def make_controller(self, num_arms: int, sigma: float, num_features: int = 0) -> Controller:
        calls: list[tuple[object, ...]] = CALLS

        class Watch(Controller):
            def choose(
                self, word: int, allowed: Sequence[int] | None = None, context: Any = None
            ) -> int:
                assert allowed is None
                calls.append(("choose", word))
                return super().choose(word)

            def observe(self, arm: int, reward: float, context: Any = None) -> None:
                calls.append(("observe", arm, reward))
                super().observe(arm, reward)

            def end_round(self) -> None:
                calls.append(("end",))
                super().end_round()

        inner = super().make_controller(num_arms, sigma)
        return Watch(inner.index, inner.registers, sigma, -1)


CALLS: list[tuple[object, ...]] = []


def test_a_controller_is_driven_agent_by_agent() -> None:
    """Choose, then observe, for every agent in turn; then the round ends. Nothing is sent."""
    CALLS.clear()
    record = reference.ENGINE.play(task(Watched(), horizon=4), range(1), ignore)
    assert [call[0] for call in CALLS] == (["choose", "observe"] * 5 + ["end"]) * 4
    tape = tape_words(agent_keys(9, DECISIONS, 0, 5), 0, 4)
    assert [call[1] for call in CALLS if call[0] == "choose"] == tape.T.ravel().tolist()
    z = variates("normal", tape_words(agent_keys(9, REWARDS, 0, 5), 0, 4)).T.ravel()
    arms = record.arms[0].T.ravel()
    assert [call[1] for call in CALLS if call[0] == "observe"] == arms.tolist()
    paid = [call[2] for call in CALLS if call[0] == "observe"]
    np.testing.assert_allclose(np.array(paid, dtype=float), PROBLEM.means[arms] + 0.5 * z)
    assert record.messages.tolist() == [0]
    assert (record.values == 0).all()


def test_messages_reach_the_neighbour_they_were_written_for() -> None:
    """`UpwardAgent` checks what arrives; None is no message and is not counted."""
    policy = Recording(UpwardAgent)
    record = reference.ENGINE.play(task(policy, horizon=4), range(1), ignore)
    edges = NETWORK.num_edges
    assert record.messages.tolist() == [4 * edges]
    assert record.values[0].tolist() == [3 * edges * t for t in (1, 2, 3, 4)]


def test_words_come_from_the_decision_tape() -> None:
    policy = Recording()
    reference.ENGINE.play(task(policy), range(2, 4), ignore)
    for i, run in enumerate((2, 3)):
        tape = tape_words(agent_keys(9, DECISIONS, run, 5), 0, 30)
        heard = [agent.words for agent in policy.agents[5 * i : 5 * i + 5]]
        assert heard == tape.tolist()


def test_rewards_come_from_the_reward_tape() -> None:
    record = reference.ENGINE.play(task(Fixed(2)), range(1, 2), ignore)
    z = variates("normal", tape_words(agent_keys(9, REWARDS, 1, 5), 0, 30))
    expected = (0.6 + 0.5 * z).sum(axis=0).cumsum()
    np.testing.assert_allclose(record.rewards[0], expected, rtol=1e-12)
    assert record.arm_counts[0, :, 2].tolist() == [5 * t for t in range(1, 31)]
    assert (record.arm_counts[0, :, :2] == 0).all()
    assert record.agent_pulls[0].tolist() == [[0, 0, 30]] * 5


@pytest.mark.covering(8)
@pytest.mark.parametrize("policy", [parse_policy(text) for text in EXAMPLES], ids=EXAMPLES)
def test_runs_do_not_depend_on_those_before(policy: AnyPolicy) -> None:
    together = reference.ENGINE.play(task(policy), range(4), ignore)
    alone = [reference.ENGINE.play(task(policy), range(run, run + 1), ignore) for run in range(4)]
    assert same(together, join(alone))
    assert not np.array_equal(together.rewards[0], together.rewards[1])


@pytest.mark.parametrize("chunk", [1, 7, 30, 1000])
def test_chunks_of_the_tapes_change_nothing(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    expected = reference.ENGINE.play(task(DDUCB()), range(2), ignore)
    monkeypatch.setattr(reference, "CHUNK", chunk)
    assert same(reference.ENGINE.play(task(DDUCB()), range(2), ignore), expected)


def test_progress_is_every_agent_round() -> None:
    told: list[int] = []
    reference.ENGINE.play(task(Fixed()), range(3), told.append)
    assert sum(told) == 3 * 5 * 30


@pytest.mark.parametrize(
    ("keep", "agents", "pulls"), [("", 0, 0), ("agents", 5, 0), ("arms", 5, 30)]
)
def test_only_what_is_wanted_is_kept(keep: str, agents: int, pulls: int) -> None:
    record = reference.ENGINE.play(task(Fixed(), keep=keep), range(1), ignore)
    assert record.agent_pulls.shape == (1, agents, 3)
    assert record.arms.shape == (1, 5, pulls)
