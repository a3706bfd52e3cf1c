"""`coopbandits cluster` with an agent that answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from coopbandits.cli import app, cluster
from coopbandits.core.errors import InputError
from coopbandits.fleet.api.server import Server
from coopbandits.fleet.client import Client
from coopbandits.fleet.config import DocumentConfig
from coopbandits.fleet.document.seal import sign_file
from coopbandits.fleet.identity.operators import make_key
from tests.torture.world import World

from ..api.running import running
from ..bandits import both, only

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

    shown = "  bandit only: flood-ts, era 0\n"
    assert run("status", at) == f"n0: no document; neighbours: none\n{shown}"
    assert "+ [cluster] version = 1" in run("diff", at, str(path))
    assert run("apply", str(path), "--to", at).startswith("n0 has version 1, ")
    same = "= bandit only is not mentioned and continues\n"
    assert run("diff", at, str(path)) == f"nothing changes\n{same}"
    assert run("status", at).startswith("n0: version 1, ")
    path.write_text(TEXT + 'revoked = ["a"]\n')
    sign_file(path, [key])
    with pytest.raises(InputError, match="version 1"):
        run("apply", str(path), "--to", at)
    assert app(["cluster", "status", at], standalone_mode=False) == 1
    assert "version 1" in capsys.readouterr().err


Run = Callable[..., list[str]]


@pytest.fixture
def run(key: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """Write and sign a document, run a command about it, and return the lines that it prints."""
    version = count(1)

    def command(name: str, agent: Server, *options: str, above: str = "", below: str = "") -> Any:
        path, at = tmp_path / "cluster.toml", f"http://{agent.address}"
        if above or below:
            head = TEXT.replace("version = 1", f"version = {next(version)}")
            path.write_text(above + head + below)
            sign_file(path, [key])
        words = (at, str(path)) if name == "diff" else (str(path), "--to", at)
        app(["cluster", name, *words, *options], standalone_mode=False)
        return capsys.readouterr().out.splitlines()

    return command


@pytest.fixture
def shop(key: Path) -> Iterator[Server]:
    """An agent whose file declares two bandits, one with a reward and an open ticket."""
    world = World(both(), nx.empty_graph(1), document=DocumentConfig((make_key(key),)))
    words = count(1)
    service = world.service(0, lambda: next(words))
    banner = service.bandit("banner")
    banner.observe(banner.choose().ticket, 1.0)
    banner.choose()
    with running(service) as server:
        yield server


PAGE = '[bandits.page]\narms = ["x", "y"]\nreward_range = [0.0, 1.0]\n'
WIDER = '[bandits.button]\narms = ["red", "blue"]\nreward_range = [0.0, 1.0]\npinned = "blue"\n'
STATE = "arms a, b, c; rewards counted: 1; open tickets: 1"


def names(agent: Server) -> list[str]:
    with Client(str(agent.address)) as client:
        return [state.name for state in client.bandits() if not state.retired]


def test_a_first_document_that_adds_a_bandit_stops_none(shop: Server, run: Run) -> None:
    assert run("diff", shop, below=PAGE)[-3:] == [
        "+ bandit page starts: arms x, y",
        "= bandit banner is not mentioned and continues",
        "= bandit button is not mentioned and continues",
    ]
    (line,) = run("apply", shop)
    assert line.startswith("n0 has version 1, ")
    assert names(shop) == ["button", "banner", "page"]


def test_the_difference_shows_what_starts_changes_and_stops(shop: Server, run: Run) -> None:
    lines = run("diff", shop, above='retired = ["banner", "gone"]\n', below=PAGE + WIDER)
    assert [line for line in lines if "bandit " in line] == [
        f"- bandit banner stops: {STATE}",
        "~ bandit button arms: red, green -> red, blue",
        "~ bandit button pinned: none -> blue",
        "+ bandit page starts: arms x, y",
    ]
    assert {"+ retired banner", "+ retired gone", "+ [bandits.button]"} < set(lines)


def test_every_bandit_that_would_stop_is_confirmed(shop: Server, run: Run) -> None:
    with pytest.raises(InputError) as refused:
        run("apply", shop, above='retired = ["banner", "button", "gone"]\n')
    lines = str(refused.value).splitlines()
    assert len(lines) == 2
    assert lines[0] == (
        f"version 1 stops bandit banner on http://{shop.address}: {STATE}; add --retire banner to "
        "confirm, or remove banner from `retired`, and sign the document again"
    )
    assert "--retire button" in lines[1]
    with pytest.raises(InputError, match="--retire button") as refused:
        run("apply", shop, "--retire", "banner")
    assert len(str(refused.value).splitlines()) == 1
    assert names(shop) == ["button", "banner"]
    lines = run("apply", shop, "--retire", "banner", "--retire", "button")
    assert lines[0] == f"version 1 stops bandit banner on http://{shop.address}: {STATE}"
    assert lines[1].startswith("version 1 stops bandit button on ")
    assert lines[2].startswith("n0 has version 1, ")
    assert names(shop) == []


def test_all_agents_are_asked_before_one_of_them_has_the_document(
    shop: Server, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "PATIENCE", 0.3)
    with pytest.raises(InputError, match=r"was not handed to 127\.0\.0\.1:1"):
        run(
            "apply",
            shop,
            "--retire",
            "banner",
            "--to",
            "127.0.0.1:1",
            above='retired = ["banner"]\n',
        )
    assert names(shop) == ["button", "banner"]


def test_a_confirmation_of_what_does_not_stop_is_refused(shop: Server, run: Run) -> None:
    confirmed = ("--retire", "banner", "--retire", "button", "--retire", "gone")
    with pytest.raises(InputError) as refused:
        run("apply", shop, *confirmed, above='retired = ["banner", "gone"]\n')
    assert str(refused.value).splitlines() == [
        "--retire is button, but `retired` in version 1 does not list it; list it there and sign "
        "the document again, or leave out the option",
        "--retire is gone, but no such bandit runs there; leave out the option",
    ]
    assert names(shop) == ["button", "banner"]


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


def test_diff_shows_a_change_of_policy_and_refuses_one_that_forgets(
    run: Run, shop: Server, tmp_path: Path
) -> None:
    table = '[bandits.button]\narms = ["red", "green"]\nreward_range = [0.0, 1.0]\n'
    below = f'{table}policy = "ledger-ts"\nera = 1\n'
    shown = run("diff", shop, below=below)
    assert "~ bandit button policy: flood-ts -> ledger-ts" in shown
    assert "~ bandit button era: 0 -> 1" in shown
    path = tmp_path / "cluster.toml"
    with pytest.raises(InputError, match="set era = 1 to carry over what was learned"):
        run("diff", shop, below=f'{table}policy = "ledger-ts"\n')
    with pytest.raises(InputError, match="does not keep each agent's own totals apart"):
        run("diff", shop, below=f'{table}policy = "gossip-ts"\nera = 1\n')
    run("apply", shop, below=below)
    with Client(str(shop.address)) as client:
        assert client.health()["bandits"]["button"]["era"] == 1
    older = tmp_path / "older.toml"
    older.write_text(path.read_text().replace("era = 1", "era = 2"))
    with pytest.raises(InputError, match="era is 1, but the bandit is in era 2"):
        app(["cluster", "diff", str(older), str(path)], standalone_mode=False)
