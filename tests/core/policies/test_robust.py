"""GossipTS, TreeTS, FloodTS and their kin: settings, what they send, and any trouble survived."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

import networkx as nx
import numpy as np
import pytest

from coopbandits.core import (
    UCB,
    AnyAggregation,
    BayesUCB,
    BetaDraw,
    CentredDraw,
    FloodTS,
    FloodUCB,
    GossipTS,
    Index,
    InputError,
    LedgerTS,
    LedgerUCB,
    LocalView,
    Machine,
    NormalDraw,
    Policy,
    TreeTS,
    TreeUCB,
)
from coopbandits.core.aggregate import (
    FloodedTotals,
    LedgerSums,
    PullMixing,
    RunningConsensus,
    RunningSums,
    TreeSums,
)
from coopbandits.core.draws import normals, words
from coopbandits.literature import UCL, InflatedUCB

from ..fleet import (
    GRAPHS,
    decision_words,
    drive,
    exchange,
    gossip_matrix,
    machine,
    make_agent,
    make_agents,
    one_view,
    rewards_tape,
    values_of,
)
from ..rough import CALM, Rough, Schedule

SAMPLERS: tuple[Any, ...] = (GossipTS, TreeTS, FloodTS, LedgerTS)
NAME = attrgetter("name")
TROUBLE = Schedule(key=6, loss=0.3, late=2, sleep=0.2, spell=9, both_ways=False)

AGGREGATIONS: dict[str, AnyAggregation] = {
    "running consensus": RunningConsensus(),
    "pull mixing": PullMixing(),
    "running sums": RunningSums(),
    "tree sums": TreeSums(),
    "flooded totals": FloodedTotals(),
    "ledger sums": LedgerSums(),
}
INDICES: dict[str, Index] = {
    "ucb": UCB(2.0),
    "inflated": InflatedUCB(1.01),
    "ucl": UCL(2.0, prior_sigma=1.0),
    "quantile": BayesUCB(),
    "normal": NormalDraw(),
    "centred": CentredDraw(),
    "estimated": CentredDraw("estimate"),
    "beta": BetaDraw(),
}


def troubled(name: str) -> Callable[[LocalView], Machine]:
    return partial(machine, AGGREGATIONS[name], squares="pooled")


@pytest.mark.covering(3)
@pytest.mark.parametrize("name", AGGREGATIONS)
def test_every_index_finds_numbers_in_any_trouble(name: str) -> None:
    world = Rough(troubled(name), GRAPHS["grid-2x4"])
    for _ in range(30):
        estimates = [agent.estimate() for agent in world.agents]
        for index in INDICES.values():
            values = np.array([values_of(index, estimate, 5) for estimate in estimates])
            assert not np.isnan(values).any()
            assert not np.isneginf(values).any()
        world.pull()
        world.step(TROUBLE)


@pytest.mark.covering(3)
@pytest.mark.parametrize("name", AGGREGATIONS)
def test_restarts_in_the_middle_of_trouble_change_nothing(name: str) -> None:
    steady, restarted = (Rough(troubled(name), GRAPHS["grid-2x4"]) for _ in range(2))
    for now in range(30):
        for world in (steady, restarted):
            world.pull()
            if now % 4 == 1:
                restarted.restart()
            world.step(TROUBLE)
        states = [[agent.export_state() for agent in w.agents] for w in (steady, restarted)]
        assert states[0] == states[1]


@pytest.mark.parametrize("kind", SAMPLERS)
def test_settings(kind: Any) -> None:
    with pytest.raises(InputError, match="'normal'"):
        kind("normal")
    with pytest.raises(InputError, match=r"sigma.*'estimated'.*'estimate'"):
        kind(sigma="estimated")


@pytest.mark.parametrize("constant", [0.0, -1.0, math.inf, math.nan])
def test_a_bonus_that_is_no_bonus(constant: float) -> None:
    for kind in (TreeUCB, FloodUCB, LedgerUCB):
        with pytest.raises(InputError, match=f"constant.* {constant!r}"):
            kind(constant)


@pytest.mark.parametrize("policy", [GossipTS(), TreeTS(), TreeUCB(), LedgerUCB()], ids=NAME)
def test_a_random_word_must_be_told(policy: Policy) -> None:
    assert policy.needs == {"random_word"}
    with pytest.raises(InputError, match=r"random_word.*agent 0.* 0\b"):
        policy.make_agent(one_view(random_word=0))


@pytest.mark.parametrize("policy", [FloodTS(), FloodUCB()], ids=lambda p: p.name)
def test_flooding_needs_nothing(policy: Policy) -> None:
    assert policy.needs == frozenset()
    policy.make_agent(one_view(random_word=0, num_agents=None, lambda_bound=None))


# Without minima: where all agree on N, or are sure of it.
SENT: dict[Policy, int] = {
    GossipTS(): 2 * 3 + 2,
    GossipTS(sigma="estimate"): 2 * 3 + 3,
    GossipTS("bernoulli", sigma="estimate"): 2 * 3 + 2,
    TreeTS(): 2 * 3 + 6,
    TreeTS(sigma="estimate"): 2 * 3 + 7,
    TreeUCB(): 2 * 3 + 6,
    LedgerTS(): 6 * 3 + 13,
    LedgerTS(sigma="estimate"): 6 * 3 + 16,
}


@pytest.mark.covering(4)
@pytest.mark.parametrize("policy", SENT, ids=lambda policy: policy.spelling)
def test_values_per_message(policy: Policy) -> None:
    agents = make_agents(policy, gossip_matrix(GRAPHS["cycle-5"]), 3)
    run = drive(agents, rewards_tape(5, 60, 3), 0, 60, decision_words(5, 60))
    assert max(run.sizes[0]) == SENT[policy] + 32
    assert run.sizes[-1] == {SENT[policy]}


def test_flooded_entries_per_message() -> None:
    """On a cycle of five everybody's totals travel over two links each way, one entry each."""
    agents = make_agents(FloodTS(), gossip_matrix(GRAPHS["cycle-5"]), 3)
    run = drive(agents, rewards_tape(5, 30, 3), 0, 30, decision_words(5, 30))
    assert run.sizes[0] == {2 + 8}
    assert max(run.sizes[-1]) <= 2 + 4 * 8  # no agent tells a neighbour of itself
    known = make_agent(FloodTS(sigma="estimate"), one_view()).outgoing(1)
    assert known is not None
    assert known.size == 2 + 2 + 2 * 2 + 1


