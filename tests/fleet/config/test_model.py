from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from coopbandits import DDUCB
from coopbandits.core.contract import LocalView
from coopbandits.core.registry import EXAMPLES, parse_policy
from coopbandits.fleet.config import ClusterConfig
from coopbandits.fleet.config.bandits import SHARED
from coopbandits.fleet.config.eligibility import obstacle
from coopbandits.fleet.config.features import Feature

from .sample import REMOVED, made, made_bandit

RUNNABLE = [text for text in EXAMPLES if not obstacle(parse_policy(text))]


def test_modes() -> None:
    modes = {text: replace(made_bandit(), policy=text).mode for text in RUNNABLE}
    assert set(modes.values()) == {"robust", "synchronous"}
    assert modes["dducb"] == modes["coop-ucb2:gamma=1.01"] == modes["dec-ts"] == "synchronous"
    assert modes["flood-ts"] == modes["gossip-ts"] == modes["tree-ucb"] == "robust"


@pytest.mark.parametrize("spelling", RUNNABLE)
def test_policies_make_agents_of_what_is_told(spelling: str) -> None:
    bandit = replace(made_bandit(), policy=spelling)
    needs = bandit.policy_object.needs
    assert needs <= {"num_agents", "lambda_bound", "random_word"}
    if "num_agents" in needs:
        bandit = replace(bandit, num_agents=3)
    if "lambda_bound" in needs:
        bandit = replace(bandit, lambda_bound=0.5)
    view = LocalView(
        0,
        0.5,
        {1: 0.5},
        num_arms=3,
        sigma=bandit.scale.sigma,
        num_agents=bandit.known_num_agents,
        lambda_bound=bandit.known_lambda_bound,
        random_word=7,
    )
    assert bandit.policy_object.make_agent(view).choose(5) in range(3)


def test_estimates_are_settings_of_the_policy() -> None:
    bandit = replace(made_bandit(), policy="dducb:eta=3", num_agents="estimate", lambda_bound=0.5)
    assert bandit.policy_object == DDUCB(eta=3.0, num_agents="estimate")
    assert (bandit.known_num_agents, bandit.known_lambda_bound) == (None, 0.5)


@pytest.mark.parametrize("policy", ["flood-ts", "tree-ts", "flooded-totals*kl-ucb"])
def test_the_family_follows_from_what_is_declared_of_rewards(policy: str) -> None:
    """A range alone is Bernoulli's; σ is what the Gaussian family uses; a family named stays."""

    def played(*changes: tuple[str, Any], family: str = "") -> str:
        text = policy + (f":family={family}" if family else "")
        bandit = made_bandit(("policy", text), *changes)
        assert bandit.policy == text
        return bandit.policy_object.spelling

    sigma, no_range = ("sigma", 0.3), ("reward_range", REMOVED)
    assert played() == f"{policy}:family=bernoulli"
    assert played(sigma) == f"{policy}:family=gaussian"
    assert played(sigma, no_range) == f"{policy}:family=gaussian"
    assert played(family="gaussian") == f"{policy}:family=gaussian"
    assert played(sigma, family="bernoulli") == f"{policy}:family=bernoulli"


def test_the_hash_is_that_of_the_cluster() -> None:
    config = made()
    assert made(("node.id", "other"), ("node.api", "unix:x")).cluster.hash == config.cluster.hash
    assert made(("cluster.rounds_per_second", 20)).cluster.hash == config.cluster.hash
    assert made(("bandits.button.policy", "tree-ts")).cluster.hash == config.cluster.hash
    assert len(config.cluster.hash) == 64


def test_the_digest_is_that_of_what_agents_must_agree_on() -> None:
    bandit = made_bandit()
    spelt = made_bandit(("policy", " flood-ts: family=bernoulli, sigma=known"))
    assert spelt.digest == bandit.digest
    own = {"arms": ["blue", "pink"], "pinned": "blue", "minimum_share": 0.1}
    assert made_bandit(*own.items(), ("max_pulls_per_second", 9.0)).digest == bandit.digest


def test_hashes_are_fixed() -> None:
    """Agents of two releases meet if they speak the same version of the protocol."""
    assert made().cluster.hash == "7c4c43a3ba0929a013895198f916ea89eccd57e3a41e5d0c58e865650b818c83"
    assert made_bandit().digest == "741ded23c94701af"
    told = ("policy", "dducb:eta=3"), ("num_agents", 3), ("lambda_bound", "estimate")
    assert made_bandit(*told).digest == "200be6d5888cb389"


OTHERS: dict[str, Any] = {
    "name": "mill",
    "epoch": 1769860801,
    "policy": "flood-ts:family=gaussian",
    "reward_range": (0.0, 1.5),
    "sigma": 1.0,
    "num_agents": 4,
    "lambda_bound": "estimate",
    "half_life": 7200.0,
    "rounds_per_second": 21.0,
    "max_pulls_per_second": 1.0,
    "max_agents": 999,
    "signatures_per_second": 1.0,
    "features": (Feature("hour", (0.0, 24.0)),),
}


@pytest.mark.parametrize("key", [field.name for field in fields(ClusterConfig)])
def test_every_setting_of_the_cluster_changes_the_hash(key: str) -> None:
    cluster = made().cluster
    assert replace(cluster, **{key: OTHERS[key]}).hash != cluster.hash


@pytest.mark.parametrize("key", SHARED)
def test_every_setting_that_agents_share_changes_the_digest(key: str) -> None:
    bandit = made_bandit()
    assert replace(bandit, **{key: OTHERS[key]}).digest != bandit.digest


@pytest.mark.parametrize("policy", ["flood-ts", "tree-ucb", "gossip-ts", "tree-sums*kl-ucb"])
def test_a_half_life_is_a_discount_per_tick(policy: str) -> None:
    bandit = replace(made_bandit(), policy=policy, half_life=7200.0)
    parts = bandit.policy_object.parts
    assert parts is not None
    aggregation: Any = parts.aggregation
    assert aggregation.discount ** (7200.0 / bandit.tick) == pytest.approx(0.5)
    assert bandit.traits.forgets
    assert not replace(bandit, half_life=None).traits.forgets
    assert replace(bandit, half_life=None).tick == 0.0
