"""A package of somebody else's, installed, whose parts are used by name wherever ours are."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

SOURCE = '''
import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import coopbandits as cb
from coopbandits.core import rows
from coopbandits.core.aggregate.fields import AGENTS, Aggregation
from coopbandits.network.faults.kind import Kind
from coopbandits.problems.rewards import LOCATION_SCALE, RewardForm


@dataclass(frozen=True)
class Lean(cb.Index):
    """An own index: half a bonus."""

    width: float = 0.5
    name: ClassVar[str] = "lean"
    random: ClassVar[bool] = False

    def numbers(self, view):
        return (self.width * view.sigma,)

    @staticmethod
    def value(arm, estimate, word, numbers, scratch):
        count = estimate.counts[arm]
        if count <= 1e-12 * estimate.num_agents:
            return math.inf
        return estimate.sums[arm] / count + numbers[0] * math.sqrt(math.log(estimate.time) / count)


@dataclass(frozen=True)
class Averages(Aggregation):
    """An own aggregation that a fleet may run."""

    name: ClassVar[str] = "averages"
    mode: ClassVar[str] = "synchronous"
    shares: ClassVar[str] = "mixed"
    checks_claims: ClassVar[bool] = True
    needs: ClassVar[frozenset] = frozenset({"num_agents"})

    shared: ClassVar[str] = "mixed"

    def check_claims(self, registers, message, claims, now):
        claims.check_totals(registers, message, 1.0, now)

    def fields(self, sizes):
        return {"mixed": sizes.width, "moved": sizes.width, "weights": sizes.links, "agents": float}

    def start(self, s, view):
        s.me.agents, s.weights[:] = view.num_agents, list(view.neighbor_weights.values())

    @staticmethod
    def observe(s, pull):
        rows.add(s.mixed, pull)

    @staticmethod
    def message(s, link, out):
        rows.copy(out, s.mixed)
        return out.size

    @staticmethod
    def receive(s, inbox, lengths):
        rows.copy(s.moved, s.mixed)
        for link in range(lengths.size):
            if lengths[link] > 0:
                rows.add_difference(s.moved, s.weights[link], inbox[link], s.mixed)
        rows.copy(s.mixed, s.moved)

    @staticmethod
    def estimate(s, totals, certain, about):
        about[AGENTS] = s.me.agents
        rows.set_scaled(totals, s.me.agents, s.mixed)


@dataclass(frozen=True)
class Both(cb.Policy):
    """An own policy of own parts."""

    width: float = 0.5
    name: ClassVar[str] = "both"

    @property
    def parts(self):
        return cb.Parts(Averages(), Lean(self.width))


class Stairs(cb.Problem):
    """An own problem: means in even steps."""

    def __init__(self, arms=3, sigma=0.5):
        means = np.linspace(1.0, 0.0, arms)
        table = np.column_stack([means, np.full(arms, sigma)])
        super().__init__(means, sigma, RewardForm(LOCATION_SCALE, table))

    def describe(self):
        return {"kind": "stairs", "arms": self.num_arms, "sigma": self.sigma}


@dataclass(frozen=True)
class Every(Kind):
    """An own fault: every so many rounds all messages are lost."""

    rounds: int
    name: ClassVar[str] = "every"
    form: ClassVar[str] = "{rounds}"
    touches: ClassVar[str] = "messages"

    def begin(self, links, key):
        def lost(rounds):
            silent = rounds % self.rounds == 0
            return np.repeat(silent[:, None], links.senders.size, axis=1)

        return lost


def wheel(size):
    """An own graph: a hub and a rim."""
    rim = [(i, i % (size - 1) + 1) for i in range(1, size)]
    return [*((0, i) for i in range(1, size)), *rim]
'''
ENTRY_POINTS = """
[coopbandits.policies]
both = labparts:Both
[coopbandits.aggregations]
averages = labparts:Averages
[coopbandits.indices]
lean = labparts:Lean
[coopbandits.problems]
stairs = labparts:Stairs
[coopbandits.faults]
every = labparts:Every
[coopbandits.graphs]
wheel = labparts:wheel
"""
INFO = "labparts-1.0.dist-info"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed the package."""
    folder = tmp_path_factory.mktemp("lab")
    built = folder / "labparts-1.0-py3-none-any.whl"
    files = {
        "labparts.py": SOURCE,
        f"{INFO}/METADATA": "Metadata-Version: 2.1\nName: labparts\nVersion: 1.0\n",
        f"{INFO}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{INFO}/entry_points.txt": ENTRY_POINTS,
    }
    files[f"{INFO}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{INFO}/RECORD"])
    with zipfile.ZipFile(built, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    target = folder / "site"
    pip = ["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(target)]
    subprocess.run([sys.executable, *pip, str(built)], check=True, timeout=120)
    return target


def run(site: Path, cwd: Path, *arguments: str) -> str:
    """Run a command of ours where the package is installed; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "coopbandits", *arguments],
        env={**os.environ, "PYTHONPATH": str(site)}, cwd=cwd, capture_output=True, text=True,
        timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_the_command_line(site: Path, tmp_path: Path) -> None:
    names = ("both:width=0.4", "tree-sums*lean", "averages*kl-ucb", "labparts:Averages*lean")
    policies = [word for name in names for word in ("--policy", name)]
    given = ["--problem", "stairs:arms=4", "--graph", "wheel:6", "--horizon", "60", "--runs", "2"]
    run(site, tmp_path, "simulate", *policies[:-2], *given, "--out", "plain")
    plain = json.loads((tmp_path / "plain/meta.json").read_text())
    assert plain["engines"] == ["cpu", "cpu", "cpu"]
    assert plain["settings"]["policies"] == list(names[:-1])
    assert plain["settings"]["problem"]["kind"] == "stairs"
    told = run(
        site, tmp_path, "simulate", *policies[2:4], *given, "--faults", "every=3", "--out", "lossy"
    )
    lossy = json.loads((tmp_path / "lossy/meta.json").read_text())
    assert lossy["settings"]["faults"] == "every=3"
    assert lossy["engines"] == ["cpu"]
    assert "tree-sums*lean" in told


EXPERIMENT = """
horizon = 50
runs = 2
policies = ["both", "pull-mixing*lean:width=0.3"]
graphs = ["wheel:5"]
faults = ["none", "every=4"]
[problems.mine]
kind = "stairs"
arms = 3
"""


@pytest.mark.slow
def test_an_experiment_file_in_worker_processes(site: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(EXPERIMENT)
    out = run(site, tmp_path, "run", "mine.toml", "--out", "cells", "--workers", "2")
    assert "pull-mixing*lean:width=0.3" in out
    assert len(list((tmp_path / "cells/cells").iterdir())) == 4


@pytest.mark.slow
def test_the_leaderboard(site: Path, tmp_path: Path) -> None:
    out = run(
        site, tmp_path, "leaderboard", "--scenario", "few-agents", "--scenario", "loss-30",
        "--policy", "both", "--policy", "flooded-totals*lean", "--horizon", "30", "--runs", "1",
        "--workers", "1", "--out", "board",
    )  # fmt: skip
    table = (tmp_path / "board/leaderboard.csv").read_text()
    assert "few-agents,both," in table
    assert "loss-30,flooded-totals*lean," in table
    assert re.search(r"\d +both ", out)


@contextmanager
def dask(site: Path) -> Iterator[str]:
    """A scheduler and a worker that has the package, stopped by their process ids."""
    env = {**os.environ, "PYTHONPATH": str(site)}
    with ExitStack() as stack:

        def start(*words: str) -> subprocess.Popen[str]:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", *words], env=env, text=True,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            )  # fmt: skip
            stack.enter_context(process)  # waits, and closes its pipe
            stack.callback(process.terminate)
            return process

        scheduler = start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        assert scheduler.stderr is not None
        address = next(
            found[0]
            for line in scheduler.stderr
            if (found := re.search(r"tcp://127\.0\.0\.1:\d+", line))
        )
        more = ("--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1")
        worker = start("worker", address, *more)
        assert worker.stderr is not None
        next(line for line in worker.stderr if "Registered to" in line)
        yield address


@pytest.mark.slow
def test_dask_workers(site: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(EXPERIMENT.replace('"none", ', ""))
    with dask(site) as address:
        run(site, tmp_path, "run", "mine.toml", "--out", "far", "--dask", address)
    assert len(list((tmp_path / "far/cells").iterdir())) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "policy", ["both", pytest.param("flooded-totals*lean", marks=pytest.mark.slow)]
)
def test_three_agents_of_a_fleet(site: Path, tmp_path: Path, policy: str) -> None:
    out = run(
        site, tmp_path, "fleet", "--graph", "complete:3", "--means", "0.9,0.2", "--policy", policy,
        "--seconds", "2s", "--pulls-per-second", "40",
    )  # fmt: skip
    assert "best arm found by  3 of 3 agents" in out
