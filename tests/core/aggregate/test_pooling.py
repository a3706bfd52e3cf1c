"""Partial pooling: its formula, its two ends, how sites are told apart, and what is refused."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import coopbandits as cb
from coopbandits.core.aggregate.pooling import (
    differences,
    pool,
    scatter,
    scatter_of,
    within,
)
from coopbandits.core.draws import normals, words
from coopbandits.core.statistic import ArmSums, SiteSums, VersionedRegisters
from coopbandits.testing import check_policy

from ..fleet import GRAPHS, drive, gossip_matrix, make_agents, rewards_tape

TOTALS = cb.Estimate(np.array([60.0, 24.0]), np.array([100.0, 60.0]), 160.0, 5.0, 1.25)
OWN = cb.Share(np.array([9.0, 1.0]), np.array([20.0, 10.0]))


def pooled(found: cb.Estimate, own: cb.Share, spread: float, sigma: float) -> cb.Estimate:
    """Return an estimate in which others' pulls count in part."""
    totals = np.concatenate([found.sums, found.counts])
    about = np.array([found.time, found.num_agents, found.anticipation])
    pool(totals, np.concatenate([own.sums, own.counts]), about, 2, spread, sigma)
    return cb.Estimate(totals[:2], totals[2:], *about.tolist())


def test_others_count_as_many_pulls_as_the_formula_says() -> None:
    found = pooled(TOTALS, OWN, 0.2, 0.5)
    n = np.array([80.0, 50.0]) * 1.25
    worth = n * 0.25 / (0.25 + n * 0.04 * (1 + 1 / 4))
    np.testing.assert_allclose(found.counts, OWN.counts + worth)
    means = np.array([51.0 / 80.0, 23.0 / 50.0])
    np.testing.assert_allclose(found.sums, OWN.sums + worth * means)
    assert found.anticipation == 1.0
    assert found.time == pytest.approx(found.counts.sum())


def test_the_posterior_is_that_of_a_prior_and_own_pulls() -> None:
    """Precision 1/v + n/σ², mean (m/v + s/σ²)/precision, with v as in the model."""
    tau, sigma, agents = 0.15, 0.5, 5.0
    found = pooled(TOTALS._replace(anticipation=1.0), OWN, tau, sigma)
    others, total = TOTALS.counts - OWN.counts, TOTALS.sums - OWN.sums
    v = tau**2 * (1 + 1 / (agents - 1)) + sigma**2 / others
    precision = 1 / v + OWN.counts / sigma**2
    np.testing.assert_allclose(found.counts / sigma**2, precision)
    mean = (total / others / v + OWN.sums / sigma**2) / precision
    np.testing.assert_allclose(found.sums / found.counts, mean)


def test_no_spread_is_everything_and_an_infinite_one_nothing() -> None:
    everything = pooled(TOTALS._replace(anticipation=1.0), OWN, 0.0, 0.5)
    np.testing.assert_allclose(everything.sums, TOTALS.sums)
    np.testing.assert_allclose(everything.counts, TOTALS.counts)
    nothing = pooled(TOTALS, OWN, math.inf, 0.5)
    assert nothing.sums.tolist() == OWN.sums.tolist()
    assert nothing.counts.tolist() == OWN.counts.tolist()
    assert (nothing.time, nothing.num_agents) == (30.0, 1.0)


def test_an_agent_alone_has_nobody_to_pool_with() -> None:
    alone = cb.Estimate(OWN.sums, OWN.counts, 30.0, 1.0)
    for spread in (0.0, 0.1, math.inf):
        found = pooled(alone, OWN, spread, 0.5)
        assert found.counts.tolist() == OWN.counts.tolist()


SITES = st.lists(
    st.lists(st.lists(st.floats(-5.0, 5.0), max_size=5), min_size=3, max_size=3),
    min_size=1, max_size=6,
)  # fmt: skip


