"""An agent inside a program: asked by many threads, stopped and started, and failing cleanly."""

from __future__ import annotations

import errno
import inspect
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from coopbandits.core.errors import InputError
from coopbandits.fleet.config import NodeConfig, read_config, write_config
from coopbandits.fleet.process.embedded import LocalAgent
from coopbandits.fleet.service import OtherRewardError, UnavailableError, UnknownTicketError

TABLES: dict[str, Any] = {
    "cluster": {
        "name": "shop",
        "epoch": datetime(2026, 1, 31, tzinfo=UTC),
    },
    "bandits": {"button": {"arms": ["red", "blue"], "reward_range": [0.0, 1.0]}},
    "node": {
        "id": "shop-1",
        "listen": "127.0.0.1:0",
        "journal": "memory",
        "default_bandit": "button",
    },
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return the configuration of an agent without neighbours."""
    path = tmp_path / "node.toml"
    path.write_text(write_config(TABLES))
    return path


def threads() -> set[str]:
    return {thread.name for thread in threading.enumerate()}


def pull(agent: LocalAgent) -> float:
    choice = agent.choose()
    reward = float(choice.arm == "red")
    assert agent.observe(choice.ticket, reward) == (choice.ticket, choice.arm, reward, False)
    return reward


def test_many_threads_ask_one_agent(path: Path) -> None:
    with LocalAgent(path, insecure=True) as agent, ThreadPoolExecutor(8) as pool:
        assert agent.ready() is None
        assert agent.choose(["blue"]).arm == "blue"
        rewards = list(pool.map(lambda _: pull(agent), range(200)))
        red, blue = agent.arms()
        assert red.own_pulls == sum(rewards)
        assert blue.own_pulls == 200 - sum(rewards)
        assert (red.own_reward, blue.own_reward, blue.open) == (sum(rewards), 0.0, 1)
        health = agent.health()
        assert (health["rewards"], health["open_tickets"]) == (200, 1)
        assert health["bandits"]["button"]["mode"] == "robust"
        metrics = {metric.name: metric for metric in agent.metrics()}
        assert metrics["rewards_total"].samples == [({}, 200.0)]
    assert "agent shop-1" not in threads()


def test_a_restart_keeps_all(path: Path) -> None:
    agent = LocalAgent(path, insecure=True)
    with agent:
        open_ticket = agent.choose().ticket
        pull(agent)
        before = agent.arms()
    with agent:
        assert agent.arms() == before
        assert not agent.observe(open_ticket, 0.5).duplicate
        with pytest.raises(OtherRewardError):
            agent.observe(open_ticket, 0.25)
    with LocalAgent(path, insecure=True) as again:
        assert sum(arm.own_pulls for arm in again.arms()) == 2
        assert again.observe(open_ticket, 0.5).duplicate


def test_refusals_reach_the_caller(path: Path) -> None:
    with LocalAgent(path, insecure=True) as agent:
        with pytest.raises(UnknownTicketError):
            agent.observe("0-1", 1.0)
        with pytest.raises(InputError, match="'blue'"):
            agent.choose(["bleu"])
        choice = agent.choose()
        reward: Any
        for ticket, reward in (("17", None), (choice.ticket, None), (choice.ticket, "1")):
            with pytest.raises(InputError, match="a reward is a finite number"):
                agent.observe(ticket, reward)
        with pytest.raises(InputError, match="a ticket is a string, got None"):
            agent.observe(None, 1.0)  # type: ignore[arg-type]
        assert agent.health()["rewards"] == 0
        with pytest.raises(InputError, match="already running"):
            agent.start()
        assert agent.ready() is None


def test_an_agent_that_does_not_run_says_so(path: Path) -> None:
    agent = LocalAgent(path, insecure=True)
    agent.stop()  # harmless
    calls = (agent.choose, lambda: agent.observe("x", 1.0), agent.arms, agent.health, agent.ready)
    for call in calls:
        with pytest.raises(InputError, match=r"shop-1.*not running"):
            call()
    with agent:
        pass
    with pytest.raises(InputError, match="not running"):
        agent.choose()


def test_who_asks_while_it_stops_gets_an_answer(path: Path) -> None:
    """Neither a reward that was acknowledged is lost, nor does anybody wait for ever."""
    agent = LocalAgent(path, insecure=True)
    counted: list[float] = []

    def work() -> None:
        with suppress(InputError):
            while True:
                counted.append(pull(agent))

    workers = [threading.Thread(target=work) for _ in range(4)]
    agent.start()
    for worker in workers:
        worker.start()
    while len(counted) < 50:
        time.sleep(0.001)
    agent.stop()
    for worker in workers:
        worker.join(10)
        assert not worker.is_alive()
    with agent:
        assert sum(arm.own_pulls for arm in agent.arms()) == len(counted)


def test_a_call_of_another_agent_ends_with_a_failure(tmp_path: Path) -> None:
    tables = TABLES | {"node": TABLES["node"] | {"forward_seconds": 600.0}}
    path = tmp_path / "node.toml"
    path.write_text(write_config(tables))
    with LocalAgent(path, insecure=True) as agent, ThreadPoolExecutor(1) as pool:
        calls = agent._runtime.node.calls
        waiting = pool.submit(agent.observe, "0b7c5f3a90c2e845-1@shop-9", 1.0)
        end = time.monotonic() + 60.0
        while not calls.pending and time.monotonic() < end:
            time.sleep(0.01)
        assert agent._loop is not None
        agent._loop.call_soon_threadsafe(agent._runtime.fail, "a test", None)
        with pytest.raises(UnavailableError):
            waiting.result(60.0)
        with pytest.raises(UnavailableError, match="the agent failed in a test"):
            agent.observe("0b7c5f3a90c2e845-1@shop-9", 1.0)


def test_a_failed_start_leaves_nothing_behind(path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        path.write_text(write_config(TABLES | {"node": TABLES["node"] | {"listen": place}}))
        agent = LocalAgent(path, insecure=True)
        with pytest.raises(InputError, match=place):
            agent.start()
    assert "agent shop-1" not in threads()
    with pytest.raises(InputError, match="not running"):
        agent.choose()
    with agent:  # the place is free now, and so is the journal
        pull(agent)


@pytest.mark.parametrize("part", ["node.leave", "_writer.close", "transport.stop", "disk.close"])
def test_a_failed_stop_leaves_nothing_behind(path: Path, part: str) -> None:
    agent = LocalAgent(path, insecure=True)
    agent.start()
    pull(agent)
    owner: Any = agent._runtime
    *way, name = part.split(".")
    for step in way:
        owner = getattr(owner, step)
    end = getattr(owner, name)

    async def fails_later() -> None:
        await end()
        raise OSError(errno.EIO, "I/O error")

    def fails(*given: object) -> None:
        end(*given)
        raise OSError(errno.EIO, "I/O error")

    setattr(owner, name, fails_later if inspect.iscoroutinefunction(end) else fails)
    with pytest.raises(OSError, match="I/O error"):
        agent.stop()
    assert "agent shop-1" not in threads()
    with agent:  # the journal is free
        assert sum(arm.own_pulls for arm in agent.arms()) == 1


def test_a_journal_in_use_is_a_sentence(path: Path) -> None:
    config = read_config(path, now=time.time(), insecure=True)
    assert isinstance(config, NodeConfig)
    with LocalAgent(config) as agent:
        with pytest.raises(InputError, match="another process"):
            LocalAgent(config).start()
        pull(agent)


def test_without_tls_it_must_be_told_so(path: Path) -> None:
    with pytest.raises(InputError, match=r"\[tls\]"):
        LocalAgent(path)


def test_a_program_tells_of_its_requests(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    request: dict[str, Any] = {"hour": 13, "country": "PT"}
    features = {"hour": [0, 24], "country": ["PT", "ES"]}
    button = TABLES["bandits"]["button"] | {"features": features}
    path.write_text(write_config(TABLES | {"bandits": {"button": button}}))
    with LocalAgent(path, insecure=True) as agent:
        kept = agent.choose(["red"], request).ticket
        with pytest.raises(InputError, match=r"'hour'.* 25\.0"):
            agent.choose(context={**request, "hour": 25})
        with pytest.raises(InputError, match="no context"):
            agent.choose()
    with LocalAgent(path, insecure=True) as agent:  # the journal has kept the context
        agent.observe(kept, 1.0)
        here, there = (agent.arms({**request, "country": each})[0] for each in ("PT", "ES"))
        assert here.mean is not None
        assert there.mean is not None
        assert here.mean > there.mean > 0.0
