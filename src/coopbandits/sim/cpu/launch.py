"""Tasks of compiled functions, played by all threads, started from Python.

numba compiles the body of every parallel loop twice, with much around it, and half the code of a
kernel with many arrays takes them out of Python's objects. So there is one small loop for all
kernels, which is handed the address of what to do for each task, and Python writes down what that
is given, word by word: a number, or where an array stands and its shape.
"""

from __future__ import annotations

import hashlib
import struct
from types import FunctionType
from typing import Any

import numpy as np
from numba import carray, cfunc, get_num_threads, prange, types
from numpy.typing import NDArray

from coopbandits.sim.cpu.compiling import Inner, calling, inner, no_collections
from coopbandits.sim.cpu.leaves import kernel

_WORDS = types.CPointer(types.int64)
_SIGNATURE = types.int64(
    types.CPointer(types.voidptr), _WORDS, types.CPointer(types.float64), types.int64
)
_call = calling(types.int64(_WORDS, _WORDS, _WORDS, types.int64))  # the same words, three times

PARTS, FIRST, STOP, GIVEN = range(4)
"""Places in the words: tasks per run, the rounds to play, and the first of what is given."""

_AS_FLOAT, _AS_WHOLE = struct.Struct("d"), struct.Struct("q")

_tasks: dict[str, Any] = {}
_known: dict[Any, Any] = {}
"""C functions, by source, and by the kinds of what they are given."""


def num_tasks(world: Any) -> int:
    """Return the number of blocks of agents in all runs."""
    return int(world.reward_keys.shape[0] * world.num_blocks)


