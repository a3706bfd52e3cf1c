"""Families of rewards: what `suited` changes, and which rewards an index is made for."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from coopbandits import (
    KLUCB,
    UCB,
    BetaDraw,
    CentralTotals,
    FloodTS,
    FloodUCB,
    InputError,
    LocalSums,
    Private,
    TopTwo,
    TreeSums,
    Truncated,
    at_source,
    combine,
    parse_policy,
    populate,
)
from coopbandits.core.index import ANY_REWARDS, UNIT_REWARDS
from coopbandits.core.policy import AnyPolicy
from coopbandits.core.registry import EXAMPLES, INDICES

POLICIES = [policy for policy in map(parse_policy, EXAMPLES) if hasattr(policy, "family")]


def test_every_posterior_and_every_divergence_has_a_family() -> None:
    assert {policy.name for policy in POLICIES} >= {
        "dec-ts", "dec-bayes-ucb", "dpe2", "dec-kl-ucb", "gossip-ts", "tree-ts", "flood-ts",
        "ledger-ts", "independent-ts", "central-ts",
    }  # fmt: skip
    assert {part.name for part in INDICES if hasattr(part(), "family")} >= {
        "bayes-ucb", "kl-ucb", "top-two",
    }  # fmt: skip


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_a_family_is_left_open_unless_it_is_named(policy: AnyPolicy) -> None:
    for family in ("gaussian", "bernoulli"):
        named = parse_policy(f"{policy.name}:family={family}")
        assert policy.suited(family) == named
        assert named.suited("bernoulli") is named
        assert named.suited("gaussian") is named
    assert policy.support == policy.suited("gaussian").support == ANY_REWARDS
    assert policy.suited("bernoulli").support == UNIT_REWARDS


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_where_nothing_is_known_it_is_gaussian(policy: AnyPolicy) -> None:
    parts, named = policy.parts, policy.suited("gaussian").parts
    assert parts is named is None or (
        parts is not None and named is not None and parts.index.suited("gaussian") == named.index
    )


def test_parts_of_pairs_are_suited() -> None:
    pair = combine(TreeSums(), TopTwo(beta=0.3))
    assert pair.suited("bernoulli") == combine(TreeSums(), TopTwo(0.3, "bernoulli"))
    plain = combine(LocalSums(), UCB(3))
    assert plain.suited("bernoulli") is plain


def test_so_is_every_member_of_a_population() -> None:
    several = populate(FloodTS(), {FloodTS(sigma="estimate"): [0], FloodTS("gaussian"): [1]})
    assert several.suited("bernoulli").spelling == (
        "flood-ts:family=bernoulli+flood-ts:family=bernoulli,sigma=estimate@0"
        "+flood-ts:family=gaussian@1"
    )


def test_a_source_that_changes_the_range_leaves_the_gaussian_family() -> None:
    assert at_source(Truncated(1), FloodTS()).suited("bernoulli") == at_source(
        Truncated(1), FloodTS("bernoulli")
    )
    assert at_source(Private(1.0, 9), FloodTS()).suited("bernoulli") == at_source(
        Private(1.0, 9), FloodTS("gaussian")
    )
    plain = at_source(Private(1.0, 9), FloodUCB())
    assert plain.suited("bernoulli") is plain


class Unit(KLUCB):
    """Somebody's index for rewards in [0, 1]."""

    support = (0.0, 1.0)


class Positive(UCB):
    """Another one, for rewards that are not negative."""

    support = (0.0, math.inf)


def test_supports() -> None:
    assert UCB().support == ANY_REWARDS
    assert BetaDraw().support == UNIT_REWARDS
    assert combine(LocalSums(), Unit()).support == UNIT_REWARDS
    assert combine(LocalSums(), Positive()).support == (0.0, math.inf)
    assert at_source(Private(1.0, 9), FloodUCB()).support == UNIT_REWARDS
    assert at_source(Private(math.inf, 9), FloodUCB()).support == ANY_REWARDS
    assert parse_policy("exp3-coop").support == ANY_REWARDS  # it clips


@pytest.mark.parametrize("ends", [[0, 1], (np.float64(0.0), Fraction(1))], ids=str)
def test_the_ends_of_a_support_are_read_as_floats(ends: Any) -> None:
    index = type("Whole", (UCB,), {"support": ends})()
    assert repr(combine(LocalSums(), index).support) == "(0.0, 1.0)"
    index = type("Huge", (UCB,), {"support": (-(10**400), 10**400)})()
    assert combine(LocalSums(), index).support == ANY_REWARDS


@pytest.mark.parametrize(
    "support",
    [
        None, 1.0, "01", (), (0.0,), (0.0, 0.5, 1.0), ("0", "1"), (0.0, None), (0.0, 1j),
        {0.0, 1.0}, {0.0: 1.0, 1.0: 0.0}, (False, True), (math.nan, 1.0), (0.0, math.nan),
        (1.0, 0.0), (0.5, 0.5), (math.inf, math.inf), (math.inf, -math.inf), (10**400, 1),
    ],
    ids=lambda each: str(each)[:20],
)  # fmt: skip
@pytest.mark.parametrize("aggregation", [LocalSums(), CentralTotals()], ids=lambda each: each.name)
def test_a_support_that_is_no_interval_is_refused(support: Any, aggregation: Any) -> None:
    policy = combine(aggregation, type("Own", (UCB,), {"support": support})())
    told = re.escape(repr(support))
    with pytest.raises(InputError, match=rf"^support of index \S+:Own is {told}; .*\(0\.0, 1\.0\)"):
        policy.support  # noqa: B018  it is read


@pytest.mark.parametrize(("index", "told"), [(Unit(), "0, 1"), (Positive(), "0, inf")])
def test_a_source_that_changes_the_range_is_refused(index: KLUCB | UCB, told: str) -> None:
    with pytest.raises(InputError, match=rf"\[{told}\].*private"):
        at_source(Private(1.0, 9), combine(LocalSums(), index))
    at_source(Truncated(1), combine(LocalSums(), index))
