from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.main import get_command

from coopbandits import (
    DDUCB,
    Cell,
    GaussianBandit,
    InputError,
    Network,
    Result,
    SimulationInterrupted,
    parse_policy,
    simulate,
)
from coopbandits.cli import app, main
from coopbandits.experiments import bench, paper
from coopbandits.sim.ledger import Ledger, run_cell

COMMANDS = sorted(get_command(app).commands)  # type: ignore[attr-defined]
SMALL = ("--graph", "cycle:4", "--means", "1,0.5", "--horizon", "40", "--runs", "2")


class Outcome(NamedTuple):
    status: int
    out: str
    err: str


Call = Callable[..., Outcome]


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Run the command line in this process, on a wide terminal without colours."""
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    for name in ("FORCE_COLOR", "GITHUB_ACTIONS", "PY_COLORS"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["coopbandits", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        assert isinstance(stop.value.code, int | None)
        captured = capsys.readouterr()
        return Outcome(stop.value.code or 0, captured.out, captured.err)

    return run


def refused(outcome: Outcome) -> str:
    """Return the error after checking that it is one line, on the right stream, with status 2."""
    assert outcome.status == 2
    assert outcome.out == ""
    assert "Traceback" not in outcome.err
    message = outcome.err.strip()
    assert message.startswith("error: ")
    assert "\n" not in message
    return message


def rows(text: str) -> dict[str, str]:
    cells = [re.split(r"\s{2,}", line) for line in text.splitlines()]
    return {row[0]: row[1] for row in cells if len(row) == 2}


def test_graph(call: Call) -> None:
    outcome = call("graph", "grid:10x10")
    assert (outcome.status, outcome.err) == (0, "")
    table = rows(outcome.out)
    assert "grid:10x10" in outcome.out
    assert table["agents N"] == "100"
    assert table["edges"] == "180"
    assert table["diameter"] == "18"
    gap = float(table["gap 1 − λ"])
    assert float(table["λ"]) == pytest.approx(1 - gap, abs=1e-7)
    stage = int(table["C accelerated"].removesuffix(" rounds"))
    assert stage < int(table["C unaccelerated"].removesuffix(" rounds"))
    messages = int(table["messages per stage"].replace(",", ""))
    assert messages == 2 * 180 * stage
    assert int(table["values per stage"].replace(",", "")) == 2 * 17 * messages
    assert "warning" not in outcome.out


def test_graph_options_count(call: Call) -> None:
    outcome = call("graph", "star:6", "--arms", "3", "--weights", "metropolis")
    table = rows(outcome.out)
    assert table["weights"] == "metropolis"
    messages, values = (
        int(table[f"{what} per stage"].replace(",", "")) for what in ("messages", "values")
    )
    assert values == 6 * messages


def test_graph_warns_of_a_short_horizon(call: Call) -> None:
    out = call("graph", "path:50", "--horizon", "100").out
    assert re.search(r"warning: a stage takes C = \d+ rounds, more than the horizon of 100", out)
    assert "warning" not in call("graph", "path:50", "--horizon", "100000").out


def test_graph_warns_of_two_sides(call: Call, tmp_path: Path) -> None:
    edges = "".join(f"{i} {200 + j}\n" for i in range(200) for j in range(200))
    (tmp_path / "sides.txt").write_text(edges)
    out = call("graph", str(tmp_path / "sides.txt")).out
    assert "warning: the mixing matrix is nearly periodic" in out


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


def test_simulate_passes_every_setting_on(call: Call, tmp_path: Path) -> None:
    settings = ("--sigma", "0.5", "--seed", "5", "--weights", "metropolis", "--engine", "reference")
    played = ("--policy", "dducb:eta=3", "--shuffle-arms", "--out", str(tmp_path))
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
    outcome = call("simulate", *SMALL, *played, "--out", str(tmp_path))
    assert outcome.status == 0, outcome.err
    assert re.search(r"^policy +sent +delivered +late among them +lost$", outcome.out, re.MULTILINE)
    settings = Result.load(tmp_path).meta["settings"]
    assert (settings["faults"], settings["clocks"]) == ("loss=0.3", "poisson:ratio=4")
    again = ("simulate", *SMALL, "--policy", "ucb-network", "--out", str(tmp_path))
    assert "holds a result of other settings" in refused(call(*again))
    assert "did you mean 'loss'" in refused(call(*again, "--faults", "los=0.3"))
    assert "did you mean 'poisson'" in refused(call(*again, "--clocks", "poison"))


def test_a_folder_of_other_settings_is_left_alone(call: Call, tmp_path: Path) -> None:
    simulate = ("simulate", *SMALL, "--policy", "dducb", "--out", str(tmp_path))
    assert call(*simulate).status == 0
    assert call(*simulate).status == 0
    before = (tmp_path / "meta.json").read_bytes()
    assert "holds a result of other settings" in refused(call(*simulate, "--seed", "1"))
    assert (tmp_path / "meta.json").read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("graph", "gird:3x3"), "unknown graph 'gird'; .* did you mean 'grid'?"),
        (("graph", "grid:3"), "graph 'grid:3' is malformed; write grid:ROWSxCOLUMNS"),
        (("graph", "cycle:4", "--weights", "metropols"), "'metropols'.* did you mean 'metropolis'"),
        (("graph", "cycle:4", "--arms", "0"), "num_arms is 0; it must be at least 1"),
        (("graph", "nowhere.graphml"), "nowhere.graphml"),
        (("graph", "x[/b]"), r"graph file 'x\[/b\]' has an unknown ending"),
    ],
)
def test_bad_graphs(call: Call, arguments: tuple[str, ...], message: str) -> None:
    assert re.search(message, refused(call(*arguments)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--policy", "ddcub"), "unknown policy 'ddcub'; .* did you mean 'dducb'?"),
        (("--policy", "dducb:etta=3"), "unknown setting of policy dducb 'etta'.* mean 'eta'"),
        (("--policy", "dducb", "--graph", "cylce:4"), "did you mean 'cycle'"),
        (("--policy", "dducb", "--means", "1,x"), "part 'x' is no number; write numbers"),
        (("--policy", "dducb", "--sigma", "-1"), "sigma is -1"),
        (
            ("--policy", "dducb", "--horizon", "0"),
            "horizon is 0; it must be a whole number, at least 1",
        ),
        (("--policy", "dducb", "--runs", "0"), "runs is 0; it must be a whole number, at least 1"),
        (
            ("--policy", "dducb", "--seed", "-1"),
            "seed is -1; it must be a whole number, at least 0",
        ),
        (("--policy", "dducb", "--engine", "gpu"), "unknown engine 'gpu'"),
        (("--policy", "dducb", "--policy", "dducb"), "policy dducb was given twice"),
    ],
)
def test_bad_simulations(
    call: Call, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    out = tmp_path / "out"
    assert re.search(message, refused(call("simulate", *SMALL, *arguments, "--out", str(out))))
    assert not out.exists()


def test_a_place_that_cannot_be_written(call: Call, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    out = str(tmp_path / "file" / "out")
    outcome = call("simulate", *SMALL, "--policy", "dducb", "--out", out)
    assert "regret after 40 rounds" in outcome.out  # the work is not lost
    message = refused(outcome._replace(out=""))
    assert re.search(f"cannot write {re.escape(out)}.*; make room there or choose another", message)
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("kept", [0, 2])
def test_simulate_interrupted(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    problem, network = GaussianBandit([1.0, 0.5]), Network.from_spec("cycle:4")
    part = simulate(problem, network, DDUCB(), 40, kept, progress=False) if kept else None

    def interrupted(*arguments: object, **keywords: object) -> Result:
        raise SimulationInterrupted(part, kept, 5)

    monkeypatch.setattr("coopbandits.cli.simulate", interrupted)
    outcome = call("simulate", *SMALL, "--policy", "dducb", "--out", str(tmp_path / "out"))
    assert outcome.status == 130
    assert outcome.err.startswith(f"interrupted: kept {kept} of 5 runs; ")
    assert "Traceback" not in outcome.err
    folder = tmp_path / "out" / "partial-2-runs"
    if part is None:
        assert outcome.err.endswith("; nothing was written\n")
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

    monkeypatch.setattr("coopbandits.cli.dask_executor", thread)
    return ("--dask", "tcp://here:8786")


def cells_of(out: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in out.glob("cells/*/*")}


def test_run(call: Call, tmp_path: Path, experiment: tuple[str, ...]) -> None:
    out = tmp_path / "out"
    outcome = call(*experiment, "--workers", "1")
    assert (outcome.status, outcome.err) == (0, "")
    for graph, folder in (("cycle:4", out / "cycle-4"), ("star:5", out / "star-5")):
        problem, network = GaussianBandit([1.0, 0.5]), Network.from_spec(graph)
        policies = [DDUCB(), parse_policy("independent-ucb")]
        together = simulate(problem, network, policies, 40, 2, progress=False)
        names = "regret.svg, regret.png, report.html"
        assert f"\n{graph}\n{together.summary()}\nwritten to {folder}: {names}\n" in outcome.out
        assert {path.name for path in folder.iterdir()} == set(names.split(", "))
    assert outcome.out.count("regret after 40 rounds, 2 runs") == 2
    before = cells_of(out)
    assert len(before) == 2 * 4

    again = call(*experiment, "--workers", "1")
    assert again == outcome
    assert cells_of(out) == before
    assert {path.name for path in out.iterdir()} == {"cells", "cycle-4", "star-5"}


def test_run_with_overrides_and_dask(
    call: Call, tmp_path: Path, experiment: tuple[str, ...], dask: tuple[str, ...]
) -> None:
    settings = ("--set", "horizon=25", "--set", 'graphs=["cycle:6"]', "--set", "seeds=[1, 2]")
    outcome = call(*experiment, *dask, *settings)
    assert outcome.status == 0, outcome.err
    assert outcome.out.count("regret after 25 rounds") == 2
    assert "\ncycle:6, seed 1\n" in outcome.out
    assert (tmp_path / "out" / "cycle-6-seed-2" / "report.html").exists()
    assert len(cells_of(tmp_path / "out")) == 2 * 4


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
    sentence = "set aside: dducb on star:5, seed 0: RuntimeError: no [luck]"
    assert outcome.err.splitlines()[-1] == sentence
    assert "Traceback" not in outcome.err
    assert outcome.out.count("regret after 40 rounds") == 2  # the rest is shown
    assert len(cells_of(tmp_path / "out")) == 2 * 3
    assert len(plays) == 4

    plays.clear()
    again = call(*experiment, *dask)
    assert (again.status, again.err.splitlines()) == (1, [sentence])
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
    store = Ledger.store

    def store_and_stop(self: Ledger, cell: Cell, result: Result) -> None:
        store(self, cell, result)
        raise KeyboardInterrupt

    monkeypatch.setattr(Ledger, "store", store_and_stop)
    outcome = call(*experiment, *dask)
    assert (outcome.status, outcome.out) == (130, "")
    sentence = f"interrupted: 1 of 4 cells are in {out}; run it again to do the rest\n"
    assert outcome.err == sentence
    before = cells_of(out)

    monkeypatch.setattr(Ledger, "store", store)
    assert call(*experiment, *dask).status == 0
    after = cells_of(out)
    assert len(after) == 2 * 4
    assert {path: after[path] for path in before} == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--set", "horizn=5"), "unknown key in .*'horizn'.* did you mean 'horizon'"),
        (("--set", "horizon"), "--set takes key=value, such as horizon=500; got 'horizon'"),
        (("--workers", "0"), "workers is 0; it must be at least 1"),
        (("--dask", "tcp://127.0.0.1:1"), "no Dask scheduler answers at tcp://127.0.0.1:1; start"),
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

    monkeypatch.setattr("coopbandits.cli.dask_executor", nobody)
    assert re.search(message, refused(call(*experiment, *arguments)))
    assert not (tmp_path / "out").exists()


def test_run_without_a_file(call: Call, tmp_path: Path) -> None:
    outcome = call("run", str(tmp_path / "nowhere.toml"), "--out", str(tmp_path / "out"))
    assert re.search(r"cannot read .*nowhere\.toml: No such file", refused(outcome))


@pytest.fixture
def tiny_bench(monkeypatch: pytest.MonkeyPatch) -> bench.Case:
    """Let the benchmark time one tiny case, once, without a second process."""
    case = bench.Case("tiny", "dducb", "cycle:4", num_arms=2, horizon=30, runs=2)
    run_bench = bench.run_bench
    monkeypatch.setattr(bench, "run_bench", lambda: run_bench((case,), 1))
    monkeypatch.setattr(bench, "time_threads", lambda: bench.SpeedUp(1.5, 2.0))
    return case


def test_bench(call: Call, tiny_bench: bench.Case) -> None:
    outcome = call("bench")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.startswith("cost of one agent-round; 1 draw = ")
    assert re.search(r"^tiny: dducb +cycle:4 +2 +30( +[\d.]+){3}$", outcome.out, re.MULTILINE)
    assert outcome.out.endswith("ratio 0.75\n")


def test_bench_as_json(call: Call, tiny_bench: bench.Case) -> None:
    outcome = call("bench", "--json")
    assert (outcome.status, outcome.err) == (0, "")
    data = json.loads(outcome.out)
    assert set(data) == {"timings", "speed_up", "versions", "platform"}
    (timing,) = data["timings"]
    assert timing["case"]["policy"] == tiny_bench.policy
    assert timing["draws"] > 0


def test_no_arguments_show_help(call: Call) -> None:
    outcome = call()
    text = outcome.out + outcome.err
    assert re.search(r"Usage: .*coopbandits", text)
    assert all(command in text for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_names_every_option(call: Call, command: str) -> None:
    outcome = call(command, "--help")
    assert outcome.status == 0
    parameters = get_command(app).commands[command].params  # type: ignore[attr-defined]
    for parameter in parameters:
        names = parameter.opts if parameter.param_type_name == "option" else [parameter.name]
        assert all(name.lower() in outcome.out.lower() for name in names)
        if parameter.param_type_name == "option" and "--help" not in names:
            assert parameter.help, f"{names} has no explanation"


@pytest.mark.parametrize("command", ["graph", "simulate", "run", "bench", "reproduce"])
def test_documented_options_exist(command: str) -> None:
    documented = {
        "graph": {"--weights", "--arms", "--horizon"},
        "simulate": {
            *("--graph", "--policy", "--horizon", "--runs", "--seed", "--out"),
            *("--means", "--sigma", "--weights", "--engine", "--shuffle-arms"),
            *("--faults", "--clocks"),
        },
        "run": {"--out", "--set", "--workers", "--dask", "--retry"},
        "bench": {"--json"},
        "reproduce": {
            *("--figure", "--runs", "--seed", "--out", "--check", "--audit", "--threads"),
        },
    }
    parameters = get_command(app).commands[command].params  # type: ignore[attr-defined]
    assert documented[command] <= {name for parameter in parameters for name in parameter.opts}


@pytest.mark.parametrize("arguments", [("frobnicate",), ("graph",), ("simulate", "--runs", "many")])
def test_usage_errors(call: Call, arguments: tuple[str, ...]) -> None:
    outcome = call(*arguments)
    assert outcome.status == 2
    assert re.search(r"Usage: .*coopbandits", outcome.err)
    assert "Traceback" not in outcome.err


def test_the_installed_command() -> None:
    script = Path(sys.executable).parent / "coopbandits"
    done = subprocess.run(
        [script, "graph", "gird:3x3"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "did you mean 'grid'?" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_bounds(call: Call) -> None:
    outcome = call("bounds", "--graph", "cycle:100")
    assert (outcome.status, outcome.err) == (0, "")
    assert "dducb:bonus_factor=4,own_pulls=false, T = 10000" in outcome.out
    rows_by_name = {line.split("  ")[0]: line for line in outcome.out.splitlines()}
    assert "353796" in rows_by_name["finite-time bound"]
    assert rows_by_name["finite-time bound"].endswith("vacuous at this horizon")
    assert not rows_by_name["sharper finite-time bound"].endswith("vacuous at this horizon")
    assert "200000" in rows_by_name["always the worst arm"]


def test_bounds_outside_their_assumptions(call: Call) -> None:
    outcome = call("bounds", "--graph", "grid:10x10", "--policy", "dducb")
    assert outcome.status == 0
    assert "proven for bonus_factor=4; this policy has 2" in outcome.out
    refused(call("bounds", "--graph", "grid:10x10", "--gamma", "1"))


@pytest.fixture
def tiny_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the paper's experiment have few rounds and an oracle of its own."""
    oracle = {"cycle-100": {"dducb": (650.0, 1e6)}, "grid-100": {"dducb": (1.0, 0.1)}}
    tiny = partial(paper.reproduce, horizon=40, oracle=oracle)
    monkeypatch.setattr(paper, "reproduce", tiny)
    # Drawing is tested elsewhere and takes longer than all the rest.
    monkeypatch.setattr(paper, "write_report", lambda found, out: ["report.html", "paper.svg"])


