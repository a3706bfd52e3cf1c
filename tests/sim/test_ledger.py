"""The ledger: ids that follow from the settings, and cells that are whole or not there at all."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest

import coopbandits as cb
from coopbandits.sim import compare
from coopbandits.sim.ledger import Ledger, run_cell
from coopbandits.sim.setup import read_stop

PROBLEM = cb.GaussianBandit([1.0, 0.5])
NETWORK = cb.Network.from_spec("star:4")
CELL = cb.Cell(PROBLEM, NETWORK, cb.DDUCB(), horizon=30, runs=2, seed=3)


@pytest.fixture(scope="module")
def result() -> cb.Result:
    return run_cell(CELL)


def test_an_id_is_a_short_word() -> None:
    assert len(CELL.id) == 16
    assert set(CELL.id) <= set("0123456789abcdef")


def test_equal_settings_have_equal_ids() -> None:
    twin = cb.Cell(
        cb.GaussianBandit((1, 0.5), sigma=1),
        cb.Network.from_spec("star:4", weights="max-degree"),
        cb.parse_policy("dducb:eta=2"),
        horizon=30,
        runs=2,
        seed=3,
    )
    assert twin.id == CELL.id
    assert twin.settings == CELL.settings


def test_an_id_is_the_same_in_another_process() -> None:
    code = (
        "import coopbandits as cb; print(cb.Cell(cb.GaussianBandit([1.0, 0.5]), "
        "cb.Network.from_spec('star:4'), cb.DDUCB(), 30, 2, 3).id)"
    )
    command = [sys.executable, "-c", code]
    other = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "17"},
    )
    assert other.stdout.strip() == CELL.id


def test_ids_are_those_of_stored_sweeps() -> None:
    """A sweep is found again by a later release, unless what it plays has changed."""
    full = dataclasses.replace(
        CELL,
        problem=cb.BernoulliBandit([0.5, 0.25]),
        policy=cb.UCBNetwork(),
        shuffle_arms=True,
        faults=cb.parse_faults("loss=0.3"),
        clocks=cb.parse_clocks("regular:ratio=2"),
    )
    assert [CELL.id, full.id] == ["3d430f0c13b44f05", "9c79112bfe65c229"]


@pytest.mark.parametrize(
    "change",
    [
        {"problem": cb.GaussianBandit([1.0, 0.4])},
        {"problem": cb.GaussianBandit([1.0, 0.5], sigma=2.0)},
        {"problem": cb.BernoulliBandit([1.0, 0.5])},
        {"network": cb.Network.from_spec("star:5")},
        {"network": cb.Network.from_spec("star:4", weights="metropolis")},
        {"network": cb.Network.from_spec("cycle:4")},
        {"policy": cb.IndependentUCB()},
        {"policy": cb.DDUCB(eta=3.0)},
        {"horizon": 31},
        {"runs": 3},
        {"seed": 4},
        {"shuffle_arms": True},
        {"faults": cb.parse_faults("loss=0.3")},
        {"faults": cb.parse_faults("loss=0.4")},
        {"clocks": cb.parse_clocks("poisson")},
    ],
    ids=lambda change: ", ".join(f"{key} {value}" for key, value in change.items()),
)
def test_every_setting_changes_the_id(change: dict[str, Any]) -> None:
    assert dataclasses.replace(CELL, **change).id != CELL.id


def test_matrices_of_one_shape_have_different_ids() -> None:
    edges = [(0, 1), (1, 2), (2, 0)]
    ids = set()
    for weight in (0.2, 0.3):
        matrix = np.full((3, 3), weight) + (1 - 3 * weight) * np.eye(3)
        network = cb.Network(edges, weights=matrix)
        ids.add(dataclasses.replace(CELL, network=network).id)
    assert len(ids) == 2


def test_graphs_of_one_size_have_different_ids() -> None:
    path, star = [(0, 1), (1, 2), (2, 3)], [(0, 1), (0, 2), (0, 3)]
    a, b = (dataclasses.replace(CELL, network=cb.Network(edges)) for edges in (path, star))
    assert a.network.description == b.network.description
    assert a.id != b.id


@pytest.mark.parametrize(
    "world",
    [
        cb.sites(PROBLEM, groups=[[1.0, 0.5], [0.5, 1.0]], of={"ann": 0, "bob": 0, "cyd": 1}),
        cb.subsets(PROBLEM, {"ann": [1]}),
    ],
    ids=["sites", "subsets"],
)
def test_names_of_agents_change_the_id_where_they_decide(world: cb.Problem) -> None:
    networks = [
        cb.Network(nx.path_graph(names)) for names in (["ann", "bob", "cyd"], ["bob", "ann", "cyd"])
    ]
    cells = [dataclasses.replace(CELL, problem=world, network=network) for network in networks]
    assert cells[0].id != cells[1].id
    plain = [dataclasses.replace(CELL, network=network) for network in networks]
    assert plain[0].id == plain[1].id


def test_agents_by_number_add_nothing_to_an_id() -> None:
    world = cb.subsets(PROBLEM, {0: [1]})
    assert "agents_sha256" not in dataclasses.replace(CELL, problem=world).settings
    turns = cb.subsets(PROBLEM, [[0], [1]])
    network = cb.Network(nx.path_graph(["ann", "bob"]))
    named = dataclasses.replace(CELL, problem=turns, network=network)
    assert "agents_sha256" not in named.settings


def test_settings_without_shuffled_arms_are_those_of_older_ledgers() -> None:
    names = {"problem", "network", "policy", "horizon", "runs", "seed"}
    assert set(CELL.settings) == names
    shuffled = dataclasses.replace(CELL, shuffle_arms=True)
    assert shuffled.settings == {**CELL.settings, "shuffle_arms": True}


def test_faults_and_clocks_are_settings_where_there_are_any() -> None:
    faulty = dataclasses.replace(
        CELL,
        policy=cb.UCBNetwork(),
        faults=cb.parse_faults("sleep=0.1,loss=0.3"),
        clocks=cb.parse_clocks("regular:ratio=2"),
    )
    assert faulty.settings["faults"] == "loss=0.3,sleep=0.1"
    assert faulty.settings["clocks"] == "regular:ratio=2"
    assert str(faulty) == (
        "ucb-network on star:4, seed 3, loss=0.3,sleep=0.1, regular:ratio=2 clocks"
    )


@pytest.mark.parametrize("clocks", [None, "regular:ratio=2"])
def test_a_faulty_cell_is_played_as_by_simulate(clocks: str | None) -> None:
    own = cb.parse_clocks(clocks or "none")
    loss, policy = cb.parse_faults("loss=0.3"), cb.UCBNetwork()
    found = run_cell(dataclasses.replace(CELL, policy=policy, faults=loss, clocks=own))
    same = cb.simulate(PROBLEM, NETWORK, policy, 30, 2, 3, faults="loss=0.3", clocks=clocks)
    assert found.dataset.identical(same.dataset)
    assert found.meta["settings"] == same.meta["settings"]


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("horizon", 30.9),
        ("horizon", "30"),
        ("horizon", None),
        ("runs", 2.7),
        ("runs", True),
        ("seed", 3.5),
        ("shuffle_arms", "no"),
        ("problem", 5),
        ("network", [(0, 1)]),
        ("policy", 5),
        ("faults", 5),
        ("clocks", 5),
        ("stop", "often"),
    ],
)
def test_what_would_have_the_id_of_another_cell_is_refused(setting: str, value: Any) -> None:
    with pytest.raises(cb.InputError, match="; ") as caught:
        dataclasses.replace(CELL, **{setting: value})
    assert repr(value) in str(caught.value)


def test_a_cell_reads_text_as_simulate_does() -> None:
    texts: dict[str, Any] = {
        "problem": "gaussian:1,0.5",
        "network": "star:4",
        "policy": "dducb",
        "horizon": np.int64(30),
    }
    assert dataclasses.replace(CELL, **texts).id == CELL.id
    given: dict[str, Any] = {"faults": "loss=0.3", "clocks": "regular:ratio=2", "stop": 0.9}
    read = dataclasses.replace(CELL, **given)
    assert read.faults == cb.parse_faults("loss=0.3")
    assert read.clocks == cb.parse_clocks("regular:ratio=2")
    assert read.stop == cb.Stop(0.9)
    none: dict[str, Any] = {"faults": None, "clocks": "none", "stop": "none"}
    assert dataclasses.replace(read, **none).id == CELL.id


def test_a_cell_reads_well() -> None:
    assert str(CELL) == "dducb on star:4, seed 3"


def test_a_cell_is_played_as_by_simulate(result: cb.Result) -> None:
    same = cb.simulate(PROBLEM, NETWORK, cb.DDUCB(), 30, 2, 3, engine="reference", progress=False)
    assert np.array_equal(result.pulls, same.pulls)
    assert result.meta["settings"] == same.meta["settings"]


def test_a_shuffled_cell_is_played_as_by_simulate() -> None:
    found, plain = (
        run_cell(dataclasses.replace(CELL, runs=6, shuffle_arms=shuffle_arms))
        for shuffle_arms in (True, False)
    )
    same = cb.simulate(PROBLEM, NETWORK, cb.DDUCB(), 30, 6, 3, shuffle_arms=True, progress=False)
    assert found.dataset.identical(same.dataset)
    assert not np.array_equal(found.pulls, plain.pulls)


def test_a_stored_cell_can_be_loaded(tmp_path: Path, result: cb.Result) -> None:
    ledger = Ledger(tmp_path)
    assert ledger.load(CELL) is None
    ledger.store(CELL, result)
    again = ledger.load(CELL)
    assert again is not None
    assert again.dataset.identical(result.dataset)
    assert again.meta == result.meta
    assert ledger.load(dataclasses.replace(CELL, seed=4)) is None
    assert [path.name for path in (tmp_path / "cells").iterdir()] == [CELL.id]
    assert {path.name for path in ledger.path(CELL).iterdir()} == {"result.nc", "meta.json"}


def _path(names: str, **attributes: str) -> cb.Network:
    graph = nx.path_graph(list(names))
    for name, values in attributes.items():
        nx.set_node_attributes(graph, dict(zip(names, values, strict=True)), name)
    return cb.Network(graph)


@pytest.mark.covering(1)
@pytest.mark.parametrize(
    "network", [_path("xyz", town="klm"), _path("abc"), cb.Network(nx.path_graph(3))]
)
def test_agents_have_the_names_of_the_cell_that_is_asked_for(
    tmp_path: Path, network: cb.Network
) -> None:
    policies = [cb.parse_policy(name) for name in ("independent-ts", "flood-ts")]
    stop = read_stop("0.9")
    first = cb.Cell(PROBLEM, _path("abc", color="rgb"), policies[0], 30, stop=stop)
    other, rival = (cb.Cell(PROBLEM, network, policy, 30, stop=stop) for policy in policies)
    assert other.id == first.id
    ledger = Ledger(tmp_path)
    ledger.store(first, run_cell(first))
    again = ledger.load(other)
    assert again is not None
    assert again.dataset.identical(run_cell(other).dataset)
    (both,) = compare([(other, again), (rival, run_cell(rival))]).values()
    assert both.dataset.sizes["policy"] == 2


def test_a_cell_is_never_seen_half_written(
    tmp_path: Path, result: cb.Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Path] = []
    save = cb.Result.save

    def watching(self: cb.Result, folder: str | Path) -> Path:
        seen.append(Path(folder))
        path = save(self, folder)
        assert not Ledger(tmp_path).path(CELL).exists()
        assert Ledger(tmp_path).load(CELL) is None
        return path

    monkeypatch.setattr(cb.Result, "save", watching)
    Ledger(tmp_path).store(CELL, result)
    (folder,) = seen
    assert folder.name.startswith(".")  # which no pattern for cells finds
    assert folder.parent == tmp_path / "cells"  # so that a rename is all that is left to do
    assert not folder.exists()


def test_a_failing_save_leaves_nothing(
    tmp_path: Path, result: cb.Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    save = cb.Result.save

    def failing(self: cb.Result, folder: str | Path) -> Path:
        save(self, folder)
        raise cb.InputError("the disk is full")

    ledger = Ledger(tmp_path)
    monkeypatch.setattr(cb.Result, "save", failing)
    with pytest.raises(cb.InputError, match="the disk is full"):
        ledger.store(CELL, result)
    assert list((tmp_path / "cells").iterdir()) == []
    assert ledger.load(CELL) is None


def test_a_failing_save_keeps_what_was_there(
    tmp_path: Path, result: cb.Result, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(tmp_path)
    ledger.store(CELL, result)
    ledger.quarantine(CELL, "an old error")

    def failing(self: cb.Result, folder: str | Path) -> Path:
        raise cb.InputError("the disk is full")

    monkeypatch.setattr(cb.Result, "save", failing)
    with pytest.raises(cb.InputError):
        ledger.store(CELL, result)
    assert ledger.load(CELL) is not None
    assert ledger.quarantined(CELL) == "an old error"


def test_a_place_below_a_file(tmp_path: Path, result: cb.Result) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    ledger = Ledger(file)
    with pytest.raises(cb.InputError, match=re.escape(str(file))):
        ledger.store(CELL, result)
    with pytest.raises(cb.InputError, match="cannot write"):
        ledger.quarantine(CELL, "error")
    assert ledger.load(CELL) is None
    assert ledger.quarantined(CELL) is None
    assert file.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [file]


def test_a_damaged_cell_is_replaced(tmp_path: Path, result: cb.Result) -> None:
    ledger = Ledger(tmp_path)
    ledger.store(CELL, result)
    (ledger.path(CELL) / "result.nc").write_bytes(b"damaged")
    assert ledger.load(CELL) is None
    ledger.store(CELL, result)
    again = ledger.load(CELL)
    assert again is not None
    assert again.dataset.identical(result.dataset)


def test_quarantine(tmp_path: Path, result: cb.Result) -> None:
    ledger = Ledger(tmp_path)
    assert ledger.quarantined(CELL) is None
    ledger.quarantine(CELL, "ValueError: ü [odd]")
    assert ledger.quarantined(CELL) == "ValueError: ü [odd]"
    assert ledger.quarantined(dataclasses.replace(CELL, seed=4)) is None
    entry = json.loads((tmp_path / "quarantine" / f"{CELL.id}.json").read_text())
    assert entry["settings"] == CELL.settings
    assert ledger.load(CELL) is None
    ledger.store(CELL, result)
    assert ledger.quarantined(CELL) is None
    assert list((tmp_path / "quarantine").iterdir()) == []


def damaged(tmp_path: Path, content: bytes) -> Ledger:
    ledger = Ledger(tmp_path)
    ledger.quarantine(CELL, "error")
    (tmp_path / "quarantine" / f"{CELL.id}.json").write_bytes(content)
    return ledger


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b"\xff\xfe"])
def test_a_damaged_note_is_none(tmp_path: Path, content: bytes) -> None:
    assert damaged(tmp_path, content).quarantined(CELL) is None


@pytest.mark.parametrize("content", [b"[]", b"null", b"3"])
def test_a_note_that_is_no_dictionary_is_none(tmp_path: Path, content: bytes) -> None:
    assert damaged(tmp_path, content).quarantined(CELL) is None
