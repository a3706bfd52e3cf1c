from __future__ import annotations

import json
import re
from importlib.metadata import version
from pathlib import Path

import networkx as nx
import pytest

import coopbandits
from coopbandits.core.errors import InputError
from coopbandits.results import Result, storage

from .conftest import Make


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def sentence(caught: pytest.ExceptionInfo[InputError]) -> str:
    """Return a message after checking that it is a single line."""
    text = str(caught.value)
    assert "\n" not in text
    return text


def same(first: Result, second: Result) -> bool:
    dtypes = [{k: v.dtype for k, v in r.dataset.variables.items()} for r in (first, second)]
    return (
        first.dataset.identical(second.dataset)
        and dtypes[0] == dtypes[1]
        and first.meta == second.meta
    )


@pytest.mark.parametrize("keep", ["", "agents", "arms"])
def test_round_trip(simulated: dict[str, Result], keep: str, tmp_path: Path) -> None:
    result = simulated[keep]
    before = result.dataset.copy(deep=True)
    assert result.save(tmp_path / "deep" / "out") == tmp_path / "deep" / "out"
    loaded = Result.load(str(tmp_path / "deep" / "out"))
    assert same(loaded, result)
    assert loaded.dataset.attrs == {}
    assert result.dataset.identical(before)
    assert names(tmp_path / "deep" / "out") == {"result.nc", "meta.json"}


def test_names_outside_ascii_come_back(tmp_path: Path) -> None:
    graph = nx.path_graph(["ann", "Jörg", "eve"])
    nx.set_node_attributes(graph, dict(zip(graph, ["Köln", "Bonn", "東京"], strict=True)), "city")
    problem = coopbandits.GaussianBandit([1.0, 0.5]).named(["blau", "grün"])
    network = coopbandits.Network(graph)
    result = coopbandits.simulate(
        problem, network, "dducb", 5, engine="reference", keep="agents", progress=False
    )
    result.save(tmp_path)
    loaded = Result.load(tmp_path)
    assert same(loaded, result)
    assert loaded.dataset["arm"].values.tolist() == ["blau", "grün"]
    assert loaded.dataset["agent"].values.tolist() == ["ann", "Jörg", "eve"]
    assert loaded.dataset["city"].values.tolist() == ["Köln", "Bonn", "東京"]


@pytest.mark.covering(2)
@pytest.mark.parametrize("value", ["x\0y", "x", 2**70, 5])
def test_odd_attributes_can_be_saved(value: str | int, tmp_path: Path) -> None:
    graph = nx.path_graph(["a\0b", "c"])
    for name in ("a/b", "", ".", "..", "a\0b", "plain"):
        nx.set_node_attributes(graph, value, name)
    problem = coopbandits.GaussianBandit([1.0, 0.5]).named(["up\0", "down"])
    network = coopbandits.Network(graph)
    result = coopbandits.simulate(
        problem, network, "dducb", 3, engine="reference", keep="agents", progress=False
    )
    result.save(tmp_path)
    assert same(Result.load(tmp_path), result)


def test_meta_tells_where_numbers_come_from(simulated: dict[str, Result], tmp_path: Path) -> None:
    simulated[""].save(tmp_path)
    meta = json.loads((tmp_path / "meta.json").read_text())
    assert meta["format"] == storage.FORMAT
    assert meta["settings"]["seed"] == 7
    assert meta["settings"]["horizon"] == 30
    assert meta["settings"]["runs"] == 2
    assert meta["settings"]["policies"] == ["dducb", "independent-ucb"]
    assert meta["settings"]["network"]["num_agents"] == 4
    assert meta["settings"]["problem"]["means"] == [1.0, 0.5, 0.0]
    assert meta["engines"] == ["reference", "reference"]
    assert meta["wall_seconds"] >= 0
    assert meta["versions"]["coopbandits"] == coopbandits.__version__
    for library in ("numpy", "scipy", "xarray", "h5netcdf", "numba", "networkx"):
        assert meta["versions"][library] == version(library)
    assert set(meta["platform"]) == {"python", "system", "machine"}


def test_a_library_that_is_not_there_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "LIBRARIES", ("no-such-library",))
    assert storage.environment()["versions"]["no-such-library"] == "unknown"


def test_a_users_notes_are_kept(make: Make, tmp_path: Path) -> None:
    result = make()
    result.dataset.attrs["note"] = "the first try"
    result.save(tmp_path)
    assert Result.load(tmp_path).dataset.attrs == {"note": "the first try"}


