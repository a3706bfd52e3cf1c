"""What `coopbandits doctor` tries in a process of its own, since it may crash or hang.

Every step prints one line of JSON before it begins and one when it is done; a step without the
second line is where the process ended.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any


def engine() -> dict[str, Any]:
    """Compile a small function and read it back from the cache; tell where that is."""
    import numpy as np

    from coopbandits.sim.cpu import leaves

    if leaves.best_arm(np.array([0.0, 1.0])) != 1:
        raise RuntimeError("a compiled function returned the wrong number")
    return {"folder": str(leaves.cache_folder()), "bytes": _size(leaves.cache_folder())}


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("*.nb[ic]"))


def figures() -> dict[str, Any]:
    """Tell where matplotlib keeps its list of fonts."""
    import matplotlib as mpl

    return {"folder": mpl.get_cachedir()}


def offers() -> dict[str, Any]:
    """Load what other packages offer under our entry points; tell how many, and what failed."""
    from importlib.metadata import entry_points

    from coopbandits.cli.lists import REGISTRIES, registry_of
    from coopbandits.core.errors import InputError

    loaded, failed = 0, []
    for registry in map(registry_of, REGISTRIES):
        offered = entry_points(group=registry.group)
        own = {entry.name for entry in offered if entry.value.startswith("coopbandits.")}
        for name in (name for name in registry.offered() if name not in own):
            try:
                registry.find(name)
                loaded += 1
            except InputError as error:
                failed.append(str(error))
    return {"loaded": loaded, "failed": failed}


def import_one(name: str) -> dict[str, Any]:
    """Import a library; its distribution's name is its module's, but for dashes."""
    import_module(name.replace("-", "_"))
    return {}


def try_step(name: str, step: Callable[[], dict[str, Any]]) -> None:
    """Print the name of a step, do it, and print what came of it."""
    print(json.dumps({"step": name}), flush=True)  # noqa: T201  to its parent
    try:
        told = step()
    except (Exception, SystemExit) as error:
        told = {"error": " ".join(f"{type(error).__name__}: {error}".split())}
    print(json.dumps({"step": name} | {"done": True} | told), flush=True)  # noqa: T201  to its parent


def main(modules: list[str]) -> None:
    """Import these modules, then try what needs them."""
    for name in modules:
        try_step(f"import {name}", partial(import_one, name))
    for step in (engine, figures, offers):
        try_step(step.__name__, step)


if __name__ == "__main__":
    main(sys.argv[1:])
