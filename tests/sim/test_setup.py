"""A setup is sound, or it is not made."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import coopbandits as cb
from coopbandits.sim.record import Task
from coopbandits.sim.setup import Setup, read_conditions, recorded_rounds
from coopbandits.sim.simulate import plan

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