def test_the_same_result_is_the_same_bytes(make: Make, tmp_path: Path) -> None:
    for folder in ("a", "b"):
        make().save(tmp_path / folder)
    for name in ("result.nc", "meta.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_equal_settings_overwrite(make: Make, tmp_path: Path) -> None:
    first, second = make(), make()
    first.save(tmp_path)
    second.meta["wall_seconds"] = 9.0
    second.dataset["regret"] += 1.0
    second.save(tmp_path)
    assert same(Result.load(tmp_path), second)


def test_other_settings_are_refused(make: Make, tmp_path: Path) -> None:
    make().save(tmp_path)
    with pytest.raises(InputError, match="other settings") as caught:
        make(seed=1).save(tmp_path)
    sentence(caught)
    assert same(Result.load(tmp_path), make())
    assert names(tmp_path) == {"result.nc", "meta.json"}


def test_settings_are_compared_as_they_are_stored(make: Make, tmp_path: Path) -> None:
    result = make()
    result.meta["settings"]["pair"] = (1, float("nan"))
    result.save(tmp_path)
    result.save(tmp_path)
    assert names(tmp_path) == {"result.nc", "meta.json"}


def test_a_result_made_by_hand_is_stored(make: Make, tmp_path: Path) -> None:
    Result(make().dataset, {}).save(tmp_path)
    assert Result.load(tmp_path).meta == {"format": storage.FORMAT, "settings": {}}


def test_stopping_between_the_two_files(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New numbers beside the older `meta.json`: they bring their own meta data along."""
    make().save(tmp_path)
    newer = make()
    newer.meta["wall_seconds"] = 77.0
    newer.dataset["regret"] += 1.0
    whole = Path.replace

    def stop_at_meta(self: Path, target: Path) -> Path:
        if target.name == "meta.json":
            raise KeyboardInterrupt
        return whole(self, target)

    monkeypatch.setattr(Path, "replace", stop_at_meta)
    with pytest.raises(KeyboardInterrupt):
        newer.save(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        newer.save(tmp_path / "first")
    monkeypatch.undo()
    assert same(Result.load(tmp_path), newer)
    assert names(tmp_path) == {"result.nc", "meta.json", "first"}
    # A first save that stopped there can be repeated, but not by other settings.
    with pytest.raises(InputError, match="holds no result"):
        Result.load(tmp_path / "first")
    with pytest.raises(InputError, match="other settings"):
        make(seed=1).save(tmp_path / "first")
    newer.save(tmp_path / "first")
    assert same(Result.load(tmp_path / "first"), newer)


def test_files_of_two_results_are_not_mixed(make: Make, tmp_path: Path) -> None:
    make().save(tmp_path / "a")
    make(seed=1).save(tmp_path / "b")
    (tmp_path / "a" / "meta.json").replace(tmp_path / "b" / "meta.json")
    with pytest.raises(InputError, match="different results") as caught:
        Result.load(tmp_path / "b")
    sentence(caught)


def test_a_foreign_data_file_is_not_overwritten(make: Make, tmp_path: Path) -> None:
    (tmp_path / "result.nc").write_bytes(b"somebody else's")
    with pytest.raises(InputError, match=r"result\.nc cannot be read"):
        make().save(tmp_path)
    assert (tmp_path / "result.nc").read_bytes() == b"somebody else's"
    make().dataset.to_netcdf(tmp_path / "result.nc", engine="h5netcdf")
    with pytest.raises(InputError, match="no result of coopbandits"):
        make().save(tmp_path)


@pytest.mark.parametrize("name", ["result.nc", "meta.json"])
def test_files_cut_short(make: Make, tmp_path: Path, name: str) -> None:
    for part in (0.0, 0.01, 0.5, 0.99):
        folder = tmp_path / str(part)
        make().save(folder)
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[: int(part * len(content))])
        with pytest.raises(InputError, match=re.escape(name)) as caught:
            Result.load(folder)
        assert "run it again" in sentence(caught)


@pytest.mark.parametrize("places", [10, pytest.param(60, marks=pytest.mark.slow)])
def test_every_damage_to_the_numbers_is_noticed(make: Make, tmp_path: Path, places: int) -> None:
    """A changed byte is either in padding, where it changes nothing, or it is refused."""
    result = make()
    result.save(tmp_path)
    path = tmp_path / "result.nc"
    content = path.read_bytes()
    refused = 0
    for position in range(0, len(content), len(content) // places):
        damaged = bytearray(content)
        damaged[position] ^= 0x55
        path.write_bytes(damaged)
        try:
            assert same(Result.load(tmp_path), result)
        except InputError:
            refused += 1
    assert refused > 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "cannot be read"),
        ("{}", "cannot be read"),
        ('{"format": 1}', "cannot be read"),
        ('{"format": 1, "settings": 3}', "cannot be read"),
        ("[" * 100_000, "cannot be read"),
        ('{"format": 2}', r"format 2\b.*format 1\b"),
        ('{"format": 9, "versions": {"coopbandits": "3.4"}}', r"3\.4"),
        ('{"format": "x", "versions": 5}', "format 'x'"),
    ],
)
def test_meta_that_is_no_meta(make: Make, tmp_path: Path, text: str, message: str) -> None:
    make().save(tmp_path)
    (tmp_path / "meta.json").write_text(text)
    for use in (lambda: Result.load(tmp_path), lambda: make().save(tmp_path)):
        with pytest.raises(InputError, match=message) as caught:
            use()
        sentence(caught)
    assert (tmp_path / "meta.json").read_text() == text


def test_meta_that_is_no_text(make: Make, tmp_path: Path) -> None:
    make().save(tmp_path)
    (tmp_path / "meta.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(InputError, match=r"meta\.json cannot be read"):
        Result.load(tmp_path)


def test_missing_parts(make: Make, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere.*meta\.json"):
        Result.load(tmp_path / "nowhere")
    make().save(tmp_path)
    (tmp_path / "result.nc").unlink()
    with pytest.raises(InputError, match=r"result\.nc"):
        Result.load(tmp_path)
    (tmp_path / "result.nc").mkdir()
    with pytest.raises(InputError, match=r"result\.nc"):
        Result.load(tmp_path)


def test_a_file_where_a_folder_should_be(make: Make, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match=r"file\b.*folder"):
        Result.load(tmp_path / "file")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(InputError, match=re.escape(str(folder))) as caught:
            make().save(folder)
        sentence(caught)
    assert names(tmp_path) == {"file"}
    assert (tmp_path / "file").read_text() == "mine"
