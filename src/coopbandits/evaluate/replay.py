r"""Replay: the value of a policy that *learns*, from a log (Li, Chu, Langford, Wang 2011).

**What is assumed.** Decision j of an agent has a context x_j (features and allowed arms) and
rewards r_j(1 … K), of which the log holds the one of the arm that was played. The pairs (x_j, r_j)
of one agent are independent and identically distributed, those of different agents independent; the
world does not drift. The arm a_j was drawn with a known probability p_j(a_j) that depends on x_j
and on earlier decisions of any agent, and every allowed arm had a probability of at least c, the
smallest propensity in the log. A log in which that visibly fails is rejected.

**Thinning.** Decision j is kept with probability c/p_j(a_j). Whatever happened before, a decision
is then kept *and* has arm k with probability p_j(k) · c/p_j(k) = c, the same for every allowed k.
So what is kept, and with which arm, is independent of all contexts and rewards: the thinned log is
one whose arms were drawn uniformly and without learning, even if it comes from a learner.

**Rounds.** As in `simulate`, every agent of the network pulls once per round, and the round ends
when all have: messages are exchanged then, and not before. For its pull, an agent goes through its
own decisions, in order, from where it stopped last. In each it is asked for its arm; if that is the
arm of a kept decision, it observes the reward, and the pull is done. All other decisions leave no
trace: no observation, no message, no end of a round. The pull's random word stays the same until
then.

**Why this is a sample of the world.** Whatever an agent knows and whatever the context is, the next
decision is accepted with probability c. Hence (1) the accepted contexts and rewards are independent
draws of the world's, so the replayed rounds have exactly the joint distribution of the world's
rounds, for any policy and network; and (2) how many decisions a pull takes is geometric with
parameter c and independent of what happens in the rounds. The replay ends when an agent's decisions
do. By (2) the number T of complete rounds is independent of what is played and paid in them, so
given T they are the first T rounds of the world, and the mean reward is an unbiased estimate of the
policy's mean reward over T rounds. The last, incomplete round is dropped.

Since agents walk through their decisions independently of one another, round t may combine
decisions that were logged at different times. Stationarity makes that harmless; it also shows why a
drifting world cannot be replayed: a round of the replay takes 1/c decisions per agent, so the world
would change 1/c times faster than the agents count rounds. `replay` warns if it sees that.

**Whose decisions.** If the log has as many agents as the network, numbered 0 … N − 1, each agent
replays its own, so sites may differ. If it has only one, or no network is given, all agents take
their decisions from the same sequence, in turn, which is valid because they all meet the same
world. Any other number is rejected; `DecisionLog.pooled` declares that agents meet the same world.
Central policies are played too: one controller chooses for the agents in turn, as in `simulate`.
Faults and agents with their own clocks are not replayed, since a log does not say when their rounds
would end.

**The error.** What a learner is paid varies from run to run by more than the scatter of its
rewards, because an early mistake costs for a long time. So the log is resampled with replacement,
decision by decision and agent by agent, and replayed again; the scatter of these replays estimates
the standard error (Mary, Preux, Nicol 2014), and Student's quantile accounts for their number.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, cast

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit
from scipy.stats import binom

from coopbandits.core.checks import require_count, require_positive
from coopbandits.core.contract import Agent, Context, Vector
from coopbandits.core.cooperative import CooperativeAgent
from coopbandits.core.draws import stream_key, uniforms, word_at, words
from coopbandits.core.errors import InputError
from coopbandits.core.policy import AnyPolicy, CentralPolicy, Policy
from coopbandits.evaluate.estimators import CONFIDENCE, Value
from coopbandits.evaluate.log import DecisionLog
from coopbandits.network import Network
from coopbandits.sim.reference import Mail
from coopbandits.sim.setup import global_knowledge, read_network
from coopbandits.sim.simulate import read_policy
from coopbandits.sim.tapes import DECISIONS, agent_keys, identity_words, secret_of

REPLAY = 8
"""The stream of random words that thin and resample logs."""

SURE = 1e-5
"""A log whose thinned arms are less likely than this, if drawn uniformly, is rejected."""

DRIFTS = 5.0
"""Standard errors by which an arm's reward must differ between halves of a log to call it drift."""

Rows = NDArray[np.int64]


