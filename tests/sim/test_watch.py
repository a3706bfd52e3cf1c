"""Runs kept in frames: what is taken down is what the reference engine played and paid."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coopbandits as cb
from coopbandits.core.errors import InputError
from coopbandits.problems import Problem
from coopbandits.problems.tables import BEST
from coopbandits.sim.contexts import Contexts, barred_arms
from coopbandits.sim.record import FEWEST_FRAMES, MOST_CELLS, MOST_FRAMES, frame_rounds, totals

PROBLEMS = (
    cb.GaussianBandit([1.0, 0.5, 0.2], sigma=[1.0, 0.3, 2.0]),
    cb.BernoulliBandit([0.5, 0.4, 0.9]),
    cb.ExponentialBandit([1.0, 0.5, 2.0]),
    cb.drift(cb.sites(cb.GaussianBandit([1.0, 0.5, 0.2]), 0.3), {20: [0.2, 1.0, 0.5]}),
)
SETTINGS: dict[str, Any] = {"runs": 2, "seed": 3, "engine": "reference"}


@pytest.mark.covering
@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: type(problem).__name__)
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("faults", [None, "sleep=0.3"])
def test_pulls_and_rewards_are_those_of_the_run(
    problem: Problem, shuffle: bool, faults: str | None
) -> None:
    network = cb.Network.from_spec("cycle:5")
    played = cb.simulate(
        problem, network, [cb.DDUCB(), cb.IndependentUCB()], 60,
        keep="arms", shuffle_arms=shuffle, faults=faults, **SETTINGS,
    )  # fmt: skip
    for policy in played.policies:
        one = played.dataset.sel(policy=policy).isel(run=0)
        tables = problem.reward_tables(network.labels)
        found = totals(problem, tables, SETTINGS["seed"], one["arms"].values)
        np.testing.assert_array_equal(found.pulls.sum(axis=0), one["agent_pulls"].values)
        best = tables.costs[..., 0, BEST][tables.group[:, None], tables.segments(np.arange(60))]
        due = float(best[one["arms"].values >= 0].sum())
        assert found.rewards.sum() == pytest.approx(due - float(one["realized_regret"][-1]))
        assert found.regret[-1] == pytest.approx(float(one["regret"][-1]), rel=1e-12)
        assert found.pulls.sum() == (one["arms"].values >= 0).sum()


@pytest.mark.parametrize("world", ["plain", "moves", "differs"])
def test_what_depends_on_features_is_taken_down_too(world: str) -> None:
    """Rewards and regret by frame are those that the engine booked, pull by pull."""
    linear = cb.LinearBandit([[1.0, 0.0], [0.0, 1.0], [0.6, 0.6]], features="gaussian", sigma=0.5)
    problem = {
        "plain": linear,
        "moves": cb.drift(linear, switch_every=9),
        "differs": cb.subsets(cb.sites(linear, 0.5), [[0, 1], [1, 2]]),
    }[world]
    network = cb.Network.from_spec("cycle:5")
    policy = cb.parse_policy("flooded-totals*lin-ts:disjoint=true")
    played = cb.simulate(
        problem, network, policy, 40, keep="arms", faults="sleep=0.3", shuffle_arms=True, **SETTINGS
    )
    one = played.dataset.isel(policy=0, run=0)
    arms, tables = one["arms"].values, problem.reward_tables(network.labels)
    found = totals(problem, tables, SETTINGS["seed"], arms)
    assert found.regret[-1] == pytest.approx(float(one["regret"][-1]), rel=1e-9)
    contexts = Contexts(problem, tables, SETTINGS["seed"], 0, np.arange(3))
    means, pulled = contexts.read(0, 40), arms >= 0
    barred = barred_arms(tables, np.arange(3))
    best = (means if barred is None else means + barred[:, None]).max(axis=2)[pulled].sum()
    due = float(best - one["realized_regret"][-1])
    assert found.rewards.sum() == pytest.approx(due)
    np.testing.assert_array_equal(found.pulls.sum(axis=0), one["agent_pulls"].values)


def test_frames_divide_the_run_and_are_shorter_in_the_beginning() -> None:
    ends = frame_rounds(10_000, 100, 17)
    assert ends[0] == 1
    assert ends[-1] == 10_000
    assert 200 < ends.size <= MOST_FRAMES
    assert (np.diff(ends) > 0).all()
    assert np.diff(ends)[-1] > 10 * np.diff(ends)[10]
    assert frame_rounds(3, 5, 2).tolist() == [1, 2, 3]


def test_frames_become_fewer_before_they_become_too_large() -> None:
    assert frame_rounds(10_000, 2000, 17).size > 200
    assert frame_rounds(10**6, 2000, 200).size == MOST_CELLS // 400_000
    assert frame_rounds(10**6, 100_000, 200).size == FEWEST_FRAMES


def test_what_is_kept_is_saved_and_read_back(tmp_path: Path) -> None:
    network = cb.Network.from_spec("grid:2x3")
    kept = cb.simulate(PROBLEMS[1], network, cb.DDUCB(), 40, keep="watch", **SETTINGS)
    kept.save(tmp_path)
    read = cb.Result.load(tmp_path).dataset
    assert "arms" not in read
    assert read["watch_pulls"].dims == ("policy", "frame", "agent", "arm")
    assert int(read["watch_pulls"].sum()) == 6 * 40  # of one run
    assert read["watch_links"].shape == (7, 2)
    assert read["watch_means"].values[-1].tolist() == [0.5, 0.4, 0.9]
    assert read["watch_changes"].size == 0
    plain = cb.simulate(PROBLEMS[1], network, cb.DDUCB(), 40, **SETTINGS)
    np.testing.assert_array_equal(plain.regret.values, kept.regret.values)


def test_runs_in_several_batches_are_kept_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference engine plays runs one by one, so there are two batches."""
    kept = cb.simulate(
        PROBLEMS[0], cb.Network.from_spec("cycle:4"), cb.DDUCB(), 20, keep="watch", **SETTINGS
    )
    assert kept.dataset.sizes["run"] == 2
    assert kept.dataset["watch_rewards"].dtype == np.float32


def test_clocks_have_no_frames() -> None:
    with pytest.raises(InputError, match=r"frames.*clocks"):
        cb.simulate(
            PROBLEMS[0], cb.Network.from_spec("cycle:4"), cb.IndependentUCB(), 20,
            keep="watch", clocks="poisson",
        )  # fmt: skip
