"""Agents and clients work where only the libraries of their own distribution can be imported."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from coopbandits.cli import COMMANDS

from .wheels import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

# Refuses some libraries as if they were not installed, and then does what it is told.
REFUSING = """
import sys

REFUSED = sys.argv.pop(1).split()

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in REFUSED:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refuse())
"""
COMMAND = "from coopbandits.__main__ import main; main()"
CLIENT = """
import asyncio, coopbandits
from coopbandits.fleet.client import AsyncClient, Client, UnreachableError

assert coopbandits.Client is Client
with Client("127.0.0.1:1", timeout=0.01, default="blue") as client:
    choice = client.choose()
    assert choice.arm == "blue", choice
    assert client.observe(choice.ticket, 1.0).reward == 1.0

async def ask():
    async with AsyncClient("127.0.0.1:1", timeout=0.01) as client:
        await client.choose()

try:
    asyncio.run(ask())
except UnreachableError:
    print("asked")
"""
MODULES = """
from importlib import import_module
from pathlib import Path
import coopbandits

top = Path(coopbandits.__file__).parents[1]
for file in sorted(top.glob("coopbandits/fleet/**/*.py")):
    name = ".".join(file.relative_to(top).with_suffix("").parts).removesuffix(".__init__")
    if not name.startswith("coopbandits.fleet.local"):
        import_module(name)
print("loaded")
"""


def libraries(extra: str) -> set[str]:
    """Return the modules of the libraries that an extra asks for."""
    lines = PROJECT["optional-dependencies"][extra]
    return {re.split(r"[^\w-]", line)[0].replace("-", "_") for line in lines}


ONLY_SIMULATIONS = libraries("simulation") - libraries("fleet") | {"pandas", "llvmlite"}
NOT_FOR_CLIENTS = libraries("simulation") | libraries("fleet")


def run(refused: set[str], code: str, *words: str, folder: Path) -> tuple[str, str]:
    """Run some code without some libraries; return its output and its errors."""
    done = subprocess.run(
        [sys.executable, "-c", REFUSING + code, " ".join(refused), *words],
        capture_output=True, text=True, check=False, cwd=folder, timeout=60,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    return done.stdout, done.stderr


def test_what_is_refused() -> None:
    assert {"numba", "scipy", "matplotlib", "xarray", "networkx", "h5py"} <= ONLY_SIMULATIONS
    assert "numpy" not in ONLY_SIMULATIONS
    assert {"numpy", "typer", "rich", "msgspec", "cryptography"} < NOT_FOR_CLIENTS


@pytest.mark.slow
def test_an_agents_commands(tmp_path: Path) -> None:
    def call(*words: str) -> str:
        return run(ONLY_SIMULATIONS, COMMAND, *words, folder=tmp_path)[0]

    assert "ca-key.pem" in call("certs", "init", "authority")
    assert "shop-1-key.pem" in call("certs", "issue", "authority", "shop-1", "--out", ".")
    config = (ROOT / "examples/fleet/shop-1.toml").read_text(encoding="utf-8")
    config = config.replace("/etc/coopbandits/", "").replace("/var/lib/coopbandits/", "")
    for place in ("0.0.0.0:7400", "127.0.0.1:8400"):  # another process may have the port
        config = config.replace(f'"{place}"', '"127.0.0.1:0"')
    (tmp_path / "shop-1.toml").write_text(config)
    assert "shop-1" in call("agent", "--check", "shop-1.toml")
    assert "flood-ts" in call("policies")


def test_an_agents_help_lists_what_works(tmp_path: Path) -> None:
    def call(*words: str) -> str:
        return run(ONLY_SIMULATIONS, COMMAND, *words, folder=tmp_path)[0]

    text = call("--help")
    listed = {name for name in COMMANDS if re.search(rf"(?m)^\W*{name} ", text)}
    lists = {"policies", "aggregations", "indices", "problems"}
    assert listed == {"agent", "fleet", "dashboard", "certs", "cluster", "doctor"} | lists
    assert "pip install coopbandits," in " ".join(text.split())
    for name in lists:
        assert call(name)


def test_all_modules_of_an_agent(tmp_path: Path) -> None:
    assert run(ONLY_SIMULATIONS, MODULES, folder=tmp_path) == ("loaded\n", "")


def test_a_client_needs_no_library_of_ours(tmp_path: Path) -> None:
    assert run(NOT_FOR_CLIENTS, CLIENT, folder=tmp_path) == ("asked\n", "")


@pytest.mark.covering(1)
@pytest.mark.parametrize("command", ["simulate", "graphs", "reproduce", "leaderboard"])
def test_commands_of_the_simulator_say_what_to_install(tmp_path: Path, command: str) -> None:
    out, error = run(ONLY_SIMULATIONS, COMMAND, command, folder=tmp_path)
    assert out == ""
    assert re.fullmatch(
        r"error: \w+ .*pip install coopbandits\b.*pip install \. \./packages/complete",
        error.strip(),
    )


def test_a_local_fleet_needs_the_simulators_graphs(tmp_path: Path) -> None:
    _, error = run(ONLY_SIMULATIONS, COMMAND, "fleet", "--graph", "cycle:3", folder=tmp_path)
    assert error.strip().endswith("pip install 'coopbandits[fleet]'")


def test_the_command_says_what_to_install_beside_a_client(tmp_path: Path) -> None:
    out, error = run(NOT_FOR_CLIENTS, COMMAND, "--version", folder=tmp_path)
    assert out == ""
    assert re.fullmatch(
        r"error: \w+ .*pip install coopbandits\b.*pip install coopbandits-agent\b.*"
        r"pip install \. \./packages/complete\n",
        error,
    )
