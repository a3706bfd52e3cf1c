"""On the first start, another process compiles the choice while this one compiles a kernel.

numba compiles one function at a time, but what a process has compiled, others find in the cache.
"""

from __future__ import annotations

import multiprocessing
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from numba.core import event

from coopbandits.core.index import Index
from coopbandits.core.registry import parse_index
from coopbandits.core.spelling import is_ours
from coopbandits.sim.cpu.choices import compiled_choice

PATIENCE = 60.0
"""Seconds after which a process that files a choice is given up; it takes a few."""

PROGRAM = f"import sys; from {__name__} import file_choice; file_choice(sys.argv[1])"


def file_choice(spelling: str) -> None:
    """Compile the choice of an index into the cache."""
    compiled_choice(parse_index(spelling))


@contextmanager
def filed_meanwhile(index: Index) -> Iterator[None]:
    """If something is compiled inside, file the choice of an index meanwhile.

    Workers of a sweep do not: there, every core has one already.
    """
    helper = Helper(index)
    try:
        if is_ours(index) and multiprocessing.parent_process() is None:
            with event.install_listener("numba:compile", helper):
                yield
        else:
            yield
    finally:
        helper.end()


class Helper(event.Listener):
    """Starts a process when numba begins to compile, and not where all is in the cache."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.process: subprocess.Popen[bytes] | None = None

    def on_start(self, event: Any) -> None:
        """Start the process, once."""
        del event
        if self.process is None:
            words = [sys.executable, "-c", PROGRAM, self.index.spelling]
            nowhere = subprocess.DEVNULL
            with suppress(OSError):  # then the choice is compiled here, later
                self.process = subprocess.Popen(  # noqa: S603  own code
                    words, stdin=nowhere, stdout=nowhere, stderr=nowhere
                )

    def on_end(self, event: Any) -> None:
        """Go on."""

    def end(self) -> None:
        """Wait for the process."""
        if self.process is not None:
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
