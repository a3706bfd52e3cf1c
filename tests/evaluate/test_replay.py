"""Replay against the world: exactly on a run's own decisions, and on average on uniform logs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import coopbandits as cb
from coopbandits import InputError, Network, parse_policy
from coopbandits.core import Index, LocalSums, combine
from coopbandits.core.index import LINEAR_INDICES
from coopbandits.core.registry import AGGREGATIONS, CENTRAL_AGGREGATIONS, EXAMPLES, INDICES
from coopbandits.core.sources import SOURCES
from coopbandits.evaluate import DecisionLog, log_decisions, replay
from coopbandits.evaluate.replay import replay_rounds
from coopbandits.sim.contexts import ContextAccount
from coopbandits.sim.record import Task
from coopbandits.sim.reference import make_account
from coopbandits.sim.setup import Setup, recorded_rounds
from coopbandits.sim.tapes import REWARDS, agent_keys, tape_words, variates

from .worlds import BEST, MEANS, PROBLEM, drawn

pytestmark = pytest.mark.plays

CYCLE = Network.from_spec("cycle:4")
ARMS = cb.BernoulliBandit([0.3, 0.6, 0.5])

COUNT_ROUNDS = (
    "dducb:own_pulls=false", "tree-sums:discount=0.9*ucb", "central-totals:window=8*ucb",
)  # fmt: skip
"""What a round is matters to these: stages, a discount and a window."""

LINEAR = "local-sums:discount=0.9*lin-ts:disjoint=true"

REQUIRED = {
    "server-totals": ":threshold=2", "private": ":epsilon=1,horizon=100", "truncated": ":limit=4",
    "lin-ts": ":disjoint=true", "lin-ucb": ":disjoint=true",
}  # fmt: skip
"""Settings that have no default, or that features of all arms together need."""


def spelled(part: Any) -> str:
    return f"{part.name}{REQUIRED.get(part.name, '')}"


PARTS = (
    *(f"{spelled(each)}*ucb" for each in AGGREGATIONS),
    *(f"{spelled(each)}*lin-ucb:disjoint=true" for each in CENTRAL_AGGREGATIONS),
    *(f"flooded-totals*{spelled(each)}" for each in (*INDICES, *LINEAR_INDICES)),
    *(f"{spelled(each)}*flood-ucb" for each in SOURCES),
)
"""One pair with every aggregation, index and source."""

SETTINGS = (
    *EXAMPLES, *COUNT_ROUNDS, *PARTS, LINEAR, "central-totals*lin-ts:disjoint=true",
    "server-totals:growth=0.5*lin-ucb:disjoint=true",
    "flooded-totals:window=8*ucb", "tree-ucb:lazy=1", "mp-ucb:hop_limit=1,wait=2",
    "resilient-ucb+liar@0", "mabwiser:learner=EpsilonGreedy,epsilon=0.3",
    "river:learner=EpsilonGreedy,epsilon=0.3",
)  # fmt: skip


class Second(Index):
    """Plays the second arm."""

    name = "second"

    @staticmethod
    def value(arm, estimate, word, numbers, scratch) -> float:  # type: ignore[no-untyped-def]  # kept short
        return float(arm == 1)


def own_decisions(policy: Any, horizon: int, seed: int) -> tuple[DecisionLog, np.ndarray]:
    """Return a run's decisions among others with another arm, and what the run's rounds paid."""
    problem = PROBLEM if policy.takes_context else ARMS
    network = CYCLE
    result = cb.simulate(
        problem, network, policy, horizon, runs=1, seed=seed, keep="arms", engine="reference"
    )
    arms = result.arms.values.reshape(4, horizon)
    setup = Setup(problem, network, horizon, recorded_rounds(horizon, 1), seed=seed)
    account, _ = make_account(Task(setup, policy), 0)
    tape = variates(problem.variate, tape_words(agent_keys(seed, REWARDS, 0, 4), 0, horizon))
    source = np.random.default_rng(seed)  # noqa: TID251  not a tape
    rows: list[tuple[int, int, int, float, Any]] = []
    paid = np.empty((horizon, 4))
    for t in range(horizon):
        account.begin(t)
        for i in range(4):
            features = np.empty((1, 0))
            if isinstance(account, ContextAccount):
                features = account.features(i)[:1]
            paid[t, i] = account.pay(i, int(arms[i, t]), float(tape[i, t]))
            for _ in range(source.integers(4)):
                other = (int(arms[i, t]) + int(source.integers(1, 3))) % 3
                rows.append((t, i, other, 0.123, features))
            rows.append((t, i, int(arms[i, t]), paid[t, i], features))
    times, agents, played, rewards, contexts = zip(*rows, strict=True)
    count = len(rows)
    log = DecisionLog(
        np.array(contexts), np.array(played), np.array(rewards), np.full(count, 1 / 3),
        np.ones((count, 3), dtype=bool), np.array(times), np.array(agents),
    )  # fmt: skip
    return log, paid


@pytest.mark.covering(25)
@pytest.mark.parametrize("spelling", SETTINGS)
def test_a_policy_that_is_replayed_on_its_own_run_repeats_it(spelling: str) -> None:
    """Rejected decisions leave no trace, and a round ends when all agents have pulled."""
    policy, horizon = parse_policy(spelling), 24
    policy = policy.suited("gaussian" if policy.takes_context else "bernoulli")
    log, paid = own_decisions(policy, horizon, seed=3)
    streams = [np.flatnonzero(log.agents == i) for i in range(4)]
    sigma = PROBLEM.sigma if policy.takes_context else ARMS.sigma
    found = replay_rounds(log, policy, CYCLE, streams, sigma=sigma, seed=3)
    assert np.array_equal(found, paid)


def uniform_log(agents: int, size: int, seed: int) -> DecisionLog:
    """Return uniformly drawn arms of `ARMS`, so many decisions for every agent."""
    source = np.random.default_rng(seed)  # noqa: TID251  not a tape
    count = agents * size
    arms = source.integers(3, size=count)
    rewards = (source.random(count) < np.array(ARMS.means)[arms]).astype(float)
    return DecisionLog(
        np.empty((count, 1, 0)), arms, rewards, np.full(count, 1 / 3),
        np.ones((count, 3), dtype=bool), np.repeat(np.arange(size), agents),
        np.tile(np.arange(agents), size),
    )  # fmt: skip


def world(problem: Any, network: Any, policy: Any, horizon: int, **more: Any) -> np.ndarray:
    """Return the mean reward per decision after 1, 2, … rounds, run by run."""
    result = cb.simulate(
        problem, network, policy, horizon, rounds=range(1, horizon + 1), seed=77, **more
    )
    pulls = np.arange(1, horizon + 1) * Network.from_spec(network).num_agents
    best = BEST if problem is PROBLEM else max(ARMS.means)
    return np.asarray(best - result.regret.values[0] / pulls)


def deviation(logs: list[DecisionLog], policy: str, network: str, truth: np.ndarray) -> float:
    """Return how many standard errors the replays are from the world, on average."""
    number = Network.from_spec(network).num_agents
    off, spread = [], []
    for seed, log in enumerate(logs):
        value = replay(log, policy, network, sigma=0.5, seed=seed, resamples=0)
        rounds = int(value.effective) // number
        off.append(value.mean - truth[:, rounds - 1].mean())
        spread.append(truth[:, rounds - 1].std(ddof=1))
    error = np.hypot(np.std(off, ddof=1) / len(off) ** 0.5, np.mean(spread) / len(truth) ** 0.5)
    return float(np.mean(off) / error)


@pytest.mark.covering(1)
@pytest.mark.parametrize("policy", COUNT_ROUNDS)
def test_replay_is_the_world_where_rounds_count(policy: str) -> None:
    truth = world(ARMS, "cycle:4", policy, 40, runs=25, engine="reference")
    logs = [uniform_log(4, 80, seed) for seed in range(25)]
    assert abs(deviation(logs, policy, "cycle:4", truth)) < 4.0


@pytest.mark.slow
@pytest.mark.parametrize("policy", [*EXAMPLES, *COUNT_ROUNDS])
def test_replay_is_the_world_for_every_policy(policy: str) -> None:
    truth = world(ARMS, "cycle:4", policy, 60, runs=400)
    logs = [uniform_log(4, 100, seed) for seed in range(200)]
    assert abs(deviation(logs, policy, "cycle:4", truth)) < 4.0


@pytest.mark.slow
def test_replay_is_the_world_in_context_and_on_the_log_of_a_learner() -> None:
    linear = parse_policy(LINEAR)
    truth = world(PROBLEM, "complete:1", linear, 60, runs=400, engine="reference")
    logs = [drawn(100, [0.5, 0.3, 0.2], seed) for seed in range(200)]
    found = [
        replay(log, linear, sigma=0.3, seed=seed, resamples=0) for seed, log in enumerate(logs)
    ]
    off = [each.mean - truth[:, int(each.effective) - 1].mean() for each in found]
    assert abs(np.mean(off)) < 4.0 * np.hypot(np.std(off) / 200**0.5, truth[:, 20].std() / 20)
    truth = world(ARMS, "cycle:4", "dducb:own_pulls=false", 60, runs=400)
    learner = [log_decisions(ARMS, CYCLE, "flood-ts", 100, seed=s, floor=0.7) for s in range(200)]
    assert abs(deviation(learner, "dducb:own_pulls=false", "cycle:4", truth)) < 4.0


@pytest.mark.parametrize("chances", [[1 / 3] * 3, [0.6, 0.2, 0.2]], ids=["uniform", "skewed"])
def test_a_policy_that_learns_nothing_has_its_mean(chances: list[float]) -> None:
    log = drawn(2000, chances)
    found = replay(log, combine(LocalSums(), Second()), resamples=5)
    assert abs(found.mean - MEANS[:, 1].mean()) < 4 * found.error
    assert found.low < found.mean < found.high
    assert abs(found.effective - 2000 * min(chances)) < 100  # thinning drops the rest


def test_features_help_and_agents_share_one_sequence_of_decisions() -> None:
    log = drawn(900, [1 / 3] * 3, seed=5)
    linear, blind = (
        replay(log, policy, "cycle:3", sigma=0.3, resamples=0)
        for policy in ("flooded-totals*lin-ts:disjoint=true", "flood-ts")
    )
    assert linear.mean > blind.mean
    assert 250 < linear.effective < 350
    assert np.isnan(linear.error)


def test_the_same_seed_gives_the_same_replay() -> None:
    log = drawn(60, [1 / 3] * 3)
    found = replay(log, parse_policy("flood-ts"), Network.from_spec("cycle:3"), resamples=3)
    assert replay(log, "flood-ts", "cycle:3", resamples=3) == found


def test_allowed_arms_are_those_of_the_decision() -> None:
    problem = cb.subsets(ARMS, [[0, 1], [1, 2]])
    log = log_decisions(problem, CYCLE, "flood-ts", 60, floor=1.0)
    found = replay(log, "gosine", CYCLE, resamples=0)
    assert found.effective >= 40


def test_what_cannot_be_replayed_is_rejected() -> None:
    log = drawn(90, [1 / 3] * 3)
    with pytest.raises(InputError, match=r"arm 1\b.* 0 times"):
        replay(drawn(9, [1.0, 0.0, 0.0]), combine(LocalSums(), Second()))
    certain = log_decisions(ARMS, CYCLE, "dducb", 60, floor=0.0)
    with pytest.raises(InputError, match="floor"):
        replay(certain, "dducb", CYCLE)
    several = log_decisions(ARMS, CYCLE, "dducb", 60, floor=1.0)
    with pytest.raises(InputError, match=r"4 agents.* 0 to 3\b.* 3\b"):
        replay(several, "dducb", "cycle:3")
    assert replay(several.pooled(), "dducb", "cycle:3", resamples=0).effective > 60
    with pytest.raises(InputError, match="every agent"):
        replay(drawn(3, [1 / 3] * 3), "dducb", "cycle:4")
    with pytest.raises(InputError, match=r"\[0, 1\].*the log"):
        replay(log, "local-sums*beta-draw")
    with pytest.raises(InputError, match=r"agent 5\b.* 0 to 2\b"):
        replay(log, "resilient-ucb+liar@5", "cycle:3")
    with pytest.raises(InputError, match=r"network.* 3\b"):
        replay(log, "flood-ts", 3)  # type: ignore[arg-type]  # what is to be rejected
    with pytest.raises(InputError, match=r"resamples.* -1\b"):
        replay(log, "flood-ts", resamples=-1)


def test_a_drifting_log_is_warned_about() -> None:
    still, moved = uniform_log(1, 600, 0), uniform_log(1, 600, 0)
    moved.rewards.flags.writeable = True
    moved.rewards[300:] = 1.0 - moved.rewards[300:]
    replay(still, "independent-ucb", resamples=0)
    with pytest.warns(UserWarning, match="drifting"):
        replay(moved, "independent-ucb", resamples=0)