def test_reproduce(call: Call, tmp_path: Path, tiny_paper: None) -> None:
    command = ("reproduce", "--figure", "cycle-100", "--runs", "2", "--out", str(tmp_path))
    outcome = call(*command, "--check", "--seed", "3", "--threads", "1")
    assert outcome.status == 0, outcome.err
    assert "regret of the network after 40 rounds, 2 runs, 95 % intervals" in outcome.out
    assert "1 of 1 final regrets agree" in outcome.out
    assert outcome.out.endswith(f"written to {tmp_path}: report.html, paper.svg\n")
    assert "holds a result of other settings; choose another" in refused(call(*command))


def test_reproduce_says_when_numbers_differ(call: Call, tmp_path: Path, tiny_paper: None) -> None:
    settings = ("--figure", "grid-100", "--runs", "2", "--out", str(tmp_path))
    outcome = call("reproduce", *settings, "--check")
    assert outcome.status == 1
    assert "0 of 1 final regrets agree" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--figure", "cylce-100"), "unknown figure 'cylce-100'; .* did you mean 'cycle-100'?"),
        (("--runs", "0"), "runs is 0"),
        (("--figure", "grid-225", "--check"), "there is nothing to check grid-225 against"),
    ],
)
def test_bad_reproductions(
    call: Call, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    out = tmp_path / "out"
    assert re.search(message, refused(call("reproduce", *arguments, "--out", str(out))))
    assert not out.exists()


def test_reproduce_interrupted(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_paper: None
) -> None:
    def stop(*arguments: object, **keywords: object) -> Result:
        raise KeyboardInterrupt

    monkeypatch.setattr("coopbandits.experiments.paper.play.simulate", stop)
    outcome = call("reproduce", "--figure", "cycle-100", "--out", str(tmp_path))
    assert (outcome.status, outcome.out) == (130, "")
    sentence = f"interrupted: 0 of 12 cells are in {tmp_path}; run it again to do the rest\n"
    assert outcome.err == sentence
    monkeypatch.setattr(paper, "reproduce", stop)  # while something else is done than playing
    outcome = call("reproduce", "--out", str(tmp_path))
    assert outcome.status == 130
    assert outcome.err.startswith(f"interrupted: what was played is in {tmp_path}; run it again")
