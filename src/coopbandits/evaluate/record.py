"""Play a policy, and write down every decision with the chance that it had.

Chances of random choices are counted: `draws` words are tried for every choice, and the arm is
played that a word picked at random among them leads to. So it is drawn as the policy would draw it,
and given those words its chance is exactly its share of them: estimates that divide by it are
unbiased. A floor gives every allowed arm a chance of at least floor/K.
"""

from __future__ import annotations

import math
from typing import cast

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.checks import require_count, require_number
from coopbandits.core.contract import Context, Vector
from coopbandits.core.cooperative import CooperativeAgent
from coopbandits.core.draws import uniform_of, word_at
from coopbandits.core.errors import InputError
from coopbandits.core.policy import AnyPolicy, Parts, Policy
from coopbandits.evaluate.log import DecisionLog
from coopbandits.network import Network
from coopbandits.problems import Problem
from coopbandits.sim.contexts import ContextAccount
from coopbandits.sim.record import Task
from coopbandits.sim.reference import Agents, make_account
from coopbandits.sim.setup import Setup, read_world, recorded_rounds
from coopbandits.sim.simulate import read_policy
from coopbandits.sim.tapes import DECISIONS, REWARDS, agent_keys, tape_words, variates


def log_decisions(
    problem: Problem | str,
    network: Network | str,
    policy: AnyPolicy | str,
    horizon: int,
    *,
    seed: int = 0,
    draws: int = 20,
    floor: float = 0.0,
) -> DecisionLog:
    """Play one run on the reference engine's agents, and return its log.

    Parameters
    ----------
    problem, network, policy, horizon, seed
        As for `simulate`.
    draws : int
        How many words are tried to count the chances of a random choice.
    floor : float
        With this chance any allowed arm is played, each equally likely: in [0, 1].
    """
    require_count("draws", draws)
    require_number("floor", floor, "a number from 0 to 1", -math.ulp(0.0), math.nextafter(1.0, 2.0))
    policy = read_policy(policy)
    parts = parts_of_agents(policy)
    problem, network = read_world(problem, network)
    setup = Setup(problem, network, horizon, recorded_rounds(horizon, 1), seed=seed)
    task = Task(setup, policy)
    players, (account, features) = (
        Agents(task, cast("Policy", task.policy), 0),
        make_account(task, 0),
    )
    number, num_arms = network.num_agents, problem.num_arms
    tries = draws if parts.index.random else 1
    keys = [agent_keys(seed, stream, 0, number) for stream in (REWARDS, DECISIONS)]
    tape = variates(problem.variate, tape_words(keys[0], 0, horizon))
    decisions = tape_words(keys[1], 0, horizon).tolist()
    fates = [0] * len(players.mail.links)
    agents = cast("list[CooperativeAgent]", players.agents)  # policies of parts make no others
    rows = _Rows()
    for t in range(horizon):
        account.begin(t)
        for i, agent in enumerate(agents):
            context = features(i) if features else None
            may = players.allowed[i] or list(range(num_arms))
            shares = _shares(agent, decisions[i][t], tries, players.allowed[i], context)
            chances = (1.0 - floor) * shares
            chances[may] += floor / len(may)
            arm = _pick(chances, uniform_of(word_at(decisions[i][t], tries)))
            rows.arms.append(arm)
            rows.chances.append(chances[arm])
            rows.rewards.append(account.pay(i, arm, float(tape[i, t])))
            rows.allowed.append(np.isin(np.arange(num_arms), may))
            rows.contexts.append(_seen(account, i, problem))
        for i, agent in enumerate(agents):
            at = len(rows.arms) - number + i
            pulled = features(i)[rows.arms[at]] if features else None
            agent.observe(rows.arms[at], rows.rewards[at], pulled)
        players.end_round(fates)
    return DecisionLog(
        features=np.array(rows.contexts),
        arms=np.array(rows.arms, dtype=np.int64),
        rewards=np.array(rows.rewards),
        propensities=np.array(rows.chances),
        allowed=np.array(rows.allowed),
        times=np.repeat(np.arange(horizon), number),
        agents=np.tile(np.arange(number), horizon),
    )


def parts_of_agents(policy: AnyPolicy) -> Parts:
    """Return what the agents of a policy are made of, or refuse one that has no such agents."""
    parts: Parts | None = getattr(policy, "parts", None)
    if parts is None or policy.central:
        raise InputError(
            f"policy is {policy!r}; give one that is made of parts and has agents, such as "
            "cb.FloodTS()"
        )
    return parts


class _Rows:
    """Columns that grow."""

    def __init__(self) -> None:
        self.arms: list[int] = []
        self.chances: list[float] = []
        self.rewards: list[float] = []
        self.allowed: list[NDArray[np.bool_]] = []
        self.contexts: list[Context] = []


def _shares(
    agent: CooperativeAgent,
    word: int,
    tries: int,
    allowed: list[int] | None,
    context: Context | None,
) -> Vector:
    """Return how often each arm would be played, over some words."""
    shares = np.zeros(agent.view.num_arms)
    for at in range(tries):
        shares[agent.would_choose(word_at(word, at), allowed, context)] += 1.0
    return shares / tries


def _pick(chances: Vector, uniform: float) -> int:
    """Return an arm, drawn with these chances."""
    possible = np.flatnonzero(chances)
    edges = np.cumsum(chances[possible])
    at = int(np.searchsorted(edges, uniform * edges[-1], side="right"))
    return int(possible[min(at, possible.size - 1)])


def _seen(account: object, agent: int, problem: Problem) -> Context:
    """Return the features that there are, also where the policy looks at none."""
    if not isinstance(account, ContextAccount):
        return np.empty((1, 0))
    features = account.features(agent)
    return features[:1] if problem.one_context else features