def replay(
    log: DecisionLog,
    policy: AnyPolicy | str,
    network: Network | str | None = None,
    *,
    sigma: float = 1.0,
    seed: int = 0,
    resamples: int = 10,
) -> Value:
    """Return the mean reward of a learning policy over the rounds that a log can replay.

    Parameters
    ----------
    log : DecisionLog
        Decisions in order of time.
    policy : Policy or str
        Any policy, a central one too; it starts without knowledge.
    network : Network or str, optional
        The agents that learn together: one per agent of the log, or any number if the log has one.
        Without it a single agent takes all decisions.
    sigma : float
        σ of the rewards, as agents are told. A policy with family "auto" does without it where
        every logged reward is 0 or 1.
    seed : int
        Seed of the choices, of thinning and of resampling.
    resamples : int
        Replays of a resampled log for the error, each as long as the first; 0 for no error.

    Returns
    -------
    Value
        Its `effective` is the number of decisions that were replayed: N times the number of rounds.

    Notes
    -----
    The value is that of the policy's first rounds, as many as the log can replay, about c times the
    decisions per agent, c the smallest propensity. The top of this module has the assumptions and
    the proof.
    """
    policy = suited_policy(log, policy)
    network = Network(nx.empty_graph(1)) if network is None else read_network(network)
    require_positive("sigma", sigma)
    require_count("resamples", resamples, least=0)
    check_policy(log, policy, network)
    streams = _streams(log, network)
    kept = _kept(log, np.arange(len(log)), seed, 0)
    _require_uniform(log, kept)
    _warn_of_drift(log)
    paid = replay_rounds(log, policy, network, _filtered(streams, kept), sigma=sigma, seed=seed)
    if not paid.size:
        raise InputError(
            f"the {len(log)} decisions of the log end before every agent has shared one with "
            f"policy {policy.spelling}; use a longer log or a higher floor on exploration"
        )
    again = []
    for run in range(1, resamples + 1):
        drawn = [_resampled(rows, seed, run, at) for at, rows in enumerate(streams)]
        chosen = [rows[_kept(log, rows, seed, run, at)] for at, rows in enumerate(drawn)]
        found = replay_rounds(log, policy, network, chosen, sigma=sigma, seed=seed, run=run)
        again += [float(found.mean())] if found.size else []
    mean = float(paid.mean())
    error = float(np.std(again, ddof=1)) if len(again) > 1 else math.nan
    reach = error * float(stdtrit(len(again) - 1, 0.5 + CONFIDENCE / 2)) if again else math.nan
    return Value(mean, error, mean - reach, mean + reach, float(paid.size))


def replay_rounds(
    log: DecisionLog,
    policy: AnyPolicy,
    network: Network,
    streams: Sequence[Rows],
    *,
    sigma: float,
    seed: int,
    run: int = 0,
) -> Vector:
    """Play as many rounds as the decisions last; return what they paid (round, agent).

    `streams` holds the kept decisions of every agent, or one sequence for all. Words are those of a
    run of `simulate`, so that a log of that run replays to the same rounds.
    """
    players = make_players(log, policy, network, sigma, seed, run)
    keys = agent_keys(seed, DECISIONS, run, network.num_agents).tolist()
    walks = [iter(rows.tolist()) for rows in streams]
    takes_context = policy.takes_context  # makes its parts every time it is asked
    rounds: list[list[float]] = []
    while True:
        paid = []
        for agent, key in enumerate(keys):
            walk = walks[agent if len(walks) > 1 else 0]
            row = _pull(log, players, agent, word_at(key, len(rounds)), walk, takes_context)
            if row is None:
                return np.array(rounds).reshape(-1, len(keys))
            paid.append(float(log.rewards[row]))
        players.end_round()
        rounds.append(paid)


def _pull(
    log: DecisionLog, players: Players, agent: int, word: int, walk: Any, takes_context: bool
) -> int | None:
    """Return the first decision in which an agent plays the logged arm, and let it observe that."""
    choices: dict[bytes, int] = {}  # without features, the choice depends on the allowed arms alone
    for row in walk:
        allowed, context = question(log, row, takes_context)
        place = b"" if allowed is None else log.allowed[row].tobytes()
        if context is not None or place not in choices:
            choices[place] = players.choose(agent, word, allowed, context)
        if (arm := choices[place]) == log.arms[row]:
            pulled = None if context is None else context[arm]
            players.observe(agent, arm, float(log.rewards[row]), pulled)
            return int(row)
    return None


