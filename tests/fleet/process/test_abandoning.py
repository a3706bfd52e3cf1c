"""A process whose application submits no rewards keeps choosing, also after restarts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coopbandits.fleet.client import Client
from coopbandits.fleet.service import ExpiredTicketError

from .agents import lonely


def abandoned(client: Client, ticket: str) -> None:
    with pytest.raises(ExpiredTicketError, match=r"was abandoned .*max_open_tickets"):
        client.observe(ticket, 1.0)


def test_choices_go_on_without_rewards_and_through_restarts_with_other_limits(
    tmp_path: Path,
) -> None:
    with lonely(tmp_path, journal="state", max_open_tickets=6, log_format="json") as agent:
        agent.start()
        with agent.client() as client:
            tickets = [client.choose().ticket for _ in range(20)]
            abandoned(client, tickets[13])
            assert not client.observe(tickets[14], 1.0).duplicate
            health = client.health()
            assert (health["open_tickets"], health["abandoned_tickets"]) == (5, 14)
            assert health["bandits"]["button"]["max_open_tickets"] == 6
        lines = [json.loads(line) for line in agent.told().splitlines() if "{" in line]
        warned = [line for line in lines if "max_open_tickets" in line]
        assert [(line["level"], line["bandit"], line["open_tickets"]) for line in warned] == [
            ("warning", "button", 3),
            ("warning", "button", 6),
        ]
        for limit in (2, 50):
            agent.kill()
            agent.write(max_open_tickets=limit)
            agent.start()
            with agent.client() as client:
                health = client.health()
                assert health["rewards"] == 1
                if limit == 2:
                    assert (health["open_tickets"], health["abandoned_tickets"]) == (5, 14)
                    tickets.append(client.choose().ticket)
                health = client.health()
                assert (health["open_tickets"], health["abandoned_tickets"]) == (2, 18)
                abandoned(client, tickets[18])
        with agent.client() as client:
            for ticket in tickets[19:]:
                assert not client.observe(ticket, 1.0).duplicate
            assert client.health()["rewards"] == 3
