"""The command line as a whole: help, wrong usage, and what is loaded."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import coopbandits
from coopbandits.cli import COMMANDS, load

from .calls import Call, refused


def test_no_arguments_show_help(call: Call) -> None:
    outcome = call()
    text = outcome.out + outcome.err
    assert re.search(r"Usage: .*coopbandits", text)
    assert all(command in text for command in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_are_listed_as_they_explain_themselves(name: str) -> None:
    assert load(name).help == COMMANDS[name][1]


def leaves() -> list[tuple[str, ...]]:
    """Return all commands as they are typed."""
    groups = {name: getattr(load(name), "commands", None) for name in COMMANDS}
    return [
        (name, *below)
        for name, commands in groups.items()
        for below in ([(key,) for key in commands] if commands else [()])
    ]


@pytest.mark.parametrize("words", leaves(), ids=" ".join)
def test_help_names_every_option(call: Call, words: tuple[str, ...]) -> None:
    outcome = call(*words, "--help")
    assert outcome.status == 0
    command = load(words[0])
    for word in words[1:]:
        command = command.commands[word]
    for parameter in command.params:
        names = parameter.opts if parameter.param_type_name == "option" else [parameter.name]
        assert all(name.lower() in outcome.out.lower() for name in names)
        if parameter.param_type_name == "option" and "--help" not in names:
            assert parameter.help, f"{names} has no explanation"


@pytest.mark.parametrize("command", ["graph", "simulate", "run", "reproduce", "agent"])
def test_documented_options_exist(command: str) -> None:
    documented = {
        "graph": {"--weights", "--arms", "--horizon"},
        "simulate": {
            *("--graph", "--policy", "--horizon", "--runs", "--seed", "--out"),
            *("--means", "--sigma", "--weights", "--engine", "--shuffle-arms"),
            *("--faults", "--clocks"),
        },
        "run": {"--out", "--set", "--workers", "--dask", "--retry"},
        "agent": {"--check", "--insecure"},
        "reproduce": {
            *("--figure", "--runs", "--seed", "--out", "--check", "--audit", "--threads"),
        },
    }
    parameters = load(command).params
    assert documented[command] <= {name for parameter in parameters for name in parameter.opts}


@pytest.mark.parametrize(
    "arguments", [("frobnicate",), ("graph",), ("simulate", "--rusn", "3"), ("certs", "isue")]
)
def test_usage_errors(call: Call, arguments: tuple[str, ...]) -> None:
    outcome = call(*arguments)
    assert outcome.status == 2
    assert re.search(r"Usage: .*coopbandits", outcome.err)
    assert "Traceback" not in outcome.err


def test_version(call: Call) -> None:
    assert call("--version") == (0, f"coopbandits {coopbandits.__version__}\n", "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("simulate", "--seed", "x"), "--seed.* 'x'"),
        (("simulate", "--horizon", "1.5"), r"--horizon.* '1\.5'"),
        (("simulate", "--runs", "1e-3"), "--runs.* '1e-3'"),
        (("simulate", "--runs", "1e999999999"), "--runs.* '1e999999999'"),
        (("simulate", "--runs", "nan"), "--runs.* 'nan'"),
        (("bounds", "--sigma", "wide"), "--sigma.* 'wide'"),
        (("graph", "cycle:4", "--arms", "two"), "--arms.* 'two'"),
        (("certs", "init", "x", "--days", "long"), "--days.* 'long'"),
    ],
)
def test_what_is_no_number_is_one_sentence(
    call: Call, words: tuple[str, ...], message: str
) -> None:
    assert re.search(message, refused(call(*words)))


@pytest.mark.parametrize("text", ["4", "4e0", "0.4e1", "4.0", "+4"])
def test_powers_of_ten_are_whole_numbers(call: Call, text: str) -> None:
    plain = call("graph", "cycle:8", "--arms", "4", "--horizon", "10000")
    assert plain.status == 0
    assert call("graph", "cycle:8", "--arms", text, "--horizon", "1e4") == plain


SCRIPT = """
eval "$(_COOPBANDITS_COMPLETE=source_bash {program})"
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_coopbandits_completion coopbandits
printf '%s\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.covering(2)
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("coopbandits si", ["simulate"]),
        ("coopbandits simulate --hor", ["--horizon"]),
        ("coopbandits simulate --policy coop-ucb", ["coop-ucb", "coop-ucb2"]),
        ("coopbandits simulate --graph sm", ["small-world"]),
        ("coopbandits simulate --faults lo", ["loss"]),
        ("coopbandits certs re", ["renew"]),
    ],
)
def test_bash_completes(words: str, expected: list[str]) -> None:
    program = Path(sys.executable).parent / "coopbandits"
    script = SCRIPT.format(program=program, words=words)
    path = f"{program.parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PATH": path},
    )
    assert done.stdout.split() == expected, done.stderr


@pytest.mark.covering(1)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_can_be_taught(shell: str) -> None:
    program = Path(sys.executable).parent / "coopbandits"
    settings = os.environ | {"_COOPBANDITS_COMPLETE": f"source_{shell}"}
    done = subprocess.run([program], capture_output=True, text=True, check=False, env=settings)
    assert done.returncode == 0
    assert "_COOPBANDITS_COMPLETE" in done.stdout


def test_the_installed_command() -> None:
    script = Path(sys.executable).parent / "coopbandits"
    done = subprocess.run(
        [script, "graph", "gird:3x3"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "'grid'" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


HEAVY = {"scipy", "networkx", "numba", "xarray", "matplotlib"}

LOADED = """
import sys
from coopbandits.cli import main
for words in sys.argv[1:]:
    sys.argv = ["coopbandits", *words.split()]
    try:
        main()
    except SystemExit as ended:
        loaded = {name.split(".")[0] for name in sys.modules}
        print("ended", ended.code or 0, *loaded, file=sys.stderr)
"""


def test_an_agent_loads_nothing_that_only_simulations_need() -> None:
    """Nor does anything else that is asked for in the same process."""
    asked = {
        "--help": 0,
        "--version": 0,
        "agent nowhere.toml --check": 1,
        "agent --help": 0,
        "certs init --help": 0,
    }
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *asked], capture_output=True, text=True, check=True
    )
    ends = [line.split()[1:] for line in done.stderr.splitlines() if line.startswith("ended ")]
    for (words, status), (found, *loaded) in zip(asked.items(), ends, strict=True):
        assert int(found) == status, words
        assert {"coopbandits", "typer"} <= set(loaded), words
        assert not set(loaded) & HEAVY, words
