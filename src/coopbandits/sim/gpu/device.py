"""The kernels on a CUDA device; the only module that imports cuda."""

from __future__ import annotations

import ctypes
import math
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import numpy as np
from cuda.bindings import driver
from cuda.core import Device, Event, LaunchConfig, ObjectCode, Program, ProgramOptions, launch
from numpy.typing import NDArray

from coopbandits.core.errors import InputError
from coopbandits.sim.gpu.backend import Launch, cached, take_device, text_of

LEAST_CAPABILITY = (8, 0)

PINNED = 1 << 26
"""Bytes through which records come back while later rounds are played."""

LARGE = 1 << 22
TOUCHING = 8
"""Records of many runs are hundreds of MB, and threads have the system hand out such memory."""


class Array:
    """An array in the device's memory."""

    def __init__(self, device: CudaDevice, shape: tuple[int, ...], kind: Any) -> None:
        self.shape, self.kind = shape, np.dtype(kind)
        self.nbytes = math.prod(shape) * self.kind.itemsize
        self.buffer = device.device.allocate(max(8, self.nbytes), stream=device.stream)
        self.address = int(self.buffer.handle)


class CudaDevice:
    """A CUDA device, a stream of work on it, and one of copies beside that."""

    def __init__(self) -> None:
        try:
            _checked(driver.cuInit(0))
            found = [Device(number) for number in range(_checked(driver.cuDeviceGetCount()))]
            self.device = found[take_device([each.uuid for each in found])] if found else Device()
            self.device.set_current()
        except Exception as error:  # each version has its own kinds
            raise InputError(
                f"no CUDA device can be used ({error}); see what nvidia-smi says, or take "
                'engine="cpu"'
            ) from error
        able = self.device.compute_capability
        if (able.major, able.minor) < LEAST_CAPABILITY:
            raise InputError(
                f"{self.device.name} has compute capability {able.major}.{able.minor}, and 8.0 "
                'is needed; take engine="cpu"'
            )
        self.name = self.device.name
        self.arch = f"sm_{able.major}{able.minor}"
        self.stream = self.device.create_stream()
        self.copying = self.device.create_stream()
        self.programs: dict[str, Kernels] = {}
        self.usage: dict[str, tuple[int, int]] = {}
        self.times: dict[str, list[float]] | None = None  # seconds of every launch, if asked for
        self.most_shared: int = self.device.properties.max_shared_memory_per_block_optin

    def free_bytes(self) -> int:
        self.wait()
        free, _ = _checked(driver.cuMemGetInfo())
        return int(free)

    def zeros(self, shape: tuple[int, ...], kind: Any = np.float64) -> Array:
        made = Array(self, shape, kind)
        self.clear(made, 0, made.nbytes)
        return made

    def upload(self, values: NDArray[Any]) -> Array:
        values = np.ascontiguousarray(values)
        made = Array(self, values.shape, values.dtype)
        if made.nbytes:
            at = values.ctypes.data
            _checked(driver.cuMemcpyHtoDAsync(made.address, at, made.nbytes, self._stream))
            self.wait()  # `values` may be gone before the copy is made
        return made

    def download(self, memory: Array) -> NDArray[Any]:
        self.wait()
        return self._copied(memory, 0, np.empty(memory.shape, memory.kind))

    def mark(self) -> Event:
        return self.stream.record()

    def collect(self, memory: Array, first: int, end: int, mark: Event) -> NDArray[Any]:
        """Return some rows, through memory that the device writes by itself."""
        row = math.prod(memory.shape[1:])
        size, shape = (end - first) * row, (end - first, *memory.shape[1:])
        if size * memory.kind.itemsize > PINNED:
            values = np.empty(shape, memory.kind)
        else:
            values = self._pinned.view(memory.kind)[:size].reshape(shape)
        mark.sync()
        return self._copied(memory, first * row * memory.kind.itemsize, values)

    def _copied(self, memory: Array, start: int, values: NDArray[Any]) -> NDArray[Any]:
        """Fill `values` from some byte on, without waiting for kernels under way."""
        if values.nbytes:
            at, stream = values.ctypes.data, driver.CUstream(int(self.copying.handle))
            _checked(driver.cuMemcpyDtoHAsync(at, memory.address + start, values.nbytes, stream))
            self.copying.sync()
        return values

    @cached_property
    def _pinned(self) -> NDArray[np.uint8]:
        """Memory of this machine that stays where it is, for as long as the device is used."""
        at = int(_checked(driver.cuMemHostAlloc(PINNED, 0)))
        return np.ctypeslib.as_array((ctypes.c_uint8 * PINNED).from_address(at))

    def touch(self, values: NDArray[Any]) -> None:
        if values.nbytes > LARGE:
            parts = np.array_split(values.reshape(-1), TOUCHING)
            with ThreadPoolExecutor(TOUCHING) as pool:
                list(pool.map(lambda part: part.fill(0), parts))

    def clear(self, memory: Array, first: int, size: int) -> None:
        if size:
            _checked(driver.cuMemsetD8Async(memory.address + first, 0, size, self._stream))

    def wait(self) -> None:
        self.stream.sync()

    def copy_rate(self, size: int = 1 << 32) -> float:
        """Return how many bytes a second a copy reads and writes together."""
        source, target = Array(self, (size,), np.uint8), Array(self, (size,), np.uint8)
        for _ in range(2):
            self.wait()
            started = time.perf_counter()
            for _ in range(10):
                _checked(
                    driver.cuMemcpyDtoDAsync(target.address, source.address, size, self._stream)
                )
            self.wait()
            rate = 20 * size / (time.perf_counter() - started)
        return rate

    @property
    def _stream(self) -> Any:
        return driver.CUstream(int(self.stream.handle))

    def compile(self, source: str) -> Kernels:
        """Compile for this device, or take it from the cache."""
        if source not in self.programs:
            text = text_of("device.h") + source
            path = cached(f"{self.arch} {text}", ".cubin", lambda: compiled(text, self.arch))
            self.programs[source] = Kernels(self, ObjectCode.from_cubin(path.read_bytes()))
        return self.programs[source]


