from __future__ import annotations

import math

import pytest

from coopbandits import InputError
from coopbandits.experiments.paper.oracles import (
    ORACLE,
    ORACLE_LINES,
    Agreement,
    agreement_row,
    agreement_table,
    compare_with_oracle,
    oracle_lines,
    require_oracle,
)

from .synthetic import make_played


def test_every_number_belongs_to_a_line() -> None:
    keys = {line.key for line in ORACLE_LINES}
    for figure, known in ORACLE.items():
        assert len(known) == 11
        assert known.keys() <= keys
        assert {line.key for line in oracle_lines(figure, ORACLE)} == known.keys()
    assert oracle_lines("cycle-200", ORACLE) == ()


def test_distance_in_combined_standard_errors() -> None:
    row = Agreement("cycle-100", "DDUCB", (1150.0, 30.0), (1000.0, 40.0))
    assert row.distance == pytest.approx(3.0)
    assert row.agrees
    assert agreement_row(row) == (
        *("cycle-100", "DDUCB", "1150 ± 30.0", "1000 ± 40.0", "+3.0 se", "ok"),
    )
    far = row._replace(ours=(795.0, 30.0))
    assert far.distance == pytest.approx(-4.1)
    assert agreement_row(far)[-1] == "differs"
    assert agreement_table([row, far]).startswith("1 of 2 final regrets agree")


def test_comparison_takes_what_the_oracle_has() -> None:
    oracle = {"cycle-100": {"dducb": (1000.0, 1.0), "plain": (10.0, 1.0)}, "other": {}}
    rows = compare_with_oracle([make_played("cycle-100"), make_played("grid-100")], oracle)
    assert [(row.figure, row.label, row.agrees) for row in rows] == [
        ("cycle-100", "DDUCB", True),
        ("cycle-100", "DDUCB plain", False),
    ]
    assert rows[0].ours == pytest.approx((1000.0, math.sqrt(20 / 4 / 5)))


def test_a_check_that_says_nothing_is_refused() -> None:
    require_oracle(["cycle-200", "grid-100"], 2, ORACLE)
    with pytest.raises(InputError, match=r"cycle-200.*cycle-100"):
        require_oracle(["cycle-200"], 10, ORACLE)
    with pytest.raises(InputError, match=r"runs.* 1\b.* 2\b"):
        require_oracle(["cycle-100"], 1, ORACLE)
