"""Running sums: all mass is accounted for, whatever is lost, and ratios agree in the end."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from numpy.typing import NDArray

from coopbandits.core import InputError, Vector
from coopbandits.core.aggregate import RunningSums
from coopbandits.core.aggregate.extrema import EXPONENTIALS, count_agents
from coopbandits.core.aggregate.fields import FieldMachine

from ..fleet import machine, one_view  # as in test_local
from ..rough import CALM, Rough, Schedule, graphs, schedules

REPEATABLE = settings(max_examples=12, deadline=None, derandomize=True, database=None)


def test_rounds_by_hand() -> None:
    mine = machine(RunningSums(), one_view(), squares="pooled")
    total = mine.state.minima.sum()
    mine.observe(1, 6.0)
    message = mine.outgoing(1)
    assert message is not None
    share = [0.0, 2.0, 0.0, 1 / 3, 12.0, 1 / 3]
    assert message[:6].tolist() == pytest.approx(share)
    assert message.size == 6 + 1 + EXPONENTIALS
    # Half a unit of weight and three pulls of arm 0 arrive from 1; a third stays here.
    mine.receive({1: np.array([9.0, 0.0, 3.0, 0.0, 27.0, 0.5, total])})
    assert mine.state.held.tolist() == pytest.approx([9.0, 2.0, 3.0, 1 / 3, 39.0, 5 / 6])
    # The same packet again carries nothing new, an older one is not taken back.
    for again in (np.array([9.0, 0.0, 3.0, 0.0, 27.0, 0.5, total]), np.append(np.zeros(6), total)):
        held, heard = mine.state.held.copy(), mine.state.heard[0].tolist()
        mine.receive({1: again, 2: np.append(np.zeros(6), total)})
        assert mine.state.held.tolist() == pytest.approx((held / 3).tolist())
        assert mine.state.heard[0].tolist() == heard
    estimate = mine.estimate()
    num_agents = count_agents(mine.state.minima.sum())
    assert estimate.sums.tolist() == pytest.approx([10.8 * num_agents, 2.4 * num_agents])
    assert estimate.counts.tolist() == pytest.approx([3.6 * num_agents, 0.4 * num_agents])
    assert estimate.squares == pytest.approx(46.8 * num_agents)


def test_silent_neighbours_are_handed_nothing() -> None:
    """From the third silent round on where messages came in every round, later where they do not.

    After three silent rounds and a message neighbour 2 has a mean gap of 1 + 0.2·(4 − 1) = 1.6.
    """
    mine = machine(RunningSums(), one_view())
    message = np.append(np.zeros(5), mine.state.minima.sum())
    rounds = [({1}, 3), ({1}, 3), ({1}, 2), ({1, 2}, 2), *[({1}, 3)] * 4, ({1}, 2)]
    for heard, shares in rounds:
        mine.state.held[:] = np.array([0.0, 0.0, 0.0, 6.0, 6.0])
        mine.receive(dict.fromkeys(sorted(heard), message))
        assert mine.state.held.tolist() == [0.0, 0.0, 0.0, 6.0 / shares, 6.0 / shares]
    assert mine.state.gaps.tolist() == [1.0, 1.6]
    for _ in range(3):
        mine.receive({})
    before = mine.state.held.tolist()
    mine.receive({})  # alone: all is kept
    assert mine.state.held.tolist() == before


def test_hardly_any_weight_is_no_information() -> None:
    mine = machine(RunningSums(), one_view())
    mine.state.held[:] = np.array([1e-9, -1e-9, 1e-9, -1e-9, 1e-9])
    estimate = mine.estimate()
    assert [*estimate.sums, *estimate.counts, estimate.time] == [0.0, 0.0, 0.0, 0.0, 2.0]
    mine.state.held[-1] = 1e-8
    assert mine.estimate().sums[0] > 0.0
    assert mine.estimate().counts[1] == 0.0


def mass(world: Rough[FieldMachine]) -> Vector:
    """What agents hold, and what is on the links."""
    total = sum(agent.state.held for agent in world.agents)
    for i, agent in enumerate(world.agents):
        for j, at in agent.places.items():
            other = world.agents[j]
            state, heard = agent.state, other.state.heard[other.places[i]]
            total = total + state.offered - state.withheld[at] - heard
    return np.asarray(total)


@REPEATABLE
@given(graphs(), schedules)
def test_no_mass_is_ever_lost(graph: nx.Graph[Any], schedule: Schedule) -> None:
    """Late and overtaken packets included."""
    world = Rough(partial(machine, RunningSums()), graph)
    for _ in range(30):
        world.pull()
        world.step(schedule)
        expected = np.append(world.paid, len(world.agents))
        np.testing.assert_allclose(mass(world), expected, rtol=1e-9, atol=1e-9)
        for agent in world.agents:
            assert agent.state.held[-1] > 0.0
            assert np.isfinite([*agent.estimate().sums, agent.estimate().time]).all()


def worst_error(graph: nx.Graph[Any], loss: float, rounds: int) -> float:
    """Largest error of an average, one pull per agent to begin with."""
    world = Rough(partial(machine, RunningSums()), graph)
    world.pull()
    for _ in range(rounds):
        world.step(replace(CALM, loss=loss, key=2))
    ratios: NDArray[np.float64] = np.array(
        [a.state.held[:-1] / a.state.held[-1] for a in world.agents]
    )
    return float(np.abs(ratios - world.paid / len(world.agents)).max())


@pytest.mark.parametrize("loss", [0.6, pytest.param(0.0, marks=pytest.mark.slow)])
def test_averages_become_exact(loss: float) -> None:
    assert worst_error(nx.cycle_graph(8), loss, 700) <= 1e-11


@pytest.mark.slow
@pytest.mark.parametrize("graph", ["cycle", "grid", "erdos-renyi"])
def test_averages_of_thirty_agents_become_exact_at_60_per_cent_loss(graph: str) -> None:
    graphs: dict[str, nx.Graph[Any]] = {
        "cycle": nx.cycle_graph(30),
        "grid": nx.convert_node_labels_to_integers(nx.grid_2d_graph(5, 6)),
        "erdos-renyi": nx.erdos_renyi_graph(30, 0.2, seed=1),
    }
    error = worst_error(graphs[graph], 0.6, 4000)
    print(f"{graph}: error {error:.1e} after 4000 rounds")
    assert error <= 1e-11


BAD: dict[str, tuple[Any, str]] = {
    "short": (np.ones(5), r"\b2\b.*\(5,\).*\(6,\).*\(38,\)"),
    "nan": (np.full(6, np.nan), r"\b2\b.*finite"),
    "sum": (np.zeros(6), r"\b2\b.*minima"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_messages_change_nothing(case: str) -> None:
    message, sentence = BAD[case]
    mine = machine(RunningSums(), one_view())
    before = mine.export_state()
    with pytest.raises(InputError, match=sentence):
        mine.receive({1: np.ones(6), 2: message})
    assert mine.export_state() == before


def test_needs() -> None:
    assert RunningSums().needs == {"random_word"}
    assert not RunningSums().checks_claims
