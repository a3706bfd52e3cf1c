"""Results as tidy tables, with the names that users gave."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

from coopbandits import (
    DDUCB,
    BernoulliBandit,
    GaussianBandit,
    IndependentUCB,
    Network,
    Result,
    simulate,
)
from coopbandits.core.errors import InputError

from .conftest import Make

ARMS = ["blue", "green", "red"]


def play(network: Network, keep: str = "curves", clocks: str | None = None) -> Result:
    return simulate(
        GaussianBandit([1.0, 0.5, 0.0]).named(ARMS), network, IndependentUCB(), 20, 2,
        engine="reference", rounds=5, keep=keep, progress=False, clocks=clocks,
    )  # fmt: skip


@pytest.fixture(scope="module")
def karate() -> Result:
    return play(Network(nx.karate_club_graph()))


@pytest.fixture(scope="module")
def friends() -> Result:
    return play(Network([("ann", "bob"), ("bob", "eve")]), "arms")


def test_a_row_per_policy_run_and_round(make: Make) -> None:
    result = make(runs=3)
    frame = result.to_dataframe()
    columns = [
        "policy", "run", "round", "regret", "global_regret", "worst_regret", "realized_regret",
        "values_sent",
    ]  # fmt: skip
    assert list(frame.columns) == columns
    assert len(frame) == 2 * 3 * 4
    row = frame[(frame["policy"] == "dducb") & (frame["run"] == 2) & (frame["round"] == 5)]
    assert row["regret"].item() == result.regret.sel(policy="dducb", run=2, round=5).item()
    assert frame.groupby("policy")["regret"].max().tolist() == pytest.approx(
        result.regret.max(("run", "round")).values
    )


def test_a_row_per_run(make: Make) -> None:
    result = make(runs=3)
    frame = result.to_dataframe("runs")
    assert list(frame.columns) == [
        "policy", "run", "regret", "global_regret", "worst_regret", "realized_regret",
        "values_sent", "messages_sent",
    ]  # fmt: skip
    assert frame["regret"].tolist() == result.regret.sel(round=10).values.ravel().tolist()


def test_a_row_per_arm_by_its_name(friends: Result, make: Make) -> None:
    frame = friends.to_dataframe("arms")
    assert list(frame.columns) == ["policy", "run", "agent", "arm", "pulls"]
    assert set(frame["arm"]) == set(ARMS)
    assert set(frame["agent"]) == {"ann", "bob", "eve"}
    assert frame["pulls"].sum() == 2 * 3 * 20
    assert list(make().to_dataframe("arms").columns) == ["policy", "run", "arm", "pulls"]


def test_karate_club_names_survive(karate: Result, tmp_path: Path) -> None:
    karate.save(tmp_path)
    graph = nx.karate_club_graph()
    for result in (karate, Result.load(tmp_path)):
        frame = result.to_dataframe("agents")
        assert list(frame.columns) == ["policy", "run", "agent", "round", "club", "regret"]
        clubs = frame.groupby("agent")["club"].unique().map(lambda found: found.tolist())
        assert clubs.to_dict() == {node: [graph.nodes[node]["club"]] for node in graph}
        sums = result.pulls.groupby("club").sum().sel(club="Officer")
        assert int(sums.sum()) == 17 * 20 * 2


def test_names_survive_storage(friends: Result, tmp_path: Path) -> None:
    friends.save(tmp_path)
    loaded = Result.load(tmp_path)
    assert loaded.dataset.identical(friends.dataset)
    assert loaded.pulls.sel(agent="eve", arm="blue").shape == (1, 2)
    assert loaded.to_dataframe("agents").equals(friends.to_dataframe("agents"))


@pytest.mark.parametrize(
    ("edges", "names"),
    [
        ([(10, 20), (20, 30)], [10, 20, 30]),
        ([((0, 0), (0, 1))], ["(0, 0)", "(0, 1)"]),
        ([("1", 1), (1, 2)], ["'1'", "1", "2"]),
        ([(0, 1), (1, 2)], [0, 1, 2]),
    ],
)
def test_whatever_nodes_are_called(edges: list[object], names: list[object]) -> None:
    result = play(Network(edges))
    assert result.to_dataframe("agents")["agent"].unique().tolist() == names


def test_attributes_that_every_node_has_as_text_or_number() -> None:
    graph = nx.path_graph(3)
    nx.set_node_attributes(graph, {0: 1, 1: 2.5, 2: 3}, "age")
    nx.set_node_attributes(graph, {0: "a", 1: 2, 2: "c"}, "mixed")
    nx.set_node_attributes(graph, {0: "x"}, "some")
    nx.set_node_attributes(graph, (1.0, 2.0), "pos")
    nx.set_node_attributes(graph, "here", "regret")
    frame = play(Network(graph)).to_dataframe("agents")
    assert list(frame.columns[2:]) == ["agent", "round", "age", "node_regret", "regret"]
    assert set(frame["node_regret"]) == {"here"}


def test_agents_curves_add_up_to_the_networks(friends: Result) -> None:
    assert friends.agent_regret.dims == ("policy", "run", "agent", "round")
    np.testing.assert_allclose(friends.agent_regret.sum("agent"), friends.regret, atol=1e-12)
    lost = np.array([0.0, 0.5, 1.0])[friends.arms.sel(agent="bob").values[0]]
    rounds = friends.dataset["round"].values
    expected = lost.cumsum(axis=1)[:, rounds - 1]
    assert friends.agent_regret.sel(agent="bob").values[0] == pytest.approx(expected)
    assert [curve.label for curve in friends.agent_curves("independent-ucb")] == [
        "ann", "bob", "eve"
    ]  # fmt: skip


def test_curves_are_kept_without_every_arm(karate: Result) -> None:
    assert "arms" not in karate.dataset
    assert karate.agent_regret.sizes["round"] == karate.regret.sizes["round"]


def test_curves_under_faults_and_shuffled_arms() -> None:
    network = Network([("ann", "bob"), ("bob", "eve")])
    problem = GaussianBandit([1.0, 0.5, 0.0])
    result = simulate(
        problem, network, [DDUCB(), IndependentUCB()], 30, 3, engine="reference", keep="curves",
        faults="sleep=0.3", shuffle_arms=True, progress=False,
    )  # fmt: skip
    np.testing.assert_allclose(result.agent_regret.sum("agent"), result.regret, atol=1e-12)


def test_curves_that_were_not_kept(make: Make) -> None:
    for use in (
        lambda: make().agent_regret,
        lambda: make().agent_curves("dducb"),
        lambda: make().to_dataframe("agents"),
        lambda: make().plot_agents("dducb"),
    ):
        with pytest.raises(InputError, match='keep="curves"'):
            use()
    with pytest.raises(InputError, match=r"curves.*clocks"):
        play(Network([(0, 1)]), "curves", clocks="poisson")


def test_unknown_names_are_told(make: Make) -> None:
    known = "dducb, independent-ucb.*'dducb'"
    for use in (make().curve, make().agent_curves):
        with pytest.raises(InputError, match=f"'ducb'.*{known}"):
            use("ducb")
    with pytest.raises(InputError, match=r"'round'.*'rounds'"):
        make().to_dataframe("round")


def test_polars(friends: Result) -> None:
    pytest.importorskip("polars")
    for table in ("rounds", "runs", "arms", "agents"):
        found, expected = friends.to_polars(table), friends.to_dataframe(table)
        assert found.columns == list(expected.columns)
        assert found.rows() == [tuple(row) for row in expected.itertuples(index=False)]


def test_without_polars(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(InputError, match=r"'coopbandits\[polars\]'"):
        make().to_polars()


def test_naming_arms() -> None:
    problem = BernoulliBandit([0.5, 0.4])
    named = problem.named(["left", "right"])
    assert problem.arm_names is None
    assert named.arm_names == ("left", "right")
    assert named != problem
    assert named == problem.named(("left", "right"))
    assert named.describe() == problem.describe()
    for wrong in (["left"], ["left", "left"], "ab", 7):
        with pytest.raises(InputError, match=f"arm_names.*{re.escape(repr(wrong))}.* 2 arms"):
            problem.named(wrong)  # type: ignore[arg-type]  # on purpose