class Players(Protocol):
    """The agents of a network, or the controller of them all."""

    def choose(
        self, agent: int, word: int, allowed: list[int] | None, context: Context | None
    ) -> int:
        """Return what an agent would play; change nothing."""

    def observe(self, agent: int, arm: int, reward: float, features: Vector | None) -> None:
        """Let an agent observe the reward of its pull."""

    def end_round(self) -> None:
        """Exchange messages."""


class _Agents(NamedTuple):
    agents: list[Agent]
    mail: Mail

    def choose(
        self, agent: int, word: int, allowed: list[int] | None, context: Context | None
    ) -> int:
        return would_choose(self.agents[agent], word, allowed, context)

    def observe(self, agent: int, arm: int, reward: float, features: Vector | None) -> None:
        told = () if features is None else (features,)
        self.agents[agent].observe(arm, reward, *told)

    def end_round(self) -> None:
        self.mail.exchange(self.agents, [0] * len(self.mail.links))


class _Central(NamedTuple):
    controller: Any  # a custom one may have neither `turn` nor `allowed`

    def choose(
        self, agent: int, word: int, allowed: list[int] | None, context: Context | None
    ) -> int:
        if hasattr(self.controller, "turn"):
            self.controller.turn(agent)
        told: dict[str, Any] = {} if allowed is None else {"allowed": allowed}
        told |= {} if context is None else {"context": context}
        return int(self.controller.choose(word, **told))

    def observe(self, agent: int, arm: int, reward: float, features: Vector | None) -> None:
        del agent  # its turn began with the choice
        told = () if features is None else (features,)
        self.controller.observe(arm, reward, *told)

    def end_round(self) -> None:
        self.controller.end_round()


def make_players(
    log: DecisionLog, policy: AnyPolicy, network: Network, sigma: float, seed: int, run: int
) -> Players:
    """Return agents, or a controller, that know nothing yet of what the log holds."""
    features = log.num_features if policy.takes_context else 0
    if policy.central:
        sizes = (features,) if features else ()
        central = cast("CentralPolicy", policy)
        return _Central(central.make_controller(log.num_arms, sigma, *sizes))
    agents = make_agents(log, cast("Policy", policy), network, sigma, seed, run)
    return _Agents(agents, Mail(network))


def make_agents(
    log: DecisionLog, policy: Policy, network: Network, sigma: float, seed: int, run: int = 0
) -> list[Agent]:
    """Return fresh agents."""
    needs = policy.needs
    known = global_knowledge(network, needs)
    return [
        policy.make_agent(
            replace(
                network.local_view(
                    i, num_arms=log.num_arms, sigma=sigma, needs=needs, global_knowledge=known[i]
                ),
                random_word=tag if "random_word" in needs else 0,
                secret=secret_of(seed, policy.spelling, run, i, 0) if "secret" in needs else b"",
                num_features=log.num_features if policy.takes_context else 0,
            )
        )
        for i, tag in enumerate(identity_words(seed, run, network.num_agents))
    ]


def would_choose(
    agent: Agent, word: int, allowed: Sequence[int] | None, context: Context | None
) -> int:
    """Return what an agent would play, and change nothing."""
    if isinstance(agent, CooperativeAgent):
        return agent.would_choose(word, allowed, context)
    arm = agent.choose(word) if allowed is None else agent.choose(word, allowed)
    agent.open_pulls[arm] -= 1  # by the contract, all that `choose` changes
    return arm


def question(
    log: DecisionLog, row: int, takes_context: bool
) -> tuple[list[int] | None, Context | None]:
    """Return the allowed arms of a decision, None for all, and features (K, d) if they count."""
    mask = log.allowed[row]
    allowed = None if mask.all() else np.flatnonzero(mask).tolist()
    if not takes_context:
        return allowed, None
    return allowed, np.broadcast_to(log.features[row], (log.num_arms, log.num_features))


def suited_policy(log: DecisionLog, policy: AnyPolicy | str) -> AnyPolicy:
    """Return a policy with the family of the log's rewards where it leaves that open."""
    is_binary = bool(np.isin(log.rewards, (0.0, 1.0)).all())
    return read_policy(policy).suited("bernoulli" if is_binary else "gaussian")


