"""The compiled engine equals the reference engine: every policy, variant, graph and problem."""

from __future__ import annotations

from functools import lru_cache

import networkx as nx
import numba
import numpy as np
import pytest

from coopbandits import (
    DDUCB,
    BernoulliBandit,
    BetaBandit,
    GaussianBandit,
    LoggedBandit,
    Network,
    Problem,
    Result,
    parse_faults,
    simulate,
)
from coopbandits.core.policy import AnyPolicy
from coopbandits.core.registry import EXAMPLES, parse_policy
from coopbandits.sim import cpu
from coopbandits.sim.cpu import staged
from coopbandits.sim.record import Task
from coopbandits.sim.setup import Setup, recorded_rounds

pytestmark = pytest.mark.plays

MEANS = [0.5, 1.0, 0.8, 0.9]


def is_compiled(text: str, faults: str = "none") -> bool:
    """Tell whether a kernel plays a policy on some network."""
    problem = BernoulliBandit([1.0, 0.5]) if "bernoulli" in text else GaussianBandit([1.0, 0.5])
    setup = Setup(
        problem, Network.from_spec("path:2"), 10, recorded_rounds(10),
        faults=parse_faults(faults),
    )  # fmt: skip
    return cpu.obstacle(Task(setup, parse_policy(text))) is None


def is_robust(text: str) -> bool:
    """Tell whether a policy is for networks that fail."""
    parts = parse_policy(text).parts
    return parts is not None and getattr(parts.aggregation, "mode", "") == "robust"


COMPILED = [text for text in EXAMPLES if is_compiled(text)]
# Those for networks that fail are in `test_faulty_engines`.
ROBUST = [text for text in COMPILED if is_robust(text)]
PLAIN = [text for text in COMPILED if text not in ROBUST]


VARIANTS: dict[str, AnyPolicy] = {
    "default": DDUCB(),
    "plain": DDUCB(own_pulls=False),
    "unaccelerated": DDUCB(accelerated=False),
    "unaccelerated-plain": DDUCB(accelerated=False, own_pulls=False, mixing_rounds=11),
    "neighbors": DDUCB(neighbor_pulls=True),
    "neighbors-unaccelerated": DDUCB(neighbor_pulls=True, accelerated=False, mixing_rounds=9),
    "remix": DDUCB(remix=True),
    "remix-plain": DDUCB(remix=True, own_pulls=False),
    "remix-unaccelerated": DDUCB(remix=True, accelerated=False, mixing_rounds=9),
    "remix-plain-unaccelerated": DDUCB(
        remix=True, own_pulls=False, accelerated=False, mixing_rounds=9
    ),
    "remix-neighbors": DDUCB(remix=True, neighbor_pulls=True),
    "budget-1": DDUCB(values_per_message=1, mixing_rounds=3),
    "budget-1-plain": DDUCB(values_per_message=1, mixing_rounds=3, own_pulls=False),
    "budget-3": DDUCB(values_per_message=3),
    "budget-3-unaccelerated": DDUCB(values_per_message=3, accelerated=False, mixing_rounds=5),
    "budget-2K": DDUCB(values_per_message=2 * len(MEANS)),
    "budget-over-2K": DDUCB(values_per_message=50),
    "one-step": DDUCB(mixing_rounds=1),
    "one-step-plain": DDUCB(mixing_rounds=1, own_pulls=False),
    "short": DDUCB(mixing_rounds=2),
    "short-plain": DDUCB(mixing_rounds=2, own_pulls=False),
    "short-neighbors": DDUCB(mixing_rounds=3, neighbor_pulls=True),
    "short-remix-plain": DDUCB(mixing_rounds=3, remix=True, own_pulls=False),
    "long": DDUCB(mixing_rounds=31),
    "long-plain": DDUCB(mixing_rounds=31, own_pulls=False),
    "bonus-4": DDUCB(bonus_factor=4.0),
    "bonus-small": DDUCB(bonus_factor=0.1),
    "eta-epsilon": DDUCB(eta=1.5, epsilon=0.02),
    "agents-between": DDUCB(num_agents=(3, 20)),
    "agents-between-plain": DDUCB(num_agents=(4, 12), own_pulls=False),
    "agents-between-neighbors": DDUCB(num_agents=(2, 15), neighbor_pulls=True),
    "agents-between-remix": DDUCB(num_agents=(2, 15), remix=True, own_pulls=False),
    "lambda-above": DDUCB(lambda_bound=0.95),
    "lambda-above-plain": DDUCB(lambda_bound=0.95, own_pulls=False),
    "independent": parse_policy("independent-ucb"),
    "independent-small": parse_policy("independent-ucb:constant=0.3"),
}

