"""Statistics of one's own travel through every aggregation, exact or kept in sum."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pytest

import coopbandits as cb
from coopbandits.core import (
    AGGREGATIONS,
    AnyAggregation,
    CentralTotals,
    CooperativeAgent,
    Estimate,
    FloodedPulls,
    FloodedTotals,
    Index,
    InputError,
    LedgerSums,
    LocalSums,
    NeighborhoodSums,
    Policy,
    PullMixing,
    RunningConsensus,
    RunningSums,
    StagedMixing,
    TreeSums,
    Vector,
    combine,
)
from coopbandits.core.aggregate.consensus import RunningConsensusMachine
from coopbandits.core.aggregate.fields import FieldMachine
from coopbandits.core.aggregate.ledger_sums import LedgerSumsMachine
from coopbandits.core.aggregate.pull_mixing import PullMixingMachine
from coopbandits.core.aggregate.staged_mixing import StagedMixingMachine
from coopbandits.core.aggregate.tree_sums import TreeSumsMachine
from coopbandits.core.policy import fits
from coopbandits.literature import TrackedMeans, TrimmedMeans

from ..fleet import (
    GRAPHS,
    decision_words,
    drive,
    exchange,
    gossip_matrix,
    make_agent,
    rewards_tape,
    through_json,
    views,
)
from ..rough import NUM_ARMS, Rough, Schedule
from .own import FadingSums, FadingUCB, PowerSums, SkewUCB

INDICES: dict[str, Index] = {"powers": SkewUCB(), "fading": FadingUCB()}
HORIZON = 45
ARMS = 3

FOUND = StagedMixing(num_agents="estimate", lambda_bound="estimate", mixing_rounds=5)
EXACT: tuple[AnyAggregation, ...] = (
    LocalSums(), NeighborhoodSums(), FloodedPulls(1), FloodedPulls(3), FloodedTotals(), TreeSums(),
)  # fmt: skip
MIXING: tuple[AnyAggregation, ...] = (
    RunningConsensus(),
    PullMixing(),
    RunningSums(),
    StagedMixing(mixing_rounds=4),
    StagedMixing(mixing_rounds=3, own_pulls=False, remix=True),
    StagedMixing(mixing_rounds=3, neighbor_pulls=True),
    StagedMixing(mixing_rounds=2, values_per_message=5),
    FOUND,
)


CARRYING = [spec for spec in AGGREGATIONS if fits(spec(), SkewUCB())]
MEANS_ALONE = [spec for spec in AGGREGATIONS if spec not in CARRYING]
NAMED = {type(spec) for spec in (*EXACT, *MIXING)}
EVERY: tuple[AnyAggregation, ...] = (
    *EXACT, *MIXING, *(spec() for spec in CARRYING if spec not in NAMED),
)  # fmt: skip


def ids(spec: Any) -> str:
    return str(spec.spelling)


class Pull(NamedTuple):
    agent: int
    round: int
    arm: int
    reward: float


class Played(NamedTuple):
    """What happened, and the agents after it."""

    graph: nx.Graph[Any]
    agents: list[CooperativeAgent]
    pulls: list[Pull]


def made(policy: Any, graph: nx.Graph[Any]) -> list[CooperativeAgent]:
    assert isinstance(policy, Policy)
    return [make_agent(policy, view) for view in views(gossip_matrix(graph), ARMS)]


def play(aggregation: AnyAggregation, index: Index, graph: str, rounds: int = HORIZON) -> Played:
    agents = made(combine(aggregation, index), GRAPHS[graph])
    rewards = rewards_tape(len(agents), rounds, ARMS)
    arms = drive(agents, rewards, 0, rounds).arms
    pulls = [
        Pull(i, t, arm, float(rewards[i, t, arm]))
        for t, row in enumerate(arms)
        for i, arm in enumerate(row)
    ]
    assert {pull.arm for pull in pulls} == set(range(ARMS))
    return Played(GRAPHS[graph], agents, pulls)


def naive(index: Index, pulls: list[Pull], rounds: int = HORIZON) -> Vector:
    """The registers of some pulls, written out for both statistics."""
    arms = [[pull for pull in pulls if pull.arm == k] for k in range(ARMS)]
    if isinstance(index, SkewUCB):
        return np.array([sum(p.reward**power for p in arm) for power in range(4) for arm in arms])
    assert isinstance(index, FadingUCB)
    weights = [[(index.decay ** (rounds - p.round), p.reward) for p in arm] for arm in arms]
    sums = [sum(weight * reward for weight, reward in arm) for arm in weights]
    return np.array([len(pulls), *sums, *(sum(weight for weight, _ in arm) for arm in weights)])


def tree_of(played: Played) -> nx.Graph[Any]:
    """The tree that the agents have grown."""
    tree: nx.Graph[Any] = nx.empty_graph(len(played.agents))
    for agent in played.agents:
        assert isinstance(agent.machine, TreeSumsMachine)
        if agent.machine.parent >= 0:
            tree.add_edge(agent.view.agent_id, agent.machine.parent)
    return tree


def known_to(me: int, spec: AnyAggregation, played: Played) -> list[Pull]:
    """All pulls that can have reached an agent: one round for the first hop and each further."""
    graph = tree_of(played) if isinstance(spec, TreeSums) else played.graph
    hops = nx.single_source_shortest_path_length(graph, me)
    near: dict[type, int] = {LocalSums: 0, NeighborhoodSums: 1}
    reach = near.get(type(spec), getattr(spec, "hop_limit", 99))
    return [
        pull
        for pull in played.pulls
        if hops[pull.agent] <= reach and pull.round <= HORIZON - max(1, hops[pull.agent])
    ]


def registers_read(played: Played, me: int) -> Any:
    """What an agent's estimate tells, in the order of `naive`."""
    agent = played.agents[me]
    return in_order(agent.index, agent.estimate())


