"""N by extrema propagation, lost messages or not."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from coopbandits.core import InputError
from coopbandits.core.estimate import ExtremaCount

from ..fleet import (
    gossip_matrix,
    one_view,
    through_json,
)
from .gossip import exchange_once, run, worded_views


def test_everybody_agrees_after_the_diameter() -> None:
    estimators = [
        ExtremaCount(view, 10) for view in worded_views(gossip_matrix(nx.cycle_graph(20)))
    ]
    assert run(estimators) == 10
    (found,) = {estimator.num_agents for estimator in estimators}
    assert found == pytest.approx(20.0, rel=4 / np.sqrt(30))


def test_the_spread_of_the_estimate() -> None:
    """Unbiased, with a relative standard deviation of 1/√(L − 2) = 0.183."""
    found = []
    for key in range(200):
        views = worded_views(gossip_matrix(nx.complete_graph(6)), key)
        estimators = [ExtremaCount(view, 1) for view in views]
        exchange_once(estimators)
        found.append(estimators[0].num_agents / 6)
    assert np.mean(found) == pytest.approx(1.0, abs=4 * 0.183 / np.sqrt(200))
    assert np.std(found) == pytest.approx(0.183, rel=0.25)


def test_a_lost_message_is_only_a_delay() -> None:
    views = worded_views(gossip_matrix(nx.path_graph(3)))
    whole, lossy = ([ExtremaCount(view, 2) for view in views] for _ in range(2))
    run(whole)
    lossy[1].receive({0: lossy[0].outgoing(1)})
    lossy[1].receive({2: lossy[2].outgoing(1)})
    assert lossy[1].num_agents == whole[0].num_agents


def test_a_restart_and_a_bad_message() -> None:
    view = one_view(random_word=2**60)
    estimator, restored = ExtremaCount(view, 3), ExtremaCount(one_view(random_word=5), 3)
    message = estimator.outgoing(1)
    message[:] = 0.0
    with pytest.raises(InputError, match=r"\b1\b.*minima"):
        estimator.receive({1: message})
    estimator.receive({})
    restored.restore_state(through_json(estimator.export_state()))
    assert restored.num_agents == estimator.num_agents
    assert restored.rounds == 1
