"""One compiled choice per index, made of the index's own functions, for every kernel.

A kernel is compiled once for all indices. It is handed the address of a choice, a C function that
goes over a block of agents and writes down the arm of each (`choice_forms`). So a new index, ours
or anybody's, compiles in about a second, and no pair of aggregation and index compiles anew.

numba keeps compiled choices on disk, but looks neither at functions that a choice calls nor at the
values of their globals. A digest of all of that is therefore part of what a choice is filed under:
an index that was edited is another index, in the same process and in the next one.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import inspect
import linecache
import math
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from types import CellType, FunctionType, MappingProxyType, ModuleType
from typing import Any

import numba
import numpy as np
from numba import cfunc, errors, types
from numba.extending import overload

from coopbandits.core import choice, draws, sources
from coopbandits.core.contract import Vector
from coopbandits.core.index import Index
from coopbandits.core.recommend import leader
from coopbandits.core.spelling import is_ours
from coopbandits.sim.cpu import choice_forms, leaves, noise, row_loops
from coopbandits.sim.cpu.choice_forms import best_of
from coopbandits.sim.cpu.compiling import alone, calling, inner, no_collections
from coopbandits.sim.digest import digest, names_in

# Custom index functions that fail when compiled where they fail in plain Python.
#
# Compiled code would go on where Python raises: 1/0 would be ∞, log(−1) NaN. So custom functions
# are compiled with Python's rules for division and with the functions of `math` below. A C
# function cannot raise, so each function of an index is called through a guard, which turns an
# exception into a result that `choice_forms` looks for. The driver then plays the run again in
# plain Python, up to the round that failed, and raises what happens there (`runs.py`).
#
# One operator is left: `x**y` with a zero base or an overflow stays infinite when compiled.


_ONE = (
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "erfc", "exp", "expm1",
    "gamma", "lgamma", "log", "log10", "log1p", "log2", "sin", "sinh", "sqrt", "tan", "tanh",
)  # fmt: skip
_TWO = ("fmod", "hypot", "pow")
"""Functions of `math` that raise on a domain error or an overflow, by their number of arguments."""


def _checked_one(function: Callable[[float], float]) -> Any:
    def checked(x: Any) -> float:
        found = function(x)
        if found - found != 0.0 and x - x == 0.0:  # not finite, of a finite number
            raise ValueError("math domain or range error")
        return found

    return alone(checked, forceinline=True)


def _checked_two(function: Callable[[float, float], float]) -> Any:
    def checked(x: Any, y: Any) -> float:
        found = function(x, y)
        if found - found != 0.0 and x - x == 0.0 and y - y == 0.0:
            raise ValueError("math domain or range error")
        return found

    return alone(checked, forceinline=True)


CHECKED: dict[Any, Any] = {
    **{getattr(math, name): _checked_one(getattr(math, name)) for name in _ONE},
    **{getattr(math, name): _checked_two(getattr(math, name)) for name in _TWO},
}
"""Functions of `math` → forms that raise as they do; compiled where they are used."""

CHECKED_MATH = ModuleType("math")
CHECKED_MATH.__dict__.update(
    {name: CHECKED.get(value, value) for name, value in vars(math).items() if value.__hash__}
)


def checked_value(value: Any) -> Any:
    """Return what custom compiled code uses in place of `math` and its functions."""
    if value is math:
        return CHECKED_MATH
    return CHECKED.get(value, value) if callable(value) and value.__hash__ else value


def _guarded_prepare(prepare: Any) -> Any:
    def guard(estimate: Any, word: Any, numbers: Any, scratch: Any) -> bool:
        try:
            prepare(estimate, word, numbers, scratch)
        except Exception:
            return False
        return True

    return guard


def _guarded_value(value: Any) -> Any:
    def guard(arm: Any, estimate: Any, word: Any, numbers: Any, scratch: Any) -> float:
        try:
            return float(value(arm, estimate, word, numbers, scratch))
        except Exception:
            return math.nan

    return guard


def _guarded_pick(pick: Any) -> Any:
    def guard(values: Any, estimate: Any, word: Any, numbers: Any, scratch: Any) -> Any:
        try:
            return int(pick(values, estimate, word, numbers, scratch))
        except Exception:
            return -1

    return guard


def _guarded_bonus(bonus: Any) -> Any:
    def guard(estimate: Any, numbers: Any, scratch: Any) -> tuple[float, float]:
        try:
            growth, offset = bonus(estimate, numbers, scratch)
            return float(growth), float(offset)
        except Exception:
            return math.nan, math.nan

    return guard


_GUARDS = {
    "prepare": _guarded_prepare,
    "value": _guarded_value,
    "bound": _guarded_value,
    "bonus": _guarded_bonus,
    "pick": _guarded_pick,
}


def guarded(name: str, function: Any) -> Any:
    """Return a compiled function of an index so that it does not raise.

    `prepare` returns whether it succeeded, `pick` −1 if it failed; the others return NaN.
    """
    guard = _GUARDS.get(name)
    return function if guard is None else alone(guard(function), forceinline=True)


_FLOATS = types.CPointer(types.float64)
_WHOLE = types.int64
SIGNATURE = _WHOLE(
    _FLOATS, _WHOLE, _FLOATS, _WHOLE, types.CPointer(types.uint64), _WHOLE, _FLOATS, _WHOLE,
    _FLOATS, _FLOATS, types.CPointer(types.int64), _WHOLE, _WHOLE, _WHOLE, _WHOLE,
)  # fmt: skip
choose = calling(SIGNATURE)
"""Calls the choice at an address for agents `start` … `end` − 1; see `choice_forms`."""

_EXPLORATIONS = _WHOLE(_FLOATS, _WHOLE, types.float64, _FLOATS, _FLOATS, _FLOATS)
_POINTER = ctypes.POINTER(ctypes.c_double)

_LEAVES: dict[Any, Any] = {
    draws.word_at: leaves.word_at,
    draws.uniform_of: leaves.uniform,
    draws.remainder_of: leaves.remainder_of,
    draws.normal_of: leaves.normal_of,
    draws.gamma_of: leaves.gamma_of,
    draws.normal_quantile: leaves.normal_quantile,
    draws.word_of: leaves.word_of,
    sources.laplace_of: noise.laplace_of,
    **row_loops.ROWS,
    **leaves.VIEWS,
}
"""Compiled forms of functions that work on Python's own whole numbers, and of what they call."""