def test_the_first_pull_is_uniform() -> None:
    for policy in (GossipTS(), TreeTS(), FloodTS(), FloodTS(sigma="estimate")):
        agents = [make_agent(policy, one_view(num_arms=3)) for _ in range(90)]
        arms = [agent.choose(word) for agent, word in zip(agents, range(90), strict=True)]
        assert (np.bincount(arms, minlength=3) >= 15).all()


def one_sampler(rewards: Any, decisions: Any) -> list[list[int]]:
    """Two agents that go by all pulls of the rounds before, σ = 1."""
    s, n, arms = np.zeros(3), np.zeros(3), []
    for t in range(rewards.shape[1]):
        mean = s.sum() / n.sum() if t else 0.0
        keys = [words(int(word), np.arange(3, dtype=np.uint64)) for word in decisions[:, t]]
        draws = [(mean + s) / (1 + n) + normals(key) / np.sqrt(1 + n) for key in keys]
        arms.append([int(draw.argmax()) for draw in draws])
        for i, k in enumerate(arms[-1]):
            s[k] += rewards[i, t, k]
            n[k] += 1
    return arms


def test_two_flooding_agents_play_as_one_sampler() -> None:
    """A neighbour's pull is known in the next round, so nothing is ever on its way."""
    rewards, decisions = rewards_tape(2, 120, 3), decision_words(2, 120)
    agents = make_agents(FloodTS(), np.full((2, 2), 0.5), 3)
    found = drive(agents, rewards, 0, 120, decisions).arms
    assert found == one_sampler(rewards, decisions)
    assert len({arm for row in found for arm in row}) == 3


