"""Worker processes on this machine."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any


@contextmanager
def worker_pool(size: int) -> Iterator[ProcessPoolExecutor]:
    """Start worker processes that leave Ctrl-C to the driver; kill them on any error."""
    context = _Workers()
    pool = ProcessPoolExecutor(size, mp_context=context, initializer=_ignore_interrupts)
    try:
        yield pool
    except BaseException:
        context.kill()
        raise
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


class _Workers(SpawnContext):
    """Remembers the processes that a pool starts, since a pool cannot kill them."""

    def __init__(self) -> None:
        self.processes: list[SpawnProcess] = []

    def Process(self, *args: Any, **settings: Any) -> SpawnProcess:  # type: ignore[override]  # noqa: N802  a class there
        """Make a process and remember it."""
        process = SpawnProcess(*args, **settings)
        self.processes.append(process)
        return process

    def kill(self) -> None:
        """Kill all processes that still run."""
        for process in self.processes:
            if process.is_alive():
                process.kill()


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
