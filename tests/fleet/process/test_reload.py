"""SIGHUP: what a running agent takes over, and that it takes over all or nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from coopbandits.cli import app
from coopbandits.core.errors import InputError
from coopbandits.fleet.config import NodeConfig, read_config
from coopbandits.fleet.config.changes import facts
from coopbandits.fleet.document.seal import to_json
from coopbandits.fleet.process.embedded import LocalAgent
from coopbandits.fleet.process.main import LIVE, Reload, ServiceManager
from coopbandits.fleet.service import UnauthorizedError, UnavailableError, UnknownBanditError

from ..document.made import signed, text
from .agents import TOKEN, Agent, agents, lonely, wait

SECOND = "fedcba9876543210"
ARMS: dict[str, Any] = {"arms": ["red", "blue"], "reward_range": [0.0, 1.0]}
FORGETFUL = ARMS | {"half_life": "30s"}
"""Too short a memory for agents at the pace of SLOW."""

SLOW = to_json(signed(1, settings={"rounds_per_second": 1.0}))


def reload(agent: Agent, sentence: str) -> None:
    """Send SIGHUP, and wait for a sentence that the log does not have yet."""
    before = len(agent.told())
    agent.send(signal.SIGHUP)
    wait(lambda: sentence in agent.told()[before:], sentence)


class Sections:
    """The file of an agent that believes an operator, with other bandits each time."""

    def __init__(self, folder: Path) -> None:
        self.files = Agent(folder / "alpha")
        self.files.tables["document"] = {"operators": [text(1)]}

    def write(self, **bandits: dict[str, Any]) -> NodeConfig:
        self.files.tables["bandits"] = bandits
        self.files.write()
        return read_config(self.files.path, now=time.time(), insecure=True)


@pytest.fixture
def sections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sections:
    # The log is that of the tests.
    monkeypatch.setattr("coopbandits.fleet.process.main.set_up_log", lambda _: None)
    return Sections(tmp_path)


def take_over(agent: LocalAgent, found: NodeConfig) -> str:
    """Reload an agent inside this process, as one that runs by itself does on SIGHUP."""
    api: Any = SimpleNamespace(renew=lambda *_: None)
    drain: Any = SimpleNamespace(seconds=0.0)
    runtime = agent._runtime
    return agent._ask(
        Reload(runtime.service.config, lambda: found, runtime, api, drain, ServiceManager({}))
    )


def listed(agent: LocalAgent) -> dict[str, list[str]]:
    return {bandit.name: bandit.arms for bandit in agent.bandits() if not bandit.retired}


def test_a_running_agent_takes_over_all_that_changed_or_nothing(
    tmp_path: Path, certificates: Path
) -> None:
    with agents(tmp_path, certificates=certificates) as (alpha, beta):
        alpha.write_token(TOKEN)
        alpha.start()
        neighbor = LocalAgent(beta.path, insecure=True)
        with alpha.client(TOKEN) as old, alpha.client(SECOND) as new, neighbor as other:
            wait(lambda: other.health()["links"]["alpha"] == "up")
            rounds, process = old.health()["round"], alpha.process
            revoked = alpha.folder / "revoked"
            revoked.write_text("beta\n")
            alpha.write_token(SECOND)
            alpha.write(revoked="revoked", drain_seconds=60.0, ready_neighbors=1)
            alpha.write(log_format="json")
            reload(alpha, '"message": "the configuration was reloaded"')
            with pytest.raises(InputError, match="token"):
                old.choose()
            assert new.choose().arm in ("red", "blue")
            wait(lambda: other.health()["links"]["alpha"] != "up")  # it was revoked
            assert "0 of 1 neighbours are linked" in str(new.ready())
            assert new.health()["round"] >= rounds
            assert process is not None
            assert process.poll() is None

            alpha.write_token(TOKEN)
            listen = alpha.tables["node"]["listen"]
            alpha.write(ready_neighbors=0, listen="127.0.0.1:1", silence=9.0)
            reload(alpha, f"~ [node] listen: {listen} -> 127.0.0.1:1; ~ [node] silence: 5 -> 9")
            assert new.choose().arm in ("red", "blue")  # not even the token
            assert new.ready() is not None
            alpha.path.write_text("[node\n")
            reload(alpha, "is not a TOML file")
            assert new.choose().arm in ("red", "blue")

            alpha.write(listen=listen, silence=5.0, log_level="warning")
            alpha.send(signal.SIGHUP)
            wait(lambda: old.ready() is None)
            alpha.write(log_level="info")
            reload(alpha, "the configuration was reloaded")
            assert alpha.told().count("the configuration was reloaded") == 2  # of three
            alpha.send(signal.SIGTERM)
            wait(lambda: "draining for at most 60 s; open tickets: 3" in alpha.told())
            with pytest.raises(UnavailableError, match="no more choices"):
                old.choose()


def test_a_signal_before_the_agent_serves_does_not_end_it(tmp_path: Path) -> None:
    agent = Agent(tmp_path / "alpha")
    command = [sys.executable, "-X", "importtime", "-m", "coopbandits", "agent", str(agent.path)]
    with subprocess.Popen([*command, "--insecure"], stderr=subprocess.PIPE) as process:
        try:
            assert process.stderr is not None
            sent = served = False
            for line in process.stderr:
                if not sent and b" typer" in line:  # it imports what commands need
                    process.send_signal(signal.SIGHUP)
                    sent = True
                if b"serves at" in line:
                    served = True
                    break
            assert sent
            assert served, "it ended before"
        finally:
            process.kill()


def test_whatever_a_reload_stumbles_over_the_agent_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = read_config(Agent(tmp_path / "alpha").path, now=time.time(), insecure=True)

    def stumble() -> NodeConfig:
        raise OverflowError("cannot convert\nfloat infinity to integer")

    heard: list[str] = []
    manager = ServiceManager({})
    manager.notify = lambda *lines: heard.extend(lines)  # type: ignore[method-assign]
    with LocalAgent(config) as agent:
        nothing: Any = None
        Reload(config, stumble, agent._runtime, nothing, nothing, manager)()
        assert agent.choose().arm in ("red", "blue")
    sentence = "OverflowError: cannot convert float infinity"
    assert heard[-2] == "READY=1"
    assert heard[-1].startswith("STATUS=") and sentence in heard[-1]
    assert sentence in caplog.text
    assert "Traceback" in caplog.text


def test_a_document_is_held_against_the_sections_that_were_reloaded(sections: Sections) -> None:
    with LocalAgent(sections.write(one=ARMS)) as agent:
        take_over(agent, sections.write(one=ARMS, two=FORGETFUL))
        for _ in range(2):
            with pytest.raises(InputError, match=r"\[bandits\.two\] half_life.* 30 s") as refused:
                agent.adopt(SLOW)
            assert len(str(refused.value).splitlines()) == 1
            assert agent.cluster()["version"] == 0
            assert agent._runtime.node.in_force.rounds > 1.0
        take_over(agent, sections.write(one=ARMS))
        agent.adopt(SLOW)  # not held against those that are gone
        assert agent._runtime.node.in_force.rounds == 1.0
    with LocalAgent(sections.write(one=ARMS)) as agent:
        assert agent.cluster()["version"] == 1


def test_sections_that_contradict_the_document_are_neither_reloaded_nor_started_with(
    sections: Sections,
) -> None:
    sentence = "[bandits.two] half_life is 30 s"
    before = sections.write(one=ARMS)
    with LocalAgent(before) as agent:
        agent.adopt(SLOW)
        after = sections.write(one=ARMS, two=FORGETFUL)
        assert sentence in take_over(agent, after)
        assert listed(agent) == {"one": ["red", "blue"]}
        assert agent._runtime.service.config == before
    journal = before.journal / "journal"
    kept = journal.read_bytes()
    done = CliRunner().invoke(app, ["agent", str(sections.files.path), "--insecure"])
    assert isinstance(done.exception, InputError)  # which the command line tells, and no more
    assert sentence in str(done.exception)
    assert journal.read_bytes() == kept
    with LocalAgent(sections.write(one=ARMS)) as agent:
        assert agent.cluster()["version"] == 1


def test_an_arm_of_a_section_that_no_document_declares_is_purged_in_two_steps(
    sections: Sections,
) -> None:
    wide, narrow = ARMS | {"arms": ["red", "blue", "green"]}, ARMS | {"purged": ["green"]}
    with LocalAgent(sections.write(one=wide)) as agent:
        agent.adopt(to_json(signed(1, bandits={"page": ARMS})))
        assert "[bandits.one] purges 'green'" in take_over(agent, sections.write(one=narrow))
        assert listed(agent)["one"] == wide["arms"]
    early = LocalAgent(sections.write(one=narrow))
    with pytest.raises(InputError, match="purges 'green'"), early:
        pass
    with LocalAgent(sections.write(one=ARMS)) as agent:
        assert "reloaded" in take_over(agent, sections.write(one=narrow))
        assert listed(agent) == {"one": ARMS["arms"], "page": ARMS["arms"]}


def test_the_page_shows_how_many_neighbours_are_waited_for_since_a_reload(
    sections: Sections,
) -> None:
    sections.files.tables["neighbors"] = [{"id": "beta", "address": "127.0.0.1:1"}]
    with LocalAgent(sections.write(one=ARMS)) as agent:
        assert agent.ready() is None
        sections.files.tables["node"]["ready_neighbors"] = 1
        take_over(agent, sections.write(one=ARMS))
        assert "0 of 1 neighbours are linked" in str(agent.ready())
        assert agent.state().ready == agent.ready()
        take_over(agent, sections.write(two=ARMS))
        assert agent.state().bandits == ["two"]
        assert agent.state().ready == agent.ready()


def test_what_is_live_are_settings_of_a_node(tmp_path: Path) -> None:
    config = read_config(Agent(tmp_path / "alpha").path, now=time.time(), insecure=True)
    assert facts(config).keys() > LIVE


def reloaded(agent: Agent) -> dict[str, Any]:
    """Reload an agent that logs JSON; return what it logs of that."""
    before = len(agent.told().splitlines())
    agent.send(signal.SIGHUP)

    def found() -> list[dict[str, Any]]:
        lines = map(json.loads, agent.told().splitlines()[before:])
        return [line for line in lines if "reloaded" in line["message"]]

    wait(found)
    (line,) = found()
    return line


def test_a_reload_logs_what_changed_and_no_secrets(tmp_path: Path) -> None:
    page = {"arms": ["a", "b"], "sigma": 1.0}
    with lonely(tmp_path, log_format="json") as agent:
        agent.write_token(TOKEN)
        agent.start()
        assert reloaded(agent)["changes"] == ["none"]
        agent.tables["bandits"] |= {"page": page}
        arms = ["red", "blue", {"name": "green", "frozen": True}]
        agent.tables["bandits"]["button"]["arms"] = arms
        agent.write_token(SECOND)
        agent.write(drain_seconds=60.0, revoked="revoked")
        (agent.folder / "revoked").write_text("beta\n")
        line = reloaded(agent)
        assert (line["level"], line["message"]) == ("info", "the configuration was reloaded")
        revoked = agent.folder / "revoked"
        assert line["changes"] == [
            "~ [bandits.button] arms: [red, blue] -> [red, blue, green (frozen)]",
            "+ [bandits.page]",
            "~ [node] drain_seconds: 0 -> 60",
            f"~ [node] revoked: none -> {revoked}",
            "~ [node] token_file contents",
        ]
        del agent.tables["bandits"]["page"]
        agent.write(listen="127.0.0.1:1", drain_seconds=0.0)
        line = reloaded(agent)
        assert (line["level"], line["message"]) == ("error", "nothing was reloaded")
        assert line["reason"] == (
            "~ [node] listen: 127.0.0.1:0 -> 127.0.0.1:1: this takes a restart; undo it, or "
            "restart the agent"
        )
        agent.write(listen="127.0.0.1:0")
        changes = reloaded(agent)["changes"]
        assert changes == ["- [bandits.page]", "~ [node] drain_seconds: 60 -> 0"]
        wait(lambda: '"added": ["beta"]' in agent.told())  # without a signal
        revoked.write_text("beta\ngamma\n")
        wait(lambda: '"added": ["gamma"]' in agent.told())
        assert TOKEN not in agent.told()
        assert SECOND not in agent.told()


def test_the_default_bandit_may_change_and_must_be_declared(tmp_path: Path) -> None:
    with lonely(tmp_path) as agent:
        del agent.tables["node"]["default_bandit"]
        agent.tables["bandits"]["banner"] = {"arms": ["a", "b"], "sigma": 1.0}
        agent.write()
        agent.start()
        with agent.client() as client:
            with pytest.raises(UnknownBanditError, match="default_bandit"):
                client.choose()
            for name, arms in (("banner", ("a", "b")), ("button", ("red", "blue"))):
                agent.write(default_bandit=name)
                reload(agent, "the configuration was reloaded")
                assert client.choose().arm in arms
            agent.write(default_bandit="buton")
            reload(agent, "[node] default_bandit is 'buton', which is not declared")
            assert client.choose().arm in ("red", "blue")
            del agent.tables["node"]["default_bandit"]
            agent.write()
            reload(agent, "the configuration was reloaded")
            with pytest.raises(UnknownBanditError, match="default_bandit"):
                client.choose()


def test_tokens_of_scopes_are_read_again(tmp_path: Path) -> None:
    """An operator may add, change and remove them; whether there are tokens takes a restart."""
    with lonely(tmp_path) as agent:

        def give(**tokens: str) -> None:
            agent.tables["api"] = {f"{scope}_token_file": scope for scope in tokens}
            for scope, token in tokens.items():
                (agent.folder / scope).write_text(token)
                (agent.folder / scope).chmod(0o600)
            agent.write()

        give(choose=TOKEN)
        agent.start()
        with agent.client(TOKEN) as first, agent.client(SECOND) as second:
            assert first.choose().arm in ("red", "blue")
            with pytest.raises(UnauthorizedError, match=r"scope choose, and /cluster .* admin"):
                first.cluster()
            with pytest.raises(UnauthorizedError, match="a valid token is needed"):
                second.cluster()
            give(choose=SECOND, admin=TOKEN)
            reload(agent, "the configuration was reloaded")
            assert second.choose().arm in ("red", "blue")
            assert first.cluster()["version"] == 0
            with pytest.raises(UnauthorizedError, match=r"scope admin, and /choose .* choose"):
                first.choose()
            del agent.tables["api"]
            agent.write()
            reload(agent, "-> none: this takes a restart")
            assert second.choose().arm in ("red", "blue")
            give(choose=SECOND, admin=TOKEN)
            done = CliRunner().invoke(app, ["fleet", "drain", str(agent.path)])
            assert done.exit_code == 0, done.output
        assert agent.end() == 0