# One of every policy, and what their settings switch.
FIELD: dict[str, AnyPolicy] = {
    text: parse_policy(text)
    for text in (
        *(text for text in PLAIN if text not in ("dducb", "independent-ucb")),
        "coop-ucb:gamma=2",
        "coop-ucl:gamma=1.5,prior_mean=0.9,prior_sigma=0.3",
        "coop-ucl:gamma=400",  # t^−γ underflows
        "dec-ts:family=bernoulli",
        "mp-ucb:hop_limit=1",
        "mp-ucb:hop_limit=100",
        "independent-ts:family=bernoulli",
        "central-ts:family=bernoulli",
        "central-ucb:constant=0.2",
        "delayed-central-ucb:delay=1",
    )
}

NETWORKS: dict[str, Network] = {
    "cycle": Network.from_spec("cycle:7"),
    "grid": Network.from_spec("grid:2x4"),
    "star": Network.from_spec("star:6"),
    "star-metropolis": Network.from_spec("star:6", weights="metropolis"),
    "complete": Network.from_spec("complete:6"),
    "path": Network.from_spec("path:5"),
    "single": Network(nx.empty_graph(1)),
    "regular": Network.from_spec("regular:3,10,seed=7"),
}

LOG = [[1.0, 2.0, 0.0], [0.5, 1.5, float("nan")], [0.0, 1.0, 2.0], [1.0, float("nan"), 1.0]]

PROBLEMS: dict[str, Problem] = {
    "gaussian": GaussianBandit([-0.2, 0.1, 0.3], sigma=0.7),
    "bernoulli": BernoulliBandit([0.3, 0.6, 0.55, 0.1]),
    "bernoulli-ties": BernoulliBandit([0.5, 0.5, 0.5]),
    "beta": BetaBandit([2.0, 0.7, 3.0], [2.0, 0.5, 1.0]),
    "logged": LoggedBandit(LOG, reading="wide"),
    "constant": LoggedBandit(
        [[0.1]] * 3, sigma=0.5, reading="arms"
    ),  # ties that only rounding breaks
    "one-arm": GaussianBandit([0.4]),
    "more-arms-than-agents": GaussianBandit(np.linspace(0.0, 1.0, 15)),
}

GRAPH_VARIANTS = ["default", "plain", "neighbors", "remix-plain", "budget-3", "independent"]


def assert_same(found: Result, expected: Result) -> None:
    """Whole numbers agree exactly, sums of rewards to 1e-9; `found` may have fewer runs."""
    left = found.dataset
    right = expected.dataset.isel(run=slice(left.sizes["run"]))
    for name in ("arms", "regret", "agent_pulls", "pulls", "values_sent", "messages_sent"):
        assert np.array_equal(left[name], right[name]), name
    np.testing.assert_allclose(
        left["realized_regret"], right["realized_regret"], rtol=1e-9, atol=1e-9
    )


@lru_cache(maxsize=1)
def play_agents(
    problem: Problem, network: Network, policy: AnyPolicy, horizon: int, seed: int
) -> Result:
    """Play on the reference engine; once where both checks follow each other."""
    result = simulate(problem, network, policy, horizon, 2, seed, "reference", keep="arms")
    assert result.meta["engines"] == ["reference"]
    return result


def check_engines(
    monkeypatch: pytest.MonkeyPatch,
    problem: Problem,
    network: Network,
    policy: AnyPolicy,
    horizon: int,
    seed: int = 5,
) -> Result:
    """Play on both engines, the compiled one with dense and with sparse stage mixing."""
    expected = play_agents(problem, network, policy, horizon, seed)
    for dense in (True, False):
        monkeypatch.setattr(staged, "is_dense_cheaper", lambda *_, dense=dense: dense)
        found = simulate(problem, network, policy, horizon, 2, seed, "cpu", keep="arms")
        assert found.meta["engines"] == ["cpu"]
        assert_same(found, expected)
    return expected


