from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from coopbandits import DDUCB
from coopbandits.core.contract import LocalView
from coopbandits.core.registry import EXAMPLES, parse_policy
from coopbandits.fleet.config import ClusterConfig
from coopbandits.fleet.config.eligibility import obstacle
from coopbandits.fleet.config.features import Feature

from .sample import REMOVED, made

RUNNABLE = [text for text in EXAMPLES if not obstacle(parse_policy(text))]


def test_modes() -> None:
    modes = {text: replace(made().cluster, policy=text).mode for text in RUNNABLE}
    assert set(modes.values()) == {"robust", "synchronous"}
    assert modes["dducb"] == modes["coop-ucb2:gamma=1.01"] == modes["dec-ts"] == "synchronous"
    assert modes["flood-ts"] == modes["gossip-ts"] == modes["tree-ucb"] == "robust"


@pytest.mark.parametrize("spelling", RUNNABLE)
def test_policies_make_agents_of_what_is_told(spelling: str) -> None:
    cluster = replace(made().cluster, policy=spelling)
    needs = cluster.policy_object().needs
    assert needs <= {"num_agents", "lambda_bound", "random_word"}
    if "num_agents" in needs:
        cluster = replace(cluster, num_agents=3)
    if "lambda_bound" in needs:
        cluster = replace(cluster, lambda_bound=0.5)
    view = LocalView(
        0,
        0.5,
        {1: 0.5},
        num_arms=3,
        sigma=cluster.scale.sigma,
        num_agents=cluster.told_num_agents,
        lambda_bound=cluster.told_lambda_bound,
        random_word=7,
    )
    assert cluster.policy_object().make_agent(view).choose(5) in range(3)


def test_estimates_are_settings_of_the_policy() -> None:
    cluster = replace(made().cluster, policy="dducb:eta=3", num_agents="estimate", lambda_bound=0.5)
    assert cluster.policy_object() == DDUCB(eta=3.0, num_agents="estimate")
    assert (cluster.told_num_agents, cluster.told_lambda_bound) == (None, 0.5)


@pytest.mark.parametrize("policy", ["flood-ts", "tree-ts", "flooded-totals*kl-ucb"])
def test_the_family_follows_from_what_is_declared_of_rewards(policy: str) -> None:
    """A range alone is Bernoulli's; σ is what the Gaussian family uses; a family named stays."""

    def played(*changes: tuple[str, Any], family: str = "") -> str:
        text = policy + (f":family={family}" if family else "")
        cluster = made(("cluster.policy", text), *changes).cluster
        assert cluster.policy == text
        return cluster.policy_object().spelling

    sigma, no_range = ("cluster.sigma", 0.3), ("cluster.reward_range", REMOVED)
    assert played() == f"{policy}:family=bernoulli"
    assert played(sigma) == f"{policy}:family=gaussian"
    assert played(sigma, no_range) == f"{policy}:family=gaussian"
    assert played(family="gaussian") == f"{policy}:family=gaussian"
    assert played(sigma, family="bernoulli") == f"{policy}:family=bernoulli"


def test_the_hash_is_that_of_the_cluster() -> None:
    config = made()
    assert made(("node.id", "other"), ("node.api", "unix:x")).cluster.hash == config.cluster.hash
    assert made(("cluster.rounds_per_second", 20)).cluster.hash == config.cluster.hash
    spelt = made(("cluster.policy", " flood-ts: family=bernoulli, sigma=known"))
    assert spelt.cluster.hash == config.cluster.hash
    assert len(config.cluster.hash) == 64


def test_hashes_are_fixed() -> None:
    """Agents of two releases meet if they speak the same version of the protocol."""
    assert made().cluster.hash == "155faa983c5e184560e324f35a52a51b18de02d9642f17f9c5668da63bbdbab3"
    told = ("cluster.num_agents", 3), ("cluster.lambda_bound", "estimate")
    digest = "c11093f565b09d770a60fb81fddbefb87e92185402ef4513e1d03fb010740b31"
    assert made(("cluster.policy", "dducb:eta=3"), *told).cluster.hash == digest


OTHERS: dict[str, Any] = {
    "name": "mill",
    "epoch": 1769860801,
    "arms": ("green", "red", "blue"),
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


@pytest.mark.parametrize("policy", ["flood-ts", "tree-ucb", "gossip-ts", "tree-sums*kl-ucb"])
def test_a_half_life_is_a_discount_per_tick(policy: str) -> None:
    cluster = replace(made().cluster, policy=policy, half_life=7200.0)
    parts = cluster.policy_object().parts
    assert parts is not None
    aggregation: Any = parts.aggregation
    assert aggregation.discount ** (7200.0 / cluster.tick) == pytest.approx(0.5)
    assert cluster.traits.forgets
    assert not replace(cluster, half_life=None).traits.forgets
    assert replace(cluster, half_life=None).tick == 0.0
