"""Rivals of the same model: regret against an independent simulation, and what they send."""

from __future__ import annotations

import numpy as np
import pytest

from coopbandits import BernoulliBandit, GaussianBandit, InputError, Network, parse_policy, simulate

pytestmark = pytest.mark.plays

PROBLEM, NETWORK = BernoulliBandit([0.9] + [0.8] * 4), Network.from_spec("cycle:20")

# Mean and standard error of 20 runs of 3000 rounds, by code that shares nothing with this package.
ORACLE = {
    "dpe2:family=bernoulli": (394, 48),
    "coop-se:horizon=3000": (1623, 37),
    "independent-ucb:constant=2": (1583, 17),
}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("dpe2:family=bernoulli", marks=pytest.mark.slow),  # no kernel
        "coop-se:horizon=3000",
        "independent-ucb:constant=2",
    ],
)
def test_mean_regret(text: str) -> None:
    result = simulate(PROBLEM, NETWORK, parse_policy(text), 3000, 20, seed=1, rounds=1)
    regret = result.regret.isel(round=-1).values.ravel()
    error = regret.std(ddof=1) / np.sqrt(20)
    mean, own_error = ORACLE[text]
    print(f"{text}: {regret.mean():.0f} ± {error:.0f}, oracle {mean} ± {own_error}")
    assert abs(regret.mean() - mean) <= 3.0 * np.hypot(error, own_error)


def test_coop_se_is_near_its_formula() -> None:
    """Σ 8σ² ln(KNT²)/Δ = 4 · 2 · ln(5 · 20 · 3000²)/0.1 = 1649."""
    result = simulate(PROBLEM, NETWORK, parse_policy("coop-se:horizon=3000"), 3000, 20, rounds=1)
    assert result.meta["engines"] == ["cpu"]
    assert abs(float(result.regret.isel(round=-1).mean()) / 1649 - 1.0) < 0.15


def test_random_pairs_with_epsilon_greedy_beat_no_talk() -> None:
    """Szörényi et al. (2013), as a composition."""
    problem, network = BernoulliBandit([0.9, 0.6, 0.6]), Network.from_spec("complete:12")
    regret = {
        text: float(
            simulate(problem, network, parse_policy(text), 400, 6, faults="pairs=1", rounds=1)
            .regret.isel(round=-1)
            .mean()
        )
        for text in ("pull-mixing*epsilon-greedy", "local-sums*epsilon-greedy")
    }
    assert regret["pull-mixing*epsilon-greedy"] < 0.6 * regret["local-sums*epsilon-greedy"]


def test_agents_of_a_population_must_exist_and_suit_the_rewards() -> None:
    with pytest.raises(InputError, match=r"agent 20\b.*0 to 19"):
        simulate(PROBLEM, NETWORK, parse_policy("resilient-ucb+liar@20"), 10)
    mixed = parse_policy("flood-ts+flood-ts:family=bernoulli@3")
    with pytest.raises(InputError, match=r"flood-ts:family=bernoulli.*\[0, 1\]"):
        simulate(GaussianBandit([1.0, 0.0]), NETWORK, mixed, 10)


def test_one_policy_for_all_is_no_population() -> None:
    network = Network.from_spec("complete:5")
    texts = ["resilient-ucb", "resilient-ucb+resilient-ucb@1,3"]
    result = simulate(PROBLEM, network, [parse_policy(text) for text in texts], 60, keep="arms")
    assert np.array_equal(result.arms.values[0], result.arms.values[1])


@pytest.mark.slow
def test_fewer_are_fooled_who_drop_extreme_means() -> None:
    """A liar praises the worst arm; agents that expect one pull it less often."""
    problem, network = BernoulliBandit([0.5, 0.4, 0.1]), Network.from_spec("complete:8")
    texts = ["resilient-ucb+liar:mean=5@0", "resilient-ucb:liars=0+liar:mean=5@0"]
    policies = [parse_policy(text) for text in texts]
    result = simulate(problem, network, policies, 150, 3, keep="agents")
    wary, trusting = result.pulls.values[:, :, 1:, 2].sum(axis=(1, 2))
    assert wary < 0.5 * trusting


def test_messages_are_counted_by_the_driver() -> None:
    """GosInE: one value over each of 40 directed links at the ends of phases 1 and 2."""
    for engine in ("cpu", "reference"):
        result = simulate(PROBLEM, NETWORK, parse_policy("gosine"), 10, engine=engine)
        assert result.meta["engines"] == [engine]
        assert int(result.values_sent.sum()) == 80


@pytest.mark.parametrize("text", ["dpe2:family=bernoulli", "dec-kl-ucb:family=bernoulli"])
def test_families_are_checked(text: str) -> None:
    with pytest.raises(InputError, match=r"\[0, 1\]"):
        simulate(GaussianBandit([1.0, 0.0]), NETWORK, parse_policy(text), 10)


def test_waiting_matters_from_two_rounds_on() -> None:
    texts = ["mp-ucb:hop_limit=2", "mp-ucb:hop_limit=2,wait=1", "mp-ucb:hop_limit=2,wait=3"]
    result = simulate(PROBLEM, NETWORK, [parse_policy(text) for text in texts], 60, keep="arms")
    assert result.meta["engines"] == ["cpu", "cpu", "cpu"]
    arms = result.arms.values
    assert np.array_equal(arms[0], arms[1])
    assert not np.array_equal(arms[0], arms[2])
