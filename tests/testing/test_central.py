"""The central contract: every central policy keeps it, every check catches what it is for."""

from __future__ import annotations

from typing import Any

import pytest

from coopbandits.core import (
    DDUCB,
    INDICES,
    CentralPolicy,
    CentralTotals,
    CentralTS,
    CentralUCB,
    CentredDraw,
    DelayedCentralUCB,
    Index,
    InputError,
    combine,
    parse_policy,
)
from coopbandits.core.registry import EXAMPLES
from coopbandits.testing import PolicyCheckError, check_central_policy, check_policy
from coopbandits.testing.central import CENTRAL_CHECKS

from . import broken_central as broken
from . import broken_index
from .broken_central import Plain, UsingController

pytestmark = pytest.mark.plays

CENTRAL = [p for p in map(parse_policy, EXAMPLES) if isinstance(p, CentralPolicy)]


def with_index(index: Index) -> Any:
    return combine(CentralTotals(), index)


BROKEN: dict[str, tuple[Any, ...]] = {
    "settings": (
        CentralUCB,
        DDUCB(),
        broken.NumberedCentralPolicy(Plain),
        UsingController(lambda num_arms: None),
    ),
    "index value": (with_index(broken_index.NotANumber()),),
    "index random": (with_index(broken_index.SecretlyRandom()),),
    "index prepare": (with_index(broken_index.PreparesTheArms()),),
    "index values": (with_index(broken_index.OtherRows()),),
    "index bound": (with_index(broken_index.LowBound()),),
    "index bonus": (with_index(broken_index.HalfBonus()),),
    "choice": (UsingController(broken.OneTooFar), UsingController(broken.NumpyIntegers)),
    "determinism": (UsingController(broken.GlobalChance),),
    "choosing changes nothing": (
        UsingController(broken.CountsQuestions),
        UsingController(broken.PaysForQuestions),
    ),
    "totals": (UsingController(broken.Forgets), UsingController(broken.Discounts)),
    "nothing too early": (UsingController(broken.Peeks), UsingController(broken.PeeksByOneRound)),
    "nothing too late": (
        UsingController(broken.NeverLearns),
        UsingController(broken.LateWithinTheRound),
        UsingController(broken.LateByOneRound),
    ),
}


@pytest.mark.parametrize("policy", CENTRAL, ids=lambda policy: policy.spelling)
def test_every_central_policy_keeps_the_contract(policy: CentralPolicy) -> None:
    check_central_policy(policy)


@pytest.mark.parametrize("policy", CENTRAL, ids=lambda policy: policy.spelling)
def test_every_central_policy_keeps_the_contract_with_a_single_arm(policy: CentralPolicy) -> None:
    check_central_policy(policy, num_arms=1, rounds=8)


@pytest.mark.covering(2)
@pytest.mark.parametrize(
    "policy",
    [CentralTS("bernoulli"), DelayedCentralUCB(1), CentralUCB(0.1), UsingController(Plain)],
    ids=["bernoulli", "short delay", "small bonus", "own"],
)
@pytest.mark.parametrize("num_arms", [2, 7])
def test_variants_keep_the_contract(policy: CentralPolicy, num_arms: int) -> None:
    check_central_policy(policy, num_arms=num_arms, rounds=15, seed=3)


def test_every_check_has_a_broken_policy_and_says_what_it_demands() -> None:
    assert list(BROKEN) == [check.__name__.replace("_", " ") for check in CENTRAL_CHECKS]
    assert all(check.__doc__ for check in CENTRAL_CHECKS)


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        pytest.param(name, policy, id=f"{name}-{number}")
        for name, policies in BROKEN.items()
        for number, policy in enumerate(policies)
    ],
)
def test_a_broken_policy_is_caught_by_the_check_for_it(name: str, policy: Any) -> None:
    with pytest.raises(PolicyCheckError, match=rf"'{name}'.*expected") as caught:
        check_central_policy(policy)
    assert "\n" not in str(caught.value)


def test_each_checker_names_the_other_for_policies_that_are_not_its_own() -> None:
    with pytest.raises(PolicyCheckError, match="check_central_policy"):
        check_policy(CentralUCB())  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(PolicyCheckError, match="check_policy"):
        check_central_policy(DDUCB())  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize("wrong", [{"num_arms": 0}, {"rounds": 0}, {"seed": -1}])
def test_sizes_that_check_nothing_are_refused(wrong: dict[str, int]) -> None:
    ((name, value),) = wrong.items()
    with pytest.raises(InputError, match=f"{name}.*{value}"):
        check_central_policy(CentralUCB(), **wrong)


@pytest.mark.covering(4)
@pytest.mark.parametrize(
    "index", [*(kind() for kind in INDICES), CentredDraw("estimate")], ids=lambda i: i.spelling
)
def test_products_keep_the_contract(index: Index) -> None:
    check_central_policy(combine(CentralTotals(), index))