def in_order(index: Index, estimate: Estimate) -> list[float]:
    if isinstance(index, SkewUCB):
        return [*estimate.counts, *estimate.sums, *estimate.extra]
    return [*estimate.sums, *estimate.counts]


@pytest.mark.covering(1)
@pytest.mark.parametrize("name", INDICES)
def test_a_ledger_enters_everything(name: str) -> None:
    """All registers of all pulls, as old as they are, once nobody pulls any more."""
    played = play(LedgerSums(), INDICES[name], "grid-2x4", rounds=70)
    for _ in range(20):
        exchange(played.agents)
    expected = naive(INDICES[name], played.pulls, rounds=90)
    for agent in played.agents:
        assert isinstance(agent.machine, LedgerSumsMachine)
        entered = agent.machine.state.ledger[:-2]
        read = agent.machine.registers.read(entered, time=2.0, num_agents=1.0)
        found = in_order(INDICES[name], read)
        np.testing.assert_allclose(found, expected[-len(found) :], rtol=1e-9, atol=1e-12)


def test_few_carry_means_alone() -> None:
    assert {TrackedMeans, TrimmedMeans} <= set(MEANS_ALONE)
    assert set(CARRYING) >= NAMED


@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("spec", MEANS_ALONE)
def test_means_alone_carry_nothing_else(name: str, spec: type[AnyAggregation]) -> None:
    with pytest.raises(InputError, match=f"{spec.name}.*{INDICES[name].statistic.spelling}"):
        combine(spec(), INDICES[name])


@pytest.mark.covering
@pytest.mark.plays
@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("graph", ["cycle-5", "grid-2x4", "single"])
@pytest.mark.parametrize("spec", EXACT, ids=ids)
def test_what_is_known_is_exact(spec: AnyAggregation, graph: str, name: str) -> None:
    played = play(spec, INDICES[name], graph)
    for me in range(len(played.agents)):
        known = known_to(me, spec, played)
        expected = naive(INDICES[name], known)
        found = registers_read(played, me)
        np.testing.assert_allclose(found, expected[-len(found) :], rtol=1e-9, atol=1e-12)
        if not isinstance(spec, NeighborhoodSums | FloodedPulls):  # theirs are the own pulls
            assert played.agents[me].estimate().time == len(known)


