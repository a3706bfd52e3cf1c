"""Sentences about unknown names."""

from __future__ import annotations

import re

from coopbandits.core.errors import InputError, unknown_name


def test_input_error_is_a_value_error() -> None:
    assert issubclass(InputError, ValueError)


def test_unknown_names_list_what_is_known_and_the_nearest() -> None:
    known = ["independent-ucb", "dducb"]
    for name, sentence in (
        ("ddubc", "policy 'ddubc'.*dducb, independent-ucb.*'dducb'"),
        ("xyzzy", "policy 'xyzzy'.*dducb, independent-ucb;[^']*$"),
    ):
        assert re.search(sentence, str(unknown_name("policy", name, known)))
