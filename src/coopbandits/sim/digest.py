"""Digests of code: two that are equal mean functions, or classes, that do the same.

A digest covers functions, all that they call, and the globals that they read. It goes by compiled
code: comments play no part, and another version of Python may make another digest.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cached_property, partial, partialmethod
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from coopbandits.core.registry import MAIN

LIBRARIES = frozenset({"numba", "numpy", *sys.stdlib_module_names})
PACKAGE = __name__.partition(".")[0]
ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")
"""Where something lies in memory, which differs between processes."""
SHOWN = 16
"""Digits of a digest that stands among settings."""


def digest(value: Any) -> str:
    """Return a digest of functions, of all that they call, and of the globals that they read."""
    total = hashlib.sha256()
    # Functions of libraries count by name.
    _feed(total.update, value, set(), lambda module: _top(module) in LIBRARIES)
    return total.hexdigest()


def own_code(*things: Any) -> dict[str, str]:
    """Return the digests of classes that are not ours, by name: of things and all they hold."""
    found: dict[str, str] = {}
    for cls in dict.fromkeys(_own_classes(things, set())):
        total = hashlib.sha256()
        _feed(total.update, cls, set(), partial(_is_elsewhere, home=_top(cls.__module__)))
        module = "__main__" if cls.__module__ in MAIN else cls.__module__
        found[f"{module}.{cls.__qualname__}"] = total.hexdigest()[:SHOWN]
    return dict(sorted(found.items()))


def _own_classes(things: Iterable[Any], seen: set[int]) -> Iterator[type]:
    """Yield the classes that are not ours, of things and what they hold: parts, inner problems."""
    for thing in things:
        if isinstance(thing, tuple | list):
            yield from _own_classes(thing, seen)
        elif id(thing) not in seen and PACKAGE in (_top(c.__module__) for c in type(thing).__mro__):
            seen.add(id(thing))
            if _top(type(thing).__module__) != PACKAGE:
                yield type(thing)
            held = list(getattr(thing, "__dict__", {}).values())
            # What a policy or an index is made of, it makes when it is asked.
            made = [getattr(thing, name, None) for name in ("parts", "statistic")]
            yield from _own_classes([*held, *made], seen)


def _feed(
    tell: Callable[[bytes], None], value: Any, seen: set[int], is_stable: Callable[[str], bool]
) -> None:
    enter = partial(_feed, tell, seen=seen, is_stable=is_stable)
    if isinstance(value, FunctionType):
        if id(value) not in seen:
            seen.add(id(value))
            _feed_function(tell, value, enter, is_stable)
    elif isinstance(value, CodeType):
        tell(value.co_code)
        tell(repr((value.co_names, value.co_varnames, value.co_freevars)).encode())
        enter(value.co_consts)
    elif isinstance(value, tuple | list):
        for part in value:
            enter(part)
    elif isinstance(value, dict):
        for key in sorted(value, key=str):
            tell(str(key).encode())
            enter(value[key])
    elif isinstance(value, set | frozenset):
        enter(sorted(value, key=repr))  # in no order of its own
    elif isinstance(value, ModuleType):
        tell(value.__name__.encode())
    elif isinstance(value, np.ndarray):
        tell(repr((value.shape, value.dtype)).encode() + value.tobytes())  # its repr leaves out
    elif hasattr(value, "py_func"):  # a function that numba has compiled
        enter(value.py_func)
    elif hasattr(value, "__wrapped__"):  # one that remembers its results; its repr is an address
        enter(value.__wrapped__)
    elif isinstance(value, type):
        if id(value) not in seen and not is_stable(value.__module__):
            seen.add(id(value))
            tell(repr([parent.__qualname__ for parent in value.__mro__]).encode())
            enter(value.__mro__[1:])
            enter(_written(value))
    elif isinstance(value, MethodType):
        enter(value.__func__)
    elif isinstance(value, partial | partialmethod) and not _is_package(_home(value.func)):
        enter((value.func, value.args, value.keywords))
    else:
        shown = repr(value)
        tell(ADDRESS.sub("", shown).encode())
        says_nothing = shown == object.__repr__(value)  # no more than its class
        home = _home(type(value))
        if says_nothing or not (_is_package(home) or _is_installed(home)):
            enter(type(value))  # whose methods no repr tells
        if says_nothing:
            enter(getattr(value, "__dict__", {}))


def _feed_function(
    tell: Callable[[bytes], None],
    function: FunctionType,
    enter: Callable[[Any], None],
    is_stable: Callable[[str], bool],
) -> None:
    """Feed its code, and all that the code reads from around it."""
    if is_stable(function.__module__):
        tell(function.__qualname__.encode())
        return
    enter(function.__code__)
    enter(function.__defaults__)
    if function.__kwdefaults__ and not _is_package(function.__module__):
        enter(function.__kwdefaults__)
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # a cell that nothing was put in yet
            enter(cell.cell_contents)
    names = sorted(set(names_in(function.__code__)))
    for name in names:
        if name in function.__globals__:
            tell(name.encode())
            found = function.__globals__[name]
            enter(found)
            if isinstance(found, ModuleType) and not is_stable(found.__name__):
                for members in _members(found, names, is_stable, set()):
                    enter(members)


def _members(
    module: ModuleType, names: list[str], is_stable: Callable[[str], bool], seen: set[int]
) -> Iterator[dict[str, Any]]:
    """Yield what code with these names may read of a module, and of modules in it."""
    seen.add(id(module))
    members = {name: vars(module)[name] for name in names if name in vars(module)}
    yield members
    for inner in members.values():
        if not isinstance(inner, ModuleType) or id(inner) in seen:
            continue
        if not is_stable(inner.__name__) and not _is_package(inner.__name__):
            yield from _members(inner, names, is_stable, seen)


def _written(cls: type) -> dict[str, Any]:
    """Return what is written in a class: functions and values, not what Python adds."""
    found: dict[str, Any] = {}
    for name, value in vars(cls).items():
        if isinstance(value, staticmethod | classmethod):
            value = value.__func__
        elif isinstance(value, property):
            value = (value.fget, value.fset)
        elif isinstance(value, cached_property):
            value = value.func
        is_function = isinstance(value, FunctionType)
        if is_function and value.__code__.co_filename == "<string>" and name.startswith("__"):
            continue  # a dataclass makes it of its fields
        if is_function or not name.startswith(("__", "_abc_")):
            found[name] = value
    return found


def names_in(code: CodeType) -> Iterator[str]:
    """Yield the names that code looks up, in nested functions too."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_in(constant)


def _top(module: str) -> str:
    return module.partition(".")[0]


def _home(function: Any) -> str:
    """Return the module of a function; those of Python itself may have none."""
    return getattr(function, "__module__", None) or ""


def _is_package(module: str) -> bool:
    """Tell whether a module is ours: what digests of ours leave out, they always left out."""
    return _top(module) == PACKAGE


def _is_elsewhere(module: str, home: str) -> bool:
    """Tell whether a module is not of a custom package: ours and installed ones count by name."""
    top = _top(module)
    if top == home:
        return False
    if top == PACKAGE or top in LIBRARIES:
        return True
    return _is_installed(module)


def _is_installed(module: str) -> bool:
    file = getattr(sys.modules.get(_top(module)), "__file__", None) or ""
    return "site-packages" in file or "dist-packages" in file
