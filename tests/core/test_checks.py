"""Numbers that settings may be."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from coopbandits.core.checks import require_positive
from coopbandits.core.errors import InputError, unknown_name


@pytest.mark.parametrize("value", [10**400, -(10**400), 0, float("inf"), float("nan"), True, "1"])
def test_what_is_no_positive_number_gets_a_sentence(value: object) -> None:
    with pytest.raises(InputError, match=f"^sigma.* {re.escape(repr(value))}"):
        require_positive("sigma", value)


def test_positive_numbers_pass() -> None:
    for value in (1, 1e-300, 1e300, 10**300):
        require_positive("sigma", value)


def test_input_error_is_a_value_error() -> None:
    assert issubclass(InputError, ValueError)


def test_unknown_names_list_what_is_known_and_the_nearest() -> None:
    known = ["independent-ucb", "dducb"]
    for name, sentence in (
        ("ddubc", "policy 'ddubc'.*dducb, independent-ucb.*'dducb'"),
        ("xyzzy", "policy 'xyzzy'.*dducb, independent-ucb;[^']*$"),
    ):
        assert re.search(sentence, str(unknown_name("policy", name, known)))


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
