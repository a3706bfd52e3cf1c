"""A lost journal and a backup: every reward counts once, and no ticket comes back."""

from __future__ import annotations

import os
import shutil
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from coopbandits.core.errors import InputError
from coopbandits.fleet.client import Client
from coopbandits.fleet.config import NodeConfig, read_config
from coopbandits.fleet.process.backup import as_written, back_up, restore
from coopbandits.fleet.process.embedded import LocalAgent
from coopbandits.fleet.service import ExpiredTicketError, UnknownTicketError
from coopbandits.fleet.storage.disk import OperatingSystem

from .agents import Agent, agents, pulls, wait


def config_of(agent: Agent) -> NodeConfig:
    return read_config(agent.path, now=time.time(), insecure=True)


def play(client: Client | LocalAgent, times: int) -> None:
    for _ in range(times):
        client.observe(client.choose().ticket, 1.0)


def played_once(folder: Path) -> NodeConfig:
    config = config_of(Agent(folder / "alpha"))
    with LocalAgent(config) as agent:
        play(agent, 1)
    return config


def test_a_restored_agent_counts_nothing_twice(
    tmp_path: Path, certificates: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    copy = tmp_path / "backup"
    with agents(tmp_path, certificates=certificates) as (alpha, beta):
        alpha.start()
        with alpha.client() as client, LocalAgent(config_of(beta)) as other:
            play(client, 5)
            waiting = client.choose().ticket
            told = back_up(config_of(alpha), copy, time.time())  # while it runs
            assert "agent alpha in round " in told
            assert told.endswith("; rewards: 5; open tickets: 1")
            assert stat.S_IMODE(copy.stat().st_mode) == 0o600
            client.observe(waiting, 1.0)  # open in the backup, but counted since
            play(client, 3)
            late = client.choose().ticket
            wait(lambda: pulls(other) == 9.0)
            alpha.kill()
            shutil.rmtree(alpha.folder / "memory")

            told = restore(config_of(alpha), copy, time.time())
            assert told.endswith("; rewards: 5; open tickets: 1, all closed")
            with LocalAgent(config_of(alpha)) as again:
                with pytest.raises(ExpiredTicketError):
                    again.observe(waiting, 1.0)
                with pytest.raises(UnknownTicketError):
                    again.observe(late, 1.0)
                assert late.partition("-")[0] != again.choose().ticket.partition("-")[0]
                play(again, 2)
                wait(lambda: pulls(other) == pulls(again) == 11.0)
                wait(lambda: "continuing under the new entry number" in caplog.text)
                time.sleep(0.5)  # ten rounds later it is still so
                assert pulls(other) == pulls(again) == 11.0


def test_a_journal_that_is_there_is_not_overwritten_unasked(tmp_path: Path) -> None:
    config, copy = config_of(Agent(tmp_path / "alpha")), tmp_path / "backup"
    with LocalAgent(config) as agent:
        play(agent, 1)
        back_up(config, copy, time.time())
        with pytest.raises(InputError, match=r"alpha.*another process"):
            restore(config, copy, time.time(), replace=True)
        play(agent, 1)
    with pytest.raises(InputError, match=r"journal.*--replace"):
        restore(config, copy, time.time())
    before = (config.journal / "journal").read_bytes()
    restore(config, copy, time.time(), replace=True)
    assert (config.journal / "journal.replaced").read_bytes() == before
    with LocalAgent(config) as agent:
        assert agent.health()["rewards"] == 1


def with_button(agent: Agent, **button: Any) -> NodeConfig:
    """Give the bandit in an agent's file three arms, or change it."""
    section = {"arms": ["red", "green", "blue"], "reward_range": [0.0, 1.0]}
    agent.tables["bandits"] = {"button": section | button}
    agent.write()
    return config_of(agent)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"arms": ["green", "blue"], "purged": ["red"]}, "purges 'red'"),
        ({"reward_range": [0.0, 2.0]}, "reward_range"),
    ],
    ids=["purge", "reward_range"],
)
def test_a_backup_is_what_was_read_whatever_the_file_says_by_now(
    tmp_path: Path, change: dict[str, Any], reason: str
) -> None:
    agent, copy = Agent(tmp_path / "alpha"), tmp_path / "backup"
    config = with_button(agent)
    with LocalAgent(config) as running:
        play(running, 5)
        running.choose(["red"])
        changed = with_button(agent, **change)
        with pytest.raises(InputError, match=reason):
            running.take(changed.bandits)
        told = back_up(changed, copy, time.time())
        assert told.endswith("; rewards: 5; open tickets: 1")
        assert (config.journal / "journal").read_bytes().startswith(copy.read_bytes())
    shutil.rmtree(config.journal)
    with pytest.raises(InputError, match=reason):
        restore(changed, copy, time.time())
    assert not config.journal.exists()
    restore(config, copy, time.time())
    with LocalAgent(config) as running:
        assert running.health()["rewards"] == 5


