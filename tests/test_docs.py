"""The documentation tells the truth: its code runs, its output is real, its commands exist.

Run as a program, this file writes the outputs that pages show anew: ``python tests/test_docs.py``.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import doctest
import importlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import fields
from inspect import isclass, isfunction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer

import coopbandits as cb
from benchmarks.__main__ import make_parser as benchmark_parser
from coopbandits.cli import app
from coopbandits.core import AGGREGATIONS, INDICES, LINEAR_INDICES, parse_policy
from coopbandits.core.registry import CENTRAL_AGGREGATIONS, EXAMPLES
from coopbandits.experiments.suite import make_plan
from coopbandits.network import parse_faults, parse_graph
from coopbandits.problems import make_problem, parse_means
from coopbandits.sim import parse_clocks
from tests.torture.__main__ import make_parser as torture_parser

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
TUTORIAL = ROOT / "docs" / "tutorial.md"
PARTS = ROOT / "docs" / "parts.md"
SHOWING = [ROOT / "docs" / name for name in ("problems.md", "own-problem.md", "other-models.md")]
"""Pages whose code is followed by what it prints, besides the tutorial."""

ADAPTERS = ROOT / "docs" / "adapters.md"
EXAMPLE = ROOT / "examples" / "first_run.py"
PAGES = sorted(
    [README, ROOT / "CONTRIBUTING.md"]
    + [page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts]
)
BLOCK = re.compile(r"^ *```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)

RUN_ELSEWHERE = (
    "README.md", "docs/tutorial.md",  # below
    "docs/results.md", "docs/theory.md", "docs/fleet/index.md", "docs/fleet/api.md",
    "docs/fleet/bandits.md", "docs/fleet/context.md", "docs/fleet/tutorial.md",
    "docs/notebooks/karate_club.md", "docs/notebooks/click_rates.md", "docs/problems.md",
    "docs/own-problem.md", "docs/other-models.md", "docs/adapters.md",
)  # fmt: skip
"""Pages whose code has a test of its own, which looks closer."""

SCRIPT: dict[str, Any] = {"__name__": "__main__"}
"""What code of a page begins with, as a user's script does."""


def blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(page.read_text()) if kind == language]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


RUN_HERE = [page for page in PAGES if blocks(page, "python") and name_of(page) not in RUN_ELSEWHERE]


def printed_by(code: str, namespace: dict[str, Any]) -> str:
    """Run some code and return what it prints, without blanks at the ends of lines."""
    stdout = io.StringIO()
    with contextlib.redirect_stdout(stdout):
        exec(compile(code, "<documentation>", "exec"), namespace)  # noqa: S102  own pages
    return "".join(f"{line.rstrip()}\n" for line in stdout.getvalue().splitlines())