@settings(max_examples=40)
@given(SITES)
def test_registers_of_sites_add_up_to_what_single_sites_tell(
    rewards: list[list[list[float]]],
) -> None:
    registers = SiteSums().registers(3)
    total, sums, counts = (
        registers.zeros(),
        np.zeros((len(rewards), 3)),
        np.zeros((len(rewards), 3)),
    )
    for site, row in enumerate(rewards):
        own = registers.zeros()
        for arm, paid in enumerate(row):
            for reward in paid:
                registers.add(own, arm, reward)
                sums[site, arm] += reward
                counts[site, arm] += 1
        total += own
    seen = counts > 0
    np.testing.assert_allclose(total[:3], sums.sum(axis=0), atol=1e-9)
    np.testing.assert_array_equal(total[3:6], counts.sum(axis=0))
    np.testing.assert_array_equal(total[6:9], (counts**2).sum(axis=0))
    everything = [reward for row in rewards for paid in row for reward in paid]
    assert total[9] == pytest.approx(sum(reward**2 for reward in everything))
    assert total[10] == pytest.approx(float((sums[seen] ** 2 / counts[seen]).sum()))
    assert total[11] == seen.sum()
    assert registers.version(total) == len(everything)
    assert not registers.excess(total, bounded=False)
    direct = scatter_of(sums, counts, 1.0)
    between, freedom, room = differences(total, 3)
    indirect = scatter(between, freedom, 1.0, room)
    assert indirect.freedom == direct.freedom
    assert indirect.spread == pytest.approx(direct.spread, abs=1e-6)
    assert indirect.ratio == pytest.approx(direct.ratio, abs=1e-6, nan_ok=True)


def drawn(
    sites: int, arms: int, spread: float, key: int, pulls: int = 200
) -> tuple[np.ndarray, np.ndarray]:
    """Return totals of sites whose means differ by a spread; σ = 0.5."""
    noise = normals(words(key, np.arange(2 * sites * arms, dtype=np.uint64)))
    apart, chance = noise.reshape(2, sites, arms)
    counts = np.full((sites, arms), float(pulls))
    counts[:, 0] *= 1 + np.arange(sites) % 3
    means = 0.3 + spread * apart + 0.5 * chance / np.sqrt(counts)
    return means * counts, counts


def test_the_spread_is_estimated() -> None:
    found = [scatter_of(*drawn(20, 5, 0.2, key), 0.5).spread for key in range(40)]
    assert np.mean(found) == pytest.approx(0.2, rel=0.05)


def test_sites_that_are_alike_are_hardly_ever_told_apart() -> None:
    found = [scatter_of(*drawn(20, 5, 0.0, key), 0.5) for key in range(200)]
    assert np.mean([each.ratio for each in found]) == pytest.approx(1.0, abs=0.05)
    assert np.mean([each.spread > 0.0 for each in found]) < 0.06  # two standard deviations
    assert sum(each.differs for each in found) <= 3
    assert all(scatter_of(*drawn(20, 5, 0.3, key), 0.5).differs for key in range(10))


def test_rare_successes_are_held_to_their_own_variance() -> None:
    """Rates of 1 % and 3 %: σ = 1/2 would hide any difference."""
    counts = np.full((6, 2), 5000.0)
    sums = counts * np.array([[0.01, 0.02], [0.03, 0.02]] * 3)
    assert not scatter_of(sums, counts, 0.5).differs
    assert scatter_of(sums, counts, 0.5, bounded=True).differs
    assert math.isnan(scatter_of(np.zeros((6, 2)), counts, 0.5, bounded=True).ratio)


def test_nothing_is_known_of_differences_before_two_sites_have_pulled_an_arm() -> None:
    nothing = np.zeros((3, 2))
    assert math.isnan(scatter_of(nothing, nothing, 0.5).ratio)
    one = np.array([[3.0, 1.0], [0.0, 0.0]])
    assert math.isnan(scatter_of(one, np.where(one > 0, 4.0, 0.0), 0.5).ratio)


def test_the_variance_is_the_told_one_until_enough_is_known() -> None:
    """Of two arms: squares, Σ s²/n and pairs stand behind sums, counts and squared counts."""
    few = np.array([0.0, 0.0, 10.0, 10.0, 0.0, 0.0, 9.0, 0.0, 4.0])
    assert within(few, 2, 0.5) == 0.25
    many = np.array([0.0, 0.0, 52.0, 52.0, 0.0, 0.0, 30.0, 10.0, 4.0])
    assert within(many, 2, 0.5) == pytest.approx(0.2)


@pytest.mark.covering(1)
@pytest.mark.parametrize("make", [cb.FloodedTotals, cb.TreeSums])
def test_an_infinite_spread_plays_what_agents_play_that_never_talk(
    make: type[cb.FloodedTotals],
) -> None:
    matrix = gossip_matrix(GRAPHS["cycle-5"])
    tape = rewards_tape(5, 60, 3)
    for index in (cb.CentredDraw(), cb.UCB(), cb.BayesUCB()):
        alone = make_agents(cb.combine(cb.LocalSums(), index), matrix, 3)
        pooling = make_agents(cb.combine(make(spread=math.inf), index), matrix, 3)
        assert drive(pooling, tape, 0, 60).arms == drive(alone, tape, 0, 60).arms


