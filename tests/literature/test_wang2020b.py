"""A server that is told now and then: when it is, and what agents act on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from coopbandits.core import UCB, InputError, LinUCB, combine, parse_policy
from coopbandits.core.aggregate.central import ServingController
from coopbandits.core.policy import CentralPolicy
from coopbandits.literature import ServerTotals

ARMS, SIZE = 3, 2
CONTEXT = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])


def made(**settings: Any) -> ServingController:
    policy = combine(ServerTotals(**settings), LinUCB())
    controller = policy.make_controller(ARMS, 0.5, SIZE)
    assert isinstance(controller, ServingController)
    return controller


def play_round(controller: ServingController, agents: Any) -> Any:
    for agent in agents:
        controller.turn(agent)
        arm = controller.choose(0, None, CONTEXT)
        controller.observe(arm, 1.0, CONTEXT[arm])
    return controller.end_round()


def test_an_agent_alone_talks_when_its_determinant_has_grown() -> None:
    """λ = 1 and one unit vector per pull: det goes from 1 to 2 with the first."""
    controller = made(growth=1.5)
    assert play_round(controller, [0, 1]) == []
    sent = play_round(controller, [0])  # a second direction: 2 · 2 > 2.5
    assert sent == [6, 6]
    assert controller.machine.state.fetched[0][-1] == 2.0
    assert controller.machine.state.fetched[1][-1] == 0.0
    assert controller.machine.state.untold[1][-1] == 1.0
    sent = play_round(controller, [1])
    assert len(sent) == 2
    assert controller.machine.state.fetched[1][-1] == 4.0


def test_with_a_threshold_all_talk_at_once() -> None:
    """Δn ln(det/det before): ln 2 after one pull, at least 2 ln 3 after two."""
    controller = made(threshold=1.5)
    assert play_round(controller, [0, 1]) == []
    assert len(play_round(controller, [0])) == 4
    assert [controller.machine.state.fetched[agent][-1] for agent in (0, 1)] == [3.0, 3.0]
    assert not controller.machine.state.untold.any()


def test_what_agents_act_on() -> None:
    """With a threshold the own pulls count at once, with a growth only what was fetched."""
    context = np.array([[1.0, 0.0], [0.0, 0.9], [0.1, 0.1]])
    for settings, second in (({"threshold": 1e6}, 1), ({"growth": 1e6}, 0)):
        controller = made(**settings)
        controller.turn(0)
        assert controller.choose(0, None, context) == 0
        controller.observe(0, -1.0, context[0])
        controller.end_round()
        controller.turn(0)
        assert controller.choose(0, None, context) == second


def test_nothing_is_lost_and_nothing_counts_twice() -> None:
    controller = made(growth=0.5)
    source, pulls = np.random.default_rng(0), 0  # noqa: TID251  not a tape
    for _ in range(30):
        acting = source.permutation(4)[:3].tolist()
        play_round(controller, acting)
        pulls += len(acting)
        known = controller.totals[-1] + controller.machine.state.untold[:, -1].sum()
        assert known == pulls


def test_spellings() -> None:
    policy = parse_policy("server-totals:growth=0.01*lin-ucb:scale=0.2")
    assert isinstance(policy, CentralPolicy)
    assert policy.takes_context
    assert policy.spelling == "server-totals:growth=0.01*lin-ucb:scale=0.2"


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: ServerTotals(), "threshold.*None.*growth.*None"),
        (lambda: ServerTotals(1.0, 2.0), r"threshold.*1\.0.*growth.*2\.0"),
        (lambda: ServerTotals(growth=-1.0), r"growth.*-1\.0"),
        (
            lambda: combine(ServerTotals(growth=1.0), UCB()).make_controller(2, 1.0),
            "linear models.*ucb",
        ),
    ],
)
def test_bad_settings_are_refused(make: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        make()