def test_readme_code_runs_and_is_fifteen_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = blocks(README, "python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 15
    assert "paired differences" in printed_by(code, {})
    assert (tmp_path / "out/first-run/regret.png").stat().st_size > 0


def test_readme_configuration_is_short() -> None:
    (text,) = blocks(README, "toml")
    assert len([line for line in text.splitlines() if line.strip()]) <= 16


def test_readme_code_is_the_first_example() -> None:
    (code,) = blocks(README, "python")
    docstring, *body = ast.parse(EXAMPLE.read_text()).body
    assert isinstance(docstring, ast.Expr)
    assert list(map(ast.dump, body)) == list(map(ast.dump, ast.parse(code).body))


@pytest.mark.slow
def test_tutorial_runs_and_prints_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = BLOCK.findall(TUTORIAL.read_text())
    namespace = dict(SCRIPT)
    ran = 0
    for (language, code), (after, output) in zip(shown, [*shown[1:], ("", "")], strict=True):
        if language == "python":
            assert after == "text", f"no output is shown after:\n{code}"
            assert printed_by(code, namespace) == output, "refresh: python tests/test_docs.py"
            ran += 1
    assert ran >= 8


@pytest.mark.slow
@pytest.mark.parametrize("page", SHOWING, ids=name_of)
def test_pages_print_what_they_show(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shown, namespace = BLOCK.findall(page.read_text()), dict(SCRIPT)
    ran = 0
    for (language, code), (after, output) in pairwise(shown):
        if language == "python":
            assert (after, output) == ("text", printed_by(code, namespace))
            ran += 1
    assert ran == len(blocks(page, "python")) >= 2


def test_the_own_problem_is_named_as_its_page_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, *_ = blocks(SHOWING[1], "python")
    (tmp_path / "shop.py").write_text(code.partition("problem = ")[0])
    monkeypatch.syspath_prepend(tmp_path)
    (experiment,) = blocks(SHOWING[1], "toml")
    (tmp_path / "e.toml").write_text(f'policies = ["dducb"]\ngraphs = ["cycle:5"]\n{experiment}')
    short, long = cb.read_experiment(tmp_path / "e.toml")
    simulate, leaderboard = commands(SHOWING[1], "coopbandits")
    told = cb.parse_problem(simulate[simulate.index("--problem") + 1])
    assert short.problem == long.problem == told
    (scenario,) = make_plan([leaderboard[leaderboard.index("--scenario") + 1]]).scenarios
    assert make_problem(scenario.name, scenario.problem) == told
    sys.modules.pop("shop")


@pytest.mark.slow
@pytest.mark.plays
@pytest.mark.parametrize("page", RUN_HERE, ids=name_of)
def test_code_of_a_page_runs_and_prints_what_its_comments_say(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A comment behind ``print(…)`` is what is printed, up to three dots in it."""
    monkeypatch.chdir(tmp_path)
    namespace = dict(SCRIPT)
    for code in blocks(page, "python"):
        printed = printed_by(code, namespace).splitlines()
        for said in re.findall(r"^print\(.*\) +# (.+)$", code, re.MULTILINE):
            assert any(line.startswith(said.partition("…")[0]) for line in printed), said


def test_the_page_on_other_libraries_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed = printed_by("\n\n".join(blocks(ADAPTERS, "python")), dict(SCRIPT)).splitlines()
    assert printed == [
        "['1', '3'] 0",
        "(5, 2) 0",
        "['dducb', 'mabwiser:learner=UCB1,alpha=1', 'river:learner=UCB,delta=1']",
        "['leader']",
        "('member 1', 'member 2')",
    ]


def test_the_api_page_has_all_public_classes_and_functions() -> None:
    shown = set(re.findall(r"\w+", (ROOT / "docs" / "api.md").read_text()))
    things = {name: getattr(cb, name) for name in cb.__all__}
    public = {name for name, each in things.items() if isclass(each) or isfunction(each)}
    assert public - shown == set()


def test_the_page_on_parts_lists_all() -> None:
    text = PARTS.read_text()
    parts: list[type[Any]] = [
        *AGGREGATIONS, *CENTRAL_AGGREGATIONS, *INDICES, *LINEAR_INDICES,
    ]  # fmt: skip
    for part in parts:
        (row,) = re.findall(rf"^\| `{part.name}` \| (.*?) \| ", text, re.MULTILINE)
        settings = [field.name for field in fields(part)]
        named = [name for name in settings if f"`{name}`" in row]
        assert named == settings or "those of [DDUCB]" in row


@pytest.mark.parametrize(
    "path",
    [path for path in sorted((ROOT / "src").rglob("*.py")) if ">>> " in path.read_text()],
    ids=lambda path: path.stem,
)
def test_docstring_examples(path: Path) -> None:
    name = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts)
    done = doctest.testmod(importlib.import_module(name))
    assert done.attempted > 0
    assert done.failed == 0


def commands(page: Path, program: str) -> list[list[str]]:
    lines = [line for block in blocks(page, "sh") for line in block.splitlines()]
    split = [shlex.split(line, comments=True) for line in lines]
    return [words[1:] for words in split if words and words[0] == program]


SHELL_COMMANDS = [
    pytest.param(page, words, id=f"{page.stem}: {' '.join(words)[:40]}")
    for page in PAGES
    for words in commands(page, "coopbandits")
]


@contextlib.contextmanager
def modules_of(page: Path, folder: Path) -> Iterator[None]:
    """Save the classes of a page where it tells to: "as `name.py`"."""
    names = re.findall(r"\bas `(\w+)\.py`", page.read_text())
    statements = ast.parse("\n".join(blocks(page, "python"))).body if names else []
    kinds = (ast.Import, ast.ImportFrom, ast.ClassDef)
    kept = [ast.unparse(each) for each in statements if isinstance(each, kinds)]
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        for name in names:
            (folder / f"{name}.py").write_text("\n".join(kept))
        yield
    for name in names:
        sys.modules.pop(name, None)


@pytest.mark.parametrize(("page", "words"), SHELL_COMMANDS)
def test_shell_commands_parse(page: Path, words: list[str], tmp_path: Path) -> None:
    with modules_of(page, tmp_path):
        parses(words)


@pytest.mark.slow
def test_the_own_aggregation_runs_in_a_fleet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Agents are processes of their own, which find the module by PYTHONPATH."""
    page = ROOT / "docs" / "own-aggregation.md"
    (words,) = commands(page, "coopbandits")
    with modules_of(page, tmp_path):
        paths = os.pathsep.join([str(tmp_path), str(ROOT / "src")])
        done = subprocess.run(
            [sys.executable, "-m", "coopbandits", *words], capture_output=True, text=True,
            cwd=tmp_path, env=os.environ | {"PYTHONPATH": paths}, check=False,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "conservation       holds: 180 rewards counted once" in done.stdout


def parses(words: list[str]) -> None:
    group: Any = typer.main.get_command(app)
    context = group.make_context("coopbandits", ["--help"], resilient_parsing=True)
    name, command, rest = group.resolve_command(context, words)
    given = command.make_context(name, list(rest), parent=context).params
    policies = given.get("policy") or ()
    for policy in [policies] if isinstance(policies, str) else policies:
        parse_policy(policy)
    for graph in filter(None, (given.get("graph"), given.get("spec"))):
        parse_graph(graph)
    for key, parse in (("means", parse_means), ("faults", parse_faults), ("clocks", parse_clocks)):
        if key in given:
            parse(given[key])


@pytest.mark.parametrize(
    ("module", "parser"),
    [("benchmarks", benchmark_parser()), ("tests.torture", torture_parser())],
)
def test_commands_of_a_checkout_parse(module: str, parser: argparse.ArgumentParser) -> None:
    found = {
        span
        for page in PAGES
        for span in re.findall(rf"\bpython -m {module} ([^`\n]+)", page.read_text())
    }
    assert found
    for span in found:
        parser.parse_args(shlex.split(span))


def test_the_page_on_torture_has_all_options() -> None:
    option = r"(?<![-\w])--[a-z][-a-z]+"
    told = set(re.findall(option, (ROOT / "docs/fleet/torture.md").read_text()))
    assert told == set(re.findall(option, torture_parser().format_help())) - {"--help"}


def test_the_page_on_policies_shows_their_constants() -> None:
    page = (ROOT / "docs" / "policies" / "index.md").read_text()
    shown = dict(re.findall(r"^\| \[`([\w-]+)`\]\([^|]*\|[^|]*\| ([^|]*) \|", page, re.MULTILINE))
    for policy in map(parse_policy, EXAMPLES):
        constant = policy.bonus_constant
        told = "–" if constant is None else f"{constant:g}"
        assert shown.pop(policy.name) == (
            r"$2\gamma$" if hasattr(policy, "gamma") and constant else told
        )
    assert not shown


def test_readme_shows_commands_of_both_kinds() -> None:
    assert {words[0] for words in commands(README, "coopbandits")} >= {"graph", "simulate"}
    assert commands(README, "make") == [["run"], ["test"]]


def refreshed(text: str) -> str:
    """Return a page with the output below every Python block as it is printed now."""
    namespace = dict(SCRIPT)

    def run(match: re.Match[str]) -> str:
        return f"```python\n{match[1]}```\n\n```text\n{printed_by(match[1], namespace)}```"

    return re.sub(r"^```python\n(.*?)^```\n\n```text\n.*?^```$", run, text, flags=re.M | re.S)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for page in (TUTORIAL, *SHOWING):
            page.write_text(refreshed(page.read_text()))
