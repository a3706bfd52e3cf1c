"""An application that pulls too fast is told so, and what is taken is believed by all."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
import pytest

from coopbandits.core.aggregate import Claims
from coopbandits.core.aggregate.claims import SLACK
from coopbandits.core.aggregate.entries import entry_number
from coopbandits.core.errors import InputError
from coopbandits.core.statistic import ArmSums
from coopbandits.fleet.config.bandits import BanditConfig
from coopbandits.fleet.service import RateLimitError
from coopbandits.fleet.service.agent import ServedAgent
from coopbandits.fleet.service.bandit import BURST, RateLimit
from tests.torture.schedule import START
from tests.torture.world import World

from ..api.running import ask, running
from ..bandits import only

RATE = 2.0


def bandit(policy: str = "flood-ts", rate: float = RATE) -> BanditConfig:
    return only(policy, ("red", "blue"), epoch=1_790_000_000, sigma=1.0, max_pulls_per_second=rate)


def make(**settings: Any) -> tuple[World, ServedAgent]:
    world = World(bandit(**settings), nx.path_graph(2))
    return world, serve(world)


def serve(world: World) -> ServedAgent:
    return world.service(0, lambda: 7)


def count(call: Callable[[], object], most: int = 10_000) -> int:
    """Return how often something can be done before it is refused as too fast."""
    for done in range(most):
        try:
            call()
        except RateLimitError:
            return done
    return most


def pull(service: ServedAgent) -> None:
    service.bandit("only").observe(service.bandit("only").choose().ticket, 1.0)


def test_pulls_beyond_the_rate_are_refused_and_change_nothing() -> None:
    world, service = make()
    assert count(lambda: pull(service)) == RATE * BURST
    before, journal = service.bandit("only").arms(), bytes(world.disks[0].data)
    with pytest.raises(RateLimitError, match="2 a second") as caught:
        service.bandit("only").choose()
    assert caught.value.retry_after == pytest.approx(0.5)
    assert (service.bandit("only").arms(), bytes(world.disks[0].data)) == (before, journal)
    metric = next(m for m in service.metrics() if m.name == "refused_pulls_total")
    assert metric.samples == [({"call": "choose"}, 2.0), ({"call": "observe"}, 0.0)]
    world.now += 0.5
    pull(service)
    with pytest.raises(RateLimitError):
        service.bandit("only").choose()


def test_rewards_of_many_tickets_at_once_are_taken_at_the_rate() -> None:
    world, service = make()
    tickets: list[str] = []
    while len(tickets) < 200:
        world.now += 0.5
        tickets.append(service.bandit("only").choose().ticket)
    waiting = iter(tickets)
    assert count(lambda: service.bandit("only").observe(next(waiting), 1.0)) == RATE * BURST
    assert int(service.bandit("only").replica.own_counts.sum()) == RATE * BURST
    refused = tickets[int(RATE * BURST)]
    world.now += 1.0
    assert not service.bandit("only").observe(refused, 1.0).duplicate


def test_a_duplicate_and_a_mistake_cost_nothing() -> None:
    _, service = make()
    ticket = service.bandit("only").choose().ticket
    service.bandit("only").observe(ticket, 1.0)
    for _ in range(500):
        assert service.bandit("only").observe(ticket, 1.0).duplicate
        with pytest.raises(InputError):
            service.bandit("only").choose(["no such arm"])


def test_restarts_do_not_add_up() -> None:
    world, service = make()
    made = count(lambda: pull(service))
    world.shells[0].settle()
    for _ in range(20):
        world.crash(0)
        world.restart(0)
        service = serve(world)
        made += count(partial(pull, service))
        world.shells[0].settle()
        world.now += 1.0
    assert made <= RATE * (BURST + 2 * 20 + 1)


@pytest.mark.covering
@pytest.mark.parametrize("rate", [0.01, 0.4, 3.0, 1000.0])
@pytest.mark.parametrize("delay", [0.0, 1.0, 25.0])
def test_what_is_taken_here_is_believed_there(rate: float, delay: float) -> None:
    """Every third news is late, the others are not: growth then looks faster than it is."""
    epoch, step = 1000.0, 0.25 if rate >= 1.0 else 20.0
    made, heard, now = 0, 0, epoch + 5.0
    pace = RateLimit(rate, now - epoch, made, now)
    registers = ArmSums().registers(1)
    claims = Claims(bounded=False, rate=rate, epoch=epoch, max_agents=10)
    for turn in range(900):
        now += step
        before = made
        with suppress(RateLimitError):
            while True:
                pace.check(now)
                pace.spare -= 1.0
                made += 1
        arrives = now + (delay if turn % 300 == 0 else 0.0)
        if made > max(before, heard):
            entry = np.array([[entry_number(1, 0), 0.0, 0.0, float(made)]])
            assert claims.sift(registers, entry, (0.0, 0.0), arrives) == [None]
            heard = made
    assert made == heard >= rate * 900 * step
    assert BURST < SLACK


def test_the_fleet_believes_an_application_at_full_speed() -> None:
    world, service = make(rate=50.0)
    other = world.node(1)
    while world.now < START + 40.0:
        count(lambda: pull(service))
        for _ in range(4):
            world.step()
    assert not other.refusals
    totals = world.replica(1).agent.estimate().counts.sum()
    assert totals >= 50.0 * 36.0


def test_the_api_answers_429_with_a_time_to_wait() -> None:
    _, service = make(rate=0.2)
    with running(service) as server:
        answers = [ask(server, "POST", "/choose") for _ in range(8)]
    assert [answer.status for answer in answers] == [200] * 6 + [429] * 2
    assert answers[-1].headers["retry-after"] == "5"
    assert "max_pulls_per_second" in answers[-1].json()["error"]


@pytest.mark.parametrize("policy", ["flood-ts", "tree-ts", "gossip-ts", "flooded-totals*moss"])
def test_rewards_at_the_bound_leave_choices_and_estimates_finite(policy: str) -> None:
    world, service = make(policy=policy, rate=1000.0)
    for reward in (1e60, -1e60, 1e60, 1e-60) * 10:
        service.bandit("only").observe(service.bandit("only").choose().ticket, reward)
        ticket = service.bandit("only").choose().ticket
        for beyond in (1e308, -1e308, 1.01e60):
            with pytest.raises(InputError, match="too large"):
                service.bandit("only").observe(ticket, beyond)
        service.bandit("only").observe(ticket, 0.0)
        world.step()
    for arm in service.bandit("only").arms():
        assert arm.mean is None or abs(arm.mean) <= 1e60