def parts_of_a_run(world: Any) -> int:
    """Return how many tasks share every round of a run.

    With as many runs as threads each thread plays runs of its own, else all share every round.
    """
    runs, threads, blocks = world.reward_keys.shape[0], get_num_threads(), world.num_blocks
    if runs >= threads:
        return 1
    return -(-blocks // -(-blocks // threads))  # none is empty


@inner
def share_of(task: int, parts: int, world: Any) -> tuple[int, int, int]:
    """Return the run of a task, its first agent and the end, where runs have `parts` tasks each.

    A part is one block of agents, or several.
    """
    width = world.block * -(-world.num_blocks // parts)
    start = task % parts * width
    return task // parts, start, min(start + width, world.places.size)


def launch(
    body: Inner, tasks: int, given: tuple[Any, ...], own: tuple[Any, ...] = (), parts: int = 1
) -> None:
    """Call ``body(task, *given, *own)`` for task = 0 … tasks − 1, each in some thread.

    A run has `parts` tasks. Of arrays with several dimensions in `own`, which have a row per run or
    one for all, a task sees that of its run.
    """
    task, words = _prepared(body, "", given, own, parts)
    _each(task.address, words, tasks, 1, 1)


def launch_rounds(
    body: Inner, tasks: int, rounds: int, at_once: int, given: tuple[Any, ...],
    own: tuple[Any, ...] = (), parts: int = 1,
) -> None:  # fmt: skip
    """Call ``body(task, first, stop, *given, *own)`` for rounds `first` … `stop − 1`, and so on.

    All tasks of `at_once` rounds are done before the next rounds begin. See `launch` for the rest.
    """
    task, words = _prepared(body, f"wholes[{FIRST}], wholes[{STOP}], ", given, own, parts)
    _each(task.address, words, tasks, rounds, at_once)


@kernel(parallel=True)
def _each(task: int, words: Any, tasks: int, rounds: int, at_once: int) -> None:
    """Call a C function at an address for every task of some rounds, then of the next."""
    for first in range(0, rounds, at_once):
        words[FIRST], words[STOP] = first, first + at_once
        if tasks == 1:  # waking threads takes milliseconds where others use the cores
            _call(task, words, words, words, 0)
        else:
            for number in prange(tasks):
                _call(task, words, words, words, number)


def _prepared(
    body: Inner, rounds: str, given: Any, own: Any, parts: int
) -> tuple[Any, NDArray[np.int64]]:
    """Return the C function, and the words that it reads."""
    words, sort = [parts, 0, 0], [body, rounds, len(given)]
    for value in (*given, *own):
        _write(value, words, sort)
    key = tuple(sort)
    if key not in _known:
        _known[key] = _task(body, rounds, given, own)
    return _known[key], np.array(words, dtype=np.int64)


def _write(value: Any, words: list[int], sort: list[Any]) -> None:
    """Write what stands for a value, and what the source follows from that reads it."""
    sort.append(type(value))
    if isinstance(value, np.ndarray):
        if not value.flags.c_contiguous:
            raise TypeError("an array that is handed over has to be in C order")
        words.append(value.ctypes.data)
        words.extend(value.shape)
        sort += value.dtype.char, value.ndim
    elif isinstance(value, tuple):
        sort.append(len(value))
        for part in value:
            _write(part, words, sort)
    elif isinstance(value, float):
        words.append(_AS_WHOLE.unpack(_AS_FLOAT.pack(value))[0])
    else:
        words.append(int(value))


def _task(body: Inner, rounds: str, given: Any, own: Any) -> Any:
    """Return the C function that reads words and calls a body: from memory, from disk, or new."""
    reader = Reader()
    values = [reader.read(value) for value in given] + [reader.read(value, True) for value in own]
    lines = [*reader.lines, f"    body(number, {rounds}{', '.join(values)})"]
    name, source = f"{body.py_func.__module__}.{body.py_func.__qualname__}", "\n".join(lines)
    key = hashlib.sha256(f"{name} {source}".encode()).hexdigest()
    if key not in _tasks:
        made: dict[str, Any] = {"body": body, "carray": carray, "np": np, **reader.kinds}
        # Kernels of several processes meet on disk. Functions of the same name that take the same
        # arguments would be taken for one another, so the name says which it is.
        play = f"play_{key}"
        source = f"def {play}(pointers, wholes, floats, number):\n{source}"
        exec(compile(source, "<words>", "exec"), made)  # noqa: S102  of places and types alone
        form = _form(key)
        task = FunctionType(
            form.__code__, {**form.__globals__, "_play": inner(made[play], allocates=True)},
            "task", None, form.__closure__,
        )  # fmt: skip
        task.__qualname__ = f"{name}.{key[:16]}"  # numba files it under that
        with no_collections():
            _tasks[key] = cfunc(_SIGNATURE, cache=True)(task)
    return _tasks[key]


_play: Any = None


def _form(digest: str) -> Any:
    def task(pointers: Any, wholes: Any, floats: Any, number: int) -> int:
        if len(digest) > 0:
            _play(pointers, wholes, floats, number)
        return 1

    return task


class Reader:
    """Writes the source that reads values from words, one after another.

    Its arrays have no owner, so that nobody counts references to them.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.kinds: dict[str, type] = {}
        self.at = GIVEN

    def read(self, value: Any, by_run: bool = False) -> str:
        """Return what stands for a value, or for its row."""
        if isinstance(value, tuple):
            parts = "".join(f"{self.read(part, by_run)}, " for part in value)
            kind = "" if type(value) is tuple else self._named(type(value))
            return f"{kind}({parts})"
        at, self.at = self.at, self.at + 1
        if isinstance(value, np.ndarray):
            return self._array(at, value, by_run and value.ndim > 1)
        if isinstance(value, float):
            return f"floats[{at}]"
        return f"wholes[{at}] != 0" if isinstance(value, bool | np.bool_) else f"wholes[{at}]"

    def _array(self, at: int, value: Any, by_run: bool) -> str:
        self.at += value.ndim
        shape = "".join(f"wholes[{place}], " for place in range(at + 1, self.at))
        row = f"[number // wholes[{PARTS}] % wholes[{at + 1}]]" if by_run else ""
        kind = self._named(value.dtype.type)
        self.lines.append(f"    a{at} = carray(pointers[{at}], ({shape}), {kind}){row}")
        return f"a{at}"

    def _named(self, kind: type) -> str:
        self.kinds[kind.__name__] = kind
        return kind.__name__
