"""Both clients against a real server; one set of tests, in which `AsyncClient` is driven."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from coopbandits.core.errors import InputError
from coopbandits.fleet.api import ApiServer
from coopbandits.fleet.client import AsyncClient, UnreachableError
from coopbandits.fleet.service import (
    ExpiredTicketError,
    OtherRewardError,
    RateLimitError,
    UnavailableError,
    UnknownTicketError,
)

from ..api.certificates import contexts
from ..api.running import running
from ..api.stand_in import StandIn
from .driving import Make, answer, scripted

KEY = "secret"


def test_choose_then_observe(server: ApiServer, make: Make) -> None:
    with make(server.address) as client:
        choice = client.choose(["green"])
        assert choice.arm == "green"
        receipt = client.observe(choice.ticket, 1)
        assert receipt == (choice.ticket, "green", 1.0, False)
        assert client.observe(choice.ticket, 1) == (choice.ticket, "green", 1.0, True)
        assert client.choose().arm in {"blue", "green", "red"}


def test_looks_at_the_agent(make: Make) -> None:
    agent = StandIn(["left", "right"])
    agent.observe(agent.choose(["right"]).ticket, 0.5)
    with running(agent) as server, make(server.address) as client:
        assert client.arms() == agent.arms()
        assert client.health() == agent.health()
        assert client.ready() is None
        agent.unready = "the journal is being read"
        assert client.ready() == agent.unready


def test_refusals_are_raised_as_the_agent_raises_them(make: Make) -> None:
    now = [0.0]
    agent = StandIn(pause=30, clock=lambda: now[0])
    with running(agent) as server, make(server.address) as client:
        with pytest.raises(UnknownTicketError, match="'x'"):
            client.observe("x", 1)
        with pytest.raises(InputError, match="'blue'"):
            client.choose(["bleu"])
        ticket = client.choose().ticket
        with pytest.raises(RateLimitError, match="slow down") as caught:
            client.choose()
        assert caught.value.retry_after == 30
        client.observe(ticket, 1)
        with pytest.raises(OtherRewardError):
            client.observe(ticket, 0)
        now[0] = 30
        ticket = client.choose().ticket
        now[0] = 91
        with pytest.raises(ExpiredTicketError):
            client.observe(ticket, 1)


@pytest.mark.parametrize("reward", [float("nan"), float("inf")])
def test_a_reward_is_finite(server: ApiServer, make: Make, reward: float) -> None:
    with make(server.address) as client, pytest.raises(InputError, match="finite"):
        client.observe("x", reward)


def test_one_connection_serves_many_calls(server: ApiServer, make: Make) -> None:
    with make(server.address) as client:
        client.health()
        before = set(server._connections._open)
        for _ in range(5):
            client.choose()
        assert set(server._connections._open) == before


def test_a_token_is_shown(make: Make) -> None:
    with running(StandIn(), token=KEY) as server:
        with make(server.address, KEY) as client:
            assert client.ready() is None
        with make(server.address) as client, pytest.raises(InputError, match="token"):
            client.health()


def test_over_a_unix_socket(tmp_path: Path, make: Make) -> None:
    address = f"unix:{tmp_path}/api.sock"
    with running(StandIn(), address), make(address) as client:
        assert client.choose(["red"]).arm == "red"


def test_over_tls(tmp_path: Path, make: Make) -> None:
    wanting, holding = contexts(tmp_path)
    with running(StandIn(), tls=wanting) as server:
        with make(server.address, tls=holding) as client:
            assert client.choose(["red"]).arm == "red"
        with make(server.address, timeout=0.2) as client, pytest.raises(UnreachableError):
            client.choose()


def test_a_restarted_agent_is_found_again(tmp_path: Path, make: Make) -> None:
    """A reward handed in while the agent is away arrives, once."""
    agent, address = StandIn(), f"unix:{tmp_path}/api.sock"
    with make(address, timeout=20) as client:
        with running(agent, address):
            ticket = client.choose().ticket
        back = threading.Event()

        def restart() -> None:
            time.sleep(0.2)
            with running(agent, address):
                back.wait(20)

        thread = threading.Thread(target=restart)
        thread.start()
        try:
            assert not client.observe(ticket, 1).duplicate
        finally:
            back.set()
            thread.join()
    assert sum(map(len, agent.rewards.values())) == 1


def test_nobody_there_is_a_sentence_in_time(tmp_path: Path, make: Make) -> None:
    began = time.monotonic()
    with make(f"unix:{tmp_path}/api.sock", timeout=0.2) as client:
        with pytest.raises(UnreachableError, match=r"0\.2 s"):
            client.choose()
        assert "is it running there?" in client.ready()
    assert time.monotonic() - began < 60


HEALTHY = answer("200 OK", b'{"id": "x"}')


@pytest.mark.parametrize(
    ("reply", "error", "words"),
    [
        (answer("200 OK", b"<html>"), UnreachableError, "status 200"),
        (answer("404 Not Found", b"[]"), UnreachableError, "is no agent"),
        (answer("500 No", b'{"error": "the disk is full"}'), UnavailableError, "disk is full"),
        (answer("418 Teapot", b"{}"), InputError, "the agent answered 418"),
    ],
)
def test_odd_answers(make: Make, reply: bytes, error: type[Exception], words: str) -> None:
    listening, thread = scripted(reply)
    host, port = listening.getsockname()
    with listening, make(f"{host}:{port}") as client:
        with pytest.raises(error, match=words):
            client.health()
        thread.join()


@pytest.mark.parametrize(
    "broken", [b"", HEALTHY[:-3], b"220 mail.example ESMTP\r\n\r\n"], ids=["end", "half", "other"]
)
def test_a_broken_answer_is_asked_for_again(make: Make, broken: bytes) -> None:
    listening, thread = scripted(broken, HEALTHY)
    host, port = listening.getsockname()
    with listening, make(f"{host}:{port}", timeout=10) as client:
        assert client.health() == {"id": "x"}
        thread.join()


def test_an_answer_may_come_in_pieces_and_end_the_connection(make: Make) -> None:
    head = b"HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    listening, thread = scripted(*[head + b'5\r\n{"id"\r\n6\r\n: "x"}\r\n0\r\n\r\n'] * 2)
    host, port = listening.getsockname()
    with listening, make(f"{host}:{port}", timeout=10) as client:
        assert client.health() == {"id": "x"}
        assert client.health() == {"id": "x"}
        thread.join()


def test_many_may_share_a_client(server: ApiServer, make: Make) -> None:
    with make(server.address) as client:
        tickets = {choice.ticket for _ in range(5) for choice in client.together("choose", 16)}
    assert len(tickets) == 80


def test_a_task_that_is_cancelled_disturbs_no_other(server: ApiServer) -> None:
    async def choose() -> set[str]:
        async with AsyncClient(server.address) as client:
            tasks = [asyncio.create_task(client.choose()) for _ in range(20)]
            await asyncio.sleep(0)
            tasks[0].cancel()
            await asyncio.wait(tasks)
            assert tasks[0].cancelled()
            return {task.result().ticket for task in tasks[1:]}

    assert len(asyncio.run(choose())) == 19


HEAVY = {"numpy", "msgspec", "asyncio", "ssl", "logging", "cryptography"}


def test_a_client_is_imported_without_what_it_does_not_need() -> None:
    code = "import sys, coopbandits.fleet.client; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not HEAVY & set(done.stdout.split())
