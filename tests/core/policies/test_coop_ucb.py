"""Settings of coop-UCB, coop-UCB2 and coop-UCL, and what their agents must be told."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from coopbandits.core import CoopUCB, CoopUCB2, CoopUCL, InputError, Policy

from ..fleet import make_agent, one_view, played_values


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
