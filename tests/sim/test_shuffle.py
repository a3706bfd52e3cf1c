"""Shuffled arms: another order in every run, the same for all policies, told by the own arms."""

from __future__ import annotations

import sys
from typing import Any

import numba
import numpy as np
import pytest

from coopbandits import (
    DDUCB,
    BetaBandit,
    GaussianBandit,
    InputError,
    LoggedBandit,
    Network,
    Result,
    simulate,
)
from coopbandits.core.policy import AnyPolicy
from coopbandits.core.registry import EXAMPLES, parse_policy
from coopbandits.sim import cpu
from coopbandits.sim.tapes import arm_order

from .policies import Fixed
from .test_engines import is_compiled

pytestmark = pytest.mark.plays

SIMULATE = sys.modules["coopbandits.sim.simulate"]  # the package's name is the function

POLICIES: list[AnyPolicy] = [
    *(parse_policy(text) for text in EXAMPLES if is_compiled(text, "none")),
    DDUCB(own_pulls=False),
    DDUCB(neighbor_pulls=True),
    DDUCB(remix=True, own_pulls=False),
]
MEANS = np.array([0.2, 1.0, 0.9, 0.6])
NETWORK = Network.from_spec("regular:3,40,seed=2")  # two blocks of agents
SEED = 3


def play(engine: str = "cpu", **changes: Any) -> Result:
    call: dict[str, Any] = {
        "problem": GaussianBandit(MEANS), "network": NETWORK, "policies": POLICIES, "horizon": 45,
        "runs": 3, "seed": SEED, "keep": "arms", "shuffle_arms": True,
    }  # fmt: skip
    return simulate(engine=engine, **(call | changes))


@pytest.fixture(scope="module")
def shuffled() -> Result:
    return play()


def test_a_run_is_that_of_the_problem_in_another_order(shuffled: Result) -> None:
    for run in range(3):
        order = arm_order(SEED, run, 4)
        assert order.tolist() != [0, 1, 2, 3]
        problem = GaussianBandit(MEANS[order])
        moved = play(problem=problem, runs=run + 1, shuffle_arms=False).dataset.isel(run=run)
        found = shuffled.dataset.isel(run=run)
        assert np.array_equal(found["arms"], order[moved["arms"]])
        assert np.array_equal(found["pulls"][:, order], moved["pulls"])
        assert np.array_equal(found["agent_pulls"][..., order], moved["agent_pulls"])
        np.testing.assert_allclose(found["regret"], moved["regret"], rtol=1e-12)
        for same in ("values_sent", "messages_sent"):
            assert np.array_equal(found[same], moved[same])
        np.testing.assert_allclose(found["realized_regret"], moved["realized_regret"], rtol=1e-12)


def test_what_is_recorded_fits_together(shuffled: Result) -> None:
    data = shuffled.dataset
    counted = [(data["arms"] == arm).sum(("agent", "pull")) for arm in range(4)]
    assert np.array_equal(np.stack(counted, axis=-1), data["pulls"])
    assert np.array_equal(data["agent_pulls"].sum("agent"), data["pulls"])
    gaps = MEANS.max() - MEANS
    np.testing.assert_allclose(data["regret"].isel(round=-1), data["pulls"].values @ gaps)


@pytest.mark.covering(1)
@pytest.mark.parametrize(
    "problem",
    [
        GaussianBandit(MEANS),
        BetaBandit([2.0, 0.7, 3.0], [2.0, 0.5, 1.0]),
        LoggedBandit(np.array([[1.0, 2.0, 0.0], [0.5, 1.5, np.nan], [0.0, 1.0, 2.0]])),
    ],
)
def test_engines_agree(problem: Any) -> None:
    call: dict[str, Any] = {
        "problem": problem, "network": Network.from_spec("path:5"), "horizon": 40, "runs": 2,
    }  # fmt: skip
    expected = play("reference", **call).dataset
    found = play("cpu", **call)
    assert found.meta["engines"] == ["cpu"] * len(POLICIES)
    for name in ("arms", "agent_pulls", "pulls", "regret", "values_sent"):
        assert np.array_equal(found.dataset[name], expected[name]), name
    np.testing.assert_allclose(
        found.dataset["realized_regret"], expected["realized_regret"], rtol=1e-9, atol=1e-9
    )


@pytest.mark.covering
@pytest.mark.parametrize("keep", ["", "arms"])  # whole runs in one kernel, or stage by stage
@pytest.mark.parametrize("threads", [1, min(2, numba.config.NUMBA_NUM_THREADS)])
def test_threads_and_batches_change_nothing(
    monkeypatch: pytest.MonkeyPatch, shuffled: Result, keep: str, threads: int
) -> None:
    for runs_at_once in (1, 3):
        monkeypatch.setattr(SIMULATE, "BATCH_PULLS", runs_at_once * 40 * 45)
        found = play(threads=threads, keep=keep).dataset
        assert found.identical(shuffled.dataset[list(found.data_vars)])


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_the_order_alone_makes_the_difference(monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    call: dict[str, Any] = {"network": Network.from_spec("cycle:4"), "runs": 2, "horizon": 30}
    plain = play(engine, **call, shuffle_arms=False)
    assert not np.array_equal(play(engine, **call).arms, plain.arms)
    monkeypatch.setattr("coopbandits.sim.record.arm_order", lambda seed, run, arms: np.arange(arms))
    assert play(engine, **call).dataset.identical(plain.dataset)


def test_whoever_always_plays_the_first_place_plays_every_arm() -> None:
    result = play("reference", policies=[Fixed()], runs=12, horizon=5, network=Network([(0, 1)]))
    firsts = [arm_order(SEED, run, 4)[0] for run in range(12)]
    assert set(firsts) == {0, 1, 2, 3}
    assert result.arms.values[0, :, 0, 0].tolist() == firsts


def test_the_setting_is_kept_where_it_is_on(shuffled: Result) -> None:
    assert shuffled.meta["settings"]["shuffle_arms"] is True
    plain = play(shuffle_arms=False, horizon=5, policies=[DDUCB()])
    assert "shuffle_arms" not in plain.meta["settings"]


def test_results_of_another_order_are_not_replaced(shuffled: Result, tmp_path: Any) -> None:
    play(shuffle_arms=False).save(tmp_path)
    with pytest.raises(InputError, match="other settings"):
        shuffled.save(tmp_path)


@pytest.mark.parametrize("value", ["yes", 1, None])
def test_anything_but_true_and_false_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match=f"shuffle_arms.* {value!r}"):
        play(shuffle_arms=value)


def test_large_tables_are_played_in_smaller_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shuffled run has a table of its own, which takes memory."""
    problem = BetaBandit([2.0, 0.7], [2.0, 0.5])
    run_bytes = cpu.ENGINE.run_bytes

    def two_fit(task: Any) -> int:
        needed = run_bytes(task) or 0
        assert needed >= problem.kernel_form().table.nbytes
        monkeypatch.setattr(SIMULATE, "BATCH_BYTES", 2 * needed)
        return needed

    monkeypatch.setattr(cpu.ENGINE, "run_bytes", two_fit)
    batches: list[int] = []
    play_runs = cpu.ENGINE.play

    def noted(task: Any, runs: range, tick: Any) -> Any:
        batches.append(len(runs))
        return play_runs(task, runs, tick)

    monkeypatch.setattr(cpu.ENGINE, "play", noted)
    network = Network.from_spec("cycle:4")
    play(problem=problem, network=network, policies=[DDUCB()], runs=5)
    assert batches == [2, 2, 1]
