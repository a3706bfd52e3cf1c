"""Agents that are told to stop: what they wait for, what their neighbours know then."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from coopbandits.fleet.service import UnavailableError

from .agents import agents, lonely, pulls, wait


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
        assert "drained; open tickets, which the journal keeps: 0" in alpha.told()
        assert "refused" not in beta.told()

        alpha.start()
        with alpha.client() as client, beta.client() as other:
            wait(lambda: other.health()["links"]["alpha"] == "up")
            beta.send(signal.SIGSTOP)  # as a machine that hangs
            client.observe(client.choose().ticket, 1.0)
            alpha.send(signal.SIGTERM)
            assert alpha.end() == 0
            assert "stopping although not all neighbours have the last rewards" in alpha.told()


def test_the_deadline_ends_the_wait_and_the_journal_keeps_what_is_open(tmp_path: Path) -> None:
    with lonely(tmp_path, drain_seconds=0.3) as agent:
        agent.start()
        with agent.client() as client:
            ticket = client.choose().ticket
            began = time.monotonic()
            agent.send(signal.SIGTERM)
            assert agent.end() == 0
            assert time.monotonic() - began > 0.3
            assert "drained; open tickets, which the journal keeps: 1" in agent.told()
            agent.write(drain_seconds=60.0)
            agent.start()
            assert client.ready() is None
            agent.send(signal.SIGTERM)
            wait(lambda: agent.told().count("draining for ") == 2)
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
            assert agent.told().count("draining for ") == 2
