"""An agent process loads numpy and nothing heavier."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("scipy", "numba", "networkx", "matplotlib", "xarray", "rich", "typer")


def test_core_needs_numpy_alone() -> None:
    code = (
        "import sys; from coopbandits.core import *\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], 'numpy' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[] True"


def test_public_names_exist() -> None:
    import coopbandits.core as core

    assert all(hasattr(core, name) for name in core.__all__)
    assert sorted(core.__all__) == sorted(set(core.__all__))


def test_unknown_names_are_no_attributes() -> None:
    import coopbandits.core as core

    assert not hasattr(core, "no_such_name")
