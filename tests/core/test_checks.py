"""Numbers that settings may be."""

from __future__ import annotations

import re

import pytest

from coopbandits.core.checks import require_positive
from coopbandits.core.errors import InputError


@pytest.mark.parametrize("value", [10**400, -(10**400), 0, float("inf"), float("nan"), True, "1"])
def test_what_is_no_positive_number_gets_a_sentence(value: object) -> None:
    with pytest.raises(InputError, match=f"^sigma.* {re.escape(repr(value))}"):
        require_positive("sigma", value)


def test_positive_numbers_pass() -> None:
    for value in (1, 1e-300, 1e300, 10**300):
        require_positive("sigma", value)