def _use_leaf(function: Any, leaf: Any) -> None:
    """Let compiled code call a leaf under the name of its original, such as ``cb.normal_of``."""
    body = {
        1: lambda a: lambda a: leaf(a),
        2: lambda a, b: lambda a, b: leaf(a, b),
        3: lambda a, b, c: lambda a, b, c: leaf(a, b, c),
        4: lambda a, b, c, d: lambda a, b, c, d: leaf(a, b, c, d),
        5: lambda a, b, c, d, e: lambda a, b, c, d, e: leaf(a, b, c, d, e),
        6: lambda a, b, c, d, e, f: lambda a, b, c, d, e, f: leaf(a, b, c, d, e, f),
    }[function.__code__.co_argcount]
    overload(function, strict=False)(body)


for _function, _leaf in _LEAVES.items():
    _use_leaf(_function, _leaf)


class CannotCompileError(Exception):
    """numba cannot compile somebody's function; the message is its first sentence."""


class Compiled:
    """A compiled C function.

    Attributes
    ----------
    address : int
        Where it stands; valid as long as this object lives.
    """

    def __init__(self, function: Any) -> None:
        self.function = function
        self.address: int = function.address


_PACKAGE = __name__.partition(".")[0] + "."

_made: dict[str, Compiled] = {}
_inner: dict[str, Any] = {}
"""Compiled choices, and functions that these call, by what they are made of."""

_digests: dict[tuple[Any, ...], str] = {}


def compiled_choice(
    index: Index, *, is_masked: bool = False, is_stopping: bool = False, is_apart: bool = False
) -> Compiled:
    """Return the compiled choice of an index, from memory, from disk, or made now.

    One that `is_masked` reads which arms an agent may play, and one that `is_stopping` notes when
    an agent may stop, by certified pulls that may be kept apart; see `choice_forms.by_value`.
    """
    form, functions = _plain(index) if is_masked or is_stopping else _ingredients(index)
    if is_stopping:
        functions["leader"] = leader
    flags = {"IS_MASKED": is_masked, "IS_STOPPING": is_stopping, "IS_APART": is_apart}
    return _filed(index, form, functions, SIGNATURE, flags)


def compiled_linear_choice(index: Index, disjoint: bool, *, is_masked: bool = False) -> Compiled:
    """Return the same of an index on linear models."""
    functions = {"prepare": index.prepare, "value": index.value}
    constants = {"IS_RANDOM": index.random, "IS_DISJOINT": disjoint, "IS_MASKED": is_masked}
    owner = type(index).__name__
    return filed(owner, choice_forms.by_features, functions, constants, SIGNATURE)


