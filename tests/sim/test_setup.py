"""A setup is sound, or it is not made."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import coopbandits as cb
from coopbandits import GaussianBandit, Network, simulate
from coopbandits.core import InputError, Policy, parse_policy
from coopbandits.core.draws import normals
from coopbandits.core.policy import AnyPolicy
from coopbandits.core.recommend import leader
from coopbandits.core.registry import EXAMPLES
from coopbandits.literature import CoopUCB, DecTS
from coopbandits.sim.record import Task
from coopbandits.sim.setup import (
    LOCAL,
    SOURCES,
    Setup,
    global_knowledge,
    read_conditions,
    read_stop,
    recorded_rounds,
)
from coopbandits.sim.simulate import plan
from coopbandits.sim.tapes import REWARDS, agent_keys, tape_words
from coopbandits.theory.epsilon_c import epsilon_c

SETUP = Setup(
    cb.GaussianBandit([1.0, 0.5]),
    cb.Network.from_spec("star:4"),
    20,
    recorded_rounds(20, [5, 9]),
    runs=3,
    seed=7,
    keep="agents",
    shuffle_arms=True,
    faults=cb.parse_faults("loss=0.3"),
)
POISSON = cb.parse_clocks("poisson")


def test_a_task_has_the_settings_of_its_setup() -> None:
    task = Task(SETUP, cb.UCBNetwork())
    names = [field.name for field in dataclasses.fields(Setup) if field.name != "runs"]
    assert all(getattr(task, name) is getattr(SETUP, name) for name in names)
    assert (task.setup, task.num_runs) == (SETUP, 3)
    assert sorted(task.arm_order(2).tolist()) == [0, 1]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"problem": None}, "problem.* None"),
        ({"network": [(0, 1)]}, r"network.*\[\(0, 1\)\]"),
        ({"horizon": True}, "horizon.* True"),
        ({"runs": 0}, r"runs.* 0\b"),
        ({"seed": -1}, r"seed.* -1\b"),
        ({"keep": "all"}, "keep 'all'.*agents, arms"),
        ({"shuffle_arms": 1}, r"shuffle_arms.* 1\b"),
        ({"horizon": 21}, r"rounds.* 21\b.*\[ 5  9 20\]"),
        ({"rounds": np.array([9, 5, 20])}, r"rounds.* 20\b"),
        ({"rounds": np.array([5, 21])}, "rounds.* 1 to 20"),
        ({"faults": cb.parse_faults("sleep=0.1"), "clocks": POISSON}, "sleep"),
        ({"keep": "arms", "clocks": POISSON}, "arms.*clocks"),
    ],
)
def test_what_makes_no_sense_is_refused(change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(cb.InputError, match=sentence):
        dataclasses.replace(SETUP, **change)


def test_a_policy_that_needs_rounds_is_refused_with_clocks() -> None:
    with pytest.raises(cb.InputError, match=r"\bdducb\b.*rounds"):
        Task(dataclasses.replace(SETUP, clocks=POISSON), cb.DDUCB())


def test_numbers_become_plain() -> None:
    given: dict[str, Any] = {"horizon": np.int64(20), "runs": np.int32(3), "seed": np.uint8(7)}
    setup = dataclasses.replace(SETUP, **given)
    assert [type(value) for value in (setup.horizon, setup.runs, setup.seed)] == [int] * 3


def test_conditions_are_read_from_texts() -> None:
    assert read_conditions(None, None) == read_conditions("none", "none")
    faults, clocks = read_conditions("loss=0.3", "regular:ratio=2")
    assert (faults, clocks) == (cb.parse_faults("loss=0.3"), cb.parse_clocks("regular:ratio=2"))
    assert read_conditions(faults, clocks) == (faults, clocks)


def test_a_plan_has_the_settings_of_the_result() -> None:
    result = cb.simulate(
        SETUP.problem, SETUP.network, [cb.UCBNetwork(), cb.DDUCB()], 20, 3, 7, rounds=[5, 9],
        keep="agents", shuffle_arms=True, faults="loss=0.3", engine="reference",
    )  # fmt: skip
    assert plan(SETUP, [cb.UCBNetwork(), cb.DDUCB()]) == result.meta["settings"]
    with pytest.raises(cb.InputError, match="no policy"):
        plan(SETUP, [])


def test_a_cell_is_checked_when_its_setup_is_asked_for() -> None:
    cell = cb.Cell(SETUP.problem, SETUP.network, cb.DDUCB(), 20, 0)
    assert len(cell.id) == 16
    with pytest.raises(cb.InputError, match=r"runs.* 0\b"):
        _ = cell.setup
    good = dataclasses.replace(cell, runs=2, seed=5, shuffle_arms=True)
    settings = {key: value for key, value in good.settings.items() if key != "policy"}
    planned = plan(good.setup, cb.DDUCB())
    assert settings.items() <= planned.items()
    assert set(planned) - set(settings) == {"policies", "rounds", "keep"}


class Unbounded(cb.Problem):
    """One's own, of which nobody says how far rewards reach."""

    def __init__(self) -> None:
        super().__init__([0.5, 0.25], 0.5)

    @staticmethod
    def reward(numbers: Any, variate: float) -> float:
        return 1.0 if variate < numbers[0] else 0.0

    def describe(self) -> dict[str, Any]:
        return {"problem": "unbounded"}


FAMILY = ("dec-ts:family=bernoulli", "tree-sums*kl-ucb:family=bernoulli", "local-sums*beta-draw")


