"""Teams: all agents of a run in arrays do what they do one by one."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from coopbandits.core import (
    DPE2,
    GSE,
    Exp3Coop,
    GosInE,
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
    DPE2(),
    GosInE(),
    GosInE(blocking=True, constant=1.0),
    GSE(horizon=20, spread=0.05),
    Exp3Coop(hop_limit=0, eta=0.3),
    Exp3Coop(),
    Exp3Coop(hop_limit=3),
)


@pytest.mark.covering(6)
@pytest.mark.parametrize("policy", TEAMS, ids=lambda policy: policy.spelling)
def test_a_team_plays_what_agents_play(policy: Policy) -> None:
    """Through five phases of GosInE, and until GSE has ruled arms out."""
    team_form(Trial(policy, 4, 70, 1))


def test_agents_of_the_team_of_gse_keep_one_arm() -> None:
    """Even if neighbours have ruled out what is left."""
    views = Trial(GSE(horizon=20), 3, 1, 0).views()
    team = GSE(horizon=20).make_team(views)
    team.tracked[:, 1] = 2.0
    team.means[:] = 0.0
    team.out[:] = True
    team.exchange()
    assert team.out.sum(axis=1).tolist() == [2] * len(views)


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
