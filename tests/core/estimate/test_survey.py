"""The survey: exact on every small graph, over in the same round for everybody."""

from __future__ import annotations

import math
from collections.abc import Callable

import networkx as nx
import numpy as np
import pytest

from coopbandits.core import InputError, Vector
from coopbandits.core.estimate import Survey, guaranteed_lambda

from ..fleet import (
    GRAPHS,
    gossip_matrix,
    one_view,
    second_eigenvalue,
    through_json,
)
from .gossip import connected_atlas, exchange_once, metropolis, run, worded_views

Messages = dict[int, Vector]


@pytest.mark.parametrize("every", [15, pytest.param(1, marks=pytest.mark.slow)])
def test_small_graphs(every: int) -> None:
    """N and D exactly, λ̄ never below λ nor above the published bound, all after 3D + 1 rounds."""
    graphs = connected_atlas()
    assert len(graphs) == 995
    for graph in graphs[::every]:
        matrix, diameter = gossip_matrix(graph), nx.diameter(graph)
        surveys = [Survey(view) for view in worded_views(matrix)]
        assert run(surveys) == 3 * diameter + 1
        assert {(s.num_agents, s.diameter) for s in surveys} == {(len(graph), diameter)}
        (bound,) = {survey.lambda_bound for survey in surveys}
        assert second_eigenvalue(matrix) <= bound + 1e-12
        delta = max(dict(graph.degree).values())
        mohar = 1 - 4 / (len(graph) * diameter * (delta + 1))
        assert bound <= max(mohar, (delta - 1) / (delta + 1)) + 1e-12


def test_the_bound_holds_for_metropolis_weights() -> None:
    for graph in connected_atlas()[::40]:
        matrix = metropolis(graph)
        surveys = [Survey(view) for view in worded_views(matrix)]
        run(surveys)
        assert second_eigenvalue(matrix) <= surveys[0].lambda_bound + 1e-12


@pytest.mark.parametrize("size", [1, 2, 5, 8])
def test_complete_graphs_average_in_one_step(size: int) -> None:
    surveys = [Survey(view) for view in worded_views(gossip_matrix(nx.complete_graph(size)))]
    assert run(surveys) == (4 if size > 1 else 1)
    assert surveys[-1].num_agents == size
    assert surveys[-1].lambda_bound == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("size", [30, pytest.param(200, marks=pytest.mark.slow)])
