"""Sweeps: every cell once, through deaths, failures and interruptions."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coopbandits as cb
from coopbandits.sim.gpu.backend import VARIABLE
from coopbandits.sim.ledger import Ledger, run_cell
from coopbandits.sim.sweep import dask_executor, sweep, worker_pool

PROBLEM = cb.GaussianBandit([1.0, 0.5, 0.2])
NETWORK = cb.Network.from_spec("cycle:6")


def make_cells(number: int, horizon: int = 200) -> list[cb.Cell]:
    return [cb.Cell(PROBLEM, NETWORK, cb.DDUCB(), horizon, 2, seed) for seed in range(number)]


class Killer(cb.IndependentUCB):
    """A policy that ends the process that unpickles it."""

    name = "killer"

    def __reduce__(self) -> tuple[Any, ...]:
        return (os._exit, (17,))


def test_every_cell_is_played_and_stored(tmp_path: Path) -> None:
    cells = make_cells(3)
    done = sweep(cells, tmp_path, workers=2)
    assert [cell.id for cell, _ in done.results] == [cell.id for cell in cells]
    assert not done.failed
    for cell, result in done.results:
        alone = run_cell(cell)
        assert result.dataset.identical(alone.dataset)


class Counting(ThreadPoolExecutor):
    """A thread that counts what it is given."""

    def __init__(self) -> None:
        super().__init__(1)
        self.submitted = 0

    def submit(self, *args: Any, **keywords: Any) -> Future[Any]:
        self.submitted += 1
        return super().submit(*args, **keywords)


def test_a_second_sweep_does_only_what_is_missing(tmp_path: Path) -> None:
    with Counting() as executor:
        sweep(make_cells(2), tmp_path, executor)
        assert executor.submitted == 2
        done = sweep(make_cells(3) + make_cells(3), tmp_path, executor)
        assert executor.submitted == 3
    assert len(done.results) == 3


def test_a_sweep_with_names_outside_ascii_resumes(tmp_path: Path) -> None:
    problem = PROBLEM.named(["blau", "grün", "rot"])
    cell = cb.Cell(problem, NETWORK, cb.DDUCB(), 20, engine="reference")
    with Counting() as executor:
        ((_, first),) = sweep([cell], tmp_path, executor).results
        ((_, again),) = sweep([cell], tmp_path, executor).results
        assert executor.submitted == 1
    assert again.dataset.identical(first.dataset)


@pytest.mark.parametrize("given", [5, [1, 2], make_cells(1)[0]], ids=["number", "numbers", "cell"])
def test_what_is_no_list_of_cells_is_refused(tmp_path: Path, given: Any) -> None:
    with pytest.raises(cb.InputError, match=r"^cells.*list"):
        sweep(given, tmp_path)


@pytest.mark.parametrize("workers", ["2", 1.5, True])
def test_workers_are_a_whole_number(tmp_path: Path, workers: Any) -> None:
    with pytest.raises(cb.InputError, match=f"^workers.* {workers!r}"):
        sweep(make_cells(1), tmp_path, workers=workers)


def test_a_cell_that_cannot_be_read_is_played_again(tmp_path: Path) -> None:
    (cell,) = make_cells(1)
    with ThreadPoolExecutor(1) as executor:
        sweep([cell], tmp_path, executor)
        data = Ledger(tmp_path).path(cell) / "result.nc"
        data.write_bytes(data.read_bytes()[:200])
        ((_, result),) = sweep([cell], tmp_path, executor).results
    assert result.dataset.identical(run_cell(cell).dataset)


def test_a_failing_cell_is_set_aside_and_can_be_retried(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = cb.Cell(PROBLEM, NETWORK, cb.DDUCB(), 50, 0)
    with ThreadPoolExecutor(1) as executor:
        done = sweep([bad, *make_cells(1)], tmp_path, executor)
        assert len(done.results) == 1
        assert "InputError: runs is 0" in done.failed[0][1]
        assert "set aside" in capsys.readouterr().err
        sweep([bad], tmp_path, executor)
        assert capsys.readouterr().err == ""
        sweep([bad], tmp_path, executor, retry=True)
        assert "set aside" in capsys.readouterr().err


@pytest.mark.slow
def test_a_killed_worker_costs_nothing(tmp_path: Path) -> None:
    cells = make_cells(8, horizon=4000)
    killed: list[int] = []

    def kill_one() -> None:
        deadline = time.monotonic() + 90.0
        while time.monotonic() < deadline:
            stored = list((tmp_path / "cells").glob("[!.]*")) if tmp_path.exists() else []
            workers = multiprocessing.active_children()
            if stored and workers and workers[0].pid:
                os.kill(workers[0].pid, signal.SIGKILL)
                killed.append(workers[0].pid)
                return
            time.sleep(0.001)

    thread = threading.Thread(target=kill_one)
    thread.start()
    done = sweep(cells, tmp_path, workers=2)
    thread.join()
    assert killed
    assert not done.failed
    assert [cell.id for cell, _ in done.results] == [cell.id for cell in cells]
    assert len(list((tmp_path / "cells").iterdir())) == len(cells)


@pytest.mark.slow
def test_the_cell_that_kills_is_quarantined(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    killer = cb.Cell(PROBLEM, NETWORK, Killer(), 50)
    good = make_cells(2)
    done = sweep([good[0], killer, *good[1:]], tmp_path, workers=2)
    assert [cell.id for cell, _ in done.results] == [cell.id for cell in good]
    ((cell, error),) = done.failed
    assert cell.id == killer.id
    assert "BrokenProcessPool" in error
    assert str(killer) in capsys.readouterr().err


def test_a_foreign_executor_that_breaks_is_not_hidden(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    cells = [cb.Cell(PROBLEM, NETWORK, Killer(), 50, seed=seed) for seed in range(40)]
    with (
        ProcessPoolExecutor(1, mp_context=context) as executor,
        pytest.raises(cb.InputError, match=r"executor.*finished cells"),
    ):
        sweep(cells, tmp_path, executor)


EXPERIMENT = """
horizon = 3000
runs = 20
seeds = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
policies = ["dducb", "independent-ucb"]
graphs = ["cycle:60"]
"""


@pytest.mark.slow
def test_interrupted_and_resumed(tmp_path: Path) -> None:
    file = tmp_path / "experiment.toml"
    file.write_text(EXPERIMENT)
    out = tmp_path / "out"
    command = [sys.executable, "-m", "coopbandits", "run", str(file), "--out", str(out)]
    process = subprocess.Popen(
        [*command, "--workers", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 90
    while not list(out.glob("cells/[!.]*")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "of 20 cells are in" in errors
    assert "Traceback" not in errors
    before = {path: path.stat().st_mtime_ns for path in out.glob("cells/*/result.nc")}
    assert 0 < len(before) < 20
    again = subprocess.run(command, capture_output=True, text=True, timeout=200, check=True)
    assert "cycle:60, seed 9" in again.stdout
    assert len(list(out.glob("cells/*"))) == 20
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.parametrize("workers", [0, -1])
def test_workers_must_be_positive(tmp_path: Path, workers: int) -> None:
    with pytest.raises(cb.InputError, match=f"^workers.* {workers}\\b"):
        sweep(make_cells(1), tmp_path, workers=workers)


@pytest.mark.slow
def test_any_executor_gives_the_same(tmp_path: Path) -> None:
    class Inline(Executor):
        def submit(self, fn: Any, /, *args: Any, **keywords: Any) -> Future[Any]:
            future: Future[Any] = Future()
            future.set_result(fn(*args, **keywords))
            return future

    first = sweep(make_cells(2), tmp_path / "inline", Inline())
    second = sweep(make_cells(2), tmp_path / "pool", workers=1)
    for (_, a), (_, b) in zip(first.results, second.results, strict=True):
        assert a.dataset.identical(b.dataset)
        assert np.array_equal(a.regret, b.regret)


DAWDLE = "import time; flag.touch(); time.sleep(300)"  # workers cannot import this file


@pytest.mark.covering(1)
@pytest.mark.parametrize("busy", [True, False])  # at work, or still starting
def test_workers_are_ended_at_once(tmp_path: Path, busy: bool) -> None:
    flag = tmp_path / "started"
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt), worker_pool(2) as pool:
        for _ in range(2):
            pool.submit(exec, DAWDLE, {"flag": flag})
        workers = multiprocessing.active_children()
        while busy and not flag.exists() and time.monotonic() < began + 60:
            time.sleep(0.01)
        raise KeyboardInterrupt
    assert flag.exists() or not busy
    assert time.monotonic() < began + 60
    assert len(workers) == 2
    assert [worker.exitcode for worker in workers] == [-signal.SIGKILL] * 2


def test_other_processes_are_left_alone(tmp_path: Path) -> None:
    other = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(300,))
    other.start()
    try:
        with pytest.raises(KeyboardInterrupt), worker_pool(1) as pool:
            pool.submit(exec, DAWDLE, {"flag": tmp_path / "started"})
            raise KeyboardInterrupt
        assert other.is_alive()
    finally:
        other.kill()
        other.join()


DRIVER = """
import time

from coopbandits.sim.sweep import worker_pool

if __name__ == "__main__":
    with worker_pool(2) as pool:
        pool.submit(exec, "import os; print(os.getpid(), flush=True)")
        time.sleep(300)
"""


@pytest.mark.covering(1)
@pytest.mark.parametrize("by", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_a_driver_that_is_killed(tmp_path: Path, by: signal.Signals) -> None:
    script = tmp_path / "driver.py"
    script.write_text(DRIVER)
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE) as driver:
        assert driver.stdout is not None
        assert int(driver.stdout.readline()) != driver.pid
        driver.send_signal(by)
        driver.communicate(timeout=60)  # ends when nobody is left who could write


CLUSTER_EXPERIMENT = """
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
    file.write_text(f'engine = "{engine}"\n{CLUSTER_EXPERIMENT}')
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
