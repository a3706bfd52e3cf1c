"""Buffers averaged with random partners: nothing is lost, and weights even out."""

from __future__ import annotations

from typing import Any

import numpy as np

from coopbandits.core import UCB, LinUCB, combine
from coopbandits.core.aggregate.central import ServingController
from coopbandits.literature import PermutedBuffers

AGENTS, ARMS, SIZE = 6, 3, 2
LINEAR = LinUCB()


def played(rounds: int, index: Any = LINEAR) -> tuple[ServingController, Any, list[Any]]:
    """Return agents after some rounds, all their pulls added up, and what was sent by round."""
    controller = combine(PermutedBuffers(), index).make_controller(ARMS, 0.5, SIZE)
    assert isinstance(controller, ServingController)
    source, direct, sent = np.random.default_rng(1), controller.registers.zeros(), []  # noqa: TID251  not a tape
    for _ in range(rounds):
        for agent in range(AGENTS):
            context = source.normal(size=(ARMS, SIZE)) if index.statistic.takes_context else None
            controller.turn(agent)
            arm = controller.choose(int(source.integers(2**63)), None, context)
            x = None if context is None else context[arm]
            reward = float(source.normal())
            controller.observe(arm, reward, x)
            controller.registers.record(direct, arm, reward, x)
        sent.append(controller.end_round())
    return controller, direct, sent


def held(controller: ServingController) -> Any:
    """Return all that agents act on, or keep in buffers."""
    s = controller.machine.state
    buffers = [
        row[:size].reshape(-1, controller.registers.size).sum(axis=0)
        for row, size in zip(s.buffers[s.me.side], s.filled[s.me.side], strict=True)
    ]
    return s.active.sum(axis=0) + sum(buffers)


def test_averaging_loses_nothing() -> None:
    controller, direct, _ = played(60)
    assert np.allclose(held(controller), direct)


def test_what_is_acted_on_is_nearly_everybodys() -> None:
    """Entries of ℓ rounds ago weigh 1/N in every agent: N times them are the direct sums."""
    controller, direct, _ = played(200)
    behind = controller.machine.state.active.sum(axis=0)
    for active in controller.machine.state.active:
        assert np.allclose(AGENTS * active, behind, rtol=1e-3, atol=1e-3 * abs(behind).max())
    assert abs(direct).max() > abs(behind).max() > 0.5 * abs(direct).max()


def test_messages_are_whole_buffers_of_logarithmic_length() -> None:
    _, _, sent = played(60)
    assert sent[0] == []
    assert [len(each) for each in sent[1:]] == [AGENTS] * 59
    assert sent[1][0] == 6
    longest = int(np.ceil(4 * np.log2(AGENTS**1.5 * 59)))
    assert sent[-1][0] == 6 * longest


def test_any_index_plays_on_it() -> None:
    controller, direct, _ = played(40, UCB())
    assert np.allclose(held(controller), direct)
