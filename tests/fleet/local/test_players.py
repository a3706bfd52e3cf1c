from __future__ import annotations

import asyncio
import json
from pathlib import Path

import numpy as np
import pytest

from coopbandits import BernoulliBandit, GaussianBandit, Problem
from coopbandits.fleet.address import Address
from coopbandits.fleet.local.agents import FleetError, Place
from coopbandits.fleet.local.applications import Ending, Player, Tape
from coopbandits.fleet.service import Choice, Receipt
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
    agent = Forgetful(["arm-0", "arm-1"])
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