def check_policy(log: DecisionLog, policy: AnyPolicy, network: Network) -> None:
    """Reject a policy that the world behind the log could not play."""
    for agent in sorted(policy.named_agents):
        if agent >= network.num_agents:
            raise InputError(
                f"policy {policy.spelling} names agent {agent}; agents are numbered 0 to "
                f"{network.num_agents - 1} here"
            )
    least, most = float(log.rewards.min()), float(log.rewards.max())
    for each in (policy, *policy.members):
        low, high = each.support
        if not low <= least <= most <= high:
            raise InputError(
                f"policy {each.spelling} is for rewards in [{low:g}, {high:g}], and those of the "
                f"log range from {least:g} to {most:g}; rescale them or choose an index or a "
                "family for any rewards"
            )
    if not policy.takes_context:
        return
    if not log.num_features:
        raise InputError(
            f"policy {policy.spelling} uses features, and the log has none; name the columns that "
            "are its context"
        )
    parts = policy.parts
    one = parts is None or parts.registers(log.num_arms, log.num_features).one_context
    if log.features.shape[1] == 1 and log.num_arms > 1 and not one:
        raise InputError(
            f"policy {policy.spelling} has one model for all arms, which in the log have the same "
            "features; use an index with a model per arm, such as lin-ts:disjoint=true"
        )


def _streams(log: DecisionLog, network: Network) -> list[Rows]:
    """Return the decisions of every agent, or of all in one sequence."""
    recorded, number = np.unique(log.agents), network.num_agents
    if number == 1 or recorded.size == 1:
        return [np.arange(len(log))]
    if not np.array_equal(recorded, np.arange(number)):
        raise InputError(
            f"the log records {recorded.size} agents, numbered {recorded[0]} to {recorded[-1]}, "
            f"and the network has {number}; use a network with the log's agents, or log.pooled() "
            "if they all meet the same world"
        )
    return [np.flatnonzero(log.agents == agent) for agent in range(number)]


def _filtered(streams: Sequence[Rows], kept: NDArray[np.bool_]) -> list[Rows]:
    return [rows[kept[rows]] for rows in streams]


def _uniforms(seed: int, size: int, *place: int) -> Vector:
    return uniforms(words(stream_key(seed, REPLAY, *place), np.arange(size, dtype=np.uint64)))


def _kept(log: DecisionLog, rows: Rows, seed: int, *place: int) -> NDArray[np.bool_]:
    """Return which decisions survive thinning."""
    propensities = log.propensities[rows]
    chances: Vector = log.propensities.min() / propensities
    return _uniforms(seed, rows.size, 0, *place) < chances


def _resampled(rows: Rows, seed: int, run: int, stream: int) -> Rows:
    return rows[(_uniforms(seed, rows.size, 1, run, stream) * rows.size).astype(np.int64)]


def _require_uniform(log: DecisionLog, kept: NDArray[np.bool_]) -> None:
    """Reject a log whose thinned arms are not uniform: each must be kept with probability c."""
    least = float(log.propensities.min())
    for arm in range(log.num_arms):
        number = int(log.allowed[:, arm].sum())
        found = int((kept & (log.arms == arm)).sum())
        tails = binom.cdf(found, number, least), binom.sf(found - 1, number, least)
        if min(tails) < SURE / log.num_arms:
            raise InputError(
                f"arm {arm} is left {found} times after thinning where uniform arms would be left "
                f"{number * least:.3g} times, so the log never plays it in some decisions or its "
                "propensities are wrong, and a replay would be biased; log with a floor on "
                "exploration"
            )


def _warn_of_drift(log: DecisionLog) -> None:
    """Warn if an arm's reward, weighted by its propensity, differs between halves of the log."""
    half = len(log) // 2
    for arm in range(log.num_arms if half > 1 else 0):
        rows = log.allowed[:, arm]
        terms = (log.arms == arm) * (log.rewards - log.rewards.mean()) / log.propensities
        first, second = terms[:half][rows[:half]], terms[half:][rows[half:]]
        if min(first.size, second.size) < 2:
            continue
        error = math.hypot(*(part.std(ddof=1) / math.sqrt(part.size) for part in (first, second)))
        change = float(second.mean() - first.mean())
        if abs(change) > DRIFTS * error > 0.0:
            warnings.warn(
                f"the reward of arm {arm} changes by {change:.3g} from the first half of the log "
                "to the second: a replay runs through a drifting world faster than its agents "
                "count rounds, so its value is biased",
                stacklevel=3,
            )
            return
