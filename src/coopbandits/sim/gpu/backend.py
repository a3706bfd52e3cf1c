"""Where kernels run, on a device or emulated, and how their sources are put together."""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.errors import InputError, unknown_name

VARIABLE = "COOPBANDITS_GPU"
KINDS = ("device", "emulated")
"""What the variable may say; "emulated" builds the same kernels for this machine's processor."""


class Launch(NamedTuple):
    """Size of a launch: blocks across and down, threads of each, and bytes of shared memory."""

    wide: int
    high: int
    threads: int
    shared: int = 0


class Memory(Protocol):
    """An array on the device; `address` is what kernels are handed."""

    address: int
    nbytes: int


class Program(Protocol):
    """Compiled kernels."""

    def launch(self, name: str, size: Launch, *given: Any) -> None:
        """Start a kernel; given are arrays in memory, ints as 64 bits, np.int32 and floats."""


class Backend(Protocol):
    """Memory, compilation and launches."""

    name: str
    most_shared: int

    def free_bytes(self) -> int:
        """Return how much memory can be taken."""

    def zeros(self, shape: tuple[int, ...], kind: Any = np.float64) -> Any:
        """Return an array of zeros."""

    def upload(self, values: NDArray[Any]) -> Any:
        """Return a copy of an array."""

    def download(self, memory: Any) -> NDArray[Any]:
        """Return an array's content, when all that was started has ended."""

    def mark(self) -> Any:
        """Return what stands for all that has been started so far."""

    def collect(self, memory: Any, first: int, end: int, mark: Any) -> NDArray[Any]:
        """Return some rows of an array as soon as what is marked has ended; later work goes on.

        They may be overwritten by the next call.
        """

    def touch(self, values: NDArray[Any]) -> None:
        """Have the system hand out the memory of an array, while kernels are under way."""

    def clear(self, memory: Any, first: int, size: int) -> None:
        """Set some bytes to zero."""

    def compile(self, source: str) -> Program:
        """Compile a source, or take it from the cache."""

    def wait(self) -> None:
        """Return when all that was started has ended."""


@cache
def backend(kind: str | None = None) -> Backend:
    """Return where kernels run: as the environment says, on a device unless it says otherwise."""
    kind = kind or os.environ.get(VARIABLE, KINDS[0])
    if kind not in KINDS:
        raise unknown_name(f"value of {VARIABLE}", kind, KINDS)
    if kind == "emulated":
        from coopbandits.sim.gpu.emulated import Emulated

        return Emulated()
    try:
        from coopbandits.sim.gpu.device import CudaDevice
    except ImportError as error:
        raise InputError(
            f'engine "gpu" needs cuda-core, which is not there ({error}); pip install '
            f'"coopbandits[gpu]", or take engine="cpu"'
        ) from error
    return CudaDevice()


def cached(text: str, suffix: str, make: Callable[[], bytes]) -> Path:
    """Return a file with what is made of a text, from the cache if it was made before."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    path = cache_folder() / f"{digest[:40]}{suffix}"
    if not path.exists():
        content = make()
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            file.write(content)
        Path(file.name).replace(path)  # whole or not at all, for whoever comes at the same time
    return path


def cache_folder() -> Path:
    """Return the folder of compiled kernels."""
    named = os.environ.get("XDG_CACHE_HOME")
    folder = Path(named) if named else Path.home() / ".cache"
    with suppress(OSError):
        (folder / "coopbandits").mkdir(parents=True, exist_ok=True)
        if os.access(folder / "coopbandits", os.W_OK):
            return folder / "coopbandits" / "kernels"
    return Path(tempfile.gettempdir()) / f"coopbandits-{os.getuid()}" / "kernels"


KERNELS = Path(__file__).parent / "kernels"

INCLUDE = re.compile(r'^#include "(\w+\.h)"$', re.MULTILINE)


def program(files: tuple[str, ...], constants: Mapping[str, int], index: str = "") -> str:
    """Return one source of some files, without what `device.h` or `host.h` has to say.

    `constants` are defined first; `index` stands for the file `index.h`.
    """
    seen: set[str] = set()

    def included(found: re.Match[str]) -> str:
        name = found.group(1)
        if name in seen:
            return ""
        seen.add(name)
        return INCLUDE.sub(included, index if name == "index.h" else text_of(name))

    defines = "".join(f"#define {name} {value}\n" for name, value in constants.items())
    return defines + "".join(INCLUDE.sub(included, text_of(name)) for name in files)


@cache
def text_of(name: str) -> str:
    """Return one file of the sources."""
    return (KERNELS / name).read_text(encoding="utf-8").replace("#pragma once\n", "")


_held: list[int] = []
"""Locked files of this process; the system lifts locks when it ends, however it does."""


def take_device(names: Sequence[str], folder: Path | None = None) -> int:
    """Return the place of the first device that nobody holds, and hold it from now on.

    So workers of a sweep on one machine each take their own, whoever started them. Where all are
    held, processes share them by their numbers. `names` are the same for all processes, whichever
    devices they see.
    """
    folder = folder or Path(tempfile.gettempdir()) / f"coopbandits-{os.getuid()}" / "devices"
    folder.mkdir(parents=True, exist_ok=True)
    for place, name in enumerate(names):
        file = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            continue
        _held.append(file)
        return place
    return os.getpid() % len(names)