def compiled(text: str, arch: str, log: Any = None) -> bytes:
    """Return a source compiled for an architecture; `log` is told registers and spills."""
    # Floats are close to doubles whether or not each division is rounded as it should be.
    is_single = "#define SINGLE 1\n" in text
    options = ProgramOptions(
        arch=arch, std="c++17", use_fast_math=is_single, ptxas_options=["-v"] if log else None
    )
    return bytes(Program(text, "c++", options).compile("cubin", logs=log).code)


class Kernels:
    """Compiled kernels, loaded."""

    def __init__(self, device: CudaDevice, code: ObjectCode) -> None:
        self.device, self.code = device, code
        self.kernels: dict[str, Any] = {}

    def launch(self, name: str, size: Launch, *given: Any) -> None:
        config = LaunchConfig(
            grid=(size.wide, size.high), block=size.threads, shmem_size=size.shared
        )
        values = [_as_value(each) for each in given]
        if self.device.times is None:
            launch(self.device.stream, config, self.kernel(name), *values)
            return
        self.device.wait()
        started = time.perf_counter()
        launch(self.device.stream, config, self.kernel(name), *values)
        self.device.wait()
        self.device.times.setdefault(name, []).append(time.perf_counter() - started)

    def kernel(self, name: str) -> Any:
        """Return one kernel, which may use all shared memory there is."""
        if name not in self.kernels:
            kernel = self.code.get_kernel(name)
            what = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            handle = driver.CUkernel(int(kernel.handle))
            at = driver.CUdevice(self.device.device.device_id)
            most = self.device.most_shared - kernel.attributes.shared_size_bytes
            _checked(driver.cuKernelSetAttribute(what, most, handle, at))
            self.kernels[name] = kernel
            used = kernel.attributes
            self.device.usage[name] = used.num_regs, used.local_size_bytes
        return self.kernels[name]


def _as_value(value: Any) -> Any:
    """Return what `launch` takes: addresses are plain ints, and so are 64-bit numbers."""
    if isinstance(value, int):
        return np.int64(value)
    if isinstance(value, float):
        return np.float64(value)
    return value if isinstance(value, np.int32) else value.address


def _checked(answer: tuple[Any, ...]) -> Any:
    """Return what a call of the driver gives, or raise what it says."""
    error, *rest = answer
    if error != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"the CUDA driver says {error!r}")
    return rest[0] if len(rest) == 1 else tuple(rest)
