"""Agents that are told to stop: what they wait for, what their neighbours know then."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from coopbandits.core.errors import InputError
from coopbandits.fleet.client import Client
from coopbandits.fleet.service import UnavailableError

from .agents import TOKEN, agents, lonely, pulls, wait


def test_a_drained_agent_waits_for_rewards_and_hands_them_in(
    tmp_path: Path, certificates: Path
) -> None:
    with agents(tmp_path, certificates=certificates, drain_seconds=60.0) as (alpha, beta):
        alpha.start()
        beta.start()
        with alpha.client() as client, beta.client() as other:
            wait(lambda: other.health()["links"]["alpha"] == "up")
            tickets = [client.choose().ticket for _ in range(3)]
            client.observe(tickets.pop(), 1.0)
            alpha.send(signal.SIGTERM)
            wait(lambda: "about to stop" in str(client.ready()))
            assert client.health()["open_tickets"] == 2  # it is alive, and answers
            with pytest.raises(UnavailableError, match="makes no more choices; ask another agent"):
                client.choose()
            for ticket in tickets:
                assert not client.observe(ticket, 1.0).duplicate
            assert alpha.end() == 0
            assert pulls(other) == 3.0  # the last ones too, which were signed after they came
            told = [event["text"] for event in other.state()["events"]]
            assert "alpha has left" in told
            assert "link to alpha is down: alpha has left" in told
        assert "drained: 0 tickets are still open" in alpha.told()
        assert "refused" not in beta.told()


def test_the_deadline_ends_the_wait_and_the_journal_keeps_what_is_open(tmp_path: Path) -> None:
    with lonely(tmp_path, drain_seconds=0.3) as agent:
        agent.start()
        with agent.client() as client:
            ticket = client.choose().ticket
            began = time.monotonic()
            agent.send(signal.SIGTERM)
            assert agent.end() == 0
            assert time.monotonic() - began > 0.3
            assert "drained: 1 tickets are still open" in agent.told()
            agent.write(drain_seconds=60.0)
            agent.start()
            assert client.ready() is None
            agent.send(signal.SIGTERM)
            wait(lambda: agent.told().count("draining: ") == 2)
            began = time.monotonic()
            agent.send(signal.SIGTERM)
            assert agent.end() == 0
            assert time.monotonic() - began < 15.0  # far from the deadline
            assert "told to stop a second time" in agent.told()
            agent.write(drain_seconds=0.0)
            agent.start()
            assert not client.observe(ticket, 1.0).duplicate
            client.choose()
            agent.send(signal.SIGTERM)  # without a drain it waits for nobody
            assert agent.end() == 0
            assert agent.told().count("draining: ") == 2


def test_who_may_ask_an_agent_to_stop(tmp_path: Path) -> None:
    with lonely(tmp_path, api="127.0.0.1:0") as agent:
        agent.start()
        place = agent.told().partition("serves at ")[2].partition(",")[0]
        with Client(place) as client, pytest.raises(InputError, match="send its process SIGTERM"):
            client.drain()
        agent.send(signal.SIGTERM)
        assert agent.end() == 0
        agent.write_token(TOKEN)
        agent.start()
        place = agent.told().rpartition("serves at ")[2].partition(",")[0]
        needed = "a valid token is needed"
        with Client(place) as stranger, pytest.raises(InputError, match=needed):
            stranger.drain()
        with Client(place, TOKEN) as client:
            client.choose()
            client.drain(60.0)
            client.drain(0.0)  # asked twice, it changes nothing
            wait(lambda: "about to stop" in str(client.ready()))
            agent.send(signal.SIGTERM)
        assert agent.end() == 0
