"""Figures in the documentation come from the command above them.

A comment behind a block of code lists the figures that the text takes from its output::

    ```sh
    coopbandits simulate --graph cycle:20 …
    ```
    <!-- prints: 367 8812 -->

Every listed figure must stand in the text of the page, and the command must print a number that
rounds to it. Without a figure the command must run; ``<!-- not run: an hour -->`` says why none is.
Commands that play something have one of these comments. Running them takes more than an hour, so a
slow test runs every tenth, another tenth each day; ``DOCS_TENTH=3`` selects one, and
``DOCS_TENTH=all`` runs all of them.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [ROOT / "README.md"]
    + [page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts]
)
BLOCK = re.compile(
    r"^(?P<indent> *)```(?P<language>sh|python)\n(?P<code>.*?)^ *```\n"
    r"(?:\s*<!-- (?P<how>prints|not run):(?P<figures>[^>]*?) -->)?",
    re.MULTILINE | re.DOTALL,
)
COMMENT = re.compile(r"<!-- prints:.*?-->", re.DOTALL)
PLAYS = re.compile(
    r"^(?:coopbandits (?:animate|bounds|evaluate|gallery|graph|leaderboard|models|reproduce|run|"
    r"simulate)|python examples/)",
    re.MULTILINE,
)
NUMBER = re.compile(r"(?<![\w.])[-−]?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.]*\w)")
THOUSANDS = re.compile("(?<=\\d)[ \u202f\u00a0](?=\\d{3}(?!\\d))")


class Shown(NamedTuple):
    """A block of a page whose output the text quotes."""

    page: Path
    language: str
    code: str
    before: tuple[str, ...]
    """Python blocks above it, whose names it may use."""
    figures: tuple[str, ...]


def numbers_in(text: str) -> list[float]:
    """Return all numbers of a text, thousands joined."""
    joined = THOUSANDS.sub("", text).replace("−", "-")
    return [float(found) for found in NUMBER.findall(joined)]


def shown_on(page: Path) -> Iterator[Shown]:
    earlier: list[str] = []
    for match in BLOCK.finditer(page.read_text()):
        code = re.sub(f"^{match['indent']}", "", match["code"], flags=re.MULTILINE)
        if match["how"] == "prints":
            figures = tuple(match["figures"].replace(",", " ").split())
            yield Shown(page, match["language"], code, tuple(earlier), figures)
        if match["language"] == "python":
            earlier.append(code)


SHOWN = [each for page in PAGES for each in shown_on(page)]


def name_of(shown: Shown) -> str:
    return f"{shown.page.relative_to(ROOT)}: {shown.code.splitlines()[0][:60]}"


def prints(figure: str, printed: list[float]) -> bool:
    """Say whether a printed number is a figure, rounded as the figure is."""
    decimals = len(figure.partition(".")[2])
    wanted = float(figure.replace("−", "-"))
    return any(abs(number - wanted) <= 0.5 * 10.0**-decimals * (1 + 1e-9) for number in printed)


def tenth() -> list[Shown]:
    chosen = os.environ.get("DOCS_TENTH") or str(dt.date.today().toordinal() % 10)
    return [each for at, each in enumerate(SHOWN) if chosen in ("all", str(at % 10))]


def output_of(shown: Shown, folder: Path) -> str:
    (folder / "examples").symlink_to(ROOT / "examples")
    if shown.language == "python":
        stdout, namespace = io.StringIO(), {"__name__": "__main__"}
        for code in (*shown.before, shown.code):
            stdout = io.StringIO()
            with contextlib.redirect_stdout(stdout), contextlib.chdir(folder):
                exec(compile(code, "<documentation>", "exec"), namespace)  # noqa: S102  own pages
        return stdout.getvalue()
    printed = []
    for line in shown.code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if words and words[0] in ("coopbandits", "python"):
            program = [sys.executable, *(["-m", "coopbandits"] * (words[0] == "coopbandits"))]
            options: dict[str, Any] = {"cwd": folder, "capture_output": True, "text": True}
            done = subprocess.run([*program, *words[1:]], check=False, **options)
            assert done.returncode == 0, done.stderr
            printed.append(done.stdout)
    return "".join(printed)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_says_what_the_page_takes_from_it(page: Path) -> None:
    silent = [
        match["code"]
        for match in BLOCK.finditer(page.read_text())
        if match["language"] == "sh" and PLAYS.search(match["code"]) and not match["how"]
    ]
    assert not silent, f"add <!-- prints: … --> or <!-- not run: why --> behind {silent}"


def test_every_day_has_commands() -> None:
    assert len(SHOWN) >= 30


@pytest.mark.parametrize("shown", SHOWN, ids=name_of)
def test_figures_stand_in_the_text(shown: Shown) -> None:
    text = BLOCK.sub("", COMMENT.sub("", shown.page.read_text()))
    missing = [each for each in shown.figures if not prints(each, numbers_in(text))]
    assert not missing, f"declared behind the command and not in the text: {missing}"


@pytest.mark.slow
@pytest.mark.parametrize("shown", tenth(), ids=name_of)
def test_commands_print_the_figures_of_their_page(shown: Shown, tmp_path: Path) -> None:
    output = output_of(shown, tmp_path)
    print(output)
    wrong = [each for each in shown.figures if not prints(each, numbers_in(output))]
    assert not wrong, f"on the page and not printed: {wrong}"


def test_a_figure_that_is_not_printed_is_found() -> None:
    printed = numbers_in("mean 37.94 ± 2.1, 39 712 of 50000, p 2.2e-15, dec-ucb2")
    assert printed == [37.94, 2.1, 39712.0, 50000.0, 2.2e-15]
    assert prints("37.9", printed)
    assert prints("39712", printed)
    assert not prints("65", printed)
    assert not prints("37.8", printed)
