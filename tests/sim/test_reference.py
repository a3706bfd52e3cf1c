"""The reference engine: who is told what, what is delivered, what is counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from coopbandits import DDUCB, Agent, GaussianBandit, InputError, Network, Vector, simulate
from coopbandits.core import CentralUCB, LocalView, TreeTS
from coopbandits.core.aggregate import Controller
from coopbandits.core.policy import AnyPolicy
from coopbandits.core.registry import EXAMPLES, parse_policy
from coopbandits.literature import CoopUCB
from coopbandits.network.faults import DOWN, LOST
from coopbandits.sim import reference
from coopbandits.sim.record import Record, Task, join
from coopbandits.sim.reference import Mail
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

from .policies import Fixed, FixedAgent, Recording, UpwardAgent

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


MAIL_NETWORK = Network.from_spec("path:3")  # links, receiver from sender: 0←1, 1←0, 1←2, 2←1


class Postman(FixedAgent):
    """Sends its number and the round; keeps what it receives."""

    def __init__(self, view: LocalView) -> None:
        super().__init__(view, 0)
        self.heard: list[list[tuple[int, int]]] = []

    def outgoing(self, neighbor: int) -> Vector | None:
        return np.array([self.view.agent_id, len(self.heard), neighbor], dtype=float)

    def receive(self, messages: Mapping[int, Vector]) -> None:
        for sender, message in messages.items():
            assert (message[0], message[2]) == (sender, self.view.agent_id)
        self.heard.append([(j, int(message[1])) for j, message in messages.items()])


def play(
    *fates: list[int], overtakes: bool = False
) -> tuple[list[list[list[tuple[int, int]]]], Mail]:
    """Play a round for each list of fates; return who heard which (sender, round) when."""
    views = [MAIL_NETWORK.local_view(i, num_arms=1, sigma=1, needs=frozenset()) for i in range(3)]
    agents = [Postman(view) for view in views]
    mail = Mail(MAIL_NETWORK, overtaking=range(3) if overtakes else ())
    everybody: list[Agent] = [*agents]
    for row in fates:
        mail.exchange(everybody, row)
    return [agent.heard for agent in agents], mail


def counted(mail: Mail) -> tuple[int, ...]:
    counts = mail.counts
    return (counts.sent, counts.delivered, counts.late, counts.lost)


def test_a_perfect_round() -> None:
    heard, mail = play([0, 0, 0, 0], [0, 0, 0, 0])
    assert heard == [[[(1, t)] for t in (0, 1)], [[(0, t), (2, t)] for t in (0, 1)],
                     [[(1, t)] for t in (0, 1)]]  # fmt: skip
    assert counted(mail) == (8, 8, 0, 0)
    assert mail.counts.values == 24


def test_lost_messages_are_sent_and_over_links_that_are_down_nothing_is() -> None:
    heard, mail = play([LOST, 0, DOWN, DOWN])
    assert heard == [[[]], [[(0, 0)]], [[]]]
    assert counted(mail) == (2, 1, 0, 1)
    assert mail.counts.values == 6


def test_late_messages_overtake_each_other() -> None:
    heard, mail = play([2, 0, 0, 0], [0, 0, 0, 0], [DOWN, 0, 0, 0])
    assert heard[0] == [[], [(1, 1)], [(1, 0)]]  # the older one comes last
    assert counted(mail) == (11, 11, 1, 0)


def test_where_the_newest_says_it_all_an_older_one_that_comes_later_is_lost() -> None:
    fates = [2, 2, 0, 0], [0, DOWN, 0, 0], [DOWN, 0, 0, 0], [0, 0, 0, 0]
    heard, mail = play(*fates, overtakes=True)
    assert heard[0] == [[], [(1, 1)], [], [(1, 3)]]
    assert [(0, 0) in inbox for inbox in heard[1]] == [False] * 4  # it came together with a newer
    assert counted(mail) == (14, 12, 0, 2)


def test_of_two_that_arrive_together_the_newer_counts() -> None:
    heard, mail = play([2, 0, 0, 0], [1, 0, 0, 0], [DOWN, 0, 0, 0])
    assert heard[0] == [[], [], [(1, 1)]]
    assert counted(mail) == (11, 10, 1, 1)


def test_what_is_under_way_at_the_end_is_neither_lost_nor_delivered() -> None:
    heard, mail = play([5, 0, 0, 0])
    assert heard[0] == [[]]
    assert counted(mail) == (4, 3, 0, 0)


def test_senders_come_in_ascending_order_late_or_not() -> None:
    heard, _ = play([0, 0, 1, 0], [0, 1, DOWN, 0], [0, DOWN, 0, 0])
    assert heard[1] == [[(0, 0)], [(2, 0)], [(0, 1), (2, 2)]]


def test_counts_become_part_of_a_record() -> None:
    _, mail = play([LOST, 1, 0, 0], [0, DOWN, 0, 0])
    task = Task(Setup(GaussianBandit([1.0, 0.0]), MAIL_NETWORK, 2, np.array([2])), Fixed())
    record = Record.empty(task, 3)
    mail.counts.write(record, 1)
    found = [record.messages, record.delivered, record.late, record.lost]
    assert [array.tolist() for array in found] == [[0, 7, 0], [0, 6, 0], [0, 1, 0], [0, 1, 0]]


@pytest.mark.parametrize(
    ("message", "sentence"),
    [
        ([1.0, 2.0], r"agent \d.* list\b"),
        (np.zeros((2, 2)), r"agent \d.* \(2, 2\)"),
    ],
)
@pytest.mark.parametrize("clocks", [None, "poisson:ratio=10"])
def test_what_is_no_message_is_refused(message: Any, sentence: str, clocks: Any) -> None:
    class Odd(Fixed):
        def make_agent(self, view: LocalView) -> Agent:
            agent = Postman(view)
            agent.outgoing = lambda neighbor: message  # type: ignore[method-assign]
            return agent

    with pytest.raises(InputError, match=sentence):
        simulate(GaussianBandit([1.0, 0.5]), MAIL_NETWORK, Odd(), 20, clocks=clocks, progress=False)