@pytest.mark.covering(18)
@pytest.mark.parametrize(("at", "variant"), list(enumerate(VARIANTS)))
def test_every_variant(monkeypatch: pytest.MonkeyPatch, at: int, variant: str) -> None:
    graph = ("cycle", "grid")[at % 2]
    check_engines(monkeypatch, GaussianBandit(MEANS), NETWORKS[graph], VARIANTS[variant], 79)


@pytest.mark.covering
@pytest.mark.parametrize("variant", GRAPH_VARIANTS)
@pytest.mark.parametrize("graph", ["star-metropolis", "complete", "single", "regular"])
def test_every_graph(monkeypatch: pytest.MonkeyPatch, graph: str, variant: str) -> None:
    problem = GaussianBandit(MEANS, sigma=0.5)
    check_engines(monkeypatch, problem, NETWORKS[graph], VARIANTS[variant], 61, seed=1)


@pytest.mark.covering
@pytest.mark.parametrize("variant", GRAPH_VARIANTS)
@pytest.mark.parametrize("problem", ["bernoulli", "beta", "logged", "constant", "one-arm"])
def test_every_problem(monkeypatch: pytest.MonkeyPatch, problem: str, variant: str) -> None:
    policy, network = VARIANTS[variant], NETWORKS["path"]
    check_engines(monkeypatch, PROBLEMS[problem], network, policy, 75, seed=2)


TWO = min(2, numba.config.NUMBA_NUM_THREADS)


def check_field(
    problem: Problem, network: Network, policy: AnyPolicy, horizon: int, seed: int = 5
) -> Result:
    """Play on both engines, the compiled one by whole runs, and by agents where runs are few."""
    expected = play_agents(problem, network, policy, horizon, seed)
    for threads, runs in ((1, 2), (TWO, 2), (TWO, 1)):
        found = simulate(
            problem, network, policy, horizon, runs, seed, "cpu", keep="arms", threads=threads
        )
        assert found.meta["engines"] == ["cpu"]
        assert_same(found, expected)
    return expected


def suited(policy: str, means: list[float], sigma: float = 1.0) -> Problem:
    """Return rewards of the family that a policy is made for."""
    return BernoulliBandit(means) if "bernoulli" in policy else GaussianBandit(means, sigma)


@pytest.mark.covering
@pytest.mark.parametrize("graph", ["cycle", "star-metropolis", "regular"])
@pytest.mark.parametrize("policy", FIELD)
def test_the_field_on_many_graphs(policy: str, graph: str) -> None:
    problem = suited(policy, MEANS, sigma=0.7)
    result = check_field(problem, NETWORKS[graph], FIELD[policy], 79)
    assert len(np.unique(result.arms[..., len(MEANS) :])) > 1


def test_landgrens_epsilon_c_where_eigenvalues_are_simple() -> None:
    policy = parse_policy("coop-ucb:gamma=1.5,epsilon_c=landgren")
    found = check_field(GaussianBandit(MEANS), NETWORKS["path"], policy, 200)
    closed = check_field(GaussianBandit(MEANS), NETWORKS["path"], FIELD["coop-ucb:gamma=2"], 200)
    assert not np.array_equal(found.arms, closed.arms)


@pytest.mark.covering(12)
@pytest.mark.parametrize("problem", ["bernoulli-ties", "constant"])
@pytest.mark.parametrize("policy", FIELD)
def test_the_field_on_many_problems(policy: str, problem: str) -> None:
    """A Beta posterior on any rewards at all: nothing that both engines do not do alike."""
    check_field(PROBLEMS[problem], NETWORKS["path"], FIELD[policy], 40, seed=2)


@pytest.mark.covering(12)
@pytest.mark.parametrize("seed", [5])
@pytest.mark.parametrize("policy", FIELD)
def test_the_first_rounds_of_one_and_of_two_agents(policy: str, seed: int) -> None:
    """Where t is 0 and 1, and where N is 1."""
    for graph in ("complete:2", "single"):
        network = NETWORKS["single"] if graph == "single" else Network.from_spec(graph)
        check_field(suited(policy, [0.0, 0.1, 0.2], 0.3), network, FIELD[policy], 9, seed)


