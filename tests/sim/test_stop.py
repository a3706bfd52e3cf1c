"""When agents could have stopped: the same in all engines, seldom wrong, and by hand."""

from __future__ import annotations

import numpy as np
import pytest

import coopbandits as cb
from coopbandits.core.draws import normals
from coopbandits.core.policy import AnyPolicy
from coopbandits.core.recommend import leader
from coopbandits.core.registry import parse_policy
from coopbandits.sim.stop import read_stop
from coopbandits.sim.tapes import REWARDS, agent_keys, tape_words

CYCLE = cb.Network.from_spec("cycle:4")
CLEAR = cb.GaussianBandit([0.0, 3.0, 1.0], sigma=0.5)


def play(policy: AnyPolicy, engine: str, **more: object) -> cb.Result:
    settings = {"stop": 0.9, "progress": False, **more}
    return cb.simulate(CLEAR, CYCLE, policy, 150, 3, 5, engine, **settings)  # type: ignore[arg-type]  # of many kinds


@pytest.mark.covering(4)
@pytest.mark.plays
@pytest.mark.parametrize(
    "policy",
    [
        "flooded-totals*top-two", "ledger-sums*top-two", "local-sums*ucb:constant=40",
        "neighborhood-sums*top-two", "flooded-pulls:hop_limit=2*ucb:constant=40",
        "central-totals*top-two", "central-totals:delay=none*ucb:constant=40",
        "central-totals:delay=2*ucb:constant=40",
    ],
)  # fmt: skip
def test_all_engines_say_the_same(policy: str) -> None:
    faults = "sleep=0.2" if "top-two" in policy and "neighborhood" not in policy else None
    first, second = (
        play(parse_policy(policy), engine, shuffle_arms=True, faults=faults, keep="arms")
        for engine in ("reference", "cpu")
    )
    assert second.meta["engines"] == ["cpu"]
    np.testing.assert_array_equal(second.arms, first.arms)
    for name in first.stops:
        np.testing.assert_array_equal(second.stops[name], first.stops[name])
    assert (first.stops.stop_round >= 0).any()
    assert not first.stops.stop_wrong.any()


def test_an_agent_stops_when_its_own_pulls_say_so() -> None:
    """By hand: the pulls and rewards of an agent that talks to nobody."""
    result = play(cb.combine(cb.LocalSums(), cb.UCB(40)), "reference", keep="arms")
    stopped = int(result.stops.stop_round[0, 0, 2])
    assert stopped > 0
    arms = result.arms.values[0, 0, 2]
    tape = normals(tape_words(agent_keys(5, REWARDS, 0, 4), 0, 150))[2]
    leads = []
    for t in (stopped - 1, stopped):
        counts = np.array([(arms[:t] == k).sum() for k in range(3)], dtype=float)
        paid = CLEAR.means[arms[:t]] + 0.5 * tape[:t]
        sums = np.array([paid[arms[:t] == k].sum() for k in range(3)])
        leads.append(leader(sums, counts, 0.5, 0.1)[1])
    assert leads[0] <= 0.0 < leads[1]


def test_stopping_changes_no_arm() -> None:
    plain, watched = (play(cb.FloodTS(), "cpu", stop=stop, keep="arms") for stop in (None, 0.95))
    np.testing.assert_array_equal(plain.arms, watched.arms)
    with pytest.raises(cb.InputError, match=r"stop=0\.95"):
        _ = plain.stops
    with pytest.raises(cb.InputError, match=r"stop=0\.95"):
        plain.to_dataframe("stops")