def test_two_agents_on_a_tree_know_everything_in_the_end() -> None:
    agents = make_agents(TreeTS(), np.full((2, 2), 0.5), 3)
    drive(agents, rewards_tape(2, 60, 3), 0, 60, decision_words(2, 60))
    for agent in agents:
        estimate = agent.machine.estimate()
        assert (estimate.num_agents, estimate.anticipation) == (2.0, 1.0)
        assert estimate.counts.sum() == 120.0


@pytest.mark.parametrize("policy", [TreeUCB(), FloodUCB(), LedgerUCB()], ids=NAME)
def test_time_is_the_pulls_known_of(policy: Policy) -> None:
    agents = make_agents(policy, gossip_matrix(GRAPHS["complete-6"]), 3)
    drive(agents, rewards_tape(6, 40, 3), 0, 40)
    for agent in agents:
        assert agent.machine.estimate().time == agent.machine.estimate().counts.sum()
        assert 6 * 38 <= agent.machine.estimate().time <= 6 * 40


@pytest.mark.covering(3)
@pytest.mark.parametrize("family", ["gaussian", "bernoulli"])
@pytest.mark.parametrize("kind", SAMPLERS)
def test_agents_find_the_best_arm_through_trouble(kind: Any, family: str) -> None:
    """Two arms of 0 and 1: by the end hardly anybody plays the worse one."""
    world = Rough(lambda view: make_agent(kind(family), view).machine, GRAPHS["regular-3-8"])
    index = make_agent(kind(family), one_view()).index
    noise = normals(words(8, np.arange(8 * 80, dtype=np.uint64))).reshape(80, 8)
    late = []
    for now, word in enumerate(words(4, np.arange(80 * 8, dtype=np.uint64)).reshape(80, 8)):
        for i, agent in enumerate(world.agents):
            arm = int(values_of(index, agent.estimate(), int(word[i])).argmax())
            reward = arm + 0.3 * noise[now, i] if family == "gaussian" else float(arm)
            agent.observe(arm, reward)
            late += [arm] if now >= 40 else []
        world.step(TROUBLE if now % 20 else CALM)
    assert np.mean(late) > 0.97


ALPHA = 2.0
SUBSETS = [[0, 1, 2], [2, 3], [1, 3], [0, 3]]


@pytest.mark.covering(2)
@pytest.mark.parametrize("graph", ["cycle-5", "complete-6", "star-6", "path-4"])
def test_they_play_the_same_arms(graph: str) -> None:
    """The index is μ̂ + √(α ln(1/δ)/(2n)) with δ = 1/s, s the pulls known: B σ² = α/2."""
    agents = make_agents(FloodUCB(constant=ALPHA / 2), gossip_matrix(GRAPHS[graph]), 4)
    tape = rewards_tape(len(agents), 80, 4)
    far = dict(nx.all_pairs_shortest_path_length(GRAPHS[graph]))
    pulls: list[list[int]] = []
    for t in range(80):
        row = []
        for i, agent in enumerate(agents):
            allowed = SUBSETS[i % len(SUBSETS)]
            known = [
                (pulls[r][j], float(tape[j, r, pulls[r][j]]))
                for j in range(len(agents))
                for r in range(max(0, t - max(0, far[i][j] - 1)))
            ]
            level = ALPHA * math.log(max(2, len(known))) / 2
            index = {}
            for k in allowed:
                seen = [reward for arm, reward in known if arm == k]
                n = len(seen)
                index[k] = sum(seen) / n + math.sqrt(level / n) if n else math.inf
            arm = agent.choose(0, allowed)
            assert arm in allowed
            assert index[arm] >= max(index.values()) - 1e-9
            row.append(arm)
        for i, arm in enumerate(row):
            agents[i].observe(arm, float(tape[i, t, arm]))
        pulls.append(row)
        exchange(agents)
