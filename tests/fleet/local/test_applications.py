"""Simulated applications, and the audit of their rewards."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coopbandits import BernoulliBandit, GaussianBandit, Problem
from coopbandits.fleet.address import Address
from coopbandits.fleet.local.agents import BANDIT, FleetError, Place
from coopbandits.fleet.local.applications import (
    Ending,
    Player,
    Reward,
    Tape,
    Verdict,
    add_up,
    judge,
)
from coopbandits.fleet.local.run import conservation
from coopbandits.fleet.service import ArmEstimate, Choice, Receipt
from coopbandits.sim.tapes import REWARDS, agent_keys, tape_words, variates

from ..api.running import running
from ..api.stand_in import StandIn


@pytest.mark.parametrize("problem", [BernoulliBandit([0.6, 0.3]), GaussianBandit([1.0, 0.0], 2.0)])
def test_rewards_are_those_of_a_simulation(problem: Problem) -> None:
    tape = tape_words(agent_keys(5, REWARDS, 0, 3), 0, 20)
    arms = np.arange(20) % 2
    expected = problem.rewards(arms, variates(problem.variate, tape[2]))
    found = [Tape(problem, 5, 2).reward(number, int(arm)) for number, arm in enumerate(arms)]
    assert found == expected.tolist()


class Forgetful(StandIn):
    """An agent that counts the first reward, and whose answer to that is lost."""

    failures = 1

    def observe(self, ticket: str, reward: float) -> Receipt:
        receipt = super().observe(ticket, reward)
        if self.failures:
            self.failures -= 1
            raise RuntimeError("the answer is lost")
        return receipt


def make_player(folder: Path, address: str) -> Player:
    place = Place("a00", folder, Address("127.0.0.1", 0), address)
    return Player(place, Tape(BernoulliBandit([0.6, 0.3]), 0, 0), pace=100.0)


async def play_some(player: Player, rewards: int) -> None:
    ending = Ending()
    async with asyncio.timeout(90), asyncio.TaskGroup() as group:
        group.create_task(player.play(ending))
        while len(player.rewards) < rewards:
            await asyncio.sleep(0.01)
        ending.set()


def test_an_unanswered_reward_is_handed_in_again(tmp_path: Path) -> None:
    agent = Forgetful(["arm-0", "arm-1"], name=BANDIT)
    with running(agent) as server:
        player = make_player(tmp_path, server.address)
        asyncio.run(play_some(player, 5))
    assert player.retries == 1
    assert [each.duplicate for each in player.rewards[:3]] == [True, False, False]
    assert player.pulls.tolist() == [arm.own_pulls for arm in agent.arms()]
    lines = [json.loads(line) for line in player.log.read_text().splitlines()]
    assert lines == [each._asdict() for each in player.rewards]
    assert len({line["ticket"] for line in lines}) == len(lines)


class Contrary(StandIn):
    """An agent whose choices nobody can hand in."""

    def choose(self, allowed: object = None, context: object = None) -> Choice:
        return Choice("none", "arm-0")


def test_a_refusal_is_no_success(tmp_path: Path) -> None:
    with running(Contrary(["arm-0", "arm-1"])) as server:
        player = make_player(tmp_path, server.address)
        with pytest.raises(ExceptionGroup) as caught:
            asyncio.run(play_some(player, 1))
    assert caught.group_contains(FleetError, match="agent a00 rejected a call of its application: ")


ACKNOWLEDGED = [Reward("1", 0, 1.0, False), Reward("2", 0, 0.5, True), Reward("3", 1, 0.25, False)]
BEST = [True, False]


def arm(name: str, total: float, pulls: float, own: tuple[int, float]) -> ArmEstimate:
    mean = total / pulls if pulls else None
    return ArmEstimate(name, mean, pulls, None, own[0], own[1], 0)


def both(first: float = 1.5, pulls: float = 2.0, own: int = 1) -> dict[str, list[ArmEstimate]]:
    """What two agents know: one took in the rewards of tickets 1 and 3, the other that of 2."""
    return {
        "a00": [arm("arm-0", 1.5, 2.0, (own, 1.0)), arm("arm-1", 0.25, 1.0, (1, 0.25))],
        "a01": [arm("arm-0", first, pulls, (1, 0.5)), arm("arm-1", 0.25, 1.0, (0, 0.0))],
    }


def well(**shares: dict[str, list[float]]) -> dict[str, Any]:
    return {who: {"bandits": {"local": {"shares": shares.get(who, {})}}} for who in ("a00", "a01")}


def verdict(policy: str, arms: Any, health: Any) -> Verdict:
    return judge(policy, BEST, add_up(ACKNOWLEDGED, 2), arms, health)


def test_robust_estimates_that_agree() -> None:
    found = verdict("flood-ts", both(), well())
    assert found.acknowledged.tolist() == [1.5, 0.25, 2.0, 1.0]
    assert found.holds
    assert (found.best_found, found.answering) == (2, 2)
    assert conservation(found) == "holds: 3 rewards acknowledged, each counted exactly once"


@pytest.mark.parametrize("change", [{"first": 1.5 + 1e-6}, {"pulls": 3.0}, {"own": 2}])
def test_any_difference_is_found(change: dict[str, Any]) -> None:
    found = verdict("tree-ts", both(**change), well())
    assert not found.holds
    whose = "all agents' own rewards" if "own" in change else "a01"
    assert conservation(found).startswith(f"broken: {whose} differ")


def test_estimates_of_gossip_are_not_compared() -> None:
    found = verdict("gossip-ts:family=bernoulli", both(pulls=7.0), well())
    assert found.holds
    assert "on average" in conservation(found)
    assert not verdict("gossip-ts", both(own=2), well()).holds


def test_what_forgetful_agents_hold_decays_and_only_their_own_counts_are_compared() -> None:
    def found(**change: Any) -> Verdict:
        arms = both(first=0.9, pulls=1.2, **change)
        return judge("flood-ts", BEST, add_up(ACKNOWLEDGED, 2), arms, well(), forgets=True)

    assert conservation(found()) == "holds: 3 rewards acknowledged, each counted exactly once"
    assert not found(own=2).holds


def test_shares_of_the_last_common_round_add_up() -> None:
    one = {"9": [0.0] * 4, "10": [1.0, 0.25, 1.5, 0.75]}
    other = {"10": [0.5, 0.0, 0.5, 0.25], "11": [9.0] * 4}
    found = verdict("dducb", both(pulls=7.0), well(a00=one, a01=other))
    assert list(found.held) == ["all agents' shares after round 10"]
    assert found.holds
    other["10"][0] = 0.6
    assert not verdict("dducb", both(), well(a00=one, a01=other)).holds
    del other["10"]
    apart = verdict("dducb", both(), well(a00=one, a01=other))
    assert not apart.holds
    assert conservation(apart) == "not shown: no recent round was completed by all agents"


def test_who_does_not_answer_is_named() -> None:
    arms: dict[str, Any] = both()
    found = verdict("flood-ts", arms | {"a01": None}, well())
    assert not found.holds
    assert (found.answering, found.best_found) == (1, 1)
    assert conservation(found) == "not shown: a01 did not answer"
    nobody = verdict("dducb", dict.fromkeys(arms), dict.fromkeys(arms))
    assert not nobody.holds
    assert conservation(nobody) == "not shown: a00, a01 did not answer"


def test_the_best_arm_is_not_found_by_those_who_know_nothing() -> None:
    arms = both()
    arms["a00"] = [arm("arm-0", 0.0, 0.0, (0, 0.0)), arm("arm-1", 0.0, 0.0, (0, 0.0))]
    arms["a01"] = [arm("arm-0", 0.1, 2.0, (0, 0.0)), arm("arm-1", 0.25, 1.0, (0, 0.0))]
    assert verdict("flood-ts", arms, well()).best_found == 0