def test_what_a_crash_left_at_the_end_is_no_part_of_a_backup(tmp_path: Path) -> None:
    agent, copy = Agent(tmp_path / "alpha"), tmp_path / "backup"
    config = config_of(agent)
    with LocalAgent(config) as running:
        play(running, 3)
        whole = (config.journal / "journal").read_bytes()
        play(running, 1)
        longer = (config.journal / "journal").read_bytes()
    (config.journal / "journal").write_bytes(longer[: len(whole) + 5])
    back_up(config, copy, time.time())
    assert copy.read_bytes() == whole
    assert as_written(config, whole, time.time())[0].rewards == 3


def test_what_is_refused(tmp_path: Path) -> None:
    agent, copy = Agent(tmp_path / "alpha"), tmp_path / "backup"
    config = config_of(agent)
    with pytest.raises(InputError, match=r"journal.*No such file"):
        back_up(config, copy, time.time())
    assert not copy.exists()
    copy.touch()
    with pytest.raises(InputError, match="empty"):
        restore(config, copy, time.time())
    copy.write_bytes(b"no journal at all, and long enough to be one")
    with pytest.raises(InputError, match="damaged"):
        restore(config, copy, time.time())
    assert not config.journal.exists()


def test_a_backup_is_of_one_agent_and_a_policy_that_can_go_back(tmp_path: Path) -> None:
    alpha, beta = Agent(tmp_path / "alpha"), Agent(tmp_path / "beta", "beta")
    copy = tmp_path / "backup"
    with LocalAgent(config_of(alpha)) as embedded:
        embedded.observe(embedded.choose().ticket, 1.0)
    back_up(config_of(alpha), copy, time.time())
    with pytest.raises(InputError, match="exists already"):
        back_up(config_of(alpha), copy, time.time())
    with pytest.raises(InputError, match="its node"):
        restore(config_of(beta), copy, time.time())
    config = with_button(beta, policy="dec-ts", num_agents=1)
    with LocalAgent(config) as embedded:
        embedded.observe(embedded.choose().ticket, 1.0)
    back_up(config, synchronous := tmp_path / "synchronous", time.time())
    with pytest.raises(InputError, match=r"bandit button .*dec-ts.*new epoch"):
        restore(config, synchronous, time.time(), replace=True)
    (tmp_path / "file").touch()
    for place, reason in (("nowhere/backup", "No such file"), ("file/backup", "Not a directory")):
        with pytest.raises(InputError, match=reason):
            back_up(config_of(alpha), tmp_path / place, time.time())
    with pytest.raises(InputError, match="File name too long"):
        back_up(config_of(alpha), tmp_path / ("x" * 300), time.time())


def test_a_backup_that_does_not_fit_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, copy = played_once(tmp_path), tmp_path / "backup"

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InputError, match="No space left on device"):
        back_up(config, copy, time.time())
    assert not copy.exists()
    assert not list(tmp_path.glob(".backup*"))


