"""Bandits: their policies and digests, scales of rewards, sizes of messages."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from coopbandits import DDUCB, InputError
from coopbandits.core.aggregate import extrema
from coopbandits.core.contract import Agent, LocalView
from coopbandits.core.registry import EXAMPLES, parse_policy
from coopbandits.fleet.config import ClusterConfig
from coopbandits.fleet.config.bandits import SHARED, BanditConfig, reward_scale
from coopbandits.fleet.config.check import LINK_MB, OVERHEAD, bytes_per_second, memory_mb
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
    "era": 1,
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


def test_a_range_becomes_the_unit_interval() -> None:
    scale = reward_scale((-10.0, 30.0), None)
    assert [scale.unit(reward) for reward in (-10.0, 0.0, 30.0)] == [0.0, 0.25, 1.0]
    assert [scale.reward(unit) for unit in (0.0, 0.25, 1.0)] == [-10.0, 0.0, 30.0]
    assert scale.sigma == 0.5
    assert reward_scale((-10.0, 30.0), 8.0).sigma == pytest.approx(0.2)


@pytest.mark.parametrize("reward", [-10.000001, 30.1, 1e300])
def test_rewards_outside_are_refused(reward: float) -> None:
    with pytest.raises(InputError, match="-10 to 30"):
        reward_scale((-10.0, 30.0), 1.0).unit(reward)


def test_without_a_range_rewards_stay_as_they_are() -> None:
    scale = reward_scale(None, 8.0)
    assert [scale.unit(reward) for reward in (-1e60, 0.1)] == [-1e60, 0.1]
    assert [scale.reward(reward) for reward in (-1e60, 0.1)] == [-1e60, 0.1]
    assert scale.sigma == 8.0


@pytest.mark.parametrize("reward", [1.0001e60, -1e200, 1e308])
def test_rewards_that_cannot_be_summed_are_refused(reward: float) -> None:
    with pytest.raises(InputError, match="too large"):
        reward_scale(None, 1.0).unit(reward)


@pytest.mark.parametrize("declared", [((0.0, 1.0), None), (None, 1.0)])
@pytest.mark.parametrize("reward", [float("inf"), float("-inf"), float("nan")])
def test_rewards_are_finite(
    declared: tuple[tuple[float, float] | None, float | None], reward: float
) -> None:
    with pytest.raises(InputError, match="finite"):
        reward_scale(*declared).unit(reward)


def test_something_must_be_declared() -> None:
    with pytest.raises(InputError, match="neither reward_range nor sigma"):
        reward_scale(None, None)


PATH = {0: [1], 1: [0, 2], 2: [1]}
LOST_ROUND = 30


def agents_of(bandit: BanditConfig) -> dict[int, Agent]:
    policy = bandit.policy_object
    return {
        i: policy.make_agent(
            LocalView(
                i,
                1 - len(neighbors) / 3,
                dict.fromkeys(neighbors, 1 / 3),
                num_arms=len(bandit.arms),
                num_agents=bandit.known_num_agents,
                lambda_bound=bandit.known_lambda_bound,
                random_word=12345 + i,
            )
        )
        for i, neighbors in PATH.items()
    }


def sizes_seen(bandit: BanditConfig, *, lossless: bool) -> list[int]:
    """Play agents on a path of three, with one message lost; return the sizes of messages."""
    agents, seen = agents_of(bandit), []
    for r in range(60):
        for agent in agents.values():
            agent.observe(agent.choose(r), 0.5)
        sent = {(i, j): agents[i].outgoing(j) for i in PATH for j in PATH[i]}
        seen += [message.size for message in sent.values() if message is not None]
        if r == LOST_ROUND and not lossless:
            del sent[0, 1]
        for j, agent in agents.items():
            arrived = {i: sent.get((i, j)) for i in PATH[j]}
            agent.receive({i: m for i, m in arrived.items() if m is not None})
    return seen


@pytest.mark.parametrize(
    ("policy", "values"),
    [
        ("flood-ts", (2, 26)),
        ("flood-ts:family=gaussian,sigma=estimate", (2, 29)),
        ("flood-ucb", (2, 26)),
        ("tree-ts", (12, 45)),
        ("tree-ts:family=gaussian,sigma=estimate", (13, 46)),
        ("tree-ts:family=bernoulli,sigma=estimate", (12, 45)),
        ("tree-ucb", (12, 45)),
        ("gossip-ts", (8, 41)),
        ("gossip-ts:family=gaussian,sigma=estimate", (9, 42)),
        ("dec-ts", (6, 6)),
        ("coop-ucb2:gamma=1.01", (6, 6)),
        ("dducb", (6, 7)),
        ("dducb:remix=true", (12, 13)),
        ("dducb:neighbor_pulls=true", (8, 9)),
        ("dducb:remix=true,neighbor_pulls=true", (14, 15)),
        ("dducb:values_per_message=4", (4, 5)),
        ("dducb:num_agents=estimate,lambda_bound=estimate", (6, 7)),
    ],
)
def test_messages_of_real_agents(
    policy: str, values: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extrema, "GENERATION", 50)  # the second one is played, too
    bandit = replace(made(("cluster.max_agents", 3)).bandits["button"], policy=policy)
    needs, estimated = bandit.policy_object.needs, "estimate," in policy
    bandit = replace(
        bandit,
        num_agents=3 if "num_agents" in needs else None,
        lambda_bound=0.9 if "lambda_bound" in needs else None,
    )
    size = bandit.message_size()
    assert size is not None
    assert size[:2] == values
    seen = sizes_seen(bandit, lossless=estimated)
    assert size.usual in seen or policy.startswith("flood")  # here there is always news
    assert max(seen) <= size.most
    if not estimated and not policy.startswith("flood"):
        assert max(seen) == size.most


def test_bandwidth_and_memory() -> None:
    config = made(("cluster.rounds_per_second", 10))
    assert bytes_per_second(config.bandits["button"], 34) == 10 * (OVERHEAD + 272)
    alone = replace(config, neighbors={})
    assert memory_mb(config) - memory_mb(alone) > 2 * LINK_MB
    assert np.isclose(memory_mb(replace(alone, max_open_tickets=20_000)), memory_mb(alone) + 5)
