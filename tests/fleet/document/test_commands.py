"""`coopbandits cluster` with an agent that answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import networkx as nx
import pytest

from coopbandits.cli import app, cluster
from coopbandits.core.errors import InputError
from coopbandits.fleet.api.server import Server
from coopbandits.fleet.config import DocumentConfig
from coopbandits.fleet.document.seal import sign_file
from coopbandits.fleet.identity.operators import make_key
from tests.torture.world import World

from ..api.running import running
from ..bandits import only

TEXT = '[cluster]\nversion = 1\nname = "shop"\n'


@pytest.fixture
def key(tmp_path: Path) -> Path:
    return tmp_path / "operator.key"


@pytest.fixture
def agent(key: Path) -> Iterator[Server]:
    """An agent without neighbours, that believes the key."""
    world = World(only(), nx.empty_graph(1), document=DocumentConfig((make_key(key),)))
    service = world.service(0, lambda: 7)
    with running(service) as server:
        yield server


def test_a_document_is_handed_over_and_its_state_told(
    agent: Server, key: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, at = tmp_path / "cluster.toml", f"http://{agent.address}"
    path.write_text(TEXT)
    sign_file(path, [key])

    def run(*words: str) -> str:
        app(["cluster", *words], standalone_mode=False)
        return capsys.readouterr().out

    assert run("status", at) == "n0: no document; neighbours: none\n"
    assert "+ [cluster] version = 1" in run("diff", at, str(path))
    assert run("apply", str(path), "--to", at).startswith("n0 has version 1, ")
    assert run("diff", at, str(path)) == "nothing changes\n"
    assert run("status", at).startswith("n0: version 1, ")
    path.write_text(TEXT + 'revoked = ["a"]\n')
    sign_file(path, [key])
    with pytest.raises(InputError, match="version 1"):
        run("apply", str(path), "--to", at)
    assert app(["cluster", "status", at], standalone_mode=False) == 1
    assert "version 1" in capsys.readouterr().err


def test_agents_that_are_away_are_told(
    agent: Server, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", 0.3)
    assert app(["cluster", "status", agent.address, "127.0.0.1:1"], standalone_mode=False) == 1
    told = capsys.readouterr()
    assert told.out.startswith("n0: no document")
    assert "no agent answered at 127.0.0.1:1" in told.err


def test_no_help_has_words_in_brackets() -> None:
    """They would be read as markup, and left out."""
    texts = [str(each.callback.__doc__) for each in cluster.cluster.registered_commands]
    assert len(texts) > 5
    assert not [text for text in texts if "[" in text]