@pytest.mark.covering(12)
@pytest.mark.parametrize("horizon", [1, 3])
@pytest.mark.parametrize("policy", FIELD)
def test_the_field_in_fewer_rounds_than_arms(policy: str, horizon: int) -> None:
    with pytest.warns(UserWarning, match=f"horizon {horizon}.* 4\\b"):
        result = check_field(suited(policy, MEANS), NETWORKS["star"], FIELD[policy], horizon)
    if policy.startswith(("coop", "ucb-network", "mp-ucb")):
        assert (result.arms == np.arange(horizon)).all()
    talks = policy.startswith((*MEANS_TOLD, "ucb-network", "mp-ucb"))
    if talks or policy.startswith(("independent", "central", "delayed")):
        assert (result.dataset["messages_sent"] == (2 * 5 * horizon if talks else 0)).all()
        assert (result.values_sent == sum(sent_on_a_star(policy, t) for t in range(horizon))).all()


MEANS_TOLD = ("coop-uc", "dec-ts", "dec-bayes")
"""Policies that tell all averages in every round."""


def sent_on_a_star(policy: str, t: int) -> int:
    """Values that a hub and five leaves send in round t, with four arms."""
    if policy.startswith(MEANS_TOLD):
        return 2 * 5 * 2 * 4
    if policy.startswith("ucb-network"):
        return 2 * 5 * 2
    if policy.startswith("mp-ucb"):
        hops = min(t, int(policy.rpartition("=")[2]) - 1)
        hub, leaf = [1, 6, 6][hops], [1, 2, 6][hops]  # whose pulls: everybody's so far away
        return 5 * (hub + leaf) * 4
    return 0


@pytest.mark.covering(7)
@pytest.mark.parametrize("text", PLAIN)
def test_every_policy_with_a_kernel(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """More agents than one block, and stretches longer than a buffer of variates."""
    policy = parse_policy(text)
    problem = GaussianBandit([0.5, 1.0])
    for graph, horizon in (("regular:3,70,seed=1", 40), ("complete:3", 400)):
        network = Network.from_spec(graph)
        check_engines(monkeypatch, problem, network, policy, horizon)
        check_field(problem, network, policy, horizon)


@pytest.mark.parametrize("own_pulls", [True, False])
def test_stages_longer_than_a_buffer(monkeypatch: pytest.MonkeyPatch, own_pulls: bool) -> None:
    policy = DDUCB(mixing_rounds=150, own_pulls=own_pulls)
    check_engines(monkeypatch, GaussianBandit(MEANS), Network.from_spec("path:3"), policy, 480)


@pytest.mark.parametrize("horizon", [1, 2, 3])
@pytest.mark.parametrize("variant", ["default", "neighbors", "independent"])
def test_horizon_inside_the_initial_pulls(
    monkeypatch: pytest.MonkeyPatch, variant: str, horizon: int
) -> None:
    with pytest.warns(UserWarning, match=f"horizon {horizon}.* 4\\b"):
        result = check_engines(
            monkeypatch, GaussianBandit(MEANS), NETWORKS["star"], VARIANTS[variant], horizon
        )
    assert (result.arms == np.arange(horizon)).all()
    assert (result.values_sent == 0).all()


@pytest.mark.parametrize("extra", [0, 1, 12, 13, 14, 26])
def test_horizons_around_a_stage(monkeypatch: pytest.MonkeyPatch, extra: int) -> None:
    """13 rounds a stage: the last one is missing, just begun, one short, whole, one over."""
    policy = DDUCB(mixing_rounds=13)
    check_engines(monkeypatch, GaussianBandit(MEANS), NETWORKS["star"], policy, 4 + extra)


def test_no_kernel_and_no_policy_is_left_out() -> None:
    tested = {type(policy) for policy in (*VARIANTS.values(), *FIELD.values())}
    tested |= {type(parse_policy(text)) for text in ROBUST}
    assert tested == {type(parse_policy(text)) for text in COMPILED}
