"""Which policies a fleet accepts: it asks what they declare, and refuses what they do not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coopbandits import DDUCB, InputError, StagedMixing, combine
from coopbandits.core.index import KLUCB
from coopbandits.core.registry import parse_policy
from coopbandits.fleet.config.bandits import read_policy
from coopbandits.fleet.config.check import explain
from coopbandits.fleet.config.eligibility import TRIAL, eligible_names, missing_methods
from coopbandits.fleet.config.read import ConfigError

from .. import own_parts
from .sample import NOW, REMOVED, made, made_bandit

HERE = own_parts.__name__


LOCAL = (
    ("tls", REMOVED),
    ("node.listen", "127.0.0.1:7400"),
    ("neighbors.0.address", "127.0.0.1:7401"),
    ("neighbors.1.address", "127.0.0.1:7402"),
)


def spelled(text: str) -> str:
    return text.replace("own:", f"{HERE}:")


def test_those_of_version_0_1_run() -> None:
    assert {
        "flood-ts", "flood-ucb", "tree-ts", "tree-ucb", "gossip-ts", "dducb", "coop-ucb2", "dec-ts",
    } <= set(eligible_names())  # fmt: skip


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("independent-ucb", "local-sums"),
        ("ucb-network", "neighborhood-sums"),
        ("mp-ucb:hop_limit=2", "flooded-pulls"),
        ("running-sums*ucb", "running-sums"),
        (
            "coop-ucb:gamma=1.01",
            "epsilon_c:closed",
        ),
        (
            "tree-ts:discount=0.99",
            'half_life = "2h"',
        ),
        ("flooded-totals:window=9*ucb", "flooded-totals:window=9"),
        ("central-ts", "one controller"),
        ("central-totals*ucb", "one controller"),
        ("own:Careless*ucb", "Careless"),
        (
            "own:Boastful*ucb",
            "Boastful",
        ),
        ("tree-sums*lin-ts", "one model for all arms"),
        ("private:epsilon=1,horizon=9*flood-ucb", "secret"),
        ("fed-ucb:epsilon=1,horizon=9", "same noise"),
        ("own:Secretive", "secret"),
        ("own:Undeclared", "claim"),
        ("own:Bare", "no estimate, share, would_choose, abandon, check_claims, reweighted"),
    ],
)
def test_what_cannot_run_is_refused_in_one_sentence(text: str, reason: str) -> None:
    with pytest.raises(InputError) as refused:
        read_policy("policy", spelled(text))
    sentence = str(refused.value)
    assert "\n" not in sentence
    assert repr(spelled(text)) in sentence
    assert reason in sentence
    assert "dducb, " in sentence
    assert "any index on staged-mixing" in sentence


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("tree-sums*kl-ucb", "robust"),
        (" pull-mixing * ucb:constant=3 ", "robust"),
        ("running-consensus*moss", "synchronous"),
        ("own:Neighbors*ucb", "robust"),
        ("flooded-totals*own:Optimist:width=2", "robust"),
        ("own:Own:width=2", "robust"),
        ("own:Whole", "robust"),
    ],
)
def test_any_spelling_is_read(text: str, mode: str) -> None:
    told = [("num_agents", 3)] if mode == "synchronous" else []
    bandit = made_bandit(("policy", spelled(text)), *told)
    assert bandit.mode == mode
    assert parse_policy(bandit.policy) == parse_policy(spelled(text))
    assert missing_methods(bandit.policy_object.make_agent(replace(TRIAL, num_agents=3))) == []


def test_what_is_not_there_is_told() -> None:
    with pytest.raises(ConfigError, match="nowhere_to_be_found"):
        made(("bandits.button.policy", "nowhere_to_be_found:MyPolicy"))
    with pytest.raises(InputError, match=r"'kl-usb'.*'kl-ucb'"):
        read_policy("policy", "tree-sums*kl-usb")
    with pytest.raises(InputError, match=r"'tree_ts'.*'tree-ts'"):
        read_policy("policy", "tree_ts")


def test_an_aggregation_finds_out_what_a_policy_would() -> None:
    found = ("num_agents", "estimate"), ("lambda_bound", "estimate")
    bandit = made_bandit(("policy", "staged-mixing*kl-ucb"), *found)
    mixing = StagedMixing(num_agents="estimate", lambda_bound="estimate")
    assert bandit.policy_object == combine(mixing, KLUCB("bernoulli"))
    named = made_bandit(("policy", "dducb"), *found).policy_object
    assert named == DDUCB(num_agents="estimate", lambda_bound="estimate")
    with pytest.raises(ConfigError, match="running-consensus"):
        made(
            ("bandits.button.policy", "running-consensus*ucb"),
            ("bandits.button.num_agents", "estimate"),
        )


@pytest.mark.parametrize("policy", ["tree-sums*beta-draw", "tree-sums*kl-ucb:family=bernoulli"])
def test_rewards_of_a_range_need_one(policy: str) -> None:
    assert made_bandit(("policy", policy)).policy == policy
    with pytest.raises(ConfigError, match="reward_range"):
        made(
            ("bandits.button.policy", policy),
            ("bandits.button.sigma", 1.0),
            ("bandits.button.reward_range", REMOVED),
        )


def test_room_for_messages() -> None:
    bandit = made(("cluster.max_agents", 10)).bandits["button"]
    granted = 10 * (2 * len(bandit.arms) + 3)
    for policy in ("flood-ts:sigma=estimate", "tree-ts", "gossip-ts", f"{HERE}:Whole"):
        assert replace(bandit, policy=policy).max_message_values() >= granted
    alone = replace(bandit.cluster, max_agents=1)
    largest = replace(bandit, policy="tree-ts", cluster=alone)
    size = largest.message_size()
    assert size is not None
    assert largest.max_message_values() == size.most


def test_a_policy_that_does_not_tell_its_messages() -> None:
    config = made(("bandits.button.policy", f"{HERE}:Whole"), *LOCAL, insecure=True)
    assert config.bandits["button"].message_size() is None
    assert "messages of a size that the policy does not declare" in explain(config, NOW)
