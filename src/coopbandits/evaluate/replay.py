"""Replay: a policy that learns, played on a log of decisions (Li, Chu, Langford, Wang 2011).

The policy is asked in every logged context. Where it chooses what was played then, the decision is
its own: it is paid, and learns. All others it never sees. If the log's arms were drawn evenly, what
remains is what the policy would have met in the world, and its average reward is unbiased. Where
they were not, decisions are first thinned out until they are: each is kept with the chance
p_min/p of the smallest propensity over its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import networkx as nx
import numpy as np

from coopbandits.core.checks import require_positive
from coopbandits.core.contract import Context
from coopbandits.core.cooperative import CooperativeAgent
from coopbandits.core.draws import stream_key, uniforms, words
from coopbandits.core.errors import InputError
from coopbandits.core.policy import AnyPolicy, Parts, Policy
from coopbandits.evaluate.log import DecisionLog
from coopbandits.evaluate.record import parts_of_agents
from coopbandits.evaluate.values import Value
from coopbandits.network import Network
from coopbandits.sim.knowledge import global_knowledge
from coopbandits.sim.mail import Mail
from coopbandits.sim.setup import read_network
from coopbandits.sim.simulate import read_policy

REPLAY = 8
"""The stream that words of replayed choices are drawn from."""


def replay(
    log: DecisionLog,
    policy: AnyPolicy | str,
    network: Network | str | None = None,
    *,
    sigma: float = 1.0,
    seed: int = 0,
) -> Value:
    """Return what a learning policy is paid per decision that it shares with the log.

    Parameters
    ----------
    log : DecisionLog
        Decisions in the order of time.
    policy : Policy or str
        What is played; it starts knowing nothing.
    network : Network or str, optional
        Agents that learn together; they take the decisions in turn, and exchange messages when
        each has had one. A single agent unless given.
    sigma : float
        σ of the rewards, as agents are told it. A policy with family "auto" does without it where
        every logged reward is 0 or 1.
    seed : int
        Of the choices' words, and of what is thinned out.

    Returns
    -------
    Value
        Its `effective` is the number of decisions that were shared.
    """
    policy = read_policy(policy)
    network = Network(nx.empty_graph(1)) if network is None else read_network(network)
    agents = agents_for(log, policy, network, sigma, seed)
    mail = Mail(network)
    fates = [0] * len(mail.links)
    keep = log.propensities.min() / log.propensities
    counters = np.arange(len(log), dtype=np.uint64)
    thinned = uniforms(words(stream_key(seed, REPLAY, 0), counters)) >= keep
    decisions = words(stream_key(seed, REPLAY, 1), counters).tolist()
    paid, turn = [], 0
    for row in np.flatnonzero(~thinned).tolist():
        if _shares(agents[turn], log, row, decisions[row], policy.takes_context):
            paid.append(log.rewards[row])
        turn = (turn + 1) % len(agents)
        if turn == 0:
            mail.exchange(agents, fates)
    if not paid:
        raise InputError(
            f"policy {policy.spelling} chose none of the {len(log)} logged arms; a longer log, or "
            "one with more exploration, may tell"
        )
    error = float(np.std(paid, ddof=1) / np.sqrt(len(paid))) if len(paid) > 1 else float("nan")
    return Value(float(np.mean(paid)), error, float(len(paid)))


def _shares(agent: CooperativeAgent, log: DecisionLog, row: int, word: int, told: bool) -> bool:
    """Let an agent choose; return whether it chose what was played, of which it then learns."""
    if agent.would_choose(word, *asked(log, row, told)) != log.arms[row]:
        return False
    learn(agent, log, row, told)
    return True


def asked(log: DecisionLog, row: int, told: bool) -> tuple[list[int], Context | None]:
    """Return the arms that were allowed in a decision, and its features where these are told."""
    features = log.features[row]
    context = features if len(features) > 1 else features[0]
    return np.flatnonzero(log.allowed[row]).tolist(), context if told else None


def learn(agent: CooperativeAgent, log: DecisionLog, row: int, told: bool) -> None:
    """Let an agent see what a logged arm paid."""
    arm, features = int(log.arms[row]), log.features[row]
    pulled = features[arm if len(features) > 1 else 0]
    agent.observe(arm, float(log.rewards[row]), pulled if told else None)


def agents_for(
    log: DecisionLog, policy: AnyPolicy, network: Network, sigma: float, seed: int
) -> list[CooperativeAgent]:
    """Return agents that know nothing yet of what the log holds; refuse what cannot be played."""
    _check(log, parts_of_agents(policy), policy)
    require_positive("sigma", sigma)
    policy = policy.suited("bernoulli" if np.isin(log.rewards, (0.0, 1.0)).all() else "gaussian")
    known = global_knowledge(network, policy.needs)
    tags = words(stream_key(seed, REPLAY, 2), np.arange(network.num_agents, dtype=np.uint64))
    made = [
        cast("Policy", policy).make_agent(
            replace(
                network.local_view(
                    i, num_arms=log.num_arms, sigma=sigma, needs=policy.needs,
                    global_knowledge=known[i],
                ),
                random_word=tag,
                num_features=log.num_features if policy.takes_context else 0,
            )
        )
        for i, tag in enumerate(tags.tolist())
    ]  # fmt: skip
    return cast("list[CooperativeAgent]", made)


def _check(log: DecisionLog, parts: Parts, policy: AnyPolicy) -> None:
    low, high = policy.support
    least, most = float(log.rewards.min()), float(log.rewards.max())
    if not low <= least <= most <= high:
        raise InputError(
            f"policy {policy.spelling} is for rewards in [{low:g}, {high:g}], and those of the log "
            f"go from {least:g} to {most:g}; rescale the rewards, or choose an index or a family "
            "for any rewards"
        )
    if not policy.takes_context:
        return
    if not log.num_features:
        raise InputError(
            f"policy {policy.spelling} looks at features, and the log has none; name the columns "
            "that are its context"
        )
    one = parts.registers(log.num_arms, log.num_features).one_context
    if log.features.shape[1] == 1 and log.num_arms > 1 and not one:
        raise InputError(
            f"policy {policy.spelling} has one model for all arms, which in the log have the same "
            "features; take an index with a model per arm, such as lin-ts:disjoint=true"
        )
