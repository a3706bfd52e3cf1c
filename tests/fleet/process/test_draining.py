"""Agents that are told to stop: what they wait for, what their neighbours know then."""

from __future__ import annotations

import asyncio
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import networkx as nx
import pytest

from coopbandits.fleet.process.embedded import LocalAgent
from coopbandits.fleet.process.main import Drain
from coopbandits.fleet.process.runtime import Runtime
from coopbandits.fleet.service import UnavailableError

from ..bandits import Many, both
from ..document.made import pass_seconds, signed, world
from .agents import agents, lonely, pulls, wait


def test_a_drained_agent_waits_for_rewards_and_hands_them_in(
    tmp_path: Path, certificates: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with agents(tmp_path, certificates=certificates, drain_seconds=60.0) as (alpha, beta):
        alpha.start()
        neighbor = LocalAgent(beta.path, insecure=True)
        with alpha.client() as client, neighbor as other:
            wait(lambda: other.health()["links"]["alpha"] == "up")
            tickets = [client.choose().ticket for _ in range(3)]
            client.observe(tickets.pop(), 1.0)
            alpha.send(signal.SIGTERM)
            wait(lambda: "about to stop" in str(client.ready()))
            assert client.health()["open_tickets"] == 2  # it is alive, and answers
            with pytest.raises(UnavailableError, match="no more choices"):
                client.choose()
            for ticket in tickets:
                assert not client.observe(ticket, 1.0).duplicate
            assert alpha.end() == 0
            assert pulls(other) == 3.0  # the last ones too, which were signed after they came
            told = [event.text for event in other.state().events]
            assert "alpha has left" in told
            assert "link to alpha is down: alpha has left" in told
        assert "drained; 0 tickets still open" in alpha.told()
        assert "alpha has left" in caplog.text  # so a refusal would be there, too
        assert "refused" not in caplog.text


@pytest.mark.slow
def test_a_drained_agent_does_not_wait_for_a_neighbour_that_hangs(
    tmp_path: Path, certificates: Path
) -> None:
    with agents(tmp_path, certificates=certificates, drain_seconds=60.0) as (alpha, beta):
        alpha.start()
        beta.start()
        with alpha.client() as client, beta.client() as other:
            wait(lambda: other.health()["links"]["alpha"] == "up")
            beta.send(signal.SIGSTOP)  # as a machine that hangs
            client.observe(client.choose().ticket, 1.0)
            alpha.send(signal.SIGTERM)
            assert alpha.end() == 0
            assert "not all neighbours have the last rewards" in alpha.told()


def test_the_deadline_ends_the_wait_and_the_journal_keeps_what_is_open(tmp_path: Path) -> None:
    with lonely(tmp_path, drain_seconds=0.3) as agent:
        agent.start()
        with agent.client() as client:
            ticket = client.choose().ticket
            began = time.monotonic()
            agent.send(signal.SIGTERM)
            assert agent.end() == 0
            assert time.monotonic() - began > 0.3
            assert "drained; 1 tickets still open" in agent.told()
        with LocalAgent(agent.path, insecure=True) as again:
            assert not again.observe(ticket, 1.0).duplicate


@pytest.mark.slow
def test_without_a_drain_an_agent_waits_for_nobody(tmp_path: Path) -> None:
    with lonely(tmp_path, drain_seconds=0.0) as agent:
        agent.start()
        with agent.client() as client:
            client.choose()
            agent.send(signal.SIGTERM)
            assert agent.end() == 0
            assert "draining for " not in agent.told()


@pytest.mark.slow
def test_a_second_signal_ends_the_wait(tmp_path: Path) -> None:
    with lonely(tmp_path, drain_seconds=60.0) as agent:
        agent.start()
        with agent.client() as client:
            client.choose()
            agent.send(signal.SIGTERM)
            wait(lambda: "draining for " in agent.told())
            began = time.monotonic()
            agent.send(signal.SIGTERM)
            assert agent.end() == 0
            assert time.monotonic() - began < 50.0  # before the deadline
            assert "second stop signal" in agent.told()


@pytest.mark.slow
def test_the_earliest_deadline_that_was_asked_for_counts(tmp_path: Path) -> None:
    with lonely(tmp_path) as agent:
        agent.start()
        with agent.client() as client:
            client.choose()
            client.drain(600.0)
            client.drain(600.0)  # the same again, as by a client that heard no answer
            client.drain()
            client.drain(1200.0)
            wait(lambda: "ignoring 1200 s" in agent.told())
            began = time.monotonic()
            client.drain(0.3)
            client.drain(30.0)
            assert agent.end() == 0
            assert 0.3 < time.monotonic() - began < 29.0
            assert "draining for at most 0.3 s from now on" in agent.told()
            assert "drained; 1 tickets still open" in agent.told()
            agent.start()
            client.drain(600.0)
            client.drain(0.0)
            assert agent.end() == 0
            assert agent.told().count("drained; ") == 1  # the second did not even hand in


@pytest.mark.slow
def test_an_agent_without_a_link_waits_for_one_if_nobody_else_knows_what_it_has(
    tmp_path: Path, certificates: Path
) -> None:
    with agents(tmp_path, certificates=certificates, drain_seconds=0.3) as (alpha, beta):
        alpha.start()
        with alpha.client() as client:
            client.observe(client.choose().ticket, 1.0)
        alpha.send(signal.SIGTERM)
        assert alpha.end() == 0
        assert "without a link: up to 1 rewards" in alpha.told()
        alpha.write(drain_seconds=60.0)
        alpha.start()
        with alpha.client() as client:
            client.observe(client.choose().ticket, 1.0)
        alpha.send(signal.SIGTERM)
        beta.start()
        assert alpha.end() == 0
        with beta.client() as other:
            assert pulls(other) == 2.0
        assert alpha.told().count("stopping without a link") == 1


@pytest.mark.parametrize("slow", ["rounds_per_second", "signatures_per_second"])
def test_a_drain_goes_by_the_pace_of_the_document(
    slow: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = world(nx.path_graph(2), rounds_per_second=20.0)
    pass_seconds(fleet, 5)
    fleet.shells[0].adopt(signed(1, settings={slow: 0.1}))
    pass_seconds(fleet, 31)
    fleet.pull(0, 0, 1.0)
    pass_seconds(fleet, 1)  # with a quick pace it is signed by now, and the next waits its turn
    for word in range(1, 20):
        fleet.pull(0, word, 1.0)
    pause = asyncio.sleep

    async def look(seconds: float) -> None:
        fleet.step(seconds)
        await pause(0)

    async def drain() -> None:
        loop: Any = asyncio.get_running_loop()
        loop.time = lambda: fleet.now
        service = SimpleNamespace(draining=False)
        runtime = SimpleNamespace(service=service, node=fleet.node(0), failed=asyncio.Event())
        drain = Drain(cast("Runtime", runtime), 60.0, lambda: None)
        drain.begin()
        await drain.over.wait()

    monkeypatch.setattr(asyncio, "sleep", look)
    asyncio.run(drain())
    assert fleet.totals(1)[2:].sum() == 20.0


@pytest.mark.parametrize("policy", ["flood-ts", "tree-ts"])
def test_what_nobody_else_is_known_to_have_is_counted(policy: str) -> None:
    declared = both(policy=policy)
    fleet = Many(nx.path_graph(2), declared=declared)
    node = fleet.node(0)
    assert not node.is_linked()
    for name in ("button", "button", "banner"):
        fleet.play(0, name, 1.0)
    assert node.undelivered() == 3
    for _ in range(4):
        fleet.steps(15)
        fleet.shells[0].beat()
    assert node.is_linked()
    assert node.undelivered() == 0
    fleet.take(0, both(arms=["red", "green", "blue"], policy=policy))
    assert node.undelivered() == 0  # other arms, and the same rewards
    fleet.cut_link(0, 1)
    fleet.play(0, "banner", 1.0)
    for _ in range(4):
        fleet.steps(15)
        fleet.shells[0].beat()
    assert not node.is_linked()
    assert node.undelivered() == 1
