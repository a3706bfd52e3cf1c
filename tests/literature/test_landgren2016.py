"""coop-UCB, coop-UCB2 and coop-UCL: their settings, what agents must be told, indices by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from coopbandits.core import Estimate, InputError, Policy
from coopbandits.core.choice import index_values
from coopbandits.literature import UCL, CoopUCB, CoopUCB2, CoopUCL, InflatedUCB
from coopbandits.literature.landgren2016 import inflated_ucb, root_log

from ..core.fleet import make_agent, one_view, played_values, values_of


@pytest.mark.parametrize("gamma", [1.0, 1, 0.5, -2.0, math.inf, math.nan, "high", True, None])
def test_gamma_is_larger_than_one(gamma: Any) -> None:
    for kind in (CoopUCB, CoopUCB2, CoopUCL):
        with pytest.raises(InputError, match=f"gamma.* {gamma!r}"):
            kind(gamma)


@pytest.mark.parametrize("kind", [CoopUCB, CoopUCB2, CoopUCL])
def test_gamma_has_no_default(kind: Any) -> None:
    with pytest.raises(InputError, match=rf"{kind.__name__}\(gamma="):
        kind()


@pytest.mark.parametrize(("form", "near"), [("close", "closed"), ("langren", "landgren")])
def test_unknown_forms_of_epsilon_c_get_the_nearest(form: str, near: str) -> None:
    with pytest.raises(InputError, match=f"epsilon_c.*'{form}'.*'{near}'"):
        CoopUCB(2.0, epsilon_c=form)
    with pytest.raises(InputError, match=f"epsilon_c.*'{form}'.*'{near}'"):
        InflatedUCB(2.0, form)


def test_a_number_is_no_form_of_epsilon_c() -> None:
    with pytest.raises(InputError, match=r"epsilon_c.*'0\.3'"):
        CoopUCB(2.0, epsilon_c=0.3)  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize("mean", [math.inf, math.nan, "zero"])
def test_prior_mean_is_finite(mean: Any) -> None:
    with pytest.raises(InputError, match=f"prior_mean.* {mean!r}"):
        CoopUCL(2.0, prior_mean=mean)


@pytest.mark.parametrize("sigma", [0.0, -1.0, -math.inf, math.nan, "flat"])
def test_prior_sigma_is_positive(sigma: Any) -> None:
    with pytest.raises(InputError, match=f"prior_sigma.* {sigma!r}.*1e-100.*1e100"):
        CoopUCL(2.0, prior_sigma=sigma)


def test_precision_of_the_prior() -> None:
    for sigma, precision in ((math.inf, 0.0), (0.5, 4.0)):
        agent = make_agent(CoopUCL(2.0, prior_sigma=sigma), one_view())
        assert agent.numbers[2] == precision


@pytest.mark.parametrize("sigma", [1e-200, 1e200])
def test_extreme_priors_are_refused_or_work(sigma: float) -> None:
    """Never an error that is no sentence."""
    try:
        agent = make_agent(CoopUCL(2.0, prior_sigma=sigma), one_view())
    except InputError:
        return
    for arm in range(2):
        agent.observe(arm, 0.5)
    assert agent.choose(0) in (0, 1)


def test_needs() -> None:
    assert CoopUCB(2.0).needs == {"num_agents", "epsilon_c:closed"}
    assert CoopUCB(2.0, "landgren").needs == {"num_agents", "epsilon_c:landgren"}
    assert CoopUCB2(2.0).needs == CoopUCL(2.0).needs == {"num_agents"}


@pytest.mark.parametrize("told", [{}, {"epsilon_c:closed": 0.5}])
def test_epsilon_c_must_be_told_in_the_form_asked_for(told: dict[str, float]) -> None:
    with pytest.raises(InputError, match=r"inflated-ucb.*epsilon_c:landgren.*agent 0"):
        CoopUCB(2.0, "landgren").make_agent(one_view(global_knowledge=told))


@pytest.mark.parametrize("policy", [CoopUCB(2.0), CoopUCB2(2.0), CoopUCL(2.0)])
def test_the_number_of_agents_must_be_told(policy: Policy) -> None:
    view = one_view(num_agents=None, global_knowledge={"epsilon_c:closed": 0.5})
    with pytest.raises(InputError, match=r"running-consensus.*number of agents"):
        policy.make_agent(view)


def played(policy: Policy, told: dict[str, float]) -> Any:
    """The index after some rounds of one lonely agent: arm 0 often, arm 1 seldom."""
    view = one_view(
        own_weight=1.0, neighbor_weights={}, num_agents=1, global_knowledge=told, sigma=0.5
    )
    agent = make_agent(policy, view)
    for arm in (0, 1, 0, 0, 0):
        agent.observe(arm, 0.25 * (arm + 1))
        agent.receive({})
    return played_values(agent, agent.machine.estimate())


def test_sigma_gamma_and_epsilon_c_reach_the_index() -> None:
    told = {"epsilon_c:closed": 0.7, "epsilon_c:landgren": 2.0}
    for form, epsilon_c in (("closed", 0.7), ("landgren", 2.0)):
        expected = [
            mean + 0.5 * math.sqrt(6 * (n + epsilon_c) / n * math.log(5) / n)
            for mean, n in ((0.25, 4), (0.5, 1))
        ]
        np.testing.assert_allclose(played(CoopUCB(3.0, form), told), expected, rtol=1e-13)


def test_coop_ucb2_has_the_growing_inflation() -> None:
    f = math.sqrt(math.log(5))
    expected = [
        mean + 0.5 * math.sqrt(6 * (n + f) / n * math.log(5) / n)
        for mean, n in ((0.25, 4), (0.5, 1))
    ]
    np.testing.assert_allclose(played(CoopUCB2(3.0), {}), expected, rtol=1e-13)


# Five agents, 20 rounds; n̂ = 16 and 4, ŝ = 4 and −2.
ESTIMATE = Estimate(np.array([20.0, -10.0]), np.array([80.0, 20.0]), time=100.0, num_agents=5.0)


def coop_ucb(
    estimate: Estimate, word: int = 0, *, scale: float, epsilon_c: float | None
) -> NDArray[np.float64]:
    """The index with 2γσ² = scale, and ε_c told, or None for sqrt(ln t)."""
    if epsilon_c is None:
        return values_of(InflatedUCB(2.0), estimate, word, sigma=math.sqrt(scale) / 2.0)
    told = {"epsilon_c:closed": epsilon_c}
    index = InflatedUCB(2.0, "closed")
    return values_of(index, estimate, word, sigma=math.sqrt(scale) / 2.0, global_knowledge=told)


def test_coop_ucb_by_hand() -> None:
    """γ = 2, σ = 0.5, ε_c = 3: scale = 2·2·0.25 = 1."""
    values = coop_ucb(ESTIMATE, scale=1.0, epsilon_c=3.0)
    assert values.tolist() == pytest.approx(
        [
            0.25 + 0.5 * math.sqrt(4 * (16 + 3) / (5 * 16) * math.log(20) / 16),
            -0.5 + 0.5 * math.sqrt(4 * (4 + 3) / (5 * 4) * math.log(20) / 4),
        ],
        rel=1e-14,
    )
    assert values.tolist() == pytest.approx([0.460874, 0.011983], abs=1e-6)


def test_coop_ucb2_by_hand() -> None:
    f = math.sqrt(math.log(20))
    assert root_log(20.0) == pytest.approx(f) == pytest.approx(1.7308183826)
    values = coop_ucb(ESTIMATE, scale=2.02, epsilon_c=None)
    assert values.tolist() == pytest.approx(
        [
            0.25 + math.sqrt(2.02 * (16 + f) / (5 * 16) * math.log(20) / 16),
            -0.5 + math.sqrt(2.02 * (4 + f) / (5 * 4) * math.log(20) / 4),
        ],
        rel=1e-14,
    )


def test_without_inflation_it_is_the_ucb_of_the_rounds() -> None:
    values = coop_ucb(ESTIMATE, scale=3.0, epsilon_c=0.0)
    assert values[0] == pytest.approx(0.25 + math.sqrt(3.0 * math.log(20) / 80))


def test_rounds_are_pulls_per_agent() -> None:
    scratch = [0.0] * InflatedUCB().scratch_size(2)
    InflatedUCB.prepare(ESTIMATE, 0, (1.0, 0.0), scratch)
    agents = ESTIMATE.num_agents
    assert scratch[:2] == [math.log(20.0), agents * math.sqrt(math.log(20.0))]


@pytest.mark.parametrize("time", [2.0, 5.0])
def test_within_the_first_round_there_is_no_bonus(time: float) -> None:
    """ln t is 0 up to t = 1, not negative."""
    estimate = ESTIMATE._replace(time=time)
    assert coop_ucb(estimate, scale=1.0, epsilon_c=3.0).tolist() == [0.25, -0.5]
    assert coop_ucb(estimate, scale=1.0, epsilon_c=None).tolist() == [0.25, -0.5]


def test_the_word_does_not_matter() -> None:
    first, second = (
        coop_ucb(ESTIMATE, word, scale=2.0, epsilon_c=None).tolist() for word in (0, 2**64 - 1)
    )
    assert first == second


@pytest.mark.parametrize("count", [0.0, -0.3, 5e-12])
def test_no_information_is_plus_infinity(count: float) -> None:
    estimate = ESTIMATE._replace(counts=np.array([count, 20.0]))
    values = coop_ucb(estimate, scale=1.0, epsilon_c=3.0)
    assert values[0] == math.inf
    assert math.isfinite(values[1])


def test_leaf() -> None:
    assert inflated_ucb(3.0, 4.0, 1e-12, 16.0, 12.0) == 0.75 + 4.0
    assert inflated_ucb(3.0, 4.0, 1e-12, 16.0, 0.0) == 0.75 + 2.0
    assert inflated_ucb(3.0, 1e-12, 1e-12, 16.0, 0.0) == math.inf


FLAT = {"gamma": 2.0, "sigma": 0.5, "precision": 0.0, "shift": 0.0}


def ucl(
    estimate: Estimate, word: int, *, gamma: float, sigma: float, precision: float, shift: float
) -> NDArray[np.float64]:
    """The index as `UCL.numbers` tells it: shift = precision · prior mean."""
    numbers = (gamma, sigma, precision, shift)
    return np.array(index_values(UCL(), numbers, estimate, word)[0])


def test_coop_ucl_with_a_flat_prior_by_hand() -> None:
    f, q = math.sqrt(math.log(20)), norm.isf(1 / 400)
    expected = [
        0.25 + 0.5 / math.sqrt(80) * math.sqrt((16 + f) / 16) * q,
        -0.5 + 0.5 / math.sqrt(20) * math.sqrt((4 + f) / 4) * q,
    ]
    assert ucl(ESTIMATE, 0, **FLAT).tolist() == pytest.approx(expected, rel=1e-13)


def test_coop_ucl_with_a_prior_by_hand() -> None:
    """N(0.7, 0.4²): 1/v = 1/σ_0² + 1/Γ, mean = v(ν_0/σ_0² + μ̂/Γ)."""
    f, q = math.sqrt(math.log(20)), norm.isf(1 / 400)
    expected = []
    for mean, count in ((0.25, 16), (-0.5, 4)):
        spread = 0.25 / (5 * count)
        v = 1 / (1 / 0.16 + 1 / spread)
        middle = v * (0.7 / 0.16 + mean / spread)
        expected.append(middle + math.sqrt(v) * math.sqrt((count + f) / count) * q)
    told = {"gamma": 2.0, "sigma": 0.5, "precision": 1 / 0.16, "shift": 0.7 / 0.16}
    assert ucl(ESTIMATE, 0, **told).tolist() == pytest.approx(expected, rel=1e-13)


def test_a_wide_prior_is_the_flat_one() -> None:
    wide = FLAT | {"precision": 1e-18, "shift": 1e-18}
    assert ucl(ESTIMATE, 0, **wide) == pytest.approx(ucl(ESTIMATE, 0, **FLAT))


@pytest.mark.parametrize("precision", [0.0, 4.0])
def test_coop_ucl_without_information_is_plus_infinity(precision: float) -> None:
    estimate = ESTIMATE._replace(counts=np.array([5e-12, 20.0]))
    values = ucl(estimate, 0, gamma=2.0, sigma=1.0, precision=precision, shift=0.0)
    assert values[0] == math.inf
    assert math.isfinite(values[1])


def test_coop_ucl_before_anything_was_pulled() -> None:
    nothing = Estimate(np.zeros(2), np.zeros(2), time=0.0, num_agents=5.0)
    assert ucl(nothing, 0, **FLAT).tolist() == [math.inf, math.inf]


@pytest.mark.parametrize("gamma", [1.01, 2.0, 5.0, 40.0])
@pytest.mark.parametrize("rounds", [2.0, 1e4, 1e9, 1e15, 1e18])
def test_huge_times_have_finite_limits(gamma: float, rounds: float) -> None:
    """1 − t^−γ rounds to 1, whose quantile would be infinite; underflow of t^−γ is no excuse."""
    estimate = ESTIMATE._replace(time=5.0 * rounds)
    values = ucl(estimate, 0, gamma=gamma, sigma=1.0, precision=0.0, shift=0.0)
    assert np.isfinite(values).all()
    assert values[0] > 0.25


def test_the_word_does_not_matter_to_the_limit() -> None:
    for word in (1, 2**64 - 1):
        assert (ucl(ESTIMATE, word, **FLAT) == ucl(ESTIMATE, 0, **FLAT)).all()
