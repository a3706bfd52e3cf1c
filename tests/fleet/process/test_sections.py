"""`coopbandits fleet to-sections`: one agent after the other, and nothing is forgotten."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from coopbandits.cli import app
from coopbandits.core.errors import InputError
from coopbandits.fleet.config import read_config
from coopbandits.fleet.document.seal import to_json
from coopbandits.fleet.process.backup import back_up, restore
from coopbandits.fleet.process.embedded import LocalAgent
from coopbandits.fleet.process.sections import to_sections

from ..document.made import signed, text
from .agents import Agent, agents, lonely, wait


def opened(agent: Agent) -> LocalAgent:
    return LocalAgent(read_config(agent.path, now=time.time(), insecure=True))


def known(agent: LocalAgent) -> float:
    return sum(arm.pulls for arm in agent.arms())


def play(agent: LocalAgent, times: int) -> None:
    for _ in range(times):
        agent.observe(agent.choose().ticket, 1.0)


def convert(agent: Agent) -> None:
    app(["fleet", "to-sections", str(agent.path), "button"], standalone_mode=False)


def test_a_fleet_is_converted_agent_by_agent_and_then_ruled_by_a_document(
    tmp_path: Path, certificates: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with agents(tmp_path, certificates=certificates) as (alpha, beta):
        for agent in (alpha, beta):
            agent.tables["document"] = {"operators": [text(1)]}
            agent.write()
        with opened(beta) as other:
            with opened(alpha) as one:
                play(one, 3)
                play(other, 4)
                wait(lambda: known(one) == known(other) == 7.0)
                ticket = one.choose().ticket
                with pytest.raises(InputError, match=r"alpha.*stopped"):
                    convert(alpha)  # it runs
            convert(alpha)
            told = capsys.readouterr().out
            assert "agent alpha in round" in told
            assert told.endswith("rewards: 3; open tickets: 1\n")
            with opened(alpha) as one:  # the other has not been touched
                assert known(one) == 7.0
                assert not one.observe(ticket, 1.0).duplicate
                play(one, 2)
                play(other, 2)
                assert (known(one), known(other)) == (10.0, 9.0)
        convert(beta)
        with opened(alpha) as one, opened(beta) as other:
            wait(lambda: known(one) == known(other) == 12.0)
            play(other, 1)
            wait(lambda: known(one) == known(other) == 13.0)
            table = {"arms": ["red", "blue", "green"], "reward_range": [0.0, 1.0]}
            one.adopt(to_json(signed(1, bandits={"button": table})))
            wait(lambda: len(other.arms()) == 3)
            assert known(other) == 13.0
    assert (alpha.folder / "node.toml.plain").exists()
    assert (alpha.folder / "memory" / "journal.plain").exists()


def test_a_crash_half_way_is_gone_on_from(tmp_path: Path) -> None:
    with lonely(tmp_path) as agent:
        with opened(agent) as one:
            play(one, 2)
        before = agent.path.read_bytes()
        convert(agent)
        after = agent.path.read_bytes()
        agent.path.write_bytes(before)  # as if the file had not been written
        assert "has it already: " in to_sections(agent.path, "button", time.time())
        assert agent.path.read_bytes() == after
        with opened(agent) as one:
            assert known(one) == 2.0
        with pytest.raises(InputError, match="sections of bandits"):
            convert(agent)


def test_a_file_that_cannot_be_written_leaves_the_journal_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lonely(tmp_path) as agent:
        with opened(agent) as one:
            play(one, 2)
        journal = agent.folder / "memory" / "journal"
        before = agent.path.read_bytes(), journal.read_bytes()

        def refuse(self: Path, *rest: object, **more: object) -> None:
            raise PermissionError(13, "Permission denied")

        with monkeypatch.context() as patch:
            patch.setattr(Path, "touch", refuse)
            with pytest.raises(InputError, match=r"node\.toml.*Permission denied"):
                convert(agent)
        assert (agent.path.read_bytes(), journal.read_bytes()) == before
        assert {each.name for each in agent.folder.iterdir()} == {"node.toml", "memory"}
        with monkeypatch.context() as patch:  # the one thing that is left to fail
            patch.setattr(Path, "replace", refuse_at(agent.path, Path.replace))
            with pytest.raises(InputError, match=r"node\.toml.*Permission denied"):
                convert(agent)
        again = "coopbandits fleet to-sections"
        with pytest.raises(InputError, match=again), opened(agent):
            pass
        with pytest.raises(InputError, match="of button, and none of banner"):
            to_sections(agent.path, "banner", time.time())
        convert(agent)
        with opened(agent) as one:
            assert known(one) == 2.0


def refuse_at(place: Path, rename: Callable[[Path, Path], Path]) -> Callable[[Path, Path], Path]:
    """Rename, but not to one place."""

    def refuse(self: Path, target: Path) -> Path:
        if target == place:
            raise PermissionError(13, "Permission denied")
        return rename(self, target)

    return refuse


def test_a_link_to_the_file_stays_one_and_the_file_keeps_its_mode(tmp_path: Path) -> None:
    with lonely(tmp_path) as agent:
        real = tmp_path / "kept.toml"
        agent.path.rename(real)
        real.chmod(0o640)
        agent.path.symlink_to(real)
        convert(agent)
        assert agent.path.is_symlink()
        assert "[bandits.button]" in real.read_text()
        for each in (real, tmp_path / "kept.toml.plain"):
            assert stat.S_IMODE(each.stat().st_mode) == 0o640


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_root_converts_and_restores_belongs_to_whom_it_did(tmp_path: Path) -> None:
    user, copy = 65534, tmp_path / "backup"
    with lonely(tmp_path) as agent:
        with opened(agent) as one:
            play(one, 2)
        memory = agent.folder / "memory"
        for each in (memory, *memory.iterdir()):
            os.chown(each, user, user)
        os.chown(agent.path, 0, user)
        agent.path.chmod(0o640)
        config = read_config(agent.path, now=time.time(), insecure=True)
        back_up(config, copy, time.time())
        restore(config, copy, time.time(), replace=True)
        convert(agent)
        for each in (memory, *memory.iterdir()):
            assert (each.stat().st_uid, each.stat().st_gid) == (user, user), each
        for each in (agent.path, agent.folder / "node.toml.plain"):
            found = each.stat()
            assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (0, user, 0o640)
        shutil.rmtree(memory)
        os.chown(agent.folder, user, user)
        agent.path.write_bytes((agent.folder / "node.toml.plain").read_bytes())
        restore(config, copy, time.time())
        for each in (memory, *memory.iterdir()):
            assert (each.stat().st_uid, each.stat().st_gid) == (user, user), each


def test_what_cannot_have_a_section_stays_as_it_is(tmp_path: Path) -> None:
    with lonely(tmp_path) as agent:
        agent.tables["cluster"]["policy"] = "gossip-ts"
        agent.write()
        with opened(agent) as one:
            play(one, 1)
        journal = agent.folder / "memory" / "journal"
        before = agent.path.read_bytes(), journal.read_bytes()
        with pytest.raises(InputError, match="other arms"):
            convert(agent)
        assert (agent.path.read_bytes(), journal.read_bytes()) == before
        agent.tables["cluster"]["policy"] = "flood-ts"
        agent.write()  # and its journal is of another policy
        with pytest.raises(InputError, match="policy"):
            convert(agent)
    (tmp_path / "new").mkdir()
    with lonely(tmp_path / "new") as agent:
        convert(agent)
        with opened(agent) as one:
            assert known(one) == 0.0


@pytest.mark.parametrize("policy", ["dec-ts", "dducb"])
def test_what_waits_for_all_neighbours_cannot_have_a_section(tmp_path: Path, policy: str) -> None:
    with lonely(tmp_path) as agent:
        told = {"policy": policy, "num_agents": 2}
        agent.tables["cluster"] |= told | ({"lambda_bound": 0.5} if policy == "dducb" else {})
        agent.write()
        before = agent.path.read_bytes()
        with pytest.raises(InputError, match=rf"^policy {policy}\b"):
            convert(agent)
        assert agent.path.read_bytes() == before
        assert [each.name for each in agent.folder.iterdir()] == ["node.toml"]
