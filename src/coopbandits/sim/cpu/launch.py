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
from numpy.typing import NDArray

from coopbandits.sim.cpu.inner import Inner, no_collections
from coopbandits.sim.cpu.leaves import kernel
from coopbandits.sim.cpu.parallel import each

_SIGNATURE = types.void(types.CPointer(types.int64), types.int64)
_WHOLE = ir.IntType(64)
_tasks: dict[Any, Any] = {}
_known: dict[Any, Any] = {}
"""C functions, by the kinds of what they are given, and by what these follow from."""


def launch(body: Inner, tasks: int, given: tuple[Any, ...], own: tuple[Any, ...] = ()) -> None:
    """Call ``body(task, *given, *own)`` for task = 0 … tasks − 1, each in some thread.

    Of arrays with several dimensions in `own`, task n sees row n, or the only one: of those of all
    runs those of its run.
    """
    task, words = _prepared(body, given, own, 1)
    each(task.address, words.ctypes.data, tasks)


def launch_rounds(
    body: Inner, tasks: int, rounds: int, at_once: int, given: tuple[Any, ...],
    own: tuple[Any, ...] = (), parts: int = 1,
) -> None:  # fmt: skip
    """Call ``body(task, first, stop, *given, *own)`` for rounds `first` … `stop − 1`, and so on.

    All tasks of `at_once` rounds are done before the next rounds begin. A run has `parts` tasks,
    which all see the same rows.
    """
    task, words = _prepared(body, (0, 0, *given), own, parts)
    _each_rounds(task.address, words.ctypes.data, tasks, words, rounds, at_once)


def _prepared(body: Inner, given: Any, own: Any, parts: int) -> tuple[Any, NDArray[np.int64]]:
    """Return the C function, and the words that it reads."""
    words = np.array([parts, *_words(given), *_words(own)], dtype=np.int64)
    sort = (body, _sort(given), _sort(own))
    if sort not in _known:
        _known[sort] = _task(body, typeof(given), typeof(own))
    return _known[sort], words


def _sort(value: Any) -> Any:
    """Return what a value's kind follows from; `typeof` takes milliseconds for forty arrays."""
    if isinstance(value, tuple):
        return type(value), *map(_sort, value)
    if isinstance(value, np.ndarray):
        return value.dtype, value.ndim, value.flags.num
    return type(value)


@kernel
def _each_rounds(task: int, given: int, tasks: int, words: Any, rounds: int, at_once: int) -> None:
    for first in range(0, rounds, at_once):
        words[1], words[2] = first, first + at_once
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


def _task(body: Inner, given: Any, own: Any) -> Any:
    """Return the C function that reads words and calls a body: from memory, from disk, or new."""
    if (body, given, own) not in _tasks:
        name = f"{body.py_func.__module__}.{body.py_func.__qualname__}"
        source = _form(hashlib.sha256(f"{name} {given} {own}".encode()).hexdigest())
        scope = {**source.__globals__, "_call": _caller(body, given, own)}
        made = FunctionType(source.__code__, scope, "task", None, source.__closure__)
        made.__qualname__ = name  # numba files it under that, and under what it closes over
        with no_collections():
            _tasks[body, given, own] = cfunc(_SIGNATURE, cache=True)(made)
    return _tasks[body, given, own]


_call: Any = None


def _form(digest: str) -> Any:
    def task(words: Any, number: int) -> None:
        if len(digest) > 0:
            _call(words, number)

    return task


def _caller(body: Inner, given: Any, own: Any) -> Any:
    @intrinsic
    def call(typing: Any, words: Any, number: Any) -> Any:
        del typing

        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            del sig
            kinds = (types.int64, *given.types, *map(_row_kind, own.types))
            with event.trigger_event("numba:compile"):  # as numba tells of its own kernels
                part = body.part(kinds)
            reader = Reader(context, builder, args[0])
            row = builder.sdiv(args[1], reader.word())
            values = [reader.read(kind) for kind in given.types]
            values += [reader.read(kind, row) for kind in own.types]
            context.call_internal_no_propagate(
                builder, part.add(context), part.signature, [args[1], *values]
            )
            return context.get_dummy_value()

        return types.void(words, number), generate

    return call


def _row_kind(kind: Any) -> Any:
    """Return the kind of a row of what is of some kind."""
    if isinstance(kind, types.BaseTuple):
        rows = [_row_kind(part) for part in kind.types]
        is_named = isinstance(kind, types.BaseNamedTuple)
        return types.BaseTuple.from_types(rows, kind.instance_class if is_named else None)
    return kind.copy(ndim=kind.ndim - 1) if _has_rows(kind) else kind


def _has_rows(kind: Any) -> bool:
    return isinstance(kind, types.Array) and kind.ndim > 1


class Reader:
    """Reads values from words, one after another, in code that is being made.

    Its arrays have no owner, so that nobody counts references to them.
    """

    def __init__(self, context: Any, builder: Any, words: Any) -> None:
        self.context, self.builder, self.words = context, builder, words
        self.at = 0

    def word(self) -> Any:
        """Return the next word."""
        found = self.builder.load(self.builder.gep(self.words, [_WHOLE(self.at)]))
        self.at += 1
        return found

    def read(self, kind: Any, row: Any = None) -> Any:
        """Return the value that the next words stand for, or its row."""
        if isinstance(kind, types.BaseTuple):
            parts = [self.read(part, row) for part in kind.types]
            return self.context.make_tuple(
                self.builder, kind if row is None else _row_kind(kind), parts
            )
        word = self.word()
        if isinstance(kind, types.Array) and kind.layout == "C":
            return self._array(kind, word, row if _has_rows(kind) else None)
        if kind == types.float64:
            return self.builder.bitcast(word, ir.DoubleType())
        if kind == types.boolean:
            return self.builder.trunc(word, ir.IntType(1))
        if kind == types.int64:
            return word
        raise TypeError(f"a number, or an array in C order, can be handed over, but not {kind}")

    def _array(self, kind: Any, word: Any, row: Any) -> Any:
        builder, shape = self.builder, [self.word() for _ in range(kind.ndim)]
        size = _WHOLE(self.context.get_abi_sizeof(self.context.get_data_type(kind.dtype)))
        strides = [size]
        for length in reversed(shape[1:]):
            strides.insert(0, builder.mul(strides[0], length))
        if row is not None:
            place = builder.urem(row, shape.pop(0))
            word = builder.add(word, builder.mul(place, strides.pop(0)))
            kind = _row_kind(kind)
        array = self.context.make_array(kind)(self.context, builder)
        data = builder.inttoptr(word, array.data.type)
        populate_array(array, data, shape, strides, size, None)
        return array._getvalue()
