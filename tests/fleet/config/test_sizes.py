from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coopbandits.core.aggregate import extrema
from coopbandits.core.contract import Agent, LocalView
from coopbandits.fleet.config.bandits import BanditConfig
from coopbandits.fleet.config.check import LINK_MB, OVERHEAD, bytes_per_second, memory_mb

from .sample import made

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