def mass(agents: list[CooperativeAgent]) -> Vector:
    """All that a mixing aggregation holds anywhere, and has on its way."""
    total = np.zeros(agents[0].machine.registers.size)
    for agent in agents:
        machine = agent.machine
        if isinstance(machine, RunningConsensusMachine | PullMixingMachine):
            total += machine.state.mixed
        elif isinstance(machine, StagedMixingMachine):
            state = machine.state
            total += state.fresh + state.in_flight + state.accumulated
        else:
            assert isinstance(machine, FieldMachine)
            assert isinstance(machine.spec, RunningSums)
            state = machine.state
            sent = state.offered - state.withheld
            total += state.held[:-1] + (sent - state.heard)[:, :-1].sum(axis=0)
    return total


@pytest.mark.covering
@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("graph", ["cycle-5", "star-6", "grid-2x4"])
@pytest.mark.parametrize("spec", MIXING, ids=ids)
def test_mixing_keeps_the_sum_over_agents(spec: AnyAggregation, graph: str, name: str) -> None:
    for rounds in (7, HORIZON):
        played = play(spec, INDICES[name], graph, rounds)
        expected = naive(INDICES[name], played.pulls, rounds)
        np.testing.assert_allclose(mass(played.agents), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("graph", ["cycle-5", "path-4"])
def test_a_consensus_is_that_of_matrices(graph: str, name: str) -> None:
    """x ← decay · P (x + y), written with the whole matrix."""
    index, matrix = INDICES[name], gossip_matrix(GRAPHS[graph])
    played = play(RunningConsensus(), index, graph)
    registers = played.agents[0].machine.registers
    x = np.zeros((len(matrix), registers.size))
    for t in range(HORIZON):
        for pull in played.pulls:
            if pull.round == t:
                registers.add(x[pull.agent], pull.arm, pull.reward)
        x = matrix @ x
        if isinstance(index, FadingUCB):
            x[:, 1:] *= index.decay
    for agent, row in zip(played.agents, x, strict=True):
        assert isinstance(agent.machine, RunningConsensusMachine)
        np.testing.assert_allclose(agent.machine.state.mixed, row, rtol=1e-9)


LOSSY = Schedule(key=5, loss=0.3, late=0, sleep=0.1, spell=0, both_ways=False)
ROUGH = replace(LOSSY, late=3)
# Messages of these may come late; the others drop or refuse them, or lose what they tell.
TIMELESS = (TreeSums(), FloodedTotals(), FloodedPulls(9), NeighborhoodSums())


@pytest.mark.covering(2)
@pytest.mark.plays
@pytest.mark.parametrize(
    ("spec", "schedule"),
    [
        *((spec, LOSSY) for spec in EVERY if spec not in (LocalSums(), FOUND)),
        *((spec, ROUGH) for spec in TIMELESS),
    ],
    ids=lambda part: "late" if part == ROUGH else "" if part == LOSSY else ids(part),
)
def test_one_pull_fades_with_its_age_however_it_travels(
    spec: AnyAggregation, schedule: Schedule
) -> None:
    """Everything is linear: of a single pull there is decay^age of what would not fade."""
    worlds = [Rough(maker(spec, FadingSums(decay)), GRAPHS["grid-2x4"]) for decay in (1.0, 0.9)]
    for world in worlds:
        for _ in range(4):
            world.step()
        world.agents[2].observe(1, 3.0)
    reached = set()
    for age in range(40):
        reached |= {i for i, agent in enumerate(worlds[0].agents) if agent.estimate().sums[1]}
        for lasting, fading in zip(*(world.agents for world in worlds), strict=True):
            whole, rest = lasting.estimate(), fading.estimate()
            np.testing.assert_allclose(rest.sums, 0.9**age * whole.sums, rtol=1e-9, atol=1e-15)
            np.testing.assert_allclose(rest.counts, 0.9**age * whole.counts, rtol=1e-9, atol=1e-15)
            assert rest[2:4] == whole[2:4]  # what is anticipated depends on the pulls' age
        for world in worlds:
            world.step(schedule)
    assert len(reached) > 1


def maker(spec: AnyAggregation, statistic: FadingSums) -> Callable[[Any], Any]:
    return lambda view: spec.make(view, statistic.registers(NUM_ARMS))


@pytest.mark.covering
@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("spec", EVERY, ids=ids)
def test_restored_agents_go_on_exactly(spec: AnyAggregation, name: str) -> None:
    policy = combine(spec, INDICES[name])
    agents, others = made(policy, GRAPHS["cycle-5"]), made(policy, GRAPHS["cycle-5"])
    rewards, words = rewards_tape(5, 18, ARMS), decision_words(5, 18)
    for t in range(18):
        for agent, other in zip(agents, others, strict=True):
            other.restore_state(through_json(agent.export_state()))
        assert drive(agents, rewards, t, t + 1, words) == drive(others, rewards, t, t + 1, words)
        assert [a.export_state() for a in agents] == [b.export_state() for b in others]


@pytest.mark.parametrize("spec", EVERY, ids=ids)
def test_a_state_of_another_statistic_is_refused(spec: AnyAggregation) -> None:
    agent, other = (made(combine(spec, index), GRAPHS["path-4"])[1] for index in INDICES.values())
    state = other.export_state() | {"policy": agent.policy}
    before = agent.export_state()
    with pytest.raises(InputError, match=r"has (shape|fields) "):
        agent.restore_state(state)
    assert agent.export_state() == before


@pytest.mark.covering
@pytest.mark.parametrize("delay", [None, 0, 1, 6])
@pytest.mark.parametrize("name", INDICES)
def test_a_controller_knows_all_but_what_is_late(name: str, delay: int | None) -> None:
    index = INDICES[name]
    registers = index.statistic.registers(ARMS)
    controller = CentralTotals(delay).make(index, registers, 1.0)
    rewards, pulls = rewards_tape(4, HORIZON, ARMS), []
    for t in range(HORIZON):
        for i in range(4):
            arm = controller.choose(0)
            pulls.append(Pull(i, t, arm, float(rewards[i, t, arm])))
            controller.observe(arm, pulls[-1].reward)
        controller.end_round()
        np.testing.assert_allclose(controller.totals, naive(index, pulls, t + 1), rtol=1e-9)
        if delay is not None:
            old = [pull for pull in pulls if pull.round <= t - delay]
            np.testing.assert_allclose(controller.visible(), naive(index, old, t + 1), rtol=1e-9)
    assert {pull.arm for pull in pulls} == set(range(ARMS))


def test_their_indices_by_hand() -> None:
    powers = PowerSums().registers(1)
    values = powers.zeros()
    for reward in (1.0, 3.0):
        powers.add(values, 0, reward)
    assert values.tolist() == [2.0, 4.0, 10.0, 28.0]
    estimate = powers.read(values, time=2.0, num_agents=1.0)
    expected = 2.0 + math.sqrt(2.0 * (1.0 + 1.4 + 0.1) * math.log(2.0) / 2.0)
    assert SkewUCB.value(0, estimate, 0, (), [0.0]) == pytest.approx(expected)


@pytest.mark.covering(4)
@pytest.mark.plays
@pytest.mark.parametrize("spec", [*CARRYING, CentralTotals], ids=lambda spec: str(spec.name))
@pytest.mark.parametrize("name", INDICES)
def test_simulations_play_them_on_the_reference_engine(
    spec: Any, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = combine(spec(), INDICES[name])
    problem, network = cb.GaussianBandit([1.0, 0.5, 0.0]), cb.Network.from_spec("cycle:5")
    result = cb.simulate(problem, network, [policy], 40, engine="cpu", progress=False)
    assert result.meta["engines"] == ["reference"]
    assert float(result.pulls.sum()) == 200.0
    told = capsys.readouterr().err
    assert f"for statistic {policy.parts.statistic.spelling}" in told
    assert "reference engine plays it" in told
