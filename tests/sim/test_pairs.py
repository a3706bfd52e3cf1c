"""Every aggregation × every index: the compiled engine plays what the reference engine plays."""

from __future__ import annotations

from itertools import product

import pytest

from coopbandits import BernoulliBandit, GaussianBandit, Network, combine
from coopbandits.core.aggregate import AnyAggregation, CentralTotals, FloodedPulls, StagedMixing
from coopbandits.core.index import KLUCB, UNIT_REWARDS, BayesUCB, CentredDraw, Index, TopTwo
from coopbandits.core.policy import fits
from coopbandits.core.registry import AGGREGATIONS, INDICES
from coopbandits.literature import InflatedUCB

from ..core.pairs import covering, fitting, turned
from .test_faulty_engines import check

pytestmark = pytest.mark.plays

SPECS: tuple[AnyAggregation | CentralTotals, ...] = (
    *(kind() for kind in AGGREGATIONS),
    StagedMixing(own_pulls=False, mixing_rounds=3),
    StagedMixing(neighbor_pulls=True, mixing_rounds=4),
    StagedMixing(remix=True, own_pulls=False, mixing_rounds=3),
    StagedMixing(values_per_message=3, mixing_rounds=3, num_agents=(3, 20)),
    FloodedPulls(5),
    CentralTotals(None),
    CentralTotals(),
    CentralTotals(3),
)
FORMS: tuple[Index, ...] = (
    *(kind() for kind in INDICES),
    CentredDraw("estimate"),
    InflatedUCB(2.0, "closed"),
    BayesUCB("bernoulli"),
    KLUCB("bernoulli"),
    TopTwo(family="bernoulli"),
)
GRAPHS = ("grid:2x3", "star:5", "cycle:7")
FAULTS = ("loss=0.3", "crash=0.6@6..9:lost,sleep=0.2")


def play(spec: AnyAggregation | CentralTotals, index: Index, graph: str, faults: str) -> None:
    means = [0.3, 0.8, 0.6]
    unit = index.support == UNIT_REWARDS
    problem = BernoulliBandit(means) if unit else GaussianBandit(means, sigma=0.5)
    check(problem, Network.from_spec(graph), combine(spec, index), 26, faults)


# In every column and row of the table of pairs at least one, on changing graphs.
SAMPLE = [(*pair, GRAPHS[i % len(GRAPHS)]) for i, pair in enumerate(covering(SPECS, FORMS))]


def name(part: object) -> str:
    return getattr(part, "spelling", str(part))


@pytest.mark.covering(6)
@pytest.mark.parametrize(("spec", "index", "graph"), SAMPLE, ids=name)
def test_some_pairs(spec: AnyAggregation, index: Index, graph: str) -> None:
    play(spec, index, graph, "none")


@pytest.mark.parametrize(
    ("spec", "index", "graph"),
    [(spec, fitting(spec, turned(FORMS, -i)), GRAPHS[i % 3]) for i, spec in enumerate(SPECS)],
    ids=name,
)
def test_some_pairs_under_faults(spec: AnyAggregation, index: Index, graph: str) -> None:
    play(spec, index, graph, FAULTS[0])


def test_the_sample_has_every_part() -> None:
    assert {spec for spec, _, _ in SAMPLE} == set(SPECS)
    assert {index for _, index, _ in SAMPLE} == set(FORMS)


PAIRS = [(spec, index) for spec, index in product(SPECS, FORMS) if fits(spec, index)]


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "index"), PAIRS, ids=name)
def test_all_pairs(spec: AnyAggregation, index: Index) -> None:
    for graph, faults in product(GRAPHS, ("none", *FAULTS)):
        play(spec, index, graph, faults)