def test_cycles(size: int) -> None:
    surveys = [Survey(view) for view in worded_views(gossip_matrix(nx.cycle_graph(size)))]
    assert run(surveys) == 3 * (size // 2) + 1
    assert surveys[3].num_agents == size
    # Mohar's bound: C grows by √(gap/gap of the bound), 2.2 on cycles.
    gap = 2 / 3 * (1 - math.cos(2 * math.pi / size))
    assert math.sqrt(gap / (1 - surveys[3].lambda_bound)) == pytest.approx(2.2, abs=0.03)


def test_values_sent() -> None:
    """Each tag goes once over every link in each direction, and four values go every round."""
    surveys = [Survey(view) for view in worded_views(gossip_matrix(GRAPHS["grid-2x4"]))]
    sent = 0
    while not surveys[0].done:
        sent += exchange_once(surveys)
    rounds, links = surveys[0].rounds, 2 * GRAPHS["grid-2x4"].number_of_edges()
    assert sent == links * (4 * rounds + 8)


def test_a_known_value() -> None:
    """A path of three: w = 1/3, D = 2, a = 2/3, and the own weights are 2/3, 1/3, 2/3."""
    bound = guaranteed_lambda(3, 2, lightest=1 / 3, heaviest=1 / 3, least_own=1 / 3)
    assert bound == pytest.approx(1 - 2 / 9)
    # λ is 2/3. With small weights 2·(own) − 1 decides from below, with large ones 1 − w N.
    assert guaranteed_lambda(2, 1, lightest=0.9, heaviest=0.9, least_own=0.1) == pytest.approx(0.8)
    assert guaranteed_lambda(2, 1, lightest=0.5, heaviest=0.5, least_own=0.0) == 0.0
    assert guaranteed_lambda(1, 0, lightest=1.0, heaviest=0.0, least_own=1.0) == 0.0


def test_a_restart_changes_nothing() -> None:
    views = worded_views(gossip_matrix(GRAPHS["path-4"]))
    surveys, restarted = [Survey(view) for view in views], [Survey(view) for view in views]
    for _ in range(3 * 3 + 1):
        for i, view in enumerate(views):
            state = through_json(restarted[i].export_state())
            restarted[i] = Survey(view)
            restarted[i].restore_state(state)
        exchange_once(surveys)
        exchange_once(restarted)
    assert [s.export_state() for s in surveys] == [s.export_state() for s in restarted]
    assert restarted[0].done


BAD: dict[str, tuple[Callable[[Vector], Messages], str]] = {
    "missing": (lambda m: {1: m}, r"\[2\]"),
    "short": (lambda m: {1: m, 2: m[:3]}, r"\b2\b.*\(3,\).* 4 "),
    "square": (lambda m: {1: m, 2: np.ones((4, 4))}, r"\b2\b.*\(4, 4\)"),
    "nan": (lambda m: {1: m, 2: m * math.nan}, r"\b2\b.*finite"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_messages_change_nothing(case: str) -> None:
    spoil, sentence = BAD[case]
    survey = Survey(one_view(random_word=2**60))
    before = survey.export_state()
    with pytest.raises(InputError, match=sentence):
        survey.receive(spoil(survey.outgoing(1)))
    assert survey.export_state() == before


def test_no_word_no_survey() -> None:
    with pytest.raises(InputError, match=r"random_word.*agent 0.* 0\b"):
        Survey(one_view(random_word=0))


@pytest.mark.parametrize(
    ("at", "value", "match"),
    [
        (0, -1e-9, r"weights 1e-09 to 0\.25.*0\.125 to 1"),
        (1, 7.0, r"weights 0\.25 to 7"),
        (2, -1e-9, "1e-09 for own"),
        (3, 1e9, r"1e\+09 links.* 0\b"),
        (3, -5.0, "-5 links"),
    ],
)
def test_a_network_that_cannot_be_is_refused(at: int, value: float, match: str) -> None:
    survey = Survey(one_view(max_agents=8.0))
    message = np.array([-0.25, 0.25, -0.5, -1.0, 5.0])
    lie = message.copy()
    lie[at] = value
    before = survey.export_state()
    with pytest.raises(InputError, match=match):
        survey.receive({1: message, 2: lie})
    assert survey.export_state() == before
    survey.receive({1: message, 2: message})


def test_more_agents_than_there_may_be_are_refused_however_slowly_they_come() -> None:
    survey = Survey(one_view(max_agents=8.0))
    honest = [-0.25, 0.25, -0.5, -1.0]
    for tag in range(1, 8):
        new = np.array([*honest, float(tag)])
        survey.receive({1: new, 2: new})  # one agent, although two tell of it
    with pytest.raises(InputError, match=r"9 agents.* 8\b"):
        survey.receive({1: np.array([*honest, 100.0]), 2: np.array(honest)})


def test_twice_the_own_distance_is_all_that_is_believed() -> None:
    survey = Survey(one_view(max_agents=8.0))
    honest = [-0.25, 0.25, -0.5, -1.0]
    survey.receive({1: np.array([*honest, 5.0]), 2: np.array([*honest, 6.0])})
    survey.receive({j: np.array(honest) for j in (1, 2)})
    assert survey.eccentricity == 1
    for _ in range(5):
        with pytest.raises(InputError, match=r"5 links.* 2\b"):
            survey.receive({1: np.array([-0.25, 0.25, -0.5, 5.0]), 2: np.array(honest)})
        survey.receive({1: np.array([-0.25, 0.25, -0.5, 2.0]), 2: np.array(honest)})
    assert survey.done
