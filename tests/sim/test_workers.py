"""Worker processes end with what they were started for, and no other process does."""

from __future__ import annotations

import multiprocessing
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from coopbandits.sim.workers import worker_pool

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

from coopbandits.sim.workers import worker_pool

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