@pytest.mark.parametrize("make", [cb.FloodedTotals, cb.TreeSums])
def test_no_spread_is_pooling_and_none_at_all_is_todays(make: type[cb.FloodedTotals]) -> None:
    assert make() == make(spread=None)
    matrix = gossip_matrix(GRAPHS["complete-6"])
    tape = rewards_tape(6, 40, 3)
    agents = make_agents(cb.combine(make(), cb.UCB()), matrix, 3)
    partly = make_agents(cb.combine(make(spread=0.0), cb.UCB()), matrix, 3)
    drive(agents, tape, 0, 40)
    for plain, other in zip(agents, partly, strict=True):
        other.restore_state({**plain.export_state(), "policy": other.policy})
        full, part = plain.estimate(), other.estimate()
        c = full.anticipation
        np.testing.assert_allclose(
            part.counts, plain.share().counts + c * (full.counts - plain.share().counts)
        )
        np.testing.assert_allclose(
            part.sums, plain.share().sums + c * (full.sums - plain.share().sums)
        )


@pytest.mark.covering(1)
@pytest.mark.plays
@pytest.mark.parametrize(
    "policy",
    ["flood-ts:spread=0.1", "tree-ts:spread=estimate", "flood-ts:family=bernoulli,spread=estimate"],
)
def test_pooling_policies_keep_the_contract(policy: str) -> None:
    found = cb.parse_policy(policy)
    assert isinstance(found, cb.Policy)
    check_policy(found, num_arms=2, rounds=6)


@pytest.mark.parametrize("spread", [-0.1, math.nan, "guess", True, [0.1]])
def test_what_is_no_spread_is_refused(spread: float) -> None:
    for spec in (cb.FloodedTotals, cb.TreeSums):
        with pytest.raises(cb.InputError, match=f"spread.* {re.escape(repr(spread))}"):
            spec(spread=spread)


def test_a_spread_goes_with_plain_sums_alone() -> None:
    with pytest.raises(cb.InputError, match="sigma"):
        cb.FloodTS(sigma="estimate", spread=0.1)


def test_who_pools_partly_states_no_confidence() -> None:
    agent = make_agents(cb.FloodTS(spread=0.1), gossip_matrix(GRAPHS["path-4"]), 2)[0]
    with pytest.raises(cb.InputError, match="pulls of others"):
        agent.recommend()


def pair(policy: cb.Policy) -> list[cb.Agent]:
    """Return two neighbours that have pulled, and told each other of it."""
    views = [
        cb.LocalView(i, 0.5, {1 - i: 0.5}, num_arms=2, sigma=0.5, random_word=9 + i)
        for i in range(2)
    ]
    agents = [policy.make_agent(view) for view in views]
    for _ in range(40):
        for at, agent in enumerate(agents):
            agent.observe(at, 1.0)
            agent.observe(1 - at, 0.0)
        told = [{i: agents[i].outgoing(1 - i)} for i in range(2)]
        for agent, heard in zip(agents, reversed(told), strict=True):
            agent.receive({j: message for j, message in heard.items() if message is not None})
    return agents


def test_sites_that_differ_are_seen_and_hardly_pooled() -> None:
    for agent in pair(cb.FloodTS(spread="estimate")):
        seen = agent.machine.estimate()  # type: ignore[attr-defined]  # made of parts
        assert 40.0 <= seen.counts.max() < 50.0  # of 79 pulls per arm, 40 are its own
        assert agent.scatter().differs  # type: ignore[attr-defined]  # made of parts
    assert pair(cb.TreeTS())[0].scatter() is None  # type: ignore[attr-defined]  # knows sums alone
    forgetful = pair(cb.FloodTS(discount=0.9))[0]
    assert forgetful.scatter() is None  # type: ignore[attr-defined]  # made of parts


def test_registers_of_sites_are_looked_at_closely() -> None:
    registers = SiteSums().registers(2)
    own = registers.zeros()
    registers.add(own, 1, 0.5)
    assert not registers.excess(own, bounded=True)
    assert not registers.excess(2.0 * own, bounded=True), "of two sites"
    assert registers.follows(own)
    assert not registers.follows(2.0 * own)
    assert VersionedRegisters(registers).follows(np.append(own, 1.0))
    assert ArmSums().registers(2).follows(np.zeros(4)), "nothing follows from anything there"
    assert "never negative" in registers.excess(-own, bounded=True)
    for place in range(4, own.size):
        strange = own.copy()
        strange[place] = 1e20
        assert "that no sites have" in registers.excess(strange, bounded=True)
    assert math.isnan(registers.plain_pulls(own.tolist()))
    assert registers.nonnegative.tolist() == [False] * 2 + [True] * 7
