"""What agents play with which probability: to log decisions, and to evaluate after learning.

An estimate divides by the probability that the logged arm had, so that must be exact. There are
three cases, and the index itself says which one it is:

- It is deterministic: one arm has probability 1.
- The values of the arms are independent draws, normal or beta (`Index.draws`): arm k is played with
  probability ∫ f_k Π_{j≠k} F_j dx, which is integrated numerically, to about 1e-6.
- Otherwise (draws that depend on each other, custom indices) `draws` random words are tried, and an
  arm's share of them is its probability. An arm that none of them leads to has probability 0.

`log_decisions` then draws the arm *with these probabilities*. So the propensity in the log is the
true one in all three cases, given the words in the third, and errors of the integration do not bias
anything. But a propensity of 0, or next to it, says nothing about an arm; hence the floor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, betaln, ndtr

from coopbandits.core.checks import require_count, require_number, require_positive
from coopbandits.core.contract import Agent, Context, Vector
from coopbandits.core.cooperative import CooperativeAgent
from coopbandits.core.draws import stream_key, uniform_of, word_at, words
from coopbandits.core.errors import InputError
from coopbandits.core.index.index import Draws
from coopbandits.core.policy import AnyPolicy, Policy
from coopbandits.evaluate.estimators import Floats
from coopbandits.evaluate.log import DecisionLog
from coopbandits.evaluate.replay import (
    check_policy,
    make_agents,
    question,
    suited_policy,
    would_choose,
)
from coopbandits.network import Network
from coopbandits.problems import Problem
from coopbandits.sim.contexts import ContextAccount
from coopbandits.sim.record import Task
from coopbandits.sim.reference import Agents, make_account
from coopbandits.sim.setup import Setup, read_world, recorded_rounds
from coopbandits.sim.simulate import read_policy
from coopbandits.sim.tapes import DECISIONS, REWARDS, agent_keys, tape_words, variates

LEARNED = 9
"""The stream of random words that probabilities are counted with after learning."""

FLOOR = 0.1

EDGES = np.array([-8.0, -6.0, -4.5, -3.5, -2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5, 4.5, 6.0, 8.0])
"""Where an arm's values are cut for integration, in standard deviations from their mean."""

NODES, WEIGHTS = np.polynomial.legendre.leggauss(6)


def log_decisions(
    problem: Problem | str,
    network: Network | str,
    policy: AnyPolicy | str,
    horizon: int,
    *,
    seed: int = 0,
    draws: int = 20,
    floor: float = FLOOR,
) -> DecisionLog:
    """Play one run with the reference engine's agents and log every decision.

    Parameters
    ----------
    problem, network, policy, horizon, seed
        As for `simulate`; not a central policy.
    draws : int
        Random words per decision if the probabilities have to be counted.
    floor : float
        Probability in [0, 1] of playing any allowed arm, all equally likely. With 0 a log cannot
        evaluate policies that play arms which the logging policy gave up.
    """
    require_count("draws", draws)
    require_number("floor", floor, "a number from 0 to 1", -math.ulp(0.0), math.nextafter(1.0, 2.0))
    problem, network = read_world(problem, network)
    setup = Setup(problem, network, horizon, recorded_rounds(horizon, 1), seed=seed)
    task = Task(setup, require_agents(read_policy(policy)))
    players, (account, features) = (
        Agents(task, require_agents(task.policy), 0),
        make_account(task, 0),
    )
    number, num_arms = network.num_agents, problem.num_arms
    keys = [agent_keys(seed, stream, 0, number) for stream in (REWARDS, DECISIONS)]
    tape = variates(problem.variate, tape_words(keys[0], 0, horizon))
    decisions = tape_words(keys[1], 0, horizon).tolist()
    fates = [0] * len(players.mail.links)
    rows: list[tuple[int, float, float, NDArray[np.bool_], Context]] = []
    for t in range(horizon):
        account.begin(t)
        pulls = []
        for i, agent in enumerate(players.agents):
            context = features(i) if features else None
            allowed, word = players.allowed[i], decisions[i][t]
            may = np.ones(num_arms, dtype=bool) if allowed is None else _mask(allowed, num_arms)
            chances = (1.0 - floor) * probabilities(agent, word, draws, allowed, context)
            chances += floor * may / may.sum()
            arm = _drawn(chances, uniform_of(word_at(word, draws)))
            reward = account.pay(i, arm, float(tape[i, t]))
            rows.append((arm, float(chances[arm]), reward, may, _features(account, i, problem)))
            pulls.append((agent, arm, reward, () if context is None else (context[arm],)))
        for agent, arm, reward, pulled in pulls:  # once all have chosen, as in every engine
            agent.observe(arm, reward, *pulled)
        players.end_round(fates)
    arms, chosen, rewards, masks, contexts = zip(*rows, strict=True)
    return DecisionLog(
        features=np.array(contexts),
        arms=np.array(arms, dtype=np.int64),
        rewards=np.array(rewards),
        propensities=np.array(chosen),
        allowed=np.array(masks),
        times=np.repeat(np.arange(horizon), number),
        agents=np.tile(np.arange(number), horizon),
    )


