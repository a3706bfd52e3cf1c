"""While the agent is away: a default, and answers at once."""

from __future__ import annotations

import logging
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from coopbandits.fleet.client import UnreachableError
from coopbandits.fleet.service import RateLimitError, UnavailableError

from ..api.running import running
from ..api.stand_in import StandIn
from .driving import Make, answer, scripted, silent

PATIENCE = 90.0


class Full(StandIn):
    """An agent whose disk is full."""

    def choose(self, allowed: Any = None, context: Any = None) -> Any:
        raise UnavailableError("the disk is full")


def test_a_default_stands_in_while_the_agent_is_away(tmp_path: Path, make: Make) -> None:
    with make(f"unix:{tmp_path}/api.sock", timeout=0.1, default="green") as client:
        choice = client.choose()
        assert choice.arm == "green"
        assert choice.is_default
        assert client.choose(["red", "green"]).arm == "green"
        assert client.choose(["red", "blue"]).arm == "red", "what is not allowed is never chosen"
        with pytest.raises(UnreachableError):
            client.observe("ticket-1", 1.0)


def test_the_reward_of_a_default_is_counted_nowhere(make: Make) -> None:
    agent = StandIn()
    with make("127.0.0.1:1", timeout=0.1, default="green") as client:
        ticket = client.choose().ticket
    with running(agent) as server, make(server.address) as client:
        receipt = client.observe(ticket, 1)
        assert receipt == (ticket, "green", 1.0, False)
        assert receipt.is_default
        assert not any(agent.rewards.values())
        choice = client.choose()
        assert not choice.is_default
        assert not client.observe(choice.ticket, 1).is_default


def test_a_default_stands_in_for_an_agent_that_cannot_serve(make: Make) -> None:
    with running(Full()) as server:
        with make(server.address, default="blue") as client:
            assert client.choose().is_default
        with make(server.address) as client, pytest.raises(UnavailableError, match="disk is full"):
            client.choose()


def test_a_default_stands_in_for_something_that_is_no_agent(make: Make) -> None:
    listening, thread = scripted(answer("502 Bad Gateway", b"<html>"))
    host, port = listening.getsockname()
    with listening, make(f"{host}:{port}", default="blue") as client:
        assert client.choose().is_default
        thread.join()


def test_mistakes_are_raised_all_the_same(make: Make) -> None:
    with running(StandIn(pause=30)) as server, make(server.address, default="blue") as client:
        client.choose()
        with pytest.raises(RateLimitError):
            client.choose()


def fail(client: Any, calls: int = 3) -> None:
    for _ in range(calls):
        with pytest.raises(UnreachableError, match="no agent answered"):
            client.observe("x", 1.0)


@pytest.mark.parametrize("nobody", ["refuses", "is silent"])
def test_after_three_failures_calls_end_at_once(make: Make, nobody: str) -> None:
    with silent() as address:
        place = address if nobody == "is silent" else "127.0.0.1:1"
        with make(place, timeout=0.4, default="blue") as client:
            fail(client)
            taken = []
            for _ in range(40):
                began = time.monotonic()
                assert client.choose().is_default
                taken.append(time.monotonic() - began)
            assert sum(taken) < 0.4 * 40 / 4
            assert sorted(taken)[30] < 0.02, "only the call that begins a probe takes longer"
            with pytest.raises(UnreachableError, match="until it answers"):
                client.observe("x", 1.0)


def test_an_agent_that_is_back_is_noticed_by_ordinary_calls(
    tmp_path: Path, make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    address = f"unix:{tmp_path}/api.sock"
    with make(address, timeout=0.1, default="blue") as client:
        fail(client)
        with running(StandIn(), address):
            deadline = time.monotonic() + PATIENCE
            while client.choose().is_default:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            assert not any(client.choose().is_default for _ in range(10))
    assert [record.levelname for record in caplog.records if "client" in record.name] == [
        "WARNING",
        "INFO",
    ]


def test_a_program_without_a_log_is_not_written_to() -> None:
    code = (
        "from coopbandits.fleet.client import Client\n"
        "client = Client('127.0.0.1:1', timeout=0.05, default='blue')\n"
        "print(all(client.choose().is_default for _ in range(9)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_the_first_call_after_a_long_time_is_answered_by_the_agent(
    tmp_path: Path, make: Make
) -> None:
    """The probe is waited for a moment, which is enough on one machine."""
    address = f"unix:{tmp_path}/api.sock"
    with make(address, timeout=0.1, default="blue") as client:
        fail(client)
        assert client.choose().is_default
        began = time.monotonic()
        with running(StandIn(), address):
            while time.monotonic() - began < 0.6:  # the next probe is due
                time.sleep(0.01)
            assert not client.choose().is_default


def test_questions_about_the_agent_are_always_asked(tmp_path: Path, make: Make) -> None:
    address = f"unix:{tmp_path}/api.sock"
    with make(address, timeout=0.2) as client:
        fail(client)
        assert "within 0.2 s" in client.ready()
        with running(StandIn(), address):
            assert client.health()["id"] == "stand-in"
            assert client.choose().ticket == "ticket-1", "that answer counts"


def test_an_answer_in_between_keeps_the_way_open(tmp_path: Path, make: Make) -> None:
    address = f"unix:{tmp_path}/api.sock"
    with make(address, timeout=0.1) as client:
        for _ in range(2):
            fail(client, 2)
            with running(StandIn(), address):
                client.choose()