@pytest.mark.parametrize("moment", ["os.fsync", "pathlib.Path.replace"])
def test_an_interrupted_backup_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    config, copy = played_once(tmp_path), tmp_path / "backup"
    before = sorted(tmp_path.iterdir())

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(moment, interrupted)
        with pytest.raises(KeyboardInterrupt):
            back_up(config, copy, time.time())
    assert sorted(tmp_path.iterdir()) == before
    assert back_up(config, copy, time.time()).startswith("backed up to ")
    assert sorted(tmp_path.iterdir()) == sorted([*before, copy])


def test_a_backup_takes_the_place_of_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even of a link to nowhere, nor of a file that comes while it is written."""
    config, copy = played_once(tmp_path), tmp_path / "backup"
    (tmp_path / "link").symlink_to("nowhere")
    with pytest.raises(InputError, match=r"link\b.*exists"):
        back_up(config, tmp_path / "link", time.time())
    monkeypatch.setattr("os.fsync", lambda _: copy.write_text("another's"))
    with pytest.raises(InputError, match=r"backup\b.*exists"):
        back_up(config, copy, time.time())
    assert copy.read_text() == "another's"
    assert not list(tmp_path.glob(".backup*"))


@pytest.mark.parametrize("durability", ["process", "power"])
def test_a_backup_that_was_cut_off_is_refused(tmp_path: Path, durability: str) -> None:
    agent, copy = Agent(tmp_path / "alpha"), tmp_path / "backup"
    agent.tables["node"]["durability"] = durability
    agent.write()
    config = config_of(agent)
    with LocalAgent(config) as running:
        play(running, 5)
        back_up(config, copy, time.time())
    whole, journal = copy.read_bytes(), (config.journal / "journal").read_bytes()
    for missing in (1, 3, 40):
        copy.write_bytes(whole[:-missing])
        with pytest.raises(InputError, match="cut off"):
            restore(config, copy, time.time(), replace=True)
    assert (config.journal / "journal").read_bytes() == journal
    assert not (config.journal / "journal.replaced").exists()
    copy.write_bytes(whole)
    assert "; rewards: 5; " in restore(config, copy, time.time(), replace=True)


def test_a_restore_says_whether_the_backup_is_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, copy = config_of(Agent(tmp_path / "alpha")), tmp_path / "backup"
    with LocalAgent(config) as agent:
        play(agent, 2)
        back_up(config, copy, time.time())
        play(agent, 1)
    journal = config.journal / "journal"
    before = journal.read_bytes()

    def broken(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(OperatingSystem, "rename", broken)
        with pytest.raises(InputError, match=r"Input/output error.*nothing was restored"):
            restore(config, copy, time.time(), replace=True)
    assert journal.read_bytes() == before
    shutil.rmtree(config.journal)
    with monkeypatch.context() as patch:
        patch.setattr(OperatingSystem, "sync_folder", broken)  # the last step, without a journal
        with pytest.raises(InputError, match="--replace"):
            restore(config, copy, time.time())
    assert journal.exists()
    restore(config, copy, time.time(), replace=True)
    with LocalAgent(config) as agent:
        assert agent.health()["rewards"] == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_root_restores_belongs_to_whom_it_did(tmp_path: Path) -> None:
    """And without a journal, to whom the folder around it belongs."""
    user, copy = 65534, tmp_path / "backup"
    agent = Agent(tmp_path / "alpha")
    config = config_of(agent)
    with LocalAgent(config) as running:
        play(running, 2)
    for each in (config.journal, *config.journal.iterdir()):
        os.chown(each, user, user)
    back_up(config, copy, time.time())
    for _ in range(2):
        restore(config, copy, time.time(), replace=True)
        for each in (config.journal, *config.journal.iterdir()):
            assert (each.stat().st_uid, each.stat().st_gid) == (user, user), each
        shutil.rmtree(config.journal)
        os.chown(agent.folder, user, user)
