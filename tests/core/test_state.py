"""State as plain data: exported, restored exactly, and refused where it does not fit."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest

from coopbandits.core import DDUCB, IndependentUCB, InputError, Policy

from .fleet import (
    GRAPHS,
    drive,
    gossip_matrix,
    make_agent,
    make_agents,
    one_view,
    rewards_tape,
    staged,
    through_json,
)
from .variants import VARIANTS

ALL_POLICIES: dict[str, Policy] = {**VARIANTS, "independent": IndependentUCB()}


@pytest.mark.parametrize("name", ALL_POLICIES)
def test_restored_agents_continue_exactly(name: str) -> None:
    policy, matrix = ALL_POLICIES[name], gossip_matrix(GRAPHS["path-4"])
    rewards = rewards_tape(4, 36, 3)
    agents = make_agents(policy, matrix, 3)
    # Round 3 + 8 lies inside a stage of all but the shortest variants; round 2 in the initial one.
    for stop, last in ((2, 12), (12, 36)):
        drive(agents, rewards, 0 if stop == 2 else 2, stop)
        agents[0].choose(0)  # an open pull must survive too
        copies = make_agents(policy, matrix, 3)
        for original, restored in zip(agents, copies, strict=True):
            restored.restore_state(through_json(original.export_state()))
            assert restored.export_state() == original.export_state()
        twins = copy.deepcopy(agents)
        assert drive(copies, rewards, stop, last) == drive(twins, rewards, stop, last)
        for twin, restored in zip(twins, copies, strict=True):
            assert restored.export_state() == twin.export_state()


def test_state_is_a_copy() -> None:
    agent = make_agent(DDUCB(), one_view())
    state = agent.export_state()
    agent.observe(0, 1.0)
    assert state["aggregation"]["fresh"] == [0.0] * 4
    agent.restore_state(state)
    state["aggregation"]["fresh"][0] = 9.0
    assert staged(agent).fresh.tolist() == [0.0] * 4


Tamper = Callable[[dict[str, Any]], object]

TAMPERED: dict[str, tuple[Tamper, str]] = {
    "version": (lambda s: s.update(version=2), r"version.* 2\b.* 1\b"),
    "no version": (lambda s: s.pop("version"), "fields.*export_state"),
    "policy": (lambda s: s.update(policy="dducb"), "'dducb'.*'dducb:mixing_rounds=3'"),
    "arms": (lambda s: s.update(num_arms=3), r"num_arms.* 3\b.* 2\b"),
    "no open pulls": (lambda s: s.pop("open_pulls"), "fields"),
    "open pulls shape": (
        lambda s: s.update(open_pulls=[0, 0, 0]),
        r"open_pulls.*\(3,\).*\(2,\)",
    ),
    "open pulls negative": (lambda s: s.update(open_pulls=[-1, 0]), r"open_pulls"),
    "no aggregation": (lambda s: s.pop("aggregation"), "fields"),
    "missing field": (lambda s: s["aggregation"].pop("rho"), r"fields \[.*\].*'rho'"),
    "extra field": (lambda s: s["aggregation"].update(extra=1), r"fields \[.*'extra'"),
    "shape": (
        lambda s: s["aggregation"].update(settled=[0.0]),
        r"settled.*\(1,\).*\(4,\)",
    ),
    "kind": (
        lambda s: s["aggregation"].update(rounds=1.5),
        r"rounds.* 1\.5.*int",
    ),
    "words": (lambda s: s["aggregation"].update(fresh=["a", "b", "c", "d"]), r"fresh"),
    "ragged": (lambda s: s["aggregation"].update(fresh=[[1.0], 2.0]), r"fresh"),
    "not finite": (lambda s: s["aggregation"].update(fresh=[math.nan] * 4), r"fresh"),
}  # fmt: skip


@pytest.mark.parametrize("name", TAMPERED)
def test_a_state_that_does_not_fit_changes_nothing(name: str) -> None:
    tamper, sentence = TAMPERED[name]
    policy = DDUCB(mixing_rounds=3)
    giver, taker = make_agent(policy, one_view()), make_agent(policy, one_view())
    giver.observe(0, 1.0)
    giver.choose(0)
    taker.observe(1, 5.0)
    state, before = giver.export_state(), taker.export_state()
    tamper(state)
    with pytest.raises(InputError, match=sentence):
        taker.restore_state(state)
    assert taker.export_state() == before


def test_another_policys_state_is_refused() -> None:
    state = make_agent(IndependentUCB(), one_view()).export_state()
    with pytest.raises(InputError, match="'independent-ucb'"):
        make_agent(DDUCB(), one_view()).restore_state(state)
