from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from coopbandits import (
    DDUCB,
    Cell,
    GaussianBandit,
    InputError,
    Network,
    Result,
    SimulationInterrupted,
    drift,
    parse_policy,
    simulate,
    sites,
    subsets,
)
from coopbandits.sim.ledger import Ledger, run_cell

from .calls import Call, refused

SMALL = ("--graph", "cycle:4", "--means", "1,0.5", "--horizon", "40", "--runs", "2")


def test_simulate(call: Call, tmp_path: Path) -> None:
    out = tmp_path / "out"
    outcome = call(
        "simulate", *SMALL, "--policy", "dducb", "--policy", "independent-ucb", "--out", str(out)
    )
    assert outcome.status == 0, outcome.err
    files = {"result.nc", "meta.json", "regret.svg", "regret.png", "report.html"}
    assert {path.name for path in out.iterdir()} == files
    result = Result.load(out)
    assert result.policies == ["dducb", "independent-ucb"]
    assert (result.horizon, result.dataset.sizes["run"]) == (40, 2)
    assert outcome.out.startswith(str(result.summary()))
    last = outcome.out.splitlines()[-1]
    assert last.startswith(f"written to {out}: ")
    assert all(name in last for name in files)


@pytest.mark.slow
def test_a_result_is_saved_although_nobody_reads_its_summary(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ("simulate", *SMALL, "--policy", "independent-ucb", "--no-figures", "--out", str(out))
    command = [sys.executable, "-m", "coopbandits", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        running.stdout.close()
    assert Result.load(out).policies == ["independent-ucb"]


@pytest.mark.slow
def test_simulate_without_figures_does_not_load_what_draws_them(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = ("simulate", *SMALL, "--policy", "independent-ucb", "--no-figures", "--out", str(out))
    code = (
        "import sys\nfrom coopbandits.cli import main\ntry: main()\n"
        "finally: print('matplotlib' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-2:] == [f"written to {out}: result.nc, meta.json", "False"]
    assert {path.name for path in out.iterdir()} == {"result.nc", "meta.json"}


def test_simulate_passes_every_setting_on(call: Call, tmp_path: Path) -> None:
    settings = ("--sigma", "0.5", "--seed", "5", "--weights", "metropolis", "--engine", "reference")
    played = ("--policy", "dducb:eta=3", "--shuffle-arms", "--out", str(tmp_path), "--no-figures")
    outcome = call("simulate", *SMALL, *settings, *played)
    assert outcome.status == 0, outcome.err
    meta = Result.load(tmp_path).meta
    assert meta["settings"]["policies"] == ["dducb:eta=3"]
    assert (meta["settings"]["seed"], meta["settings"]["problem"]["sigma"]) == (5, 0.5)
    assert meta["settings"]["network"]["weights"] == "metropolis"
    assert meta["settings"]["shuffle_arms"] is True
    assert meta["engines"] == ["reference"]


def test_simulate_with_faults_and_clocks(call: Call, tmp_path: Path) -> None:
    played = ("--policy", "ucb-network", "--faults", "loss=0.3", "--clocks", "poisson:ratio=4")
    outcome = call("simulate", *SMALL, *played, "--out", str(tmp_path), "--no-figures")
    assert outcome.status == 0, outcome.err
    assert re.search(r"^policy +sent +delivered +late among them +lost$", outcome.out, re.MULTILINE)
    settings = Result.load(tmp_path).meta["settings"]
    assert (settings["faults"], settings["clocks"]) == ("loss=0.3", "poisson:ratio=4")
    again = ("simulate", *SMALL, "--policy", "ucb-network", "--out", str(tmp_path))
    assert "other settings" in refused(call(*again))
    assert "'loss'" in refused(call(*again, "--faults", "los=0.3"))
    assert "'poisson'" in refused(call(*again, "--clocks", "poison"))


def test_a_folder_of_other_settings_is_left_alone(call: Call, tmp_path: Path) -> None:
    simulate = ("simulate", *SMALL, "--policy", "dducb", "--out", str(tmp_path), "--no-figures")
    assert call(*simulate).status == 0
    assert call(*simulate).status == 0
    before = (tmp_path / "meta.json").read_bytes()
    assert "other settings" in refused(call(*simulate, "--seed", "1"))
    assert (tmp_path / "meta.json").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--policy", "ddcub"), "'ddcub'.*'dducb'"),
        (("--policy", "dducb:etta=3"), "dducb 'etta'.*'eta'"),
        (("--policy", "dducb", "--graph", "cylce:4"), "'cylce'.*'cycle'"),
        (("--policy", "dducb", "--means", "1,x"), "'x'.*number"),
        (("--policy", "dducb", "--sigma", "-1"), "sigma is -1"),
        (
            ("--policy", "dducb", "--horizon", "0"),
            r"horizon.* 0\b",
        ),
        (("--policy", "dducb", "--runs", "0"), r"runs.* 0\b"),
        (
            ("--policy", "dducb", "--seed", "-1"),
            r"seed.* -1\b",
        ),
        (("--policy", "dducb", "--engine", "tpu"), "'tpu'"),
        (("--policy", "dducb", "--policy", "dducb"), "dducb.*twice"),
    ],
)
def test_bad_simulations(
    call: Call, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    out = tmp_path / "out"
    assert re.search(message, refused(call("simulate", *SMALL, *arguments, "--out", str(out))))
    assert not out.exists()


@pytest.mark.parametrize("name", ["file", "file/out"])
def test_a_file_in_the_place_of_the_folder_is_refused_at_once(
    call: Call, tmp_path: Path, experiment: tuple[str, ...], name: str
) -> None:
    (tmp_path / "file").write_text("mine")
    out = str(tmp_path / name)
    for words in (("simulate", *SMALL, "--policy", "dducb"), experiment[:2]):
        message = refused(call(*words, "--out", out))
        assert f"--out is {out!r}" in message and f"{tmp_path / 'file'} is a file" in message
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_without_rights_is_refused_at_once(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_write = os.access
    monkeypatch.setattr(  # root may write anywhere
        os, "access", lambda path, mode: path != tmp_path and may_write(path, mode)
    )
    out = tmp_path / "new" / "out"
    found = refused(call("simulate", *SMALL, "--policy", "dducb", "--out", str(out)))
    assert str(tmp_path) in found
    assert not out.parent.exists()


def test_reward_families_in_short(call: Call, tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    world = (
        "simulate", "--graph", "cycle:4", "--horizon", "4e1", "--runs", "2", "--policy",
        "independent-ucb", "--out", out, "--no-figures", "--problem",
    )  # fmt: skip
    outcome = call(*world, "bernoulli:0.5,0.4x2")
    assert outcome.status == 0, outcome.err
    problem = Result.load(out).meta["settings"]["problem"]
    assert problem["means"] == [0.5, 0.4, 0.4]
    assert call(*world, "bernoulli:means=0.5,0.4x2") == outcome
    message = refused(call(*world, "bernoulli:0.5,x"))
    assert "'x'" in message


@pytest.mark.parametrize("option", ["means", "sigma"])
def test_arms_are_given_in_one_way(call: Call, tmp_path: Path, option: str) -> None:
    outcome = call(
        "simulate", "--graph", "cycle:4", "--policy", "dducb", "--out", str(tmp_path / "out"),
        f"--{option}", "1", "--problem", "bernoulli:means=0.5,0.4x5",
    )  # fmt: skip
    assert f"--{option} and --problem" in refused(outcome)


def test_a_horizon_beyond_all_numbers_is_refused(call: Call, tmp_path: Path) -> None:
    arguments = ("--policy", "dducb", "--horizon", "1e30", "--out", str(tmp_path / "out"))
    message = refused(call("simulate", *SMALL[:4], *arguments))
    assert "1e+30" in message and "1e+15" in message


def test_a_place_that_cannot_be_written(call: Call, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "nowhere" / "out")
    out = str(tmp_path / "link")
    outcome = call("simulate", *SMALL, "--policy", "dducb", "--out", out)
    assert "regret after 40 rounds" in outcome.out  # the work is not lost
    message = refused(outcome._replace(out=""))
    assert out in message


@pytest.mark.parametrize("kept", [0, 2])
def test_simulate_interrupted(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    problem, network = GaussianBandit([1.0, 0.5]), Network.from_spec("cycle:4")
    part = simulate(problem, network, DDUCB(), 40, kept, progress=False) if kept else None

    def interrupted(*arguments: object, **keywords: object) -> Result:
        raise SimulationInterrupted(part, kept, 5)

    monkeypatch.setattr("coopbandits.cli.simulations.play", interrupted)
    outcome = call("simulate", *SMALL, "--policy", "dducb", "--out", str(tmp_path / "out"))
    assert outcome.status == 130
    assert f"kept {kept} of 5 runs" in outcome.err
    assert "Traceback" not in outcome.err
    folder = tmp_path / "out" / "partial-2-runs"
    if part is None:
        assert "nothing was written" in outcome.err
        assert not (tmp_path / "out").exists()
    else:
        assert f"; written to {folder}: result.nc, meta.json" in outcome.err
        assert outcome.out.startswith(str(part.summary()))
        assert Result.load(folder).dataset.identical(part.dataset)


EXPERIMENT = """
horizon = 40
runs = 2
policies = ["dducb", "independent-ucb"]
graphs = ["cycle:4", "star:5"]

[problems.small]
kind = "gaussian"
means = [1.0, 0.5]
"""


@pytest.fixture
def experiment(tmp_path: Path) -> tuple[str, ...]:
    """Write a small experiment of four cells; return the command that plays it."""
    (tmp_path / "experiment.toml").write_text(EXPERIMENT)
    return ("run", str(tmp_path / "experiment.toml"), "--out", str(tmp_path / "out"))


@pytest.fixture
def dask(monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Let a thread stand in for a Dask cluster; return the option that asks for it."""

    @contextmanager
    def thread(address: str) -> Iterator[Executor]:
        assert address == "tcp://here:8786"
        with ThreadPoolExecutor(1) as executor:
            yield executor

    monkeypatch.setattr("coopbandits.cli.simulations.dask_executor", thread)
    return ("--dask", "tcp://here:8786")


def cells_of(out: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in out.glob("cells/*/*")}


def test_run(
    call: Call, tmp_path: Path, experiment: tuple[str, ...], dask: tuple[str, ...]
) -> None:
    out = tmp_path / "out"
    outcome = call(*experiment, *dask)
    assert (outcome.status, outcome.err) == (0, "")
    for graph, folder in (("cycle:4", out / "cycle-4"), ("star:5", out / "star-5")):
        problem, network = GaussianBandit([1.0, 0.5]), Network.from_spec(graph)
        policies = [DDUCB(), parse_policy("independent-ucb")]
        together = simulate(problem, network, policies, 40, 2, progress=False)
        names = "regret.svg, regret.png, report.html, traffic.svg"
        assert f"\n{graph}\n{together.summary()}\nwritten to {folder}: {names}\n" in outcome.out
        assert {path.name for path in folder.iterdir()} == set(names.split(", "))
    assert outcome.out.count("regret after 40 rounds, 2 runs") == 2
    assert len(cells_of(out)) == 2 * 4
    assert {path.name for path in out.iterdir()} == {"cells", "cycle-4", "star-5", "summary.csv"}


@pytest.mark.slow  # the fast tier resumes an interrupted run, and sweeps in worker processes
def test_a_second_run_plays_nothing(
    call: Call, tmp_path: Path, experiment: tuple[str, ...]
) -> None:
    outcome = call(*experiment, "--workers", "1")
    assert (outcome.status, outcome.err) == (0, "")
    before = cells_of(tmp_path / "out")
    assert len(before) == 2 * 4
    assert call(*experiment, "--workers", "1") == outcome
    assert cells_of(tmp_path / "out") == before


@pytest.mark.slow
def test_run_cuts_long_names_of_folders_and_writes_the_table_first(
    call: Call,
    tmp_path: Path,
    experiment: tuple[str, ...],
    dask: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [f"a{'é' * 100}", f"a{'é' * 100}, seed 2", "x" * 120]

    def long(results: list[tuple[Cell, Result]]) -> dict[str, Result]:
        assert (tmp_path / "out" / "summary.csv").exists()
        return dict(zip(names, [result for _, result in results], strict=False))

    monkeypatch.setattr("coopbandits.cli.simulations.compare", long)
    outcome = call(*experiment, *dask)
    assert outcome.status == 0, outcome.err
    folders = sorted(path.parent.name for path in (tmp_path / "out").glob("*/report.html"))
    digits = [hashlib.sha256(name.encode()).hexdigest()[:8] for name in names[:2]]
    assert folders == sorted([*(f"a{'é' * 59}-{each}" for each in digits), "x" * 120])


@pytest.mark.slow
def test_run_with_overrides_and_dask(
    call: Call, tmp_path: Path, experiment: tuple[str, ...], dask: tuple[str, ...]
) -> None:
    settings = ("--set", "horizon=25", "--set", 'graphs=["cycle:6"]', "--set", "seeds=[1, 2]")
    outcome = call(*experiment, *dask, *settings, "--pool-seeds")
    assert outcome.status == 0, outcome.err
    table = tmp_path / "out" / "summary.csv"
    assert outcome.out.endswith(f"\nall cells in one table: {table}\n")
    assert len(table.read_text().splitlines()) == 1 + 2  # a line per policy
    assert outcome.out.count("regret after 25 rounds") == 2
    assert "\ncycle:6, seed 1\n" in outcome.out
    assert (tmp_path / "out" / "cycle-6-seed-2" / "report.html").exists()
    assert len(cells_of(tmp_path / "out")) == 2 * 4


@pytest.mark.slow
def test_run_sets_a_failing_cell_aside(
    call: Call,
    tmp_path: Path,
    experiment: tuple[str, ...],
    dask: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plays: list[str] = []

    def flaky(cell: Cell) -> Result:
        plays.append(str(cell))
        if cell.policy.spelling == "dducb" and cell.network.num_agents == 5:
            raise RuntimeError("no [luck]")
        return run_cell(cell)

    module = sys.modules["coopbandits.sim.sweep"]  # the name leads to the function
    monkeypatch.setattr(module, "run_cell", flaky)
    outcome = call(*experiment, *dask)
    assert outcome.status == 1
    sentence = "dducb on star:5, seed 0: RuntimeError: no [luck]"
    assert sentence in outcome.err.splitlines()[-1]
    assert "Traceback" not in outcome.err
    assert outcome.out.count("regret after 40 rounds") == 2  # the rest is shown
    assert len(cells_of(tmp_path / "out")) == 2 * 3
    assert len(plays) == 4

    plays.clear()
    again = call(*experiment, *dask)
    assert (again.status, again.err.count("\n")) == (1, 1)
    assert sentence in again.err
    assert plays == []

    monkeypatch.setattr(module, "run_cell", run_cell)
    retried = call(*experiment, *dask, "--retry")
    assert (retried.status, retried.err) == (0, "")
    assert len(cells_of(tmp_path / "out")) == 2 * 4
    assert list((tmp_path / "out" / "quarantine").iterdir()) == []


def test_run_interrupted(
    call: Call,
    tmp_path: Path,
    experiment: tuple[str, ...],
    dask: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "out"
    run = (*experiment, *dask, "--set", 'graphs=["cycle:4"]')
    store = Ledger.store

    def store_and_stop(self: Ledger, cell: Cell, result: Result) -> None:
        store(self, cell, result)
        raise KeyboardInterrupt

    monkeypatch.setattr(Ledger, "store", store_and_stop)
    outcome = call(*run)
    assert (outcome.status, outcome.out) == (130, "")
    assert f"1 of 2 cells are in {out}" in outcome.err
    before = cells_of(out)

    monkeypatch.setattr(Ledger, "store", store)
    assert call(*run).status == 0
    after = cells_of(out)
    assert len(after) == 2 * 2
    assert {path: after[path] for path in before} == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "horizn=5"), "'horizn'.*'horizon'"),
        (("--set", "horizon"), "--set.*horizon=500.*'horizon'"),
        (("--workers", "0"), r"workers.* 0\b"),
        (("--set", 'graphs=["cycle:4", "cycle:4"]'), "graphs.*'cycle:4' twice"),
        (("--set", "seeds=[1, 2, 1]"), "seeds.* 1 twice"),
        (("--set", 'faults=["none", "loss=0.1", "loss=.1"]'), r"faults.*'loss=0\.1' twice"),
        (("--set", "horizon=1.5"), r"horizon.* 1\.5"),
        (("--dask", "tcp://127.0.0.1:1"), r"tcp://127\.0\.0\.1:1\b"),
    ],
)
def test_bad_runs(
    call: Call,
    tmp_path: Path,
    experiment: tuple[str, ...],
    arguments: tuple[str, ...],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nobody(address: str) -> Executor:
        raise InputError(f"no Dask scheduler answers at {address}; start one")

    monkeypatch.setattr("coopbandits.cli.simulations.dask_executor", nobody)
    assert re.search(message, refused(call(*experiment, *arguments)))
    assert not (tmp_path / "out").exists()


def test_run_without_a_file(call: Call, tmp_path: Path) -> None:
    outcome = call("run", str(tmp_path / "nowhere.toml"), "--out", str(tmp_path / "out"))
    assert re.search(r"nowhere\.toml", refused(outcome))


def test_worlds_are_spelled(call: Call, tmp_path: Path) -> None:
    out = tmp_path / "out"
    outcome = call(
        "simulate", *SMALL, "--policy", "independent-ucb", "--drift", "switch_every=10",
        "--sites", "spread=0.1,seed=3", "--subsets", "0,1/1", "--out", str(out), "--no-figures",
        "--engine", "reference",
    )  # fmt: skip
    assert outcome.status == 0, outcome.err
    world = drift(sites(GaussianBandit([1, 0.5]), 0.1, seed=3), switch_every=10)
    settings = Result.load(out).meta["settings"]["problem"]
    assert settings == subsets(world, [[0, 1], [1]]).describe()
    assert "worst agent" in outcome.out
    assert "global" in outcome.out


def test_when_to_stop_is_told(call: Call, tmp_path: Path) -> None:
    outcome = call(
        "simulate", *SMALL, "--policy", "flood-ts", "--stop", "0.9,within=5", "--out",
        str(tmp_path / "out"), "--no-figures", "--engine", "reference",
    )  # fmt: skip
    assert outcome.status == 0, outcome.err
    assert "rounds until agents could have stopped" in outcome.out
    assert Result.load(tmp_path / "out").meta["settings"]["stop"] == "0.9,within=5"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--drift", "swich=5"), "'swich'"),
        (("--sites", "groups=1,0/0,1/1,1/0,0/1,2"), "group 4"),
        (("--subsets", "0,5"), "arm 5"),
        (("--stop", "soon"), "'soon'"),
        (
            ("--stop", "0.95"),
            "distinct pulls",
        ),
    ],
)
def test_a_world_or_a_rule_that_is_none(
    call: Call, tmp_path: Path, words: tuple[str, str], sentence: str
) -> None:
    outcome = call("simulate", *SMALL, "--policy", "dducb", *words, "--out", str(tmp_path / "out"))
    assert sentence in refused(outcome)
