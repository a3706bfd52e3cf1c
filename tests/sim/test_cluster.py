"""A sweep on a real Dask scheduler with two worker processes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import coopbandits as cb
from coopbandits.sim.cluster import dask_executor
from coopbandits.sim.gpu.backend import VARIABLE

EXPERIMENT = """
horizon = 300
runs = 2
seeds = [0, 1, 2]
policies = ["dducb", "independent-ucb"]
graphs = ["cycle:8"]
"""


@pytest.fixture
def scheduler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Start a scheduler and two workers on loopback; yield the address."""
    monkeypatch.setenv(VARIABLE, "emulated")  # for all that is started from here
    file = tmp_path / "scheduler.json"
    common = ["--scheduler-file", str(file)]
    scheduler = ["dask", "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
    worker = [
        "dask",
        "worker",
        "--host",
        "127.0.0.1",
        "--nthreads",
        "1",
        "--no-dashboard",
        "--no-nanny",
    ]
    commands = [[*scheduler, *common], [*worker, *common], [*worker, *common]]
    bin_folder = Path(sys.executable).parent
    with (tmp_path / "log").open("w") as log:
        processes = [
            subprocess.Popen([bin_folder / name, *rest], stdout=log, stderr=log, cwd=tmp_path)
            for name, *rest in commands
        ]
        try:
            deadline = time.monotonic() + 90.0
            while not file.exists() and time.monotonic() < deadline:
                time.sleep(0.1)
            yield json.loads(file.read_text())["address"]
        finally:
            # Workers first: without a scheduler they would wait for it to come back.
            for process in reversed(processes):
                process.terminate()
                try:
                    process.wait(timeout=15)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["auto", "gpu"])
def test_bit_equal_on_two_workers(tmp_path: Path, scheduler: str, engine: str) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text(f'engine = "{engine}"\n{EXPERIMENT}')
    command = [sys.executable, "-m", "coopbandits", "run", str(file), "--out"]
    subprocess.run([*command, str(tmp_path / "dask"), "--dask", scheduler], check=True, timeout=200)
    cells = cb.read_experiment(file)
    assert len(cells) == 6
    local = cb.sweep(cells, tmp_path / "local", workers=1)
    distributed = cb.sweep(cells, tmp_path / "dask", workers=1)
    for (_, a), (_, b) in zip(local.results, distributed.results, strict=True):
        assert a.dataset.identical(b.dataset)


def test_no_scheduler_gets_a_sentence() -> None:
    with (
        pytest.raises(cb.InputError, match=r"tcp://127\.0\.0\.1:1\b"),
        dask_executor("tcp://127.0.0.1:1"),
    ):
        pass