def learned(
    log: DecisionLog,
    policy: AnyPolicy | str,
    *,
    share: float = 0.5,
    draws: int = 20,
    sigma: float = 1.0,
    seed: int = 0,
) -> tuple[DecisionLog, Floats]:
    """Let a policy learn from the first part of a log; return the rest and what it would play.

    `ips` and `doubly_robust` evaluate policies that no longer learn: `ips(*learned(log, policy))`
    is what the policy would be paid if it stopped learning then.

    Parameters
    ----------
    log : DecisionLog
        Decisions in order of time.
    policy : Policy or str
        Played by a single agent, which observes all decisions of the first part, whoever made them.
    share : float
        Share of the log that it learns from, strictly between 0 and 1.
    draws, sigma, seed : int, float, int
        As for `log_decisions` and `replay`.

    Returns
    -------
    tuple of DecisionLog and array of shape (n, K)
        The rest of the log, and the probabilities of all arms in its decisions.
    """
    require_number("share", share, "strictly between 0 and 1", 0.0, 1.0)
    require_count("draws", draws)
    require_positive("sigma", sigma)
    first = int(share * len(log))
    if not 0 < first < len(log):
        raise InputError(
            f"a share of {share:g} of the log's {len(log)} decisions leaves one part empty; use a "
            "longer log or another share"
        )
    agents = require_agents(read_policy(policy))
    policy, network = require_agents(suited_policy(log, agents)), Network(nx.empty_graph(1))
    check_policy(log, policy, network)
    keys = words(stream_key(seed, LEARNED, 0), np.arange(len(log), dtype=np.uint64)).tolist()
    (agent,) = make_agents(log, policy, network, sigma, seed)
    for row in range(first):
        arm, (_, context) = int(log.arms[row]), question(log, row, policy.takes_context)
        agent.observe(arm, float(log.rewards[row]), *(() if context is None else (context[arm],)))
        agent.receive({})
    found = np.empty((len(log) - first, log.num_arms))
    known: dict[bytes, Vector] = {}  # without features, choices depend on the allowed arms alone
    for row in range(first, len(log)):
        allowed, context = question(log, row, policy.takes_context)
        place = log.allowed[row].tobytes()
        if context is not None or place not in known:
            known[place] = probabilities(agent, keys[row], draws, allowed, context)
        found[row - first] = known[place]
    return log.rows(slice(first, None)), found


def require_agents(policy: AnyPolicy) -> Policy:
    """Reject a central policy."""
    if policy.central:
        raise InputError(
            f"policy {policy.spelling} is central and has no agents; give one that has, such as "
            "cb.FloodTS()"
        )
    return cast("Policy", policy)


def probabilities(
    agent: Agent, word: int, draws: int, allowed: Sequence[int] | None, context: Context | None
) -> Vector:
    """Return the probability of every arm in an agent's next choice."""
    index = agent.index if isinstance(agent, CooperativeAgent) else None
    if index is not None and index.random:
        values = cast("CooperativeAgent", agent).draws(context)
        if values is not None and (exact := winning(values, allowed)) is not None:
            return exact
    found = np.zeros(agent.view.num_arms)
    tries = draws if index is None or index.random else 1
    for at in range(tries):
        found[would_choose(agent, word_at(word, at), allowed, context)] += 1.0
    return found / tries


def winning(draws: Draws, allowed: Sequence[int] | None = None) -> Vector | None:
    """Return the probability that each of some independent draws is the largest.

    None if a draw does not vary, since rounding then decides. The integral is taken by six-point
    Gauss rules between all edges of all arms, so it is as fine as the narrowest density there.
    """
    arms = np.arange(len(draws.first)) if allowed is None else np.array(sorted(allowed))
    first, second = draws.first[arms], draws.second[arms]
    if draws.family == "beta":
        total = first + second
        means, widths = first / total, np.sqrt(first * second / (total + 1.0)) / total
    else:
        means, widths = first, second
    if not (widths > 1e-9 * np.maximum(1.0, abs(means))).all():
        return None
    lowest, highest = (means - 8.0 * widths).max(), (means + 8.0 * widths).max()
    edges = (means[:, None] + widths[:, None] * EDGES).ravel()
    if draws.family == "beta":
        edges, lowest, highest = np.append(edges, [0.0, 1.0]), max(lowest, 0.0), min(highest, 1.0)
    # Below `lowest` some arm almost surely has a larger value; above `highest` no arm has any.
    edges = np.unique(np.clip(edges, lowest, highest))
    half = np.diff(edges)[:, None] / 2.0
    points = ((edges[:-1, None] + half) + half * NODES).ravel()
    steps = (half * WEIGHTS).ravel()
    if draws.family == "beta":
        a, b = first[:, None], second[:, None]
        inside = np.clip(points, 1e-300, 1.0 - 2.0**-53)
        log_density = (a - 1.0) * np.log(inside) + (b - 1.0) * np.log1p(-inside) - betaln(a, b)
        density, below = np.exp(log_density), betainc(a, b, inside)
    else:
        z = (points - first[:, None]) / second[:, None]
        density = np.exp(-0.5 * z * z) / (math.sqrt(2.0 * math.pi) * second[:, None])
        below = ndtr(z)
    logs = np.log(np.maximum(below, 1e-300))
    chances = (density * np.exp(logs.sum(axis=0) - logs)) @ steps
    found = np.zeros(len(draws.first))
    found[arms] = chances / chances.sum()
    return found


def _mask(allowed: Sequence[int], num_arms: int) -> NDArray[np.bool_]:
    return np.isin(np.arange(num_arms), allowed)


def _drawn(chances: Vector, uniform: float) -> int:
    """Return an arm, drawn with these probabilities."""
    possible = np.flatnonzero(chances)
    edges = np.cumsum(chances[possible])
    at = int(np.searchsorted(edges, uniform * edges[-1], side="right"))
    return int(possible[min(at, possible.size - 1)])


def _features(account: object, agent: int, problem: Problem) -> Context:
    """Return the features of a decision, even if the policy ignores them."""
    if not isinstance(account, ContextAccount):
        return np.empty((1, 0))
    features = account.features(agent)
    return features[:1] if problem.one_context else features
