from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from typer.main import get_command

from coopbandits import Result
from coopbandits.cli import app, main

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
    outcome = call("simulate", *SMALL, *settings, "--policy", "dducb:eta=3", "--out", str(tmp_path))
    assert outcome.status == 0, outcome.err
    meta = Result.load(tmp_path).meta
    assert meta["settings"]["policies"] == ["dducb:eta=3"]
    assert meta["settings"]["seed"] == 5
    assert meta["settings"]["problem"]["sigma"] == 0.5
    assert meta["settings"]["network"]["weights"] == "metropolis"
    assert meta["engines"] == ["reference"]


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


@pytest.mark.parametrize("command", ["graph", "simulate"])
def test_documented_options_exist(command: str) -> None:
    documented = {
        "graph": {"--weights", "--arms", "--horizon"},
        "simulate": {
            *("--graph", "--policy", "--horizon", "--runs", "--seed", "--out"),
            *("--means", "--sigma", "--weights", "--engine"),
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
