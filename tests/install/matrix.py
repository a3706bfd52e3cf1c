"""Installs every distribution into clean environments, tries it there, and prints a table.

``python -m tests.install.matrix`` takes every Python that uv finds here; ``--python`` names some.
With ``--suite`` the tests run in the complete environments, too, which takes a quarter of an hour
each.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import TimeoutExpired
from typing import NamedTuple

from . import uses, wheels
from .uses import FailedError, call

PROJECT = tomllib.loads((wheels.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
OLDEST = PROJECT["requires-python"].removeprefix(">=")
"""The first Python that we support, for which the lowest versions of all libraries have wheels."""

LIMITS = {"coopbandits-agent": 150.0, "coopbandits-client": 40.0}
"""Most megabytes of a distribution with all that it needs, byte code included."""


SHOWN = 240
"""Characters of an error in the table: its last ones, which say most."""

SUITE_PATIENCE = 3600.0
"""Seconds after which the tests have failed."""


Use = Callable[[], tuple[float | None, tuple[float, ...]]]
"""Installs and tries something; returns megabytes, and seconds where something was timed."""


class Row(NamedTuple):
    """One line of the table."""

    python: str
    what: str
    megabytes: float | None = None
    seconds: tuple[float, ...] = ()
    error: str = ""

    def __str__(self) -> str:
        size = "" if self.megabytes is None else f"{self.megabytes:.0f} MB"
        times = " / ".join(f"{value:.1f} s" for value in self.seconds)
        words = " ".join(self.error.split()) or "works"
        said = words if len(words) <= SHOWN else f"{words[:20]}… {words[-SHOWN:]}"
        return f"{self.python:8} {self.what:44} {size:>8}  {times:16} {said}".rstrip()


class Environment:
    """A virtual environment without anything but what is installed into it.

    Parameters
    ----------
    folder : path
        Where to make it.
    python : str
        A version, or the path of an interpreter.
    wheels : path
        Where our distributions are.
    """

    def __init__(self, folder: Path, python: str, wheels: Path) -> None:
        self.folder, self.wheels = folder, wheels
        self.python, self.command = folder / "bin/python", folder / "bin/coopbandits"
        call(UV, "venv", "--quiet", "--python", python, folder)

    def install(self, *requirements: str | Path, lowest: bool = False) -> None:
        """Install something, of the newest versions or of the lowest that we allow.

        Libraries must have wheels: a compiler is not what users have.
        """
        resolution = ("--resolution", "lowest-direct") if lowest else ()
        call(
            UV, "pip", "install", "--quiet", "--compile-bytecode", "--python", self.python,
            "--only-binary", ":all:", "--find-links", self.wheels, *resolution, *requirements,
        )  # fmt: skip

    def uninstall(self, *names: str) -> None:
        """Remove some distributions, and not what they required."""
        call(UV, "pip", "uninstall", "--quiet", "--python", self.python, *names)

    def megabytes(self) -> float:
        """Return the size of all that was installed."""
        files = (self.folder / "lib").rglob("*")
        return sum(file.stat().st_size for file in files if file.is_file()) / 1e6


UV = Path(sys.executable).with_name("uv")
PIPX = Path(sys.executable).with_name("pipx")


def pythons() -> list[str]:
    """Return the newest Python of every version that we support, as uv finds them here."""
    told = call(UV, "python", "list", "--only-installed", "--output-format", "json")
    oldest = tuple(map(int, OLDEST.split(".")))
    found: dict[tuple[int, ...], str] = {}
    for entry in sorted(json.loads(told), key=lambda entry: tuple(entry["version_parts"].values())):
        version = (entry["version_parts"]["major"], entry["version_parts"]["minor"])
        if version >= oldest and entry["implementation"] == "cpython":
            found[version] = entry["path"]
    return list(found.values())


def lower_bounds(*extras: str) -> list[str]:
    """Return what the base and some extras ask for, to be installed in the lowest versions."""
    groups = [PROJECT["dependencies"], *(PROJECT["optional-dependencies"][each] for each in extras)]
    return sorted({line for group in groups for line in group})


def tried(python: str, what: str, use: Use) -> Row:
    """Return the row of something that may fail."""
    try:
        size, seconds = use()
    except (FailedError, AssertionError, TimeoutExpired) as error:
        return Row(python, what, error=f"FAILED: {error}")
    limit = LIMITS.get(what)
    over = f"TOO LARGE: at most {limit:g} MB" if limit and size and size > limit else ""
    return Row(python, what, size, seconds, over)


def rows(interpreters: list[str], folder: Path, *, suite: bool) -> Iterator[Row]:
    """Try everything with every Python."""
    dist = folder / "dist"
    wheels.build(dist)
    for place, told in enumerate(interpreters):
        try:
            interpreter = call(UV, "python", "find", "--no-project", told).strip()  # or a version
            version = call(interpreter, "-c", "import platform; print(platform.python_version())")
        except FailedError as error:  # one of pyenv's, for example, that is not active
            yield Row(told, "cannot be started; give a path", error=f"FAILED: {error}")
            continue
        trial = Trial(interpreter, version.strip(), folder / str(place), dist)
        yield from trial.rows(suite=suite)
        shutil.rmtree(trial.folder)


class Trial:
    """Everything that is tried with one Python."""

    def __init__(self, interpreter: str, version: str, folder: Path, dist: Path) -> None:
        self.interpreter, self.version, self.folder, self.dist = interpreter, version, folder, dist
        folder.mkdir()

    def rows(self, *, suite: bool) -> Iterator[Row]:
        """Yield a row for everything; the oldest Python is tried with more."""
        uses: dict[str, Use] = {
            "coopbandits": self.complete,
            "coopbandits-client": self.client,
            "coopbandits-agent": self.agent,
            "coopbandits[fleet] beside coopbandits-agent": self.together,
        }
        if self.version.startswith(f"{OLDEST}."):
            uses |= {
                "the lowest versions of all libraries": self.lowest,
                "from the source distribution": self.source,
                "pipx install coopbandits": self.pipx,
            }
        if suite:
            uses["tests"] = self.suite
        for what, use in uses.items():
            yield tried(self.version, what, use)

    def make(self, name: str) -> Environment:
        """Make an environment."""
        return Environment(self.folder / name, self.interpreter, self.dist)

    def work(self) -> Path:
        """Return an empty folder."""
        return Path(tempfile.mkdtemp(dir=self.folder))

    def complete(self) -> tuple[float, tuple[float, ...]]:
        """Install everything; simulate."""
        made = self.make("complete")
        made.install("coopbandits")
        size = made.megabytes()
        return size, uses.simulate_twice(made.command, folder=self.work())

    def client(self) -> tuple[float, tuple[float, ...]]:
        """Install the client; it is asked in `agent`."""
        made = self.make("client")
        made.install("coopbandits-client")
        assert not made.command.exists()
        call(made.python, "-c", "import coopbandits; coopbandits.Client, coopbandits.AsyncClient")
        return made.megabytes(), ()

    def agent(self) -> tuple[float, tuple[float, ...]]:
        """Install the agent; run two, and ask them from the environment of the client."""
        made = self.make("agent")
        made.install("coopbandits-agent")
        size = made.megabytes()
        uses.ask_agents(made.command, self.folder / "client/bin/python", self.work())
        call(made.command, "doctor")
        return size, ()

    def together(self) -> tuple[float, tuple[float, ...]]:
        """Add one distribution to another, and take it away: what is left must work."""
        made = self.make("together")
        made.install("coopbandits-agent")
        made.install("coopbandits[fleet]")
        size = made.megabytes()
        uses.ask_agents(made.command, made.python, self.work())
        made.uninstall("coopbandits-agent")
        return size, uses.simulate_twice(made.python, "-m", "coopbandits", folder=self.work())

    def lowest(self) -> tuple[float, tuple[float, ...]]:
        """Install the lowest versions; simulate, and run agents."""
        made = self.make("lowest")
        made.install("coopbandits[fleet]", *lower_bounds("simulation", "fleet"), lowest=True)
        size = made.megabytes()
        uses.ask_agents(made.command, made.python, self.work())
        return size, uses.simulate_twice(made.command, folder=self.work())

    def source(self) -> tuple[None, tuple[float, ...]]:
        """Build the wheel from the source distribution, and install that."""
        made, source = self.make("source"), wheels.sdist_in(self.dist)
        built = self.folder / "built"
        call(UV, "build", "--quiet", "--wheel", "--python", made.python, "-o", built, source)
        made.install(wheels.wheel_of(built, "coopbandits-base"), "coopbandits-agent")
        uses.ask_agents(made.command, made.python, self.work())
        return None, ()

    def pipx(self) -> tuple[None, tuple[float, ...]]:
        """Install the command for a user."""
        home = self.folder / "pipx"
        settings = {"PIPX_HOME": str(home), "PIPX_BIN_DIR": str(home / "bin")}
        call(
            PIPX, "install", "--quiet", "--python", self.interpreter,
            f"--pip-args=--find-links={self.dist}", "coopbandits", settings=settings,
        )  # fmt: skip
        return None, uses.simulate_twice(home / "bin/coopbandits", folder=self.work())

    def suite(self) -> tuple[None, tuple[float, ...]]:
        """Run the tests of the working tree in an environment of this Python."""
        began = time.perf_counter()
        call(
            "make", "test", f"PYTHON={self.interpreter}", f"VENV={self.folder / 'suite'}",
            folder=wheels.ROOT, patience=SUITE_PATIENCE,
        )  # fmt: skip
        return None, (time.perf_counter() - began,)


def main() -> int:
    """Print the table; return 1 if something failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", nargs="*", help="versions or paths; all that are here")
    parser.add_argument("--suite", action="store_true", help="run the tests, too")
    given = parser.parse_args()
    failed = False
    print(f"{'Python':8} {'installed':44} {'size':>8}  {'first / later':16}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for row in rows(given.python or pythons(), Path(folder), suite=given.suite):
            print(row, flush=True)
            failed |= bool(row.error)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
