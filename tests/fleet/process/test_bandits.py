"""Real agents with several bandits: processes, sockets, HTTP, clients, and one in a thread."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from coopbandits.core.errors import InputError
from coopbandits.fleet.client import AsyncClient, Client
from coopbandits.fleet.config import read_config, write_config
from coopbandits.fleet.document.seal import sign_file, to_json
from coopbandits.fleet.identity.operators import key_text, make_key
from coopbandits.fleet.process.backup import back_up, restore
from coopbandits.fleet.process.declarations import Declarations
from coopbandits.fleet.process.embedded import LocalAgent
from coopbandits.fleet.service import UnavailableError, UnknownBanditError

from ..document.made import signed, text
from .agents import lonely, wait

FILE = """
[cluster]
name = "shop"
epoch = 2026-01-31T12:00:00Z

[bandits.checkout-button]
arms = ["red", "green"]
reward_range = [0.0, 1.0]
token_file = "token"

[bandits.banner]
arms = ["a", "b", "c"]
sigma = 1.0

[node]
id = "{id}"
listen = "127.0.0.1:{port}"
api = "unix:{id}.sock"
journal = "{id}"

[[neighbors]]
id = "{other}"
address = "127.0.0.1:{other_port}"
"""

TOKEN = "0123456789abcdef" * 2


def free_ports() -> tuple[int, int]:
    with ExitStack() as stack:
        found = [stack.enter_context(socket.socket()) for _ in range(2)]
        for each in found:
            each.bind(("127.0.0.1", 0))
        one, other = (each.getsockname()[1] for each in found)
    return one, other


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    (tmp_path / "token").write_text(TOKEN)
    (tmp_path / "token").chmod(0o600)
    ports = dict(zip("ab", free_ports(), strict=True))
    paths = []
    for name, other in ("ab", "ba"):
        paths.append(tmp_path / f"{name}.toml")
        paths[-1].write_text(
            FILE.format(id=name, other=other, port=ports[name], other_port=ports[other])
        )
    return paths


@contextmanager
def running(path: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "coopbandits", "agent", str(path), "--insecure"]
    process = subprocess.Popen(command, env=os.environ, stderr=subprocess.DEVNULL)
    try:
        with Client(f"unix:{path.with_suffix('.sock')}", timeout=1.0) as client:
            until(lambda: client.ready() is None)
        yield process
    finally:
        process.kill()
        process.wait()


def until(is_so: Callable[[], bool], seconds: float = 90.0) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


async def pulls_at(place: str) -> float:
    async with AsyncClient(place, timeout=20.0, bandit="banner") as client:
        return sum(arm.pulls for arm in await client.arms())


@pytest.mark.slow
def test_two_processes_learn_of_two_bandits_through_a_kill(files: list[Path]) -> None:
    places = [f"unix:{path.with_suffix('.sock')}" for path in files]
    with ExitStack() as stack:
        first = stack.enter_context(running(files[0]))
        stack.enter_context(running(files[1]))
        client = stack.enter_context(Client(places[0], timeout=20.0))
        trusted = stack.enter_context(Client(places[0], TOKEN, timeout=20.0))
        far = stack.enter_context(Client(places[1], timeout=20.0))
        button = trusted.bandit("checkout-button", default="red")
        banner = client.bandit("banner")
        for _ in range(5):
            choice = button.choose()
            button.observe(choice.ticket, 1.0)
            banner.observe(banner.choose().ticket, 0.5)
        with pytest.raises(UnknownBanditError, match="default_bandit"):
            client.choose()
        with pytest.raises(InputError, match="token"):
            client.bandit("checkout-button").choose()
        with pytest.raises(UnknownBanditError, match="'bannr'"):
            client.bandit("bannr").choose()
        late = banner.choose().ticket
        first.kill()
        first.wait()
        stack.enter_context(running(files[0]))
        assert not banner.observe(late, 0.5).duplicate

        def known() -> bool:
            told = far.export()["bandits"]
            pulls = {name: sum(arm["pulls"] for arm in each["arms"]) for name, each in told.items()}
            return pulls == {"checkout-button": 5.0, "banner": 6.0}

        until(known)
        assert asyncio.run(pulls_at(places[1])) == 6.0
        listed = client.bandits()
        assert [(each.name, each.rewards) for each in listed] == [
            ("checkout-button", 5),
            ("banner", 6),
        ]
        assert client.health()["bandits"]["banner"]["rewards"] == 6


def test_an_agent_in_a_thread_takes_other_arms_while_it_runs(files: list[Path]) -> None:
    config = read_config(files[0], now=time.time(), insecure=True)
    with LocalAgent(config) as agent:
        banner = agent.bandit("banner")
        banner.observe(banner.choose(["a"]).ticket, 1.0)
        late = banner.choose(["a"]).ticket
        files[0].write_text(files[0].read_text().replace('["a", "b", "c"]', '["b", "c", "d"]'))
        agent.take(read_config(files[0], now=time.time(), insecure=True).bandits)
        assert {banner.choose().arm for _ in range(40)} == {"b", "c", "d"}
        assert banner.observe(late, 0.0).arm == "a"
        exported = banner.export()["arms"]
        assert [(arm["arm"], arm["state"], arm["own_pulls"]) for arm in exported] == [
            ("a", "removed", 2),
            ("b", "active", 0),
            ("c", "active", 0),
            ("d", "active", 0),
        ]
        json.dumps(agent.export())
        assert [each.name for each in agent.bandits()] == ["checkout-button", "banner"]


def test_what_a_document_declares_a_file_can_leave_out_and_cannot_change(tmp_path: Path) -> None:
    """Whether the file is reloaded or handed in by a program; all else stays with the file."""
    path = tmp_path / "node.toml"
    node = {"id": "shop-1", "listen": "127.0.0.1:0", "journal": "memory"}
    cluster = {"name": "shop", "epoch": datetime(2026, 1, 31, tzinfo=UTC)}
    tables = {"cluster": cluster, "node": node, "document": {"operators": [text(1)]}}

    def declared(**bandits: list[str]) -> Declarations:
        told = {name: {"arms": arms, "sigma": 1.0} for name, arms in bandits.items()}
        path.write_text(write_config(tables | {"bandits": told}))
        return read_config(path, now=time.time(), insecure=True).bandits

    def listed() -> dict[str, list[str]]:
        return {bandit.name: bandit.arms for bandit in agent.bandits() if not bandit.retired}

    declared(one=["red", "blue"])
    wider = {"one": ["red", "blue", "green"], "two": ["x", "y"]}
    with LocalAgent(path, insecure=True) as agent:
        agent.take(declared(**wider))
        agent.adopt(to_json(signed(1, settings={"rounds_per_second": 10.0})))
        assert listed() == wider
        narrow, other = ["red", "blue"], ["q", "r"]
        agent.adopt(to_json(signed(2, bandits={"one": {"arms": narrow, "sigma": 1.0}})))
        assert listed() == {"one": narrow, "two": ["x", "y"]}
        with pytest.raises(
            InputError, match=r"\[bandits\.one\] changed, but version 2\b.*declares"
        ):
            agent.take(declared(one=["red", "pink"], other=other))
        agent.take(declared(**wider))  # as it is
        agent.take(declared(one=narrow, other=other))  # as the document has it
        assert listed() == {"one": narrow, "other": other}
        agent.adopt(to_json(signed(3, retired=["other"])))
        agent.take(declared(other=other))
        assert listed() == {"one": narrow}
        with pytest.raises(InputError, match=r"\[bandits\.other\] .* version 3\b.* retired"):
            agent.take(declared(other=["q", "s"]))
        agent.take(declared(two=["x", "y"]))
        assert listed() == {"two": ["x", "y"], "one": narrow}
    with LocalAgent(path, insecure=True) as agent:
        assert listed() == {"two": ["x", "y"], "one": narrow}


def test_a_watched_document_retires_what_it_lists_and_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    key, document, path = (tmp_path / name for name in ("key", "cluster.toml", "node.toml"))
    arms = {"arms": ["x", "y"], "sigma": 1.0}
    tables = {
        "cluster": {"name": "shop", "epoch": datetime(2026, 1, 31, tzinfo=UTC)},
        "node": {"id": "shop-1", "listen": "127.0.0.1:0", "journal": "memory"},
        "document": {"operators": [key_text(make_key(key))], "file": document.name},
        "bandits": {"one": arms, "two": arms},
    }
    path.write_text(write_config(tables))

    def put(version: int, above: str = "", below: str = "") -> None:
        document.write_text(f'{above}[cluster]\nname = "shop"\nversion = {version}\n{below}')
        sign_file(document, [key])
        wait(lambda: agent.cluster()["version"] == version)

    def listed() -> list[str]:
        return [bandit.name for bandit in agent.bandits() if not bandit.retired]

    with LocalAgent(path, insecure=True) as agent:
        put(1, below='[bandits.three]\narms = ["x", "y"]\nsigma = 1.0\n')
        assert listed() == ["one", "two", "three"]
        put(2, above='retired = ["two"]\n')
        assert listed() == ["one", "three"]
        assert "cluster document retired a bandit bandit=two version=2" in caplog.messages
        assert agent.cluster()["retired"] == {"two": 2}


def test_an_agent_with_several_bandits_is_operated_as_a_whole(tmp_path: Path) -> None:
    """Declarations change with SIGHUP, a drain waits for all tickets, a backup holds them all."""
    arms = {"sigma": 1.0, "arms": ["red", "blue"]}
    with lonely(tmp_path, drain_seconds=60.0) as agent:
        agent.tables["bandits"] = {"button": dict(arms), "banner": dict(arms)}
        agent.write()
        agent.start()
        with agent.client() as client:
            button, banner = client.bandit("button"), client.bandit("banner")
            late, other = button.choose().ticket, banner.choose().ticket
            button.observe(button.choose().ticket, 1.0)
            copy = tmp_path / "copy"
            config = read_config(agent.path, now=time.time(), insecure=True)
            assert "; rewards: 1; open tickets: 2" in back_up(config, copy, time.time())

            agent.tables["bandits"]["button"]["arms"] = ["red", "green"]
            agent.write()
            agent.send(signal.SIGHUP)
            wait(lambda: "the configuration was reloaded" in agent.told())
            assert {button.choose(allowed=["green"]).arm} == {"green"}
            agent.tables["bandits"]["banner"]["sigma"] = 2.0
            agent.write()
            agent.send(signal.SIGHUP)
            wait(lambda: "[bandits.banner] sigma is 2.0" in agent.told())
            agent.tables["bandits"]["banner"]["sigma"] = 1.0
            agent.write()

            agent.send(signal.SIGTERM)
            wait(lambda: "about to stop" in str(client.ready()))
            with pytest.raises(UnavailableError, match="no more choices"):
                banner.choose()
            assert not button.observe(late, 1.0).duplicate
            assert not banner.observe(other, 1.0).duplicate
            agent.send(signal.SIGTERM)
            assert agent.end() == 0
            assert "; open tickets: 3" in agent.told()

            config = read_config(agent.path, now=time.time(), insecure=True)
            said = restore(config, copy, time.time(), replace=True)
            assert "; rewards: 1; open tickets: 2, all closed" in said
            with LocalAgent(config) as restored:
                with pytest.raises(InputError, match="expired"):
                    restored.bandit("button").observe(late, 1.0)
                assert restored.health()["rewards"] == 1  # of an arm that is gone, maybe


@pytest.mark.slow
def test_the_token_of_a_bandit_is_read_again(tmp_path: Path) -> None:
    """A file with a new token, or one that nobody may use any more, is taken as it is."""
    arms = {"sigma": 1.0, "arms": ["red", "blue"]}
    with lonely(tmp_path, default_bandit="banner") as agent:
        agent.tables["bandits"] = {"button": arms | {"token_file": "button"}, "banner": dict(arms)}
        agent.write()
        token = agent.folder / "button"
        token.write_text(TOKEN)
        token.chmod(0o600)
        agent.start()
        with agent.client(TOKEN) as old, agent.client(TOKEN[::-1]) as new:
            old.bandit("button").choose()
            token.write_text(TOKEN[::-1])
            agent.send(signal.SIGHUP)
            wait(lambda: "the configuration was reloaded" in agent.told())
            late = new.bandit("button").choose().ticket
            with pytest.raises(InputError, match="token"):
                old.bandit("button").choose()

            token.chmod(0o644)
            agent.send(signal.SIGHUP)
            wait(lambda: "nothing was reloaded" in agent.told())
            new.bandit("button").choose()

            token.chmod(0o600)
            del agent.tables["bandits"]["button"]
            agent.write()
            agent.send(signal.SIGHUP)
            wait(lambda: agent.told().count("the configuration was reloaded") == 2)
            with pytest.raises(InputError, match="token"):
                old.bandit("button").observe(late, 1.0)
            new.bandit("button").observe(late, 1.0)  # of a retired one, with the token it had


def test_the_page_declares_and_asks_bandits_that_are_there(tmp_path: Path) -> None:
    page = (Path(__file__).parents[3] / "docs" / "fleet" / "bandits.md").read_text()
    declared, default, *_ = re.findall(r"^```toml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    (code,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    with lonely(tmp_path) as agent:
        agent.tables |= tomllib.loads(declared)
        agent.tables["node"] |= tomllib.loads(default)["node"]
        agent.write()
        agent.start()
        exec(code.replace("127.0.0.1:8400", f"unix:{agent.folder / 'api'}"), {})  # noqa: S102  the page's own code
        with agent.client() as client:
            assert client.health()["rewards"] == 1
            assert client.choose().arm in ("red", "green", "blue")
