"""LF and ComEx are settings of UCB-Network: where they change nothing, and what they change."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import coopbandits as cb

PROBLEM = cb.BernoulliBandit([0.9, 0.5, 0.4])


def play(network: cb.Network, *policies: cb.Policy, horizon: int = 60) -> cb.Result:
    return cb.simulate(
        PROBLEM, network, policies, horizon=horizon, runs=3, keep="arms", engine="reference",
        progress=False,
    )  # fmt: skip


def test_lf_changes_nothing_where_all_have_as_many_neighbors() -> None:
    result = play(cb.Network.from_spec("cycle:8"), cb.UCBNetwork(), cb.UCBNetwork(fair=True))
    plain, fair = result.arms.values
    assert np.array_equal(plain, fair)


@pytest.mark.slow
@pytest.mark.plays
def test_lf_evens_out_what_agents_of_a_star_lose() -> None:
    """The hub hears everybody, and with LF as much as one leaf; messages are the same."""
    star = cb.Network(nx.star_graph(9))
    result = play(star, cb.UCBNetwork(), cb.UCBNetwork(fair=True), horizon=400)
    pulls = (result.arms.values == 0).mean(axis=(1, 3))  # (policy, agent): of the best arm
    plain, fair = pulls[:, 0]
    assert plain > fair + 0.02
    assert result.values_sent.values[0].tolist() == result.values_sent.values[1].tolist()


@pytest.mark.slow
@pytest.mark.plays
def test_comex_sends_a_message_per_exploring_pull() -> None:
    """So few more the longer it plays, and regret is that of the same order."""
    network = cb.Network.from_spec("complete:6")
    comex = cb.UCBNetwork(exploring=True)
    result = play(network, cb.UCBNetwork(), comex, horizon=400)
    plain, sparing = result.dataset["values_sent"].mean("run").values
    half = int(np.searchsorted(result.dataset["round"].values, 200))
    assert sparing[-1] < 0.4 * plain[-1]
    assert sparing[-1] - sparing[half] < 0.75 * sparing[half]
    regrets = result.regret.values[:, :, -1].mean(axis=1)
    assert regrets[1] < 1.5 * regrets[0]
    # Two values to five neighbours for each pull that was told; no more than were of other arms,
    # but for those made before the best arm was known to be the best.
    told = result.values_sent.sel(policy=comex.spelling).values / 10
    others = (result.arms.sel(policy=comex.spelling).values != 0).sum(axis=(1, 2))
    assert (told < others + 60).all()
    assert (told > 0.5 * others).all()
