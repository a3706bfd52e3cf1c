"""From records to a labelled result: names, order, and what identifies it."""

from __future__ import annotations

import json
from typing import Any

import networkx as nx
import numpy as np
import pytest

from coopbandits import (
    DDUCB,
    GaussianBandit,
    IndependentUCB,
    InputError,
    Network,
    parse_policy,
    simulate,
    sites,
)
from coopbandits.sim.labels import TAKEN, label, network_settings, settings
from coopbandits.sim.record import Record, Task
from coopbandits.sim.setup import Setup

PROBLEM = GaussianBandit([0.5, 1.0], sigma=2.0)
NETWORK = Network.from_spec("path:3")


def setup(keep: str = "", runs: int = 1) -> Setup:
    return Setup(PROBLEM, NETWORK, 4, np.array([2, 4]), runs, 6, keep)


def tasks(keep: str = "") -> list[Task]:
    return [Task(setup(keep), policy) for policy in (IndependentUCB(), DDUCB())]


def numbered(task: Task, runs: int, start: int) -> Record:
    """A record whose every entry tells its run."""
    record = Record.empty(task, runs)
    for run in range(runs):
        record.arm_counts[run] = [[start + run, 0], [start + run, 1]]
        record.rewards[run] = start + run
        record.values[run] = [10 * (start + run), 20 * (start + run)]
        record.messages[run] = start + run
        record.agent_pulls[run] = start + run
        record.arms[run] = start + run
    return record


def test_batches_of_runs_and_policies_come_in_order() -> None:
    work = tasks("arms")
    batches = [
        [numbered(work[0], 2, 0), numbered(work[1], 2, 100)],
        [numbered(work[0], 1, 2), numbered(work[1], 1, 102)],
    ]
    result = label(work, batches, ["cpu", "reference"], 1.23456)
    runs = np.array([[0, 1, 2], [100, 101, 102]])
    data = result.dataset
    assert result.policies == ["independent-ucb", "dducb"]
    assert data["run"].values.tolist() == [0, 1, 2]
    assert data["round"].values.tolist() == [2, 4]
    assert np.array_equal(data["messages_sent"], runs)
    assert np.array_equal(data["regret"], np.stack([0.5 * runs, 0.5 * runs], axis=2))
    best = 1.0 * np.stack([runs, runs + 1], axis=2)  # times the pulls that were made
    np.testing.assert_allclose(data["realized_regret"], best - runs[:, :, None], atol=1e-12)
    assert np.array_equal(data["values_sent"], runs[:, :, None] * np.array([10, 20]))
    assert np.array_equal(data["pulls"], np.stack([runs, np.ones_like(runs)], axis=2))
    assert (data["arms"] == runs[:, :, None, None]).all()
    assert data["agent_pulls"].dims == ("policy", "run", "agent", "arm")
    assert result.meta["engines"] == ["cpu", "reference"]
    assert result.meta["wall_seconds"] == 1.235
    assert result.meta["settings"]["runs"] == 3


def test_settings_are_plain_data() -> None:
    found = settings(setup("agents", runs=9), [IndependentUCB(), DDUCB()])
    assert json.loads(json.dumps(found)) == found
    assert found["policies"] == ["independent-ucb", "dducb"]
    assert found["problem"] == PROBLEM.describe()
    assert {key: found[key] for key in ("horizon", "runs", "seed", "rounds", "keep")} == {
        "horizon": 4, "runs": 9, "seed": 6, "rounds": [2, 4], "keep": "agents",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["arms", "agent_regret", "stop_round", "watch_means", "stage"])
def test_an_attribute_of_nodes_is_never_read_as_what_was_not_kept(name: str) -> None:
    graph = nx.path_graph(3)
    nx.set_node_attributes(graph, "mine", name)
    result = simulate(PROBLEM, Network(graph), IndependentUCB(), 9, keep="agents", progress=False)
    assert name not in result.dataset
    assert result.dataset[f"node_{name}"].values.tolist() == ["mine"] * 3
    with pytest.raises(InputError, match=r"arms.*not kept"):
        _ = result.arms
    with pytest.raises(InputError, match=r"agents.*not kept"):
        _ = result.agent_regret


def test_all_that_a_result_may_have_is_taken() -> None:
    told: dict[str, Any] = {"faults": "loss=0.1", "stop": "0.9", "progress": False}
    world, policy = sites(PROBLEM, 0.1), parse_policy("flood-ts")
    for keep in ("arms", "watch"):
        pair = simulate(world, NETWORK, policy, 9, keep=keep, **told | {"stop": None})
        plain = simulate(PROBLEM, NETWORK, policy, 9, keep=keep, **told)
        for found in (pair.dataset, plain.dataset):
            assert {*found.variables, *found.dims} <= TAKEN


def test_networks_are_told_apart() -> None:
    networks = [
        Network.from_spec("star:5"),
        Network.from_spec("star:5", weights="metropolis"),
        Network.from_spec("path:5"),
        Network(nx.relabel_nodes(nx.star_graph(4), {0: 4, 4: 0}), weights="metropolis"),
    ]
    digests = [network_settings(network)["sha256"] for network in networks]
    assert len(set(digests[:3])) == 3
    assert network_settings(Network(nx.star_graph(4)))["sha256"] == digests[0]
    assert network_settings(networks[0])["num_edges"] == 4


def test_edges_without_weight_are_told_apart() -> None:
    path = Network.from_spec("path:4", weights="metropolis")
    told = []
    for extra in ((0, 3), (0, 2)):
        edges = [(0, 1), (1, 2), (2, 3), extra]
        told.append(network_settings(Network(edges, path.matrix)))
    assert told[0] != told[1]
    assert told[0]["sha256"] == told[1]["sha256"] == network_settings(path)["sha256"]
    assert "edges_sha256" not in network_settings(path)


def test_a_diagonal_without_weight_adds_nothing() -> None:
    pairs = np.array([[0.0, 0.5, 0.5], [0.5, 0.0, 0.5], [0.5, 0.5, 0.0]])
    assert "edges_sha256" not in network_settings(Network([(0, 1), (1, 2), (0, 2)], pairs))
