"""Whatever ends the one who started agents, it ends the agents, too."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from coopbandits.fleet.local import keeper
from coopbandits.fleet.local.keeper import Keeper

SLEEPER = ["/bin/sleep", "600"]

PROGRAM = f"""
import subprocess, sys, time
sys.path.append({str(Path(keeper.__file__).parent)!r})  # without all that the package loads
from keeper import Keeper
with Keeper() as kept:
    child = subprocess.Popen({SLEEPER}, process_group=kept.group)
    print(child.pid, flush=True)
    time.sleep(600)
"""


def wait_for_end(pid: int) -> None:
    """Wait until a process that is nobody's child here is gone."""
    deadline = time.monotonic() + 90.0
    while subprocess.run(["/bin/kill", "-0", str(pid)], stderr=subprocess.DEVNULL).returncode == 0:
        assert time.monotonic() < deadline, f"process {pid} is left behind"
        time.sleep(0.01)


def test_the_group_ends_with_the_block() -> None:
    with Keeper() as kept:
        sleeping = subprocess.Popen(SLEEPER, process_group=kept.group)
        stopped = subprocess.Popen(SLEEPER, process_group=kept.group)
        stopped.send_signal(signal.SIGSTOP)
        assert sleeping.poll() is None
    assert sleeping.wait(10) == stopped.wait(10) == -signal.SIGKILL


def test_the_group_ends_with_the_process() -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", PROGRAM], stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        child = int(program.stdout.readline())
        program.kill()
        program.wait(10)
    wait_for_end(child)
