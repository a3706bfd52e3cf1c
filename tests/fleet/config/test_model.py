from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from coopbandits import DDUCB, FloodTS
from coopbandits.core.agent import LocalView
from coopbandits.core.registry import EXAMPLES, POLICIES
from coopbandits.fleet.config import ClusterConfig
from coopbandits.fleet.config.model import MODES, PROTOCOL_VERSION
from coopbandits.fleet.protocol import frames

from .sample import made


def test_every_mode_is_that_of_a_policy() -> None:
    assert set(MODES) < set(POLICIES)
    spellings = [text for text in EXAMPLES if text.partition(":")[0] in MODES]
    modes = {text: replace(made().cluster, policy=text).mode for text in spellings}
    assert modes["dducb"] == modes["coop-ucb2:gamma=1.01"] == modes["dec-ts"] == "synchronous"
    assert modes["flood-ts"] == modes["gossip-ts"] == modes["tree-ucb"] == "robust"


@pytest.mark.parametrize("spelling", [t for t in EXAMPLES if t.partition(":")[0] in MODES])
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
    assert made().cluster.policy_object() == FloodTS(family="bernoulli")


def test_the_hash_is_that_of_the_cluster() -> None:
    config = made()
    assert made(("node.id", "other"), ("node.api", "unix:x")).cluster.hash == config.cluster.hash
    assert made(("cluster.rounds_per_second", 20)).cluster.hash == config.cluster.hash
    spelt = made(("cluster.policy", " flood-ts: family=bernoulli, sigma=known"))
    assert spelt.cluster.hash == config.cluster.hash
    assert len(config.cluster.hash) == 64


OTHERS: dict[str, Any] = {
    "name": "mill",
    "epoch": 1769860801,
    "arms": ("green", "red", "blue"),
    "policy": "flood-ts",
    "reward_range": (0.0, 1.5),
    "sigma": 1.0,
    "num_agents": 4,
    "lambda_bound": "estimate",
    "rounds_per_second": 21.0,
    "max_pulls_per_second": 1.0,
    "max_agents": 999,
}


@pytest.mark.parametrize("key", [field.name for field in fields(ClusterConfig)])
def test_every_setting_of_the_cluster_changes_the_hash(key: str) -> None:
    cluster = made().cluster
    assert replace(cluster, **{key: OTHERS[key]}).hash != cluster.hash


def test_another_protocol_is_another_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    assert PROTOCOL_VERSION == frames.VERSION
    before = made().cluster.hash
    monkeypatch.setattr("coopbandits.fleet.config.model.PROTOCOL_VERSION", 2)
    assert made().cluster.hash != before