@pytest.mark.parametrize("policy", FAMILY)
@pytest.mark.parametrize(
    ("problem", "where"),
    [
        (cb.GaussianBandit([1.0, 0.5]), "GaussianBandit.* -inf to inf"),
        (cb.PoissonBandit([1.0, 0.5]), "PoissonBandit.* 0 to inf"),
        (cb.LoggedBandit({"a": [0.0, 2.0], "b": [1.0]}), "LoggedBandit.* 0 to 2"),
        (cb.ParetoBandit([2.0, 3.0], cap=9.0), "ParetoBandit.* 1 to 9"),
    ],
)
def test_a_policy_for_other_rewards_is_refused(policy: str, problem: Any, where: str) -> None:
    setup = dataclasses.replace(SETUP, problem=problem)
    with pytest.raises(cb.InputError, match=rf"\[0, 1\].*{where}"):
        Task(setup, cb.parse_policy(policy))
    Task(setup, cb.parse_policy("dec-ts"))


@pytest.mark.parametrize("policy", FAMILY)
@pytest.mark.parametrize(
    "problem",
    [
        cb.BernoulliBandit([0.5, 0.25]),
        cb.BetaBandit([1.0, 2.0], [1.0, 2.0]),
        cb.LoggedBandit({"a": [0.0, 0.5], "b": [1.0]}),
        cb.MixtureBandit([0.5, 0.5], [cb.BernoulliBandit([0.5, 0.25])] * 2),
        Unbounded(),
    ],
)
def test_and_played_on_its_own(policy: str, problem: Any) -> None:
    Task(dataclasses.replace(SETUP, problem=problem), cb.parse_policy(policy))


@pytest.mark.parametrize("members", ["{}", "flood-ucb+{}@0"])
def test_noise_is_for_rewards_from_0_to_1(members: str) -> None:
    network, normal = cb.Network.from_spec("path:3"), cb.GaussianBandit([5.0, 1.0])
    private = members.format("private:epsilon=1,horizon=9*flood-ucb")
    with pytest.raises(cb.InputError, match=r"\[0, 1\].* -inf to inf"):
        cb.simulate(normal, network, private, 5)
    cb.simulate(cb.BernoulliBandit([0.5, 0.1]), network, private, 5)
    cb.simulate(normal, network, members.format("private:epsilon=inf,horizon=9*flood-ucb"), 5)


@pytest.mark.parametrize(
    ("means", "least"), [([0.0, 1e-9, -1e-9], "1e-06"), ([1e9, 1e9 + 1.0], "1e[+]03")]
)
def test_units_in_which_all_arms_tie_are_refused(means: list[float], least: str) -> None:
    problem = cb.GaussianBandit(means)
    for world in (problem, cb.drift(problem, switch_every=5)):
        with pytest.raises(cb.InputError, match=f"differ by {least}"):
            dataclasses.replace(SETUP, problem=world)


@pytest.mark.parametrize(
    "problem",
    [
        cb.GaussianBandit([0.0, 0.0]),
        cb.GaussianBandit([0.3, 0.1 + 0.2]),
        cb.GaussianBandit([1e-5, 0.0]),
        cb.drift(cb.GaussianBandit([0.5, 0.2]), {5: [0.5, 0.5 + 1e-9]}),
    ],
)
def test_ties_and_small_differences_are_played(problem: cb.Problem) -> None:
    assert dataclasses.replace(SETUP, problem=problem).problem == problem


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


PATH = Network.from_spec("path:5")  # all eigenvalues are simple


def test_nothing_is_told_to_those_who_need_nothing() -> None:
    assert global_knowledge(PATH, ()) == [{}] * 5
    assert global_knowledge(PATH, {"num_agents", "lambda_bound"}) == [{}] * 5
    assert global_knowledge(PATH, DecTS().needs) == [{}] * 5


@pytest.mark.parametrize("form", ["closed", "landgren"])
def test_every_agent_is_told_its_own_epsilon_c(form: str) -> None:
    known = global_knowledge(PATH, CoopUCB(2.0, form).needs)
    expected = epsilon_c(PATH, form=form)
    assert [own[f"epsilon_c:{form}"] for own in known] == expected.tolist()
    assert all(len(own) == 1 and type(own[f"epsilon_c:{form}"]) is float for own in known)
    assert np.unique(expected).size > 1


def test_both_forms_at_once() -> None:
    known = global_knowledge(PATH, {"epsilon_c:closed", "epsilon_c:landgren"})
    assert all(own["epsilon_c:closed"] <= own["epsilon_c:landgren"] for own in known)


def test_landgrens_form_warns_where_eigenvalues_repeat() -> None:
    cycle = Network.from_spec("cycle:5")
    with pytest.warns(UserWarning, match="eigen"):
        global_knowledge(cycle, {"epsilon_c:landgren"})
    global_knowledge(cycle, {"epsilon_c:closed"})


def test_unknown_knowledge_gets_the_nearest() -> None:
    with pytest.raises(InputError, match=r"'epsilon_c:close'.*'epsilon_c:closed'"):
        global_knowledge(PATH, {"epsilon_c:close"})


def test_every_need_of_every_policy_can_be_told() -> None:
    for policy in map(parse_policy, EXAMPLES):
        if isinstance(policy, Policy):
            assert policy.needs <= LOCAL | set(SOURCES)


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_the_engines_tell_each_agent_its_own(engine: str) -> None:
    """The middle of a star has ε_c = 0 and explores least."""
    network = Network.from_spec("star:6")
    assert epsilon_c(network).argmin() == 0
    policy = CoopUCB(2.0)
    problem = GaussianBandit([1.0, 0.0], sigma=0.3)
    pulls = simulate(
        problem, network, policy, 300, 4, 1, engine, keep="agents"
    ).dataset["agent_pulls"].mean("run")  # fmt: skip
    bad = pulls.isel(policy=0, arm=1).values
    assert bad[0] < bad[1:].min()
