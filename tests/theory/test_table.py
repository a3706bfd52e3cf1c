from __future__ import annotations

import pytest

from coopbandits.core import DDUCB, IndependentUCB, InputError, parse_policy
from coopbandits.core.spelling import Named
from coopbandits.network import Network
from coopbandits.problems import BernoulliBandit, GaussianBandit
from coopbandits.theory import as_analysed, coop_ucb_bound, table, worst_arm_regret

PAPER = GaussianBandit([1.0] + [0.8] * 16)
CYCLE = Network.from_spec("cycle:100")
NAMES = [
    "finite-time bound",
    "sharper finite-time bound",
    "asymptotic shape",
    "instance-independent shape",
    "coop-UCB bound, γ = 2",
    "Lai–Robbins lower bound",
    "lower-bound shape",
    "always the worst arm",
]


def test_the_papers_setting() -> None:
    rows = table(PAPER, CYCLE, as_analysed(DDUCB()), 10_000)
    assert [row.name for row in rows] == NAMES
    assert all(row.refusal is None and row.assumptions for row in rows)
    values = {row.name: row.value for row in rows}
    assert values["finite-time bound"] == pytest.approx(353_796, abs=0.5)
    assert values["always the worst arm"] == pytest.approx(200_000)


def test_only_upper_bounds_can_be_vacuous() -> None:
    rows = table(PAPER, CYCLE, as_analysed(DDUCB()), 10_000)
    assert {row.name: row.vacuous for row in rows if row.vacuous is not None} == {
        "finite-time bound": True,
        "sharper finite-time bound": False,
        "coop-UCB bound, γ = 2": True,
    }


def test_rows_without_a_value_say_why() -> None:
    rows = table(PAPER, CYCLE, DDUCB(), 10_000)
    for row in rows[:4]:
        assert row.value is None
        assert row.vacuous is None
        assert row.refusal is not None
        assert "bonus_factor=4" in row.refusal
    assert all(row.value is not None for row in rows[4:])


@pytest.mark.parametrize("policy", [IndependentUCB(), parse_policy("central-ucb")])
def test_other_policies_and_problems(policy: Named) -> None:
    rows = table(BernoulliBandit([0.5, 0.25]), CYCLE, policy, 100)
    missing = [row.name for row in rows if row.value is None]
    assert missing == [*NAMES[:4], "Lai–Robbins lower bound"]


def test_gamma() -> None:
    row = table(PAPER, CYCLE, DDUCB(), 100, gamma=1.01)[4]
    assert row.name == "coop-UCB bound, γ = 1.01"
    assert row.value == coop_ucb_bound(PAPER, CYCLE, 1.01, 100)


def test_wrong_arguments_are_no_rows() -> None:
    with pytest.raises(InputError, match=r"horizon.* 0\b"):
        table(PAPER, CYCLE, DDUCB(), 0)
    with pytest.raises(InputError, match=r"gamma.* 1\b"):
        table(PAPER, CYCLE, DDUCB(), 10, gamma=1)


def test_worst_arm_is_the_last_row() -> None:
    rows = table(PAPER, CYCLE, DDUCB(), 10)
    assert rows[-1].value == worst_arm_regret(PAPER, CYCLE, 10)
    assert rows[-1].kind == "regret"
