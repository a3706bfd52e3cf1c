"""Spellings, and a policy of one's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from coopbandits.core import DDUCB, Agent, IndependentUCB, LocalView, Policy
from coopbandits.core.policy import spell

from .fleet import make_agent, one_view


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2.0, "2"), (2.5, "2.5"), (-3.0, "-3"), (1e-7, "1e-07"), (1e300, "1e+300"), (10.0, "10"),
        (True, "true"), (False, "false"), (None, "none"), (7, "7"), ((3, 20), "3..20"),
        ("closed", "closed"),
    ],
)  # fmt: skip
def test_spell(value: Any, text: str) -> None:
    assert spell(value) == text


def test_defaults_are_left_out() -> None:
    assert DDUCB().spelling == "dducb"
    assert DDUCB(eta=2.0, num_agents=None, own_pulls=True).spelling == "dducb"
    assert IndependentUCB().spelling == "independent-ucb"


def test_changed_settings_are_spelled_in_order() -> None:
    policy = DDUCB(values_per_message=4, own_pulls=False, eta=3.0, num_agents=(90, 120))
    assert policy.spelling == (
        "dducb:eta=3,own_pulls=false,values_per_message=4,num_agents=90..120"
    )


def test_equal_settings_are_equal_policies() -> None:
    assert DDUCB(eta=3) == DDUCB(eta=3.0)
    assert hash(DDUCB(eta=3)) == hash(DDUCB(eta=3.0))
    assert DDUCB(eta=3) != DDUCB()


class Lazy(Policy):
    """No dataclass, no settings: the least that is a policy."""

    name: ClassVar[str] = "lazy"

    def make_agent(self, view: LocalView) -> Agent:
        return IndependentUCB().make_agent(view)


@dataclass(frozen=True)
class Tuned(Lazy):
    step: float = 1.0
    name: ClassVar[str] = "tuned"


def test_a_policy_of_ones_own() -> None:
    assert Lazy().spelling == "lazy"
    assert Lazy().needs == frozenset()
    assert Tuned().spelling == "tuned"
    assert Tuned(step=4.0).spelling == "tuned:step=4"
    assert make_agent(Lazy(), one_view()).choose(0) == 0
