"""What a neighbour claims is believed as far as it can have happened."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from coopbandits.core import (
    AGGREGATIONS,
    UCB,
    ArmSums,
    FloodedTotals,
    InputError,
    LocalSums,
    PullMixing,
    RunningConsensus,
    StagedMixing,
    TreeSums,
    Vector,
    combine,
)
from coopbandits.core.aggregate import Claims

from ..fleet import make_agent, one_view

REGISTERS = ArmSums().registers(2)
EPOCH = 1000.0


def claims(bounded: bool = True) -> Claims:
    """Two pulls a second, five agents; 60 seconds are granted."""
    return Claims(bounded, rate=2.0, epoch=EPOCH, max_agents=5)


def test_pulls_per_time() -> None:
    assert claims().most_pulls(10.0) == 140.0
    assert claims().most_pulls(-50.0) == 120.0


@pytest.mark.parametrize("agents", [0.0, -1.0, 0.5, 6.0, np.inf, np.nan])
def test_numbers_of_agents(agents: float) -> None:
    for fine in (1.0, 2.5, 5.0):
        claims().check_num_agents(fine)
    with pytest.raises(
        InputError, match=r"^a claim of .* agents; there is at least 1, and at most 5"
    ):
        claims().check_num_agents(agents)


@pytest.mark.parametrize(
    ("values", "agents", "now", "sentence"),
    [
        (
            [1.0, 0.0, 100.0, 21.0],
            1.0,
            EPOCH,
            "a claim of 121 pulls by 1 agents; it is at most 120",
        ),
        (
            [1.0, 0.0, 200.0, 41.0],
            2.0,
            EPOCH,
            "a claim of 241 pulls by 2 agents; it is at most 240",
        ),
        ([1.0, 0.0, 200.0, 41.0], 1.0, EPOCH + 60, "a claim of 241 pulls by 1 agents"),
        ([1.0, 0.0, np.nan, 2.0], 1.0, EPOCH, "a claim of nan pulls"),
        ([1.0, 0.0, -1.0, 2.0], 1.0, EPOCH, "a claim of pulls .*, which are never negative"),
        ([1.5, 0.0, 1.0, 2.0], 1.0, EPOCH, "a claim of rewards .* for .* pulls; each reward"),
    ],
)
def test_totals(values: list[float], agents: float, now: float, sentence: str) -> None:
    with pytest.raises(InputError, match=f"^{sentence}"):
        claims().check_totals(REGISTERS, np.array(values), agents, now)


def test_totals_that_can_be() -> None:
    fine = np.array([100.0, 0.0, 100.0, 20.0])
    claims().check_totals(REGISTERS, fine, 1.0, EPOCH)
    claims().check_totals(REGISTERS, np.array([fine, fine]), 2.0, EPOCH)
    claims(bounded=False).check_totals(REGISTERS, np.array([500.0, -9.0, 1.0, 1.0]), 1.0, EPOCH)


def test_entries_grow_no_faster_than_agents_pull() -> None:
    known = claims()
    for now, total in ((EPOCH, 120.0), (EPOCH + 10, 140.0), (EPOCH + 40, 150.0)):
        known.check_entries({3.0: total}, 0.0, 0.0, now)
        known.accept_entries({3.0: total}, now)
    # The slack that was used up has grown again by what was not pulled.
    known.check_entries({3.0: 200.0}, 0.0, 0.0, EPOCH + 40)
    sentence = r"^a claim of 201 pulls by agent 3, 150 known; it makes at most 2 a second$"
    with pytest.raises(InputError, match=sentence):
        known.check_entries({3.0: 201.0}, 0.0, 0.0, EPOCH + 40)


def test_older_entries_are_believed_and_change_nothing() -> None:
    known = claims()
    known.accept_entries({3.0: 100.0}, EPOCH)
    known.accept_entries({3.0: 40.0}, EPOCH + 1)
    with pytest.raises(InputError, match="100 known"):
        known.check_entries({3.0: 500.0}, 0.0, 0.0, EPOCH + 1)


def test_nobody_knows_more_of_own_pulls_than_oneself() -> None:
    claims().check_entries({0.0: 7.0}, 0.0, 7.0, EPOCH)
    with pytest.raises(InputError, match=r"^a claim of 8 own pulls, more than this agent has made"):
        claims().check_entries({0.0: 8.0}, 0.0, 7.0, EPOCH)


def test_there_are_no_more_agents_than_there_may_be() -> None:
    known = claims()
    known.accept_entries({float(i): 1.0 for i in range(4)}, EPOCH)
    known.check_entries({3.0: 1.0, 9.0: 1.0}, 0.0, 1.0, EPOCH)
    with pytest.raises(InputError, match=r"^a claim that there are 6 agents; there are at most 5$"):
        known.check_entries({8.0: 1.0, 9.0: 1.0}, 0.0, 1.0, EPOCH)


# As the machines ask.


def told(spec: Any) -> Vector:
    """What a neighbour with one pull sends."""
    other = make_agent(
        combine(spec, UCB()), one_view(agent_id=1, neighbor_weights={0: 0.5, 2: 0.25})
    )
    for _ in range(3):
        other.receive({})
    other.observe(1, 0.5)
    message = other.outgoing(0)
    assert message is not None
    return message


HONEST = [TreeSums(), FloodedTotals(), PullMixing(), RunningConsensus(), StagedMixing()]


@pytest.mark.parametrize("spec", HONEST, ids=lambda spec: spec.name)
def test_what_neighbours_really_send_is_believed(spec: Any) -> None:
    assert spec.checks_claims
    agent = make_agent(combine(spec, UCB()), one_view())
    agent.check_claims(told(spec), claims(), EPOCH)
    agent.check_claims(np.zeros(1), claims(), EPOCH)  # its form is checked when it is received


@pytest.mark.parametrize(
    ("spec", "at", "value", "sentence"),
    [
        (TreeSums(), 3, 1e6, "pulls by 1 agents"),
        (TreeSums(), 4, 9.0, "a claim of 9 agents"),
        (TreeSums(), 1, 7.0, "a claim of rewards"),
        (FloodedTotals(), 7, 1e6, "pulls by agent 1"),
        (FloodedTotals(), 5, 7.0, "a claim of rewards"),
        (FloodedTotals(), 2, 0.0, "a claim of 1 own pulls"),
        (PullMixing(), 3, 1e6, "pulls by 1 agents"),
        (PullMixing(), 2, -1.0, "never negative"),
    ],
)
def test_what_cannot_have_happened_is_not(spec: Any, at: int, value: float, sentence: str) -> None:
    agent, message = make_agent(combine(spec, UCB()), one_view()), told(spec)
    message[at] = value
    with pytest.raises(InputError, match=sentence):
        agent.check_claims(message, claims(), EPOCH)


def test_of_several_entries_of_one_agent_the_newest_counts() -> None:
    agent, message = make_agent(combine(FloodedTotals(), UCB()), one_view()), told(FloodedTotals())
    entry = message[2:].copy()
    entry[-1] = 130.0
    both = np.concatenate([message, entry])
    with pytest.raises(InputError, match="a claim of 130 pulls by agent 1"):
        agent.check_claims(both, claims(), EPOCH)


def test_who_estimates_first_believes_as_staged_mixing_does() -> None:
    spec = StagedMixing(num_agents="estimate", lambda_bound="estimate")
    agent = make_agent(combine(spec, UCB()), one_view())
    agent.check_claims(np.zeros(3), claims(), EPOCH)
    assert spec.message_size(REGISTERS, 100).most == 104


def test_who_does_not_check_says_so() -> None:
    silent = [kind() for kind in AGGREGATIONS if not kind.checks_claims]
    assert {spec.name for spec in silent} == {
        "local-sums", "running-sums", "neighborhood-sums", "flooded-pulls",
    }  # fmt: skip
    agent = make_agent(combine(LocalSums(), UCB()), one_view())
    with pytest.raises(InputError, match="LocalSumsMachine does not check what neighbours claim"):
        agent.check_claims(np.zeros(4), claims(), EPOCH)


def test_agents_tell_their_share() -> None:
    agent = make_agent(combine(TreeSums(), UCB()), one_view())
    agent.observe(1, 0.5)
    sums, counts = agent.share()
    assert (sums.tolist(), counts.tolist()) == ([0.0, 0.5], [0.0, 1.0])
