"""A Dask cluster as an executor for sweeps."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager

from coopbandits.core.errors import InputError


@contextmanager
def dask_executor(address: str) -> Iterator[Executor]:
    """Connect to a scheduler, such as ``tcp://127.0.0.1:8786``; its workers need coopbandits."""
    try:
        from distributed import Client
    except ImportError as error:
        raise InputError(
            "Dask is not installed; install it with: pip install 'coopbandits[cluster]'"
        ) from error
    try:
        client = Client(address, timeout=5)
    except (OSError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler answers at {address}; start one with: dask scheduler"
        ) from error
    try:
        yield client.get_executor()
    finally:
        client.close()
