"""Spellings, and a policy of one's own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from coopbandits.core import (
    DDUCB,
    Agent,
    CentralUCB,
    IndependentUCB,
    LocalView,
    Policy,
    parse_policy,
)
from coopbandits.core.contract import Estimate
from coopbandits.core.errors import InputError
from coopbandits.core.policy import AnyPolicy
from coopbandits.core.registry import EXAMPLES
from coopbandits.core.spelling import is_ours, spell

from .fleet import make_agent, one_view, values_of


class OwnController(CentralUCB):
    def make_controller(self, num_arms: int, sigma: float, num_features: int = 0) -> Any:
        return super().make_controller(num_arms, sigma, num_features)


class NeitherKind(AnyPolicy):
    name: ClassVar[str] = "neither"


def test_engines_go_by_parts_where_a_class_makes_nothing_itself() -> None:
    assert DDUCB().plays_parts
    assert CentralUCB().plays_parts
    assert not OwnController().plays_parts
    assert not NeitherKind().plays_parts


def test_what_ships_is_told_from_what_is_somebodys_own() -> None:
    assert is_ours(DDUCB())
    assert not is_ours(OwnController())


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
    assert Lazy().spelling == f"{__name__}:Lazy"
    assert Lazy().needs == frozenset()
    assert Tuned().spelling == f"{__name__}:Tuned"
    assert Tuned(step=4.0).spelling == f"{__name__}:Tuned:step=4"
    assert make_agent(Lazy(), one_view()).choose(0) == 0


@pytest.mark.parametrize(
    ("text", "constant"),
    [
        ("dducb", 4.0), ("dducb:bonus_factor=4", 8.0), ("dducb:eta=3", 6.0),
        ("coop-ucb:gamma=2", 4.0), ("coop-ucb2:gamma=1.5", 3.0), ("independent-ucb", 2.0),
        ("ucb-network", 8.0), ("mp-ucb:hop_limit=2", 4.0), ("staged-mixing*ucb", 2.0),
        ("central-ucb:constant=3", 3.0), ("delayed-central-ucb:delay=10", 2.0),
        ("coop-ucl:gamma=2", None), ("dec-bayes-ucb", None), ("central-ts", None),
    ],
)  # fmt: skip
def test_bonus_constants(text: str, constant: float | None) -> None:
    assert parse_policy(text).bonus_constant == constant


BONUSES = [
    policy
    for policy in map(parse_policy, EXAMPLES)
    if policy.parts
    and policy.bonus_constant
    and not policy.name.startswith(("coop", "gosine"))  # inflated, and of ln(t + 1)
]


@pytest.mark.parametrize("policy", BONUSES, ids=lambda policy: policy.name)
def test_the_bonus_is_made_of_its_constant(policy: AnyPolicy) -> None:
    estimate = Estimate(np.array([5.0, 8.0]), np.array([10.0, 20.0]), time=30.0, num_agents=1.0)
    assert policy.parts is not None
    assert policy.bonus_constant is not None
    bonuses = np.sqrt(policy.bonus_constant * 0.25 * np.log(30.0) / estimate.counts)
    np.testing.assert_allclose(
        values_of(policy.parts.index, estimate, sigma=0.5) - bonuses, [0.5, 0.4]
    )


CONSTANTS = [
    text
    for text in (*EXAMPLES, "tree-sums*ucb", "tree-sums*inflated-ucb", "central-totals*moss")
    if parse_policy(text).bonus_constant is not None
]


@pytest.mark.parametrize("text", CONSTANTS)
def test_a_bonus_constant_can_be_set_without_knowing_its_setting(text: str) -> None:
    policy = parse_policy(text)
    other = policy.with_constant(5.0)
    assert other.bonus_constant == 5.0
    assert policy.bonus_constant is not None
    assert other.with_constant(policy.bonus_constant) == policy


def test_what_has_no_bonus_constant_stays_what_it_is() -> None:
    policy = parse_policy("dec-ts")
    assert policy.with_constant(5.0) is policy


@dataclass(frozen=True)
class Fixed(Lazy):
    """Somebody's, which does not say how its constant is set."""

    name: ClassVar[str] = "fixed"

    @property
    def bonus_constant(self) -> float:
        return 3.0


def test_a_constant_that_cannot_be_set_is_said_to_be_so() -> None:
    with pytest.raises(InputError, match=r"Fixed.*bonus constant"):
        Fixed().with_constant(5.0)
