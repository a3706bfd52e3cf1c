"""Sentences about unknown names."""

from __future__ import annotations

from coopbandits.core.errors import InputError, unknown_name


def test_input_error_is_a_value_error() -> None:
    assert issubclass(InputError, ValueError)


def test_unknown_name_suggests_the_nearest() -> None:
    error = unknown_name("policy", "ddubc", ["independent-ucb", "dducb"])
    assert str(error) == (
        "unknown policy 'ddubc'; known are dducb, independent-ucb; did you mean 'dducb'?"
    )


def test_unknown_name_lists_what_is_known_when_nothing_is_near() -> None:
    error = unknown_name("graph", "xyzzy", ["cycle", "grid"])
    assert str(error) == "unknown graph 'xyzzy'; known are cycle, grid; choose one of these."