def test_results_tell_when_to_stop(tmp_path: object) -> None:
    result = play(cb.FloodUCB(40), "auto", stop=cb.Stop(0.9, within=0.5))
    assert result.meta["settings"]["stop"] == "0.9,within=0.5"
    table = str(result.summary())
    assert "rounds until agents could have stopped" in table
    assert "3 of 3" in table
    again = cb.Result.load(result.save(str(tmp_path)))
    np.testing.assert_array_equal(again.stops.stop_round, result.stops.stop_round)
    frame = result.to_dataframe("stops")
    assert list(frame.columns) == ["policy", "run", "agent", "stop_round", "stop_arm", "stop_wrong"]
    assert len(frame) == 3 * 4
    axes = result.plot_stops().axes[0]
    (curve,) = axes.get_lines()
    assert np.asarray(curve.get_ydata())[-1] == 1.0
    assert (np.diff(np.asarray(curve.get_xdata())) >= 0).all()
    (line,) = result.summary().stops
    assert line.pulls == 4 * line.last
    assert line.first <= line.last


def test_nobody_stops_too_early() -> None:
    result = cb.simulate(cb.GaussianBandit([0.01, 0.0]), CYCLE, cb.FloodTS(), 30, 2, stop=0.9)
    assert (result.stops.stop_round == -1).all()
    assert (result.stops.stop_arm == -1).all()
    assert "0 of 2" in str(result.summary())


@pytest.mark.slow
@pytest.mark.plays
@pytest.mark.parametrize("carrier", ["flooded-totals", "ledger-sums"])
@pytest.mark.parametrize("means", [[0.1, 0.5, 0.9], [0.5, 0.5001]])
@pytest.mark.parametrize("runs", [400, pytest.param(2000, marks=pytest.mark.slow)])
def test_recommendations_are_wrong_in_at_most_delta_of_runs(
    carrier: str, means: list[float], runs: int
) -> None:
    """δ = 0.2, and all agents of a run have to be right, about arms that hardly differ too."""
    policy = parse_policy(f"{carrier}*ucb:constant=60")
    network, problem = cb.Network.from_spec("cycle:10"), cb.BernoulliBandit(means)
    result = cb.simulate(problem, network, policy, 300, runs, 1, shuffle_arms=True, stop=0.8)
    (line,) = result.summary().stops
    print(f"{carrier}, {means}: {line.wrong} of {runs} wrong, {line.stopped} stopped")
    assert line.wrong <= 0.2 * runs
    assert line.stopped > 0.9 * runs or len(means) == 2


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None), (0.9, cb.Stop(0.9)), ("0.9", cb.Stop(0.9)), (cb.Stop(), cb.Stop(0.95, 0.0)),
        ("0.99,within=0.05", cb.Stop(0.99, 0.05)),
    ],
)  # fmt: skip
def test_a_rule_is_written_in_a_word(given: object, expected: cb.Stop | None) -> None:
    assert read_stop(given) == expected
    if expected is not None:
        assert read_stop(expected.spelling) == expected


@pytest.mark.parametrize(
    "given", [0.0, 1, True, -0.5, "sure", "0.9,0.1", "0.9,without=1", "0.9,within=", "2", [0.9]]
)
def test_what_is_no_rule_is_refused(given: object) -> None:
    with pytest.raises(cb.InputError, match=r"0\.95"):
        read_stop(given)
    with pytest.raises(cb.InputError, match="within is"):
        cb.Stop(0.9, within=-1.0)


def test_what_has_no_one_best_arm_cannot_be_stopped() -> None:
    with pytest.raises(cb.InputError, match="no one best arm"):
        cb.simulate(cb.drift(CLEAR, switch_every=9), CYCLE, cb.FloodTS(), 30, stop=0.9)
    with pytest.raises(cb.InputError, match="distinct pulls"):
        cb.simulate(CLEAR, CYCLE, cb.DDUCB(), 30, stop=0.9)
    with pytest.raises(cb.InputError, match=r"tree.*ledger-ts"):
        cb.simulate(CLEAR, CYCLE, cb.TreeTS(), 30, stop=0.9)
    with pytest.raises(cb.InputError, match="no one best arm"):
        cb.simulate(cb.sites(CLEAR, spread=0.1), CYCLE, cb.FloodTS(), 30, stop=0.9)
    with pytest.raises(cb.InputError, match="rounds"):
        cb.simulate(CLEAR, CYCLE, cb.FloodTS(), 30, stop=0.9, clocks="poisson")
