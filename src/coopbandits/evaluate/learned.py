"""A policy that has learned from the first part of a log, and is judged by the rest.

`ips` and `doubly_robust` take chances: what a policy would play in every decision. A policy that
learns has none before it has learned; so it is shown the first part of the log, whatever was played
there, and then asked what it would play in the decisions of the rest, of which it learns nothing.
"""

from __future__ import annotations

import networkx as nx
import numpy as np

from coopbandits.core.checks import require_count, require_number
from coopbandits.core.draws import stream_key, word_at, words
from coopbandits.core.errors import InputError
from coopbandits.core.policy import AnyPolicy
from coopbandits.evaluate.log import DecisionLog
from coopbandits.evaluate.record import parts_of_agents
from coopbandits.evaluate.replay import agents_for, asked, learn
from coopbandits.evaluate.values import Floats
from coopbandits.network import Network
from coopbandits.sim.simulate import read_policy

LEARNED = 9
"""The stream that words of its choices are drawn from."""


def learned(
    log: DecisionLog,
    policy: AnyPolicy | str,
    *,
    share: float = 0.5,
    draws: int = 20,
    sigma: float = 1.0,
    seed: int = 0,
) -> tuple[DecisionLog, Floats]:
    """Return the rest of a log, and the chances of every arm in it after learning from the first.

    Parameters
    ----------
    log : DecisionLog
        Decisions in the order of time.
    policy : Policy or str
        Played by a single agent, which sees all decisions of the first part.
    share : float
        How much of the log it learns from.
    draws : int
        How many words are tried to count the chances of a random choice.
    sigma, seed : float, int
        As for `replay`.

    Examples
    --------
    `ips(*learned(log, policy))` is what the policy would have been paid, had it stopped learning.
    """
    require_number("share", share, "strictly between 0 and 1", 0.0, 1.0)
    require_count("draws", draws)
    first = int(share * len(log))
    if not 0 < first < len(log):
        raise InputError(
            f"the log has {len(log)} decisions, of which a share of {share:g} leaves a part empty; "
            "take a longer log or another share"
        )
    policy = read_policy(policy)
    told = policy.takes_context
    (agent,) = agents_for(log, policy, Network(nx.empty_graph(1)), sigma, seed)
    for row in range(first):
        learn(agent, log, row, told)
        agent.receive({})
    tries = draws if parts_of_agents(policy).index.random else 1
    decisions = words(stream_key(seed, LEARNED, 0), np.arange(first, len(log), dtype=np.uint64))
    chances = np.zeros((len(log) - first, log.num_arms))
    for row, word in enumerate(decisions.tolist()):
        allowed, context = asked(log, first + row, told)
        for at in range(tries):
            chances[row, agent.would_choose(word_at(word, at), allowed, context)] += 1.0 / tries
    return log.rows(slice(first, None)), chances / chances.sum(axis=1, keepdims=True)
