"""Messages meet their fate and are counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from coopbandits import Agent, GaussianBandit, InputError, Network, Vector, simulate
from coopbandits.core import LocalView
from coopbandits.network.faults import DOWN, LOST
from coopbandits.sim.mail import Mail
from coopbandits.sim.record import Record, Task
from coopbandits.sim.setup import Setup

from .policies import Fixed, FixedAgent

NETWORK = Network.from_spec("path:3")  # links, receiver from sender: 0←1, 1←0, 1←2, 2←1


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
    views = [NETWORK.local_view(i, num_arms=1, sigma=1, needs=frozenset()) for i in range(3)]
    agents = [Postman(view) for view in views]
    mail = Mail(NETWORK, overtaking=range(3) if overtakes else ())
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
    task = Task(Setup(GaussianBandit([1.0, 0.0]), NETWORK, 2, np.array([2])), Fixed())
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
        simulate(GaussianBandit([1.0, 0.5]), NETWORK, Odd(), 20, clocks=clocks, progress=False)
