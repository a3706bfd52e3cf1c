"""The kernels on this machine's processor, built by a C++ compiler: for tests, where no GPU is."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.errors import InputError
from coopbandits.sim.engine import physical_memory
from coopbandits.sim.gpu.backend import Launch, cached, text_of

OPTIONS = ("-std=c++17", "-O1", "-fPIC", "-shared", "-ffp-contract=off", "-w")
"""No contraction: sums round as in Python. Compiling takes most of a test, and with `-O2` more."""


class Array:
    """An array in the machine's own memory."""

    def __init__(self, values: NDArray[Any]) -> None:
        self.values = values
        self.address: int = values.ctypes.data
        self.nbytes = values.nbytes


class Emulated:
    """Kernels one thread after another; see `kernels/host.h`."""

    name = "emulated"
    most_shared = 232_448  # as on a device of today, so that the same kernels are chosen

    def __init__(self, more: tuple[str, ...] = ()) -> None:
        found = shutil.which(os.environ.get("CXX", "c++")) or shutil.which("g++")
        if found is None:
            raise InputError(
                "kernels are emulated by a C++ compiler, and there is none; install g++, or set "
                "CXX to one"
            )
        self.command = (found, *OPTIONS, *more)

    def free_bytes(self) -> int:
        """Return half of the machine's memory."""
        return int(min(physical_memory(), 1e12) / 2)

    def zeros(self, shape: tuple[int, ...], kind: Any = np.float64) -> Array:
        return Array(np.zeros(shape, kind))

    def upload(self, values: NDArray[Any]) -> Array:
        return Array(np.array(values, order="C"))

    def download(self, memory: Array) -> NDArray[Any]:
        return memory.values.copy()

    def mark(self) -> None:
        """Return nothing: nothing is ever under way."""

    def collect(self, memory: Array, first: int, end: int, mark: None) -> NDArray[Any]:
        del mark
        return memory.values[first:end]

    def touch(self, values: NDArray[Any]) -> None:
        """Return: nothing is ever under way."""

    def clear(self, memory: Array, first: int, size: int) -> None:
        memory.values.reshape(-1).view(np.uint8)[first : first + size] = 0

    def wait(self) -> None:
        """Return: nothing is ever under way."""

    def compile(self, source: str) -> Built:
        """Build a library, or take it from the cache."""
        text = text_of("host.h") + source
        return Built(cached(" ".join(self.command) + text, ".so", lambda: self._build(text)))

    def _build(self, text: str) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            code, library = Path(folder) / "kernels.cpp", Path(folder) / "kernels.so"
            code.write_text(text, encoding="utf-8")
            words = [*self.command, str(code), "-o", str(library)]
            done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603  a compiler
            if done.returncode != 0:
                raise RuntimeError(f"{self.command[0]} refused the kernels:\n{done.stderr[:3000]}")
            return library.read_bytes()


class Built:
    """A library of kernels."""

    def __init__(self, path: Path) -> None:
        self.kernels = ctypes.CDLL(str(path))

    def launch(self, name: str, size: Launch, *given: Any) -> None:
        values = [_as_c(each) for each in given]
        places = (ctypes.c_void_p * len(values))(
            *(ctypes.cast(ctypes.byref(each), ctypes.c_void_p) for each in values)
        )
        self.kernels[f"launch_{name}"](size.wide, size.high, size.threads, size.shared, places)


def _as_c(value: Any) -> Any:
    if isinstance(value, np.int32):
        return ctypes.c_int(int(value))
    if isinstance(value, float):
        return ctypes.c_double(value)
    return ctypes.c_longlong(value if isinstance(value, int) else value.address)
