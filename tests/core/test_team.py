"""Teams: all agents of a run in arrays do what they do one by one."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from coopbandits.core import (
    Exp3Coop,
    IndependentUCB,
    LocalView,
    Policy,
)
from coopbandits.core.choice import best_arm, best_arms
from coopbandits.core.draws import words
from coopbandits.core.links import Links
from coopbandits.testing.checks.forms import team_form
from coopbandits.testing.world import Trial

from .fleet import GRAPHS

TEAMS = (
    Exp3Coop(hop_limit=0, eta=0.3),
    Exp3Coop(),
    Exp3Coop(hop_limit=3),
)


@pytest.mark.covering(6)
@pytest.mark.parametrize("policy", TEAMS, ids=lambda policy: policy.spelling)
def test_a_team_plays_what_agents_play(policy: Policy) -> None:
    team_form(Trial(policy, 4, 70, 1))


def test_a_policy_of_parts_has_no_team() -> None:
    assert IndependentUCB().make_team([]) is None


def test_the_best_arm_of_every_row() -> None:
    """Ties within rounding go to the lowest arm, in arrays as one by one."""
    drawn = words(5, np.arange(1600, dtype=np.uint64)).reshape(2, 200, 4) % np.uint64(3)
    values = drawn[0] + 1e-10 * drawn[1]
    values[::7, 2] = np.inf
    values[::11, 0] = -np.inf
    assert best_arms(values).tolist() == [best_arm(row) for row in values.tolist()]


@pytest.mark.parametrize("name", ["cycle-9", "star-6", "single"])
def test_who_is_within_some_hops(name: str) -> None:
    graph = GRAPHS[name]
    views = [LocalView(i, 1.0, dict.fromkeys(graph[i], 0.1), 2) for i in range(graph.order())]
    for hops in range(4):
        near = [set(nx.single_source_shortest_path_length(graph, i, hops)) for i in graph]
        assert list(map(set, Links(views).within(hops))) == near
