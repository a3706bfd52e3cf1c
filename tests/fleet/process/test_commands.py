"""`coopbandits fleet drain`, `backup` and `restore`, and `doctor NODE.toml`, as they are typed."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from coopbandits.cli import app
from coopbandits.core.errors import InputError
from coopbandits.fleet.process.embedded import LocalAgent

from .agents import TOKEN, lonely


def call(*arguments: str) -> tuple[int, str]:
    """Return the exit status and what is printed; what the command line refuses is raised."""
    done = CliRunner().invoke(app, arguments)
    if isinstance(done.exception, InputError):
        raise done.exception
    return done.exit_code, done.stdout


def test_from_a_backup_to_the_end(tmp_path: Path) -> None:
    copy = str(tmp_path / "copy")
    with lonely(tmp_path) as agent:
        agent.write_token(TOKEN)
        agent.write(drain_seconds=600.0)
        agent.start()
        node = str(agent.path)
        with agent.client(TOKEN) as client:
            client.choose()
        status, told = call("fleet", "backup", node, copy)
        assert status == 0
        assert told.startswith(f"backed up to {copy}: agent alpha in round ")
        with pytest.raises(InputError, match="exists already"):
            call("fleet", "backup", node, copy)
        status, told = call("doctor", node)
        assert status == 0, told
        assert told.endswith("\nall that is needed works\n")
        told = call("fleet", "drain", node, "--seconds", "0.2")[1]
        assert told == "alpha makes no more choices, and stops when it is done\n"
        assert agent.end() == 0
        with pytest.raises(InputError, match="alpha"):
            call("fleet", "drain", node)
        with pytest.raises(InputError, match="--replace"):
            call("fleet", "restore", node, copy)
        told = call("fleet", "restore", node, copy, "--replace")[1]
        assert told.endswith("; rewards: 0; open tickets: 1, all closed\n")
        with LocalAgent(agent.path, insecure=True) as restored:
            assert restored.health()["open_tickets"] == 0


def test_a_fleet_needs_a_graph() -> None:
    with pytest.raises(InputError, match="--graph"):
        call("fleet")


def test_an_agent_that_is_broken_has_status_1(tmp_path: Path) -> None:
    path = tmp_path / "node.toml"
    path.write_text("[node]\nid = 1\n")
    status, told = call("doctor", str(path))
    assert status == 1
    assert told.startswith("configuration            BROKEN  ")
    assert told.endswith(" broken; mend the first one first\n")
