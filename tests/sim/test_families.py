"""A family that is left open follows from the problem, in every engine; `support` is checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import coopbandits as cb
from coopbandits.core.registry import EXAMPLES
from coopbandits.core.special import bernoulli_upper
from coopbandits.evaluate import log_decisions, replay
from coopbandits.sim.setup import Setup, recorded_rounds

pytestmark = pytest.mark.plays

COINS = cb.BernoulliBandit([0.9, 0.5, 0.3])
NORMAL = cb.GaussianBandit([0.9, 0.5, 0.3], sigma=0.5)
OPEN = [
    text for text in (*EXAMPLES, "tree-sums*kl-ucb", "local-sums*top-two")
    if "auto" in repr(cb.parse_policy(text))
]  # fmt: skip


def arms(problem: cb.Problem, policy: str, engine: str = "auto") -> Any:
    result = cb.simulate(problem, "path:4", policy, 25, 2, 3, engine, keep="arms", progress=False)
    assert result.policies == [policy]  # as it was given
    return result.dataset["arms"].values


@pytest.mark.parametrize("policy", OPEN)
def test_an_open_family_is_that_of_the_rewards(policy: str) -> None:
    for problem, family in ((COINS, "bernoulli"), (NORMAL, "gaussian")):
        played = arms(problem, policy)
        np.testing.assert_array_equal(played, arms(problem, f"{policy}:family={family}"))
        np.testing.assert_array_equal(played, arms(problem, policy, "reference"))


def test_a_family_that_is_named_wins() -> None:
    open_, named = (arms(COINS, f"dec-ts{more}") for more in ("", ":family=gaussian"))
    assert (open_ != named).any()


def test_members_of_populations_and_what_sources_hand_on() -> None:
    together = "flood-ts+flood-ts@1"
    told = "flood-ts:family=bernoulli+flood-ts:family=bernoulli@1"
    np.testing.assert_array_equal(arms(COINS, together), arms(COINS, told))
    noisy = "private:epsilon=1,horizon=99*flood-ts"
    np.testing.assert_array_equal(arms(COINS, noisy), arms(COINS, f"{noisy}:family=gaussian"))
    cut = "truncated:limit=4*flood-ts"
    np.testing.assert_array_equal(arms(COINS, cut), arms(COINS, f"{cut}:family=bernoulli"))


def family(problem: cb.Problem) -> str:
    return Setup(problem, cb.Network.from_spec("path:4"), 9, recorded_rounds(9)).family


def test_what_problems_tell() -> None:
    assert family(COINS) == family(cb.drift(COINS, switch_every=3)) == "bernoulli"
    assert family(NORMAL) == family(cb.PoissonBandit([1.0, 0.5])) == "gaussian"
    assert family(cb.LoggedBandit({"a": [0, 1, 1], "b": [0, 1]})) == "bernoulli"
    assert family(cb.LoggedBandit({"a": [0, 1, 0.5], "b": [0, 1]})) == "gaussian"


def test_rewards_that_drift_out_of_the_unit_interval_are_not_bernoulli() -> None:
    inside = cb.BetaBandit([2.0, 1.0], [1.0, 2.0])
    assert family(inside) == "bernoulli"
    assert family(inside.moved([0.5, 0.0])) == "gaussian"


@dataclass(frozen=True)
class BernoulliKL(cb.Index):
    """Somebody's KL-UCB, with a divergence that is defined on [0, 1]."""

    name: ClassVar[str] = "bernoulli-kl"
    support = (0.0, 1.0)
    random: ClassVar[bool] = False

    @staticmethod
    def value(arm: int, estimate: Any, word: int, numbers: Any, scratch: Any) -> float:
        if estimate.counts[arm] < 1e-9:
            return float("inf")
        mean = estimate.sums[arm] / estimate.counts[arm]
        return bernoulli_upper(mean, np.log(estimate.time) / estimate.counts[arm])


def test_an_index_for_rewards_in_the_unit_interval_is_played_there_alone() -> None:
    policy = cb.combine(cb.TreeSums(), BernoulliKL())
    with pytest.raises(
        cb.InputError,
        match=r"\[0, 1\].*GaussianBandit.*-inf to inf",
    ):
        cb.simulate(NORMAL, "path:4", policy, 25)
    cb.simulate(COINS, "path:4", policy, 25, engine="reference")
    with pytest.raises(cb.InputError, match=r"private.*range"):
        cb.at_source(cb.Private(1.0, 25), policy)


@pytest.mark.parametrize("engine", ["auto", "reference", "cpu"])
@pytest.mark.parametrize("spelled", ["{}", "flood-ucb+{}@0"])
def test_a_support_that_is_no_interval_is_refused_before_anything_is_played(
    spelled: str, engine: str
) -> None:
    mine = type("Mine", (cb.UCB,), {"support": (0.0,)})()
    policy: cb.Policy = cb.combine(cb.FloodedTotals(), mine)
    if "+" in spelled:
        policy = cb.populate(cb.FloodUCB(), {policy: [0]})
    with pytest.raises(cb.InputError, match=r"^support of index .*Mine is \(0\.0,\); "):
        cb.simulate(COINS, "path:4", policy, 5, engine=engine)


def test_logs_are_asked_too() -> None:
    log = log_decisions(COINS, "path:2", "flood-ts", 60, floor=0.5)
    known = [replay(log, f"flood-ts{more}") for more in ("", ":family=bernoulli")]
    assert known[0] == known[1]
    other = log_decisions(NORMAL, "path:2", "flood-ts", 60, floor=0.5)
    assert replay(other, "flood-ts") == replay(other, "flood-ts:family=gaussian")
    with pytest.raises(cb.InputError, match=r"\[0, 1\].*the log"):
        replay(other, "flood-ts:family=bernoulli")
