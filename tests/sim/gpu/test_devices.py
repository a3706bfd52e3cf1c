"""Several GPUs: every process takes one of its own, as long as there are enough."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from coopbandits.sim.gpu.backend import take_device

HOLD = """
import fcntl, sys
lock = open(sys.argv[1], "w")
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_each_takes_its_own_and_a_dead_one_gives_it_back(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD, str(tmp_path / "first")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        assert take_device(["first", "second", "third"], tmp_path) == 1
        assert take_device(["third", "second"], tmp_path) == 0  # another order of the same
        assert take_device(["second", "third"], tmp_path) in (0, 1)  # held already: shared
        other.kill()
        other.wait(timeout=20)
        assert take_device(["first", "second"], tmp_path) == 0
