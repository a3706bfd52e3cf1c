"""The contract holds for every policy there is, and every check catches what it is for."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import pytest

from coopbandits.core import (
    AGGREGATIONS,
    DDUCB,
    INDICES,
    UCB,
    CentralPolicy,
    FloodedTotals,
    FloodTS,
    FloodUCB,
    GossipTS,
    IndependentTS,
    IndependentUCB,
    Index,
    InputError,
    LocalSums,
    Policy,
    Private,
    StagedMixing,
    TreeTS,
    at_source,
    combine,
    parse_policy,
    populate,
)
from coopbandits.core.registry import EXAMPLES
from coopbandits.literature import (
    DPE2,
    GSE,
    MPUCB,
    CoopUCB,
    CoopUCL,
    DecTS,
    Exp3Coop,
    GosInE,
    Liar,
    ResilientUCB,
)
from coopbandits.testing import PolicyCheckError, check_policy
from coopbandits.testing.policy import CHECKS
from coopbandits.testing.world import Trial

from ..core.pairs import covering, turned
from . import broken, broken_index, broken_post
from .broken_totals import (
    FOUND,
    Certifying,
    HearsTheLowest,
    KeepsArmZero,
    WeighsTheLowest,
    wrong,
)
from .honest import Honest, Pool, Pooled, Using
from .test_own_aggregation import Overflows

pytestmark = pytest.mark.plays

AGENT_POLICIES = [p for p in map(parse_policy, EXAMPLES) if isinstance(p, Policy)]
# One per aggregation is checked at full length, where most of what can go wrong would go wrong;
# `make test-slow` checks the others so, too.
FIRSTS = {p.parts and type(p.parts.aggregation): p for p in reversed(AGENT_POLICIES)}.values()
OTHERS = [p for p in AGENT_POLICIES if p not in FIRSTS]
AT_LENGTH = [*FIRSTS, *(pytest.param(p, marks=pytest.mark.slow) for p in OTHERS)]


def with_index(index: Index) -> Any:
    return combine(LocalSums(), index)


VARIANTS = (
    DDUCB(own_pulls=False),
    DDUCB(accelerated=False),
    DDUCB(neighbor_pulls=True),
    DDUCB(remix=True),
    DDUCB(remix=True, own_pulls=False),
    DDUCB(remix=True, neighbor_pulls=True),
    DDUCB(values_per_message=3),
    DDUCB(values_per_message=1, own_pulls=False, mixing_rounds=2),
    DDUCB(accelerated=False, mixing_rounds=1, num_agents=(2, 9)),
    CoopUCB(2.0, epsilon_c="landgren"),
    CoopUCL(1.5, prior_mean=0.5, prior_sigma=2.0),
    DecTS("bernoulli"),
    IndependentTS("bernoulli"),
    MPUCB(1),
    MPUCB(100),
    MPUCB(3, wait=3),
    DPE2("bernoulli"),
    GosInE(blocking=True),
    Exp3Coop(2, eta=0.1),
    ResilientUCB(0, 3.0),
    GSE(40, 0.5, 1.0),
    at_source(Private(1.0, 100), FloodUCB()),
    populate(ResilientUCB(), {Liar(): [0, 2], Liar("swap"): [1]}),
    GossipTS(sigma="estimate"),
    TreeTS("bernoulli"),
    TreeTS(sigma="estimate"),
    FloodTS(sigma="estimate"),
)

BROKEN: dict[str, tuple[Any, ...]] = {
    "settings": (
        DDUCB,
        broken.NumberedPolicy(Honest),
        broken.NeedyPolicy(Honest),
        broken.CuriousPolicy(Honest),
        Using(lambda view: None),  # type: ignore[arg-type,return-value]  # wrong on purpose
    ),
    "index value": tuple(map(with_index, (broken_index.NotANumber(), broken_index.NoFloat()))),
    "index random": tuple(
        map(with_index, (broken_index.SecretlyRandom(), broken_index.SecretlyRandomValue()))
    ),
    "index prepare": tuple(
        map(
            with_index,
            (
                broken_index.PreparesTheWord(),
                broken_index.PreparesTheArms(),
                broken_index.PreparesOwnNumbers(),
                broken_index.PreparesAnything(),
            ),
        )
    ),
    "index values": tuple(map(with_index, (broken_index.OtherRows(), broken_index.FewRows()))),
    "index bound": tuple(map(with_index, (broken_index.LowBound(), broken_index.FiniteBound()))),
    "index bonus": tuple(
        map(
            with_index,
            (broken_index.HalfBonus(), broken_index.BonusOfArms(), broken_index.FiniteUnseen()),
        )
    ),
    "message form": (
        Using(broken.SendsLists),
        Using(broken.SendsTwoMessages),
        Using(broken.SendsSinglePrecision),
        Using(broken.SendsInfinity),
    ),
    "choice": (
        Using(broken.IgnoresAllowed),
        Using(broken.ChoosesNumpyIntegers),
        Using(broken.ChoosesOneTooFar),
    ),
    "neighbors only": (Using(broken.SendsToAnybody),),
    "rewards in any order": (Using(broken.TakesLastArmOnly),),
    "plain state": (
        Using(broken.ExportsArrays),
        Using(broken.ExportsTuples),
        Using(broken.ExportsNaN),
        Using(broken.ExportsNoVersion),
        Using(broken.ExportsItself),
    ),
    "illegal rewards": (
        Using(broken.TakesNaN),
        Using(broken.CountsFromTheEnd),
        Using(broken.ChangesBeforeRefusing),
    ),
    "sending changes nothing": (
        Using(broken.ForgetsWhatItSent),
        Using(broken.NumbersItsMessages),
    ),
    "choosing changes nothing": (Using(broken.CountsChoices), Using(broken.SendsItsChoice)),
    "messages are copies": (
        Using(broken.SendsItsArray),
        Using(broken.KeepsTheArrayItGot),
        Using(broken.WritesOnTheArrayItGot),
    ),
    "determinism": (Using(broken.CountsGlobally),),
    "restart": (
        Using(broken.HasHiddenState),
        Using(broken.HasHiddenStateWithinTheRound),
    ),
    "foreign state": (
        Using(broken.TakesAnyVersion),
        Using(broken.TakesAnyNumberOfArms),
        Using(broken.ChangesBeforeRefusingState),
    ),
    "local knowledge": (Using(broken.WritesOnABlackboard), broken.KnowsAllViews()),
    "needs": (Using(broken_post.GuessesTheNetwork), Using(broken_post.DrawsOnItsWord)),
    "lost and late messages": (
        Using(broken_post.WaitsForAll),
        Using(broken_post.RemembersInSecret),
        Using(broken_post.TellsOfTheMissing),
    ),
    "repeated messages": (combine(broken_post.Refusing(), UCB()),),
    **{name: tuple(wrong(each) for each, _ in found) for name, found in FOUND.items()},
    "shares add up": (
        combine(broken_post.Greedy(), UCB()),
        combine(broken_post.GreedyMixed(), UCB()),
    ),
    "exact totals": (combine(broken_post.NewsOnly(), UCB()),),
    "compiled form": (combine(Overflows(), UCB()),),
}


def test_every_policy_is_checked_by_one_of_the_two_checkers() -> None:
    """The other one is `check_central_policy`, over the central ones of the same list."""
    central = [p for p in map(parse_policy, EXAMPLES) if isinstance(p, CentralPolicy)]
    spellings = sorted(policy.spelling for policy in (*AGENT_POLICIES, *central))
    assert spellings == sorted(EXAMPLES)


@pytest.mark.covering(3)
@pytest.mark.parametrize("policy", AT_LENGTH, ids=lambda policy: policy.spelling)
def test_every_registered_policy_keeps_the_contract(policy: Policy) -> None:
    check_policy(policy)


@pytest.mark.covering(5)
@pytest.mark.parametrize("policy", OTHERS, ids=lambda policy: policy.spelling)
def test_every_other_policy_keeps_the_contract_for_a_while(policy: Policy) -> None:
    check_policy(policy, num_arms=2, rounds=8)


@pytest.mark.covering(2)
@pytest.mark.parametrize("policy", AT_LENGTH, ids=lambda policy: policy.spelling)
def test_every_registered_policy_keeps_the_contract_with_a_single_arm(policy: Policy) -> None:
    check_policy(policy, num_arms=1, rounds=4)


@pytest.mark.slow
@pytest.mark.parametrize("policy", VARIANTS, ids=lambda policy: policy.spelling)
def test_every_variant_keeps_the_contract(policy: Policy) -> None:
    check_policy(policy, num_arms=2, rounds=10)


@pytest.mark.parametrize("num_arms", [1, 5])
def test_the_policy_under_the_broken_ones_keeps_the_contract(num_arms: int) -> None:
    check_policy(Using(Honest), num_arms=num_arms, rounds=10)


def test_every_check_has_a_broken_policy() -> None:
    assert list(BROKEN) == [check.__name__.replace("_", " ") for check in CHECKS]


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        pytest.param(
            name, policy, id=f"{name}-{number}", marks=[pytest.mark.slow] if number > 1 else []
        )
        for name, policies in BROKEN.items()
        if name not in FOUND  # those are caught, and explained, below
        for number, policy in enumerate(policies)
    ],
)
def test_a_broken_policy_is_caught_by_the_check_for_it(name: str, policy: Any) -> None:
    with pytest.raises(PolicyCheckError, match=rf"'{name}'.*expected") as caught:
        check_policy(policy, rounds=8)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("policy", "check", "names"),
    [
        (Using(broken_post.NeedsTheNetwork), "settings", '"num_agents"'),
        (Using(broken_post.NeedsMuch), "message form", '"epsilon_c:closed", "lambda_bound"'),
        (combine(broken_post.Forgetful(), UCB()), "settings", '"num_agents"'),
    ],
    ids=["at once", "in a round", "of a part"],
)
def test_a_forgotten_need_is_named(policy: Any, check: str, names: str) -> None:
    with pytest.raises(PolicyCheckError) as caught:
        check_policy(policy, rounds=8)
    message = str(caught.value)
    assert f"'{check}'" in message
    assert f"frozenset({{{names}}})" in message
    assert "\n" not in message


def test_a_need_that_is_forgotten_in_silence_is_named() -> None:
    with pytest.raises(PolicyCheckError, match=r"num_agents.*needs"):
        check_policy(Using(broken_post.GuessesTheNetwork), rounds=8)


def test_a_need_that_is_declared_or_not_the_reason_is_not_blamed() -> None:
    with pytest.raises(PolicyCheckError) as caught:
        check_policy(Using(broken_post.WaitsForAll), rounds=8)
    assert "needs" not in str(caught.value)

    class Declared(Using):
        @property
        def needs(self) -> frozenset[str]:
            return frozenset({"num_agents"})

    check_policy(Declared(broken_post.NeedsTheNetwork), rounds=8)


def test_a_synchronous_aggregation_is_held_to_what_it_promises_alone() -> None:
    """What does not declare to be robust may refuse what comes again."""

    class Unpromised(broken_post.Refusing):
        mode: ClassVar[str] = "synchronous"

    check_policy(combine(Unpromised(), UCB()), rounds=8)


@pytest.mark.parametrize(
    ("name", "machine", "sentence"),
    [(name, *found) for name, all_found in FOUND.items() for found in all_found],
)
def test_wrong_estimates_are_explained(name: str, machine: Any, sentence: str) -> None:
    with pytest.raises(PolicyCheckError, match=rf"'{name}'.*expected") as caught:
        check_policy(wrong(machine), rounds=2)
    assert re.search(sentence, str(caught.value))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("machine", "name"),
    [
        (HearsTheLowest, "renamed agents"),
        (WeighsTheLowest, "renamed agents"),
        (KeepsArmZero, "renamed arms"),
    ],
)
def test_who_declares_no_totals_is_still_held_to_symmetry(machine: Any, name: str) -> None:
    with pytest.raises(PolicyCheckError, match=rf"'{name}'.*names"):
        check_policy(wrong(machine, totals=False), rounds=2)


@pytest.mark.parametrize("num_arms", [1, 2, 4])
@pytest.mark.parametrize("machine", [Pool, Certifying])
def test_right_estimates_pass(machine: Any, num_arms: int) -> None:
    check_policy(wrong(machine), num_arms=num_arms, rounds=2)


@pytest.mark.parametrize(
    "spelling",
    [
        "neighborhood-sums:fair=true*ucb",
        "tree-sums:lazy=0.3*ucb",
        "tree-sums:spread=0.5*ucb",
        "flooded-totals:spread=0.5*ucb",
        "staged-mixing:num_agents=estimate,lambda_bound=estimate*ucb",
        "ledger-sums*ucb",
    ],
)
def test_settings_of_our_aggregations_have_right_estimates(spelling: str) -> None:
    policy = parse_policy(spelling)
    assert isinstance(policy, Policy)
    for check in CHECKS:
        if check.__module__.endswith(".totals"):
            check(Trial(policy, 3, 6, 0))


def test_every_check_tells_a_user_what_it_demands() -> None:
    assert all(check.__doc__ for check in CHECKS)


def test_another_seed_and_length_can_be_asked_for() -> None:
    check_policy(IndependentUCB(), num_arms=2, rounds=1, seed=2**63 - 1)


@pytest.mark.parametrize("wrong", [{"num_arms": 0}, {"rounds": 0}, {"seed": -1}])
def test_sizes_that_check_nothing_are_refused(wrong: dict[str, int]) -> None:
    ((name, value),) = wrong.items()
    with pytest.raises(InputError, match=f"{name}.*{value}"):
        check_policy(DDUCB(), **wrong)


def test_an_index_that_fills_too_much_is_caught() -> None:
    with pytest.raises(PolicyCheckError, match=r"'index value'.*IndexError"):
        check_policy(with_index(broken_index.WritesTooFar()), rounds=2)


@pytest.mark.covering
@pytest.mark.parametrize(
    "index",
    [broken_index.Mean(), broken_index.Noisy(), broken_index.Rows()],
    ids=["mean", "noisy", "rows"],
)
@pytest.mark.parametrize("aggregation", [FloodedTotals(), StagedMixing(mixing_rounds=2), Pooled()])
def test_products_of_own_parts_keep_the_contract(aggregation: Any, index: Any) -> None:
    check_policy(combine(aggregation, index), num_arms=2, rounds=6)


def test_an_own_aggregation_is_checked_like_ours() -> None:
    with pytest.raises(PolicyCheckError, match=r"'messages are copies'.*expected"):
        check_policy(combine(broken.LeakyPooled(), UCB()), rounds=6)


SPECS, FORMS = [kind() for kind in AGGREGATIONS], [kind() for kind in INDICES]
PRODUCTS = [combine(*pair) for pair in covering(SPECS, FORMS)]
OTHERS = [combine(*pair) for pair in covering(SPECS, turned(FORMS, 5))]


def test_every_part_is_in_some_product() -> None:
    assert {type(policy.index) for policy in PRODUCTS} == set(INDICES)
    assert {type(policy.aggregation) for policy in PRODUCTS} == set(AGGREGATIONS)


@pytest.mark.parametrize(
    "policy",
    [*PRODUCTS, *(pytest.param(each, marks=pytest.mark.slow) for each in OTHERS)],
    ids=lambda policy: policy.spelling,
)
def test_products_keep_the_contract(policy: Any) -> None:
    check_policy(policy, num_arms=2, rounds=4)


def test_a_policy_that_looks_at_features_is_not_checked_without_them() -> None:
    policy = parse_policy("tree-sums*lin-ts")
    assert isinstance(policy, Policy)
    with pytest.raises(InputError, match="features"):
        check_policy(policy)