def explorations(index: Index, times: Vector, num_agents: float, numbers: Vector) -> Vector | None:
    """Return a of an index s/n + √(a/n) at many times; None if it turns out to be another one.

    Parameters
    ----------
    index : Index
        One that declares a bonus.
    numbers : array
        The index's numbers.
    """
    functions = {"prepare": index.prepare, "bonus": index.bonus}
    made = _filed(index, choice_forms.explorations, functions, _EXPLORATIONS)
    found, scratch = np.empty(len(times)), np.empty(1 + index.scratch_size(1))
    given = [array.ctypes.data_as(_POINTER) for array in (times, numbers, scratch, found)]
    is_plain = made.function.ctypes(given[0], len(times), num_agents, *given[1:])
    return found if is_plain else None


def declares_bonus(index: Index) -> bool:
    """Tell whether an index is the mean and a root, alike for all agents at the same time."""
    return index.pick is None and index.bonus is not None and index.prepare_reads == "time"


def _filed(
    index: Index,
    form: Any,
    functions: dict[str, Any],
    signature: Any,
    flags: Mapping[str, bool] = MappingProxyType({}),
) -> Compiled:
    constants = {
        "READS_WORD": index.prepare_reads == "word",
        "READS_ARMS": index.prepare_reads == "arms",
        "IS_RANDOM": index.random,
        "IS_CHECKED": not is_ours(index),  # tests hold ours to be numbers
        **flags,
        "LEAST": choice.NO_INFORMATION,
    }
    return filed(type(index).__name__, form, functions, constants, signature)


def filed(
    owner: str, form: Any, functions: dict[str, Any], constants: dict[str, Any], signature: Any
) -> Compiled:
    """Return a form with functions put in: from memory, from disk, or compiled now."""
    key = _digest_of(form, functions, constants)
    if key not in _made:
        scope = _scope(functions, constants.get("IS_CHECKED"))
        source = form(key)
        made = FunctionType(
            source.__code__,
            {**source.__globals__, **constants, **scope},
            f"{source.__name__}_{owner}",
            None,
            source.__closure__,
        )
        try:
            with file_lock(), no_collections():
                _made[key] = Compiled(cfunc(signature, cache=True, error_model="numpy")(made))
        except (
            errors.NumbaError,
            errors.UnsupportedBytecodeError,
        ) as error:  # the second is none of the first
            raise CannotCompileError(first_line(error)) from error
    return _made[key]


def _scope(functions: dict[str, Any], is_checked: bool | None) -> dict[str, Any]:
    """Return functions compiled: those of a custom index guarded, others as they are."""
    if is_checked:
        return {name: guarded(name, _compiled(each, True)) for name, each in functions.items()}
    scope = {name: _compiled(function, False) for name, function in functions.items()}
    if is_checked is not None:
        scope["prepare"] = _succeeding(scope["prepare"])
    return scope


def _succeeding(prepare: Any) -> Any:
    def done(estimate: Any, word: Any, numbers: Any, scratch: Any) -> bool:
        prepare(estimate, word, numbers, scratch)
        return True

    return inner(done, forceinline=True)


def _digest_of(form: Any, functions: dict[str, Any], constants: dict[str, Any]) -> str:
    """Return the digest of all, found once where it is all ours, which nobody edits meanwhile."""
    made_of = (form, functions, constants)
    if not all(_is_of_package(function) for function in functions.values()):
        return digest(made_of)
    key = (form, *functions.items(), *constants.items())
    if key not in _digests:
        _digests[key] = digest(made_of)
    return _digests[key]


def _is_of_package(function: Any) -> bool:
    return isinstance(function, FunctionType) and function.__module__.startswith(_PACKAGE)


_SPOT = re.compile(r'(?:During: .* at |File ")(.+?)(?: \(|", line )(\d+)[):]*$')
"""Where numba says that it got stuck; the innermost place comes first."""

_OWN_FOLDERS = (str(Path(__file__).parents[2]), str(Path(numba.__file__).parent))


