"""CPU time and memory of a process, as reported by Linux."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from coopbandits.core.errors import InputError

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


class Window(NamedTuple):
    """What some processes did in a stretch of time, in total.

    Attributes
    ----------
    rounds : float
        Rounds completed.
    cpu : float
        Seconds of CPU time used.
    seconds : float
        Wall-clock time.
    agents : int
        Number of processes.
    """

    rounds: float
    cpu: float
    seconds: float
    agents: int

    @property
    def cost(self) -> float:
        """Microseconds of CPU time per agent-round."""
        return 1e6 * self.cpu / max(1.0, self.rounds)

    @property
    def pace(self) -> float:
        """Rounds per second of one process."""
        return self.rounds / self.seconds / self.agents


def require_proc() -> None:
    """Refuse a system without /proc."""
    if not Path("/proc/self/stat").exists():
        raise InputError(
            "this system has no /proc, by which agents are measured; run the benchmark of agents "
            "on Linux, or leave it out with --engine"
        )


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process, system calls included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_megabytes(pid: int) -> float:
    """Return the memory that a process holds, shared libraries included."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 2**20
