"""Worker processes on this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any


@contextmanager
def worker_pool(size: int) -> Iterator[ProcessPoolExecutor]:
    """Start worker processes that leave Ctrl-C to the driver; kill them on any error.

    If the driver itself is killed, they end by themselves.
    """
    context = _Workers()
    pool = ProcessPoolExecutor(size, mp_context=context, initializer=_begin)
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


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_driver, daemon=True).start()


def _end_with_driver() -> None:
    """Wait for the driver's end: a worker of a pool would wait for its next task for ever."""
    driver = multiprocessing.parent_process()
    assert driver is not None  # noqa: S101  this process was started by one
    driver.join()
    os._exit(1)
