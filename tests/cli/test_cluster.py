"""`coopbandits cluster` as it is typed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import networkx as nx
import pytest
from tests.fleet.api.running import running
from tests.fleet.document.made import CLUSTER

from coopbandits.fleet.api.server import Server
from coopbandits.fleet.config import DocumentConfig
from coopbandits.fleet.identity.operators import load_key, public_bytes
from coopbandits.fleet.service.application import ApplicationService
from coopbandits.testing.torture.world import World

from .calls import Call, refused

TEXT = '[cluster]\nversion = {version}\nname = "shop"\n'


@pytest.fixture
def key(call: Call, tmp_path: Path) -> Path:
    path = tmp_path / "operator.key"
    outcome = call("cluster", "keygen", str(path))
    assert outcome.status == 0
    assert outcome.out.startswith("ed25519:")
    return path


@pytest.fixture
def document(call: Call, key: Path, tmp_path: Path) -> Path:
    path = tmp_path / "cluster.toml"
    path.write_text(TEXT.format(version=1))
    outcome = call("cluster", "sign", str(path), "--key", str(key))
    assert outcome.out == f"version 1 of shop, signed by 1: {path}.sig\n"
    return path


@pytest.fixture
def agent(key: Path) -> Iterator[Server]:
    """An agent without neighbours, that believes the key."""
    config = DocumentConfig((public_bytes(load_key(key)),))
    world = World(CLUSTER, nx.empty_graph(1), document=config)
    service = ApplicationService(world.config(0), world.node(0), lambda: 7)
    with running(service) as server:
        yield server


def test_a_document_is_verified(call: Call, document: Path, key: Path, tmp_path: Path) -> None:
    outcome = call("cluster", "verify", str(document))
    assert outcome.out.startswith("version 1 of shop, signed by ed25519:")
    other = call("cluster", "keygen", str(tmp_path / "other.key")).out.strip()
    check = ("cluster", "verify", str(document), "--operator", other)
    assert "none of the keys given has signed" in refused(call(*check))
    own = outcome.out.split()[-1]
    assert call(*check, "--operator", own).status == 0
    document.write_text(TEXT.format(version=2))
    assert "is not what ed25519:" in refused(call("cluster", "verify", str(document)))
    assert "exists; choose another name" in refused(call("cluster", "keygen", str(key)))


def test_a_wrong_document_is_refused_with_all_its_problems(
    call: Call, key: Path, tmp_path: Path
) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text("[cluster]\nversion = 0\n[settings]\narms = 3\n")
    outcome = call("cluster", "sign", str(path), "--key", str(key))
    assert outcome.status == 2
    assert outcome.err.count("error: document: ") == len(outcome.err.splitlines()) == 3
    assert not path.with_name("wrong.toml.sig").exists()


def test_two_documents_are_compared(call: Call, document: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.toml"
    new.write_text(TEXT.format(version=2) + 'revoked = ["a"]\n')
    outcome = call("cluster", "diff", str(document), str(new))
    assert outcome.out == "~ [cluster] version: 1 -> 2\n+ revoked a\n"
    assert call("cluster", "diff", str(new), str(new)).out == "nothing changes\n"


def test_a_document_is_handed_over_and_its_state_told(
    call: Call, document: Path, agent: Server, key: Path
) -> None:
    at = f"http://{agent.address}"
    assert call("cluster", "status", at).out == "n0: no document; neighbours: none\n"
    assert "+ [cluster] version = 1" in call("cluster", "diff", at, str(document)).out
    outcome = call("cluster", "apply", str(document), "--to", at)
    assert outcome.out.startswith("n0 has version 1, ")
    assert call("cluster", "diff", at, str(document)).out == "nothing changes\n"
    assert call("cluster", "status", at).out.startswith("n0: version 1, ")
    document.write_text(TEXT.format(version=1) + 'revoked = ["a"]\n')
    call("cluster", "sign", str(document), "--key", str(key))
    rival = call("cluster", "apply", str(document), "--to", at)
    assert "two documents have version 1" in refused(rival)
    status = call("cluster", "status", at)
    assert status.status == 1
    assert "n0: two documents have version 1" in status.err


def test_agents_that_are_away_are_told(
    call: Call, agent: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    from coopbandits.cli import cluster

    monkeypatch.setattr(cluster, "PATIENCE", 0.3)
    outcome = call("cluster", "status", agent.address, "127.0.0.1:1")
    assert outcome.status == 1
    assert outcome.out.startswith("n0: no document")
    assert "no agent answered at 127.0.0.1:1" in outcome.err
