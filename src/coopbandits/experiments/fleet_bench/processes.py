"""What a process has used so far, as Linux tells."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from coopbandits.core.errors import InputError

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


class Window(NamedTuple):
    """What some processes did for a while, all of them together.

    Attributes
    ----------
    rounds : float
        Rounds that they ended.
    cpu : float
        Seconds of computing that they used.
    seconds : float
        How long that took.
    agents : int
        How many they are.
    """

    rounds: float
    cpu: float
    seconds: float
    agents: int

    @property
    def cost(self) -> float:
        """Microseconds of computing per agent-round."""
        return 1e6 * self.cpu / max(1.0, self.rounds)

    @property
    def pace(self) -> float:
        """Rounds per second of one of them."""
        return self.rounds / self.seconds / self.agents


def require_proc() -> None:
    """Refuse a system that does not tell what processes use."""
    if not Path("/proc/self/stat").exists():
        raise InputError(
            "this system has no /proc, by which agents are measured; run the benchmark of agents "
            "on Linux, or leave it out with --engine"
        )


def cpu_seconds(pid: int) -> float:
    """Return the computing time of a process, its system calls included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_megabytes(pid: int) -> float:
    """Return the memory that a process holds, shared libraries included."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / 2**20
