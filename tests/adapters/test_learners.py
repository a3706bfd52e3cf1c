"""Learners of mabwiser and river: as they play by themselves, deterministic, and by name."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from mabwiser.mab import MAB, LearningPolicy
from river import bandit, proba

import coopbandits as cb
from coopbandits.adapters import Learner, LearnerPolicy, MABWiser, River
from coopbandits.adapters.learner import SEED_BITS
from coopbandits.sim.tapes import REWARDS, agent_keys, identity_words, tape_words, variates

HORIZON, SEED = 60, 3
PROBLEM = cb.BernoulliBandit([0.2, 0.8, 0.5])
NETWORK = cb.Network.from_spec("path:2")
LEARNERS = [
    MABWiser("EpsilonGreedy", epsilon=0.3),
    MABWiser("Popularity"),
    MABWiser("Random"),
    MABWiser("Softmax", tau=0.5),
    MABWiser("ThompsonSampling"),
    MABWiser("UCB1", alpha=1.0),
    River("BayesUCB"),
    River("EpsilonGreedy", epsilon=0.3, decay=0.01, burn_in=1),
    River("Exp3", gamma=0.3),
    River("RandomPolicy"),
    River("ThompsonSampling", reward_obj="Beta"),
    River("UCB", delta=1.0),
]


def arms_of(policy: cb.Policy, seed: int = SEED) -> np.ndarray[Any, np.dtype[np.int32]]:
    result = cb.simulate(
        PROBLEM, NETWORK, policy, HORIZON, runs=2, seed=seed, keep="arms", engine="reference"
    )
    found: np.ndarray[Any, np.dtype[np.int32]] = result.dataset["arms"].values[0]
    return found


@pytest.mark.covering(3)
@pytest.mark.parametrize("policy", LEARNERS, ids=lambda policy: policy.spelling)
def test_a_run_is_a_function_of_its_seed(policy: cb.Policy) -> None:
    played = arms_of(policy)
    np.testing.assert_array_equal(arms_of(policy), played)
    assert (played[0] != played[1]).any()
    assert cb.parse_policy(policy.spelling) == policy
    assert set(played.ravel().tolist()) == {0, 1, 2}


def rewards_of(run: int, agent: int) -> Any:
    keys = agent_keys(SEED, REWARDS, run, NETWORK.num_agents)
    tape = variates(PROBLEM.variate, tape_words(keys, 0, HORIZON))[agent]
    return lambda arm, pull: float(PROBLEM.rewards([arm], tape[pull : pull + 1])[0])


@pytest.mark.parametrize("agent", [0, 1])
def test_mabwiser_plays_as_by_itself(agent: int) -> None:
    played = arms_of(MABWiser("ThompsonSampling"))[1, agent].tolist()
    seed = identity_words(SEED, 1, NETWORK.num_agents)[agent] & SEED_BITS
    alone = MAB([0, 1, 2], LearningPolicy.ThompsonSampling(), seed=seed)
    reward = rewards_of(1, agent)
    alone.fit([0, 1, 2], [reward(arm, arm) for arm in range(3)])
    arms = [0, 1, 2]
    while len(arms) < HORIZON:
        arms.append(alone.predict())
        alone.partial_fit(arms[-1:], [reward(arms[-1], len(arms) - 1)])
    assert played == arms


@pytest.mark.parametrize("agent", [0, 1])
def test_river_plays_as_by_itself(agent: int) -> None:
    played = arms_of(River("ThompsonSampling", reward_obj="Beta"))[1, agent].tolist()
    seed = identity_words(SEED, 1, NETWORK.num_agents)[agent] & SEED_BITS
    alone: Any = bandit.ThompsonSampling(reward_obj=proba.Beta(), seed=seed)
    reward = rewards_of(1, agent)
    for pull, arm in enumerate(played):
        assert alone.pull([0, 1, 2]) == arm
        alone.update(arm, reward(arm, pull))


def test_learners_learn() -> None:
    problem = cb.BernoulliBandit([0.9, 0.1])
    policies = [
        MABWiser("Random"), MABWiser("UCB1", alpha=1.0), River("UCB", delta=1.0), cb.DDUCB()
    ]  # fmt: skip
    result = cb.simulate(problem, NETWORK, policies, 200, runs=3, engine="reference")
    random, ucb1, river, _ = result.regret[:, :, -1].mean("run").values
    assert random == pytest.approx(0.8 * 0.5 * 2 * 200, rel=0.15)
    assert max(ucb1, river) < random / 2
    assert result.values_sent[0].sum() == 0


def test_the_reference_engine_plays_them_unasked(capsys: pytest.CaptureFixture[str]) -> None:
    result = cb.simulate(PROBLEM, NETWORK, MABWiser("UCB1"), 5)
    assert result.meta["engines"] == ["reference"]
    assert "mabwiser:learner=UCB1" in capsys.readouterr().err


@pytest.mark.slow
def test_on_the_command_line(tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "coopbandits", "simulate", "--graph", "path:2", "--horizon", "20",
        "--problem", "bernoulli:0.8,0.2", "--policy", "river:learner=UCB,delta=1", "--policy",
        "coopbandits.adapters.mabwiser:MABWiser:learner=EpsilonGreedy,epsilon=0.2",
        "--no-figures", "--out", str(tmp_path),
    ]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    assert list(cb.Result.load(tmp_path).policies) == [
        "river:learner=UCB,delta=1",
        "mabwiser:learner=EpsilonGreedy,epsilon=0.2",
    ]


untyped: Any = MABWiser


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: untyped(), r"MABWiser\(learner="),
        (lambda: MABWiser("UCB"), "mabwiser 'UCB'.*UCB1"),
        (
            lambda: MABWiser("UCB1", tau=1),
            "UCB1 'tau'.*alpha",
        ),
        (lambda: MABWiser("UCB1", alpha=-1), "mabwiser.*UCB1.*alpha"),
        (lambda: untyped("EpsilonGreedy", epsilon="x"), "mabwiser.*EpsilonGreedy"),
        (lambda: MABWiser("LinUCB"), "LinUCB.*UCB1"),
        (lambda: River("UCB1"), "river 'UCB1'.*UCB"),
        (lambda: River("LinUCBDisjoint"), "river 'LinUCBDisjoint'"),
        (lambda: River("UCB"), "UCB.*delta="),
        (lambda: River("Exp3", gamma=0.1, delta=1), "Exp3 'delta'"),
        (lambda: River("BayesUCB", burn_in=1), "river:.*,burn_in=1"),
        (lambda: River("ThompsonSampling"), "ThompsonSampling.*reward_obj"),
        (
            lambda: River("ThompsonSampling", reward_obj="beta"),
            "'beta'.*Beta, Gaussian.*'Beta'",
        ),
    ],
)
def test_bad_settings_are_one_sentence(make: Any, sentence: str) -> None:
    with pytest.raises(cb.InputError, match=sentence):
        make()


@pytest.mark.parametrize(
    "policy",
    [
        MABWiser("ThompsonSampling"),
        River("ThompsonSampling", reward_obj="Beta"),
        River("BayesUCB"),
    ],
    ids=lambda policy: policy.spelling,
)
def test_rewards_that_do_not_suit_a_learner_are_refused(policy: cb.Policy) -> None:
    with pytest.raises(cb.InputError, match=re.escape(policy.spelling)):
        cb.simulate(cb.GaussianBandit([1, 0]), NETWORK, policy, 20, engine="reference")


def test_an_agent_says_what_it_cannot_do() -> None:
    view = cb.LocalView(0, 1.0, {}, num_arms=3, random_word=5)
    agent = MABWiser("UCB1").make_agent(view)
    for call in (agent.export_state, lambda: agent.restore_state({})):
        with pytest.raises(cb.InputError, match="exported"):
            call()
    with pytest.raises(cb.InputError, match="mabwiser"):
        agent.choose(0, [1])
    assert River("RandomPolicy").make_agent(view).choose(0, [1]) == 1
    with pytest.raises(cb.InputError, match=r"random_word.*agent 0.* 0\b"):
        River("RandomPolicy").make_agent(cb.LocalView(0, 1.0, {}, num_arms=3))


@pytest.mark.parametrize("library", ["mabwiser", "river"])
def test_without_its_library_a_policy_says_what_to_install(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == library]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(cb.InputError, match=rf"pip install 'coopbandits\[{library}\]'"):
        cb.parse_policy(f"{library}:learner=UCB")


class Stubborn:
    """Pulls the arm that its seed names."""

    def __init__(self, arm: int) -> None:
        self.arm = arm

    def pull(self, arm_ids: list[int]) -> int:
        return arm_ids[self.arm]

    def update(self, arm_id: int, reward: float) -> None:
        assert arm_id == self.arm


@dataclass(frozen=True)
class StubbornPolicy(LearnerPolicy):
    name: ClassVar[str] = "stubborn"

    def make_learner(self, num_arms: int, seed: int) -> Learner:
        return Stubborn(seed % num_arms)


class Wandering(Stubborn):
    """Pulls what does not exist."""

    def pull(self, arm_ids: list[int]) -> int:
        return len(arm_ids)


@dataclass(frozen=True)
class WanderingPolicy(LearnerPolicy):
    name: ClassVar[str] = "wandering"

    def make_learner(self, num_arms: int, seed: int) -> Learner:
        return Wandering(seed % num_arms)


def test_a_learner_that_pulls_what_does_not_exist_is_named() -> None:
    with pytest.raises(cb.InputError, match=r"2\b.*\[0, 1\]"):
        WanderingPolicy()


def test_a_learner_of_ones_own() -> None:
    played = arms_of(StubbornPolicy())
    words = [[word & SEED_BITS for word in identity_words(SEED, run, 2)] for run in range(2)]
    assert played[:, :, 0].tolist() == [[word % 3 for word in run] for run in words]
    assert (played == played[:, :, :1]).all()
