"""Long work of compiled functions, started from Python.

Of a kernel that takes many arrays, half the code takes them out of Python's objects and hands them
on. So here Python writes down where they stand, word by word. That takes part of a millisecond,
which is nothing for a span of many rounds; what is called for every stage is a kernel that calls
`in_threads`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from types import FunctionType
from typing import Any

import numpy as np
from llvmlite import ir
from numba import cfunc, typeof, types
from numba.core import event
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from coopbandits.sim.cpu.inner import Inner
from coopbandits.sim.cpu.leaves import kernel
from coopbandits.sim.cpu.parallel import each

_SIGNATURE = types.void(types.CPointer(types.int64), types.int64)
_WHOLE = ir.IntType(64)
_tasks: dict[Any, Any] = {}


def launch(body: Inner, tasks: int, given: tuple[Any, ...]) -> None:
    """Call ``body(task, *given)`` for task = 0 … tasks − 1, each in some thread."""
    task, words = _task(body, given), np.array(list(_words(given)), dtype=np.int64)
    each(task.address, words.ctypes.data, tasks)


def launch_rounds(
    body: Inner, tasks: int, rounds: int, at_once: int, given: tuple[Any, ...]
) -> None:
    """Call ``body(task, first, stop, *given)`` for rounds `first` … `stop − 1`, then for the next.

    All tasks of `at_once` rounds are done before the next rounds begin.
    """
    given = (0, 0, *given)
    task, words = _task(body, given), np.array(list(_words(given)), dtype=np.int64)
    _each_rounds(task.address, words.ctypes.data, tasks, words, rounds, at_once)


@kernel
def _each_rounds(task: int, given: int, tasks: int, words: Any, rounds: int, at_once: int) -> None:
    for first in range(0, rounds, at_once):
        words[0], words[1] = first, first + at_once
        each(task, given, tasks)


def _words(value: Any) -> Iterator[int]:
    """Yield what stands for a value: of an array its address and its shape."""
    if isinstance(value, tuple):
        for part in value:
            yield from _words(part)
    elif isinstance(value, np.ndarray):
        yield value.ctypes.data
        yield from value.shape
    elif isinstance(value, float):
        yield int(np.float64(value).view(np.int64))
    else:
        yield int(value)


def _task(body: Inner, given: tuple[Any, ...]) -> Any:
    """Return the C function that reads words and calls a body: from memory, from disk, or new."""
    kinds = typeof(given)
    if (body, kinds) not in _tasks:
        name = f"{body.py_func.__module__}.{body.py_func.__qualname__}"
        source = _form(hashlib.sha256(f"{name} {kinds}".encode()).hexdigest())
        scope = {**source.__globals__, "_call": _caller(body, kinds)}
        made = FunctionType(source.__code__, scope, "task", None, source.__closure__)
        made.__qualname__ = name  # numba files it under that, and under what it closes over
        _tasks[body, kinds] = cfunc(_SIGNATURE, cache=True)(made)
    return _tasks[body, kinds]


_call: Any = None


def _form(digest: str) -> Any:
    def task(words: Any, number: int) -> None:
        if len(digest) > 0:
            _call(words, number)

    return task


def _caller(body: Inner, kinds: Any) -> Any:
    @intrinsic
    def call(typing: Any, words: Any, number: Any) -> Any:
        del typing

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            del sig
            with event.trigger_event("numba:compile"):  # as numba tells of its own kernels
                part, at = body.part((types.int64, *kinds.types)), [0]
            values = [_read(context, builder, kind, args[0], at) for kind in kinds.types]
            given = [args[1], *values]
            context.call_internal_no_propagate(builder, part.add(context), part.signature, given)
            return context.get_dummy_value()

        return types.void(words, number), generate

    return call


def _read(context: Any, builder: Any, kind: Any, words: Any, at: list[int]) -> Any:
    """Return the value that words from place `at[0]` on stand for, and go on behind them.

    Arrays have no owner, so that nobody counts references to them.
    """
    if isinstance(kind, types.BaseTuple):
        parts = [_read(context, builder, part, words, at) for part in kind.types]
        return context.make_tuple(builder, kind, parts)
    word = builder.load(builder.gep(words, [_WHOLE(at[0])]))
    at[0] += 1
    if isinstance(kind, types.Array) and kind.layout == "C":
        shape = [_read(context, builder, types.int64, words, at) for _ in range(kind.ndim)]
        array = context.make_array(kind)(context, builder)
        size = _WHOLE(context.get_abi_sizeof(context.get_data_type(kind.dtype)))
        strides = [size]
        for length in reversed(shape[1:]):
            strides.insert(0, builder.mul(strides[0], length))
        data = builder.inttoptr(word, array.data.type)
        populate_array(array, data, shape, strides[: kind.ndim], size, None)
        return array._getvalue()
    if kind == types.float64:
        return builder.bitcast(word, ir.DoubleType())
    if kind == types.boolean:
        return builder.trunc(word, ir.IntType(1))
    if kind == types.int64:
        return word
    raise TypeError(f"a number, or an array in C order, can be handed over, but not {kind}")