def first_line(error: Exception) -> str:
    """Return the most useful part of numba's message: in the user's own file, with the line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    noise = ("Failed", "During", "File", "Rejected", "Overload", "raised from", "- ", "There are")
    telling = [line for line in lines if not line.startswith(noise)]
    for at, line in enumerate(lines):
        spot = _SPOT.match(line)
        if spot is None or spot[1].startswith("<"):
            continue
        path, number = str(Path(spot[1]).resolve()), int(spot[2])
        if path.startswith(_OWN_FOLDERS):
            continue
        reasons = [
            line
            for line, following in pairwise(lines[: at + 1])
            if following.startswith(("File", "During"))
            and not line.startswith(noise)
            and line.strip("^~")
        ]
        code = linecache.getline(path, number).strip()
        return f"{reasons[-1] if reasons else 'unknown reason'}; {path}:{number}: {code}"
    return (telling or lines or ["no reason given"])[0]


def _ingredients(index: Index) -> tuple[Any, dict[str, Any]]:
    """Return the form of an index's choice, and its functions."""
    functions: dict[str, Any] = {"prepare": index.prepare, "value": index.value}
    if declares_bonus(index):
        return choice_forms.by_bonus, {**functions, "bonus": index.bonus}
    if index.pick is None and index.bound is not None:
        return choice_forms.by_bound, {**functions, "bound": index.bound}
    return _plain(index)


def _plain(index: Index) -> tuple[Any, dict[str, Any]]:
    """Return the form that looks at every arm, and the functions in it."""
    functions: dict[str, Any] = {"prepare": index.prepare, "value": index.value}
    return choice_forms.by_value, {**functions, "pick": index.pick or _largest}


def _largest(values: Any, estimate: Any, word: Any, numbers: Any, scratch: Any) -> Any:
    return best_of(values)


def compiled_function(function: Any) -> Any:
    """Return a function of an aggregation compiled: checked where it is not ours."""
    return _compiled(function, not _is_of_package(function))


def _compiled(function: Any, is_checked: bool, within: frozenset[str] = frozenset()) -> Any:
    """Return a function compiled, and all plain functions that it calls by name.

    One that `is_checked` raises where Python would, unless it is ours. `within` are those for which
    it is needed: a function that calls itself would have no end.
    """
    if function in _LEAVES:
        return _LEAVES[function]
    if not isinstance(function, FunctionType):
        return function
    key = digest((function, is_checked))
    if key in within:
        raise CannotCompileError(f"function {function.__name__} calls itself")
    if key not in _inner:
        is_checked = is_checked and not _is_of_package(function)
        copy = _with_compiled_names(function, is_checked, within | {key})
        # Of what is wrong with a custom function numba speaks more clearly than `inner`, which also
        # knows of no exceptions.
        is_plain = all(map(_is_of_package, [function, *_wrapped(function)]))
        make = inner if is_plain else alone
        model = {"error_model": "python", "boundscheck": True} if is_checked else {}
        _inner[key] = make(copy, forceinline=True, **model)
    return _inner[key]


def _wrapped(function: FunctionType) -> list[FunctionType]:
    """Return the functions around which a function is wrapped."""
    held = [cell.cell_contents for cell in function.__closure__ or ()]
    return [value for value in held if isinstance(value, FunctionType)]


def _with_compiled_names(
    function: FunctionType, is_checked: bool, within: frozenset[str]
) -> FunctionType:
    """Return a copy of a function that calls others in their compiled form."""
    custom = [each for each in _wrapped(function) if not _is_of_package(each)]
    names = set(names_in(function.__code__))

    def compiled_value(value: Any) -> Any:
        if isinstance(value, FunctionType):
            return _compiled(value, is_checked or value in custom, within)
        if isinstance(value, type) and (functions := _static_functions(value, names)):
            # numba knows no classes, but modules, of which functions can be called by name as well.
            module = ModuleType(value.__name__)
            vars(module).update({name: compiled_value(functions[name]) for name in functions})
            return module
        return checked_value(value) if is_checked else value

    # numba imports the module of what it filed: one that is there wherever this is.
    scope = {**function.__globals__, "__name__": __name__}
    for name in sorted(names & function.__globals__.keys()):
        scope[name] = compiled_value(function.__globals__[name])
    cells = tuple(
        CellType(compiled_value(cell.cell_contents)) for cell in function.__closure__ or ()
    )
    return FunctionType(function.__code__, scope, function.__name__, function.__defaults__, cells)


def _static_functions(cls: type, names: set[str]) -> dict[str, Any]:
    """Return the static functions of a class that have one of some names."""
    found = {name: inspect.getattr_static(cls, name, None) for name in sorted(names)}
    return {name: each.__func__ for name, each in found.items() if isinstance(each, staticmethod)}


@contextlib.contextmanager
def file_lock() -> Iterator[None]:
    """Let one process at a time store a choice: numba would give two the same place."""
    folder = Path(leaves.cache_folder())
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # where nothing can be written, nothing is filed
            folder.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context((folder / "choices.lock").open("w"))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
