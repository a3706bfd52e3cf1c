"""Worlds: drift, sites and subsets as values, and the tables they make."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import coopbandits as cb
from coopbandits.problems.tables import BEST, NETWORK_GAP, OWN_GAP

P = cb.GaussianBandit([1.0, 0.8, 0.5])
EVERY = [
    P,
    cb.BernoulliBandit([0.5, 0.4, 0.1]),
    cb.BetaBandit([1, 2, 3], [2, 1, 3]),
    cb.PoissonBandit([1.0, 2.0, 0.5]),
    cb.ExponentialBandit([1.0, 2.0, 0.5]),
    cb.StudentTBandit([1.0, 2.0, 0.5], cap=20.0, sigma=2.0),
    cb.LoggedBandit({"a": [0, 1, 1], "b": [2, 3], "c": [1]}),
    cb.MixtureBandit([0.5, 0.5], [P, cb.BernoulliBandit([0.5, 0.4, 0.1])]),
]


def test_steps_hold_from_the_round_that_is_given() -> None:
    tables = cb.drift(P, {3: [0.5, 1.0, 0.8], 5: [0, 0, 0]}).reward_tables(range(2))
    assert tables.means.tolist() == [[[1.0, 0.8, 0.5], [0.5, 1.0, 0.8], [0, 0, 0]]]
    assert tables.segments(np.arange(7)).tolist() == [0, 0, 0, 1, 1, 2, 2]


def test_segments_repeat_after_a_period() -> None:
    tables = cb.drift(P, {3: [0.5, 1.0, 0.8]}, period=5).reward_tables(range(2))
    assert tables.segments(np.arange(11)).tolist() == [0, 0, 0, 1, 1] * 2 + [0]


def test_the_best_arm_moves_on_by_one_place_and_returns() -> None:
    tables = cb.drift(P, switch_every=4).reward_tables(range(2))
    best = tables.means[0].argmax(axis=1)[tables.segments(np.arange(16))]
    assert best.tolist() == [0] * 4 + [1] * 4 + [2] * 4 + [0] * 4


def test_a_ramp_has_the_means_of_the_middles_of_its_pieces() -> None:
    tables = cb.drift(P, ramp=(10, 20, [0.0, 1.8, 0.5]), pieces=2).reward_tables(range(1))
    assert tables.starts.tolist() == [0, 10, 15, 20]
    np.testing.assert_allclose(tables.means[0, :, 0], [1.0, 0.75, 0.25, 0.0])
    np.testing.assert_allclose(tables.means[0, :, 1], [0.8, 1.05, 1.55, 1.8])
    at_once = cb.drift(P, ramp=(0, 20, [0.0, 1.8, 0.5]), pieces=2).reward_tables(range(1))
    assert at_once.starts.tolist() == [0, 10, 20]


@pytest.mark.parametrize("problem", EVERY, ids=lambda problem: type(problem).__name__)
def test_every_problem_of_ours_moves_and_pays_its_new_means(problem: cb.Problem) -> None:
    change = np.array([0.1, -0.05, 0.2])
    moved = problem.moved(change)
    np.testing.assert_allclose(moved.means, problem.means + change, atol=1e-12)
    places = (np.arange(4000) + 0.5) / 4000
    variates = places
    if problem.variate == "normal":
        from scipy.special import ndtri

        variates = ndtri(places)
    for arm in range(3):
        paid = moved.rewards(np.full(4000, arm), variates)
        assert paid.mean() == pytest.approx(moved.means[arm], abs=0.01)
    assert problem.moved(np.zeros(3)).sigma == pytest.approx(problem.sigma)


@pytest.mark.parametrize("problem", EVERY, ids=lambda problem: type(problem).__name__)
def test_every_problem_of_ours_drifts_differs_and_is_played(problem: cb.Problem) -> None:
    world = cb.drift(cb.sites(problem, 0.01), switch_every=3)
    result = cb.simulate(
        world, cb.Network.from_spec("cycle:3"), cb.IndependentUCB(), 12, engine="reference"
    )
    assert result.regret.values[..., -1] > 0


PARETO = cb.ParetoBandit([1.5, 2.0, 2.5], [1.0, 1.1, 1.2], cap=20.0, sigma=2.0)
UNEVEN = [
    cb.GaussianBandit([1.0, 0.8, 0.5], [1.0, 2.0, 3.0]),
    PARETO,
    cb.StudentTBandit([1.0, 2.0, 0.5], [3.0, 4.0, 5.0], [1.0, 2.0, 3.0], cap=9.0, sigma=2.0),
]
TURNED = {
    "gaussian": cb.GaussianBandit([0.5, 1.0, 0.8], [3.0, 1.0, 2.0]),
    "pareto": cb.ParetoBandit([2.5, 1.5, 2.0], [1.2, 1.0, 1.1], cap=20.0, sigma=2.0),
    "student-t": cb.StudentTBandit(
        [0.5, 1.0, 2.0], [5.0, 3.0, 4.0], [3.0, 1.0, 2.0], cap=9.0, sigma=2.0
    ),
}


@pytest.mark.parametrize("problem", EVERY + UNEVEN, ids=lambda problem: type(problem).__name__)
def test_other_places_and_other_means_make_another_cell(problem: cb.Problem) -> None:
    def cell(of: cb.Problem) -> str:
        return cb.Cell(of, cb.Network.from_spec("cycle:3"), cb.IndependentUCB(), 10).id

    turned = problem.turned(np.array([2, 0, 1]))
    others = [turned] if problem is PARETO else [turned, problem.moved([0.01] * 3)]
    assert problem not in others
    assert cell(problem) not in {cell(other) for other in others}
    back = turned.turned(np.array([1, 2, 0]))
    assert (back, cell(back)) == (problem, cell(problem))
    groups = [cb.sites(problem, groups=[problem, other]) for other in (problem, *others)]
    assert len({cell(world) for world in groups}) == len(groups)


@pytest.mark.parametrize("problem", UNEVEN, ids=lambda problem: type(problem).__name__)
def test_settings_of_arms_go_where_the_arms_go(problem: cb.Problem) -> None:
    turned, made = problem.turned(np.array([2, 0, 1])), TURNED[problem.describe()["problem"]]
    assert turned.describe() == made.describe()
    np.testing.assert_array_equal(turned.kernel_form().table, made.kernel_form().table)


def test_a_log_that_is_turned_counts_its_rewards_at_their_arms() -> None:
    turned = cb.LoggedBandit({"a": [0, 1, 1], "b": [2, 3], "c": [1]}).turned(np.array([2, 0, 1]))
    assert turned.num_rewards == (1, 3, 2)


class Plain(cb.Problem):
    """Rewards of one's own that read nothing but the mean."""

    def __init__(self, means: Any) -> None:
        super().__init__(means, 1.0)

    @staticmethod
    def reward(numbers: Any, variate: float) -> float:
        return float(numbers[0] + variate - 0.5)

    def describe(self) -> dict[str, Any]:
        return {"problem": "plain", "means": self.means.tolist()}


class Scaled(Plain):
    """The same with a second number, of which nobody else knows what it is."""

    def __init__(self, means: Any) -> None:
        cb.Problem.__init__(self, means, 1.0, numbers=[[mean, 1.0] for mean in means])


def test_own_problems_move_if_their_numbers_are_their_means() -> None:
    assert Plain([0.5, 0.1]).moved([0.1, 0.1]).means.tolist() == [0.6, 0.2]
    with pytest.raises(cb.InputError, match="Scaled"):
        cb.sites(Scaled([0.5, 0.1]), 0.1)
    segments = cb.drift(Scaled([0.5, 0.1]), {5: Scaled([0.1, 0.5])}).reward_tables(range(2))
    assert segments.means[0, 1].tolist() == [0.1, 0.5]


class Share(Plain):
    """A share of a square: its mean cannot exceed 1."""

    @staticmethod
    def reward(numbers: Any, variate: float) -> float:
        return float(min(1.0, numbers[0]))


def test_own_functions_are_tried_where_means_are_largest() -> None:
    with pytest.raises(cb.InputError, match=r"Share.* 1 .*arm 1\b"):
        cb.drift(Share([0.5, 0.1]), {5: [0.2, 2.0]}).reward_tables(range(2))


def test_chances_end_at_0_and_1() -> None:
    tables = cb.sites(cb.BernoulliBandit([0.02, 0.98]), 0.3).reward_tables(range(50))
    assert tables.means.min() == 0.0
    assert tables.means.max() == 1.0
    assert tables.bounds == (0.0, 1.0)


@pytest.mark.parametrize(
    "make",
    [
        lambda coins: cb.drift(coins, {10: [0.1, 1.4]}),
        lambda coins: cb.drift(coins, ramp=(0, 100, [0.1, 1.4])),
        lambda coins: cb.sites(coins, groups=[[0.1, 1.4], [0.2, 0.3]]),
    ],
)
def test_chances_that_are_given_are_not_cut(make: Any) -> None:
    with pytest.raises(cb.InputError, match=r"arm 1\b.* 1\.4"):
        make(cb.BernoulliBandit([0.5, 0.4]))


def test_the_spread_is_that_of_the_drawn_means_and_the_seed_their_seed() -> None:
    tables = cb.sites(P, 0.1, seed=4).reward_tables(range(2000))
    np.testing.assert_allclose(tables.means.std(axis=0), 0.1, rtol=0.1)
    fewer = cb.sites(P, 0.1, seed=4).reward_tables(range(5))
    np.testing.assert_array_equal(fewer.means, tables.means[:5])
    assert not np.array_equal(cb.sites(P, 0.1).reward_tables(range(5)).means, fewer.means)


def test_agents_join_groups_by_number_by_name_or_in_turn() -> None:
    means = {"north": [1, 0, 0], "south": [0, 1, 0]}

    def groups(of: Any, agents: Any) -> list[int]:
        found: list[int] = cb.sites(P, groups=means, of=of).reward_tables(agents).group.tolist()
        return found

    assert groups(None, range(3)) == [0, 1, 0]
    assert groups(["south", "north", "south"], range(3)) == [1, 0, 1]
    assert groups({"anna": "south", "ben": "north"}, ["anna", "ben"]) == [1, 0]


def test_costs_are_those_by_hand() -> None:
    world = cb.sites(P, groups=[[1.0, 0.0, 0.4], [0.0, 0.8, 0.4]], of=[0, 0, 1])
    costs = world.reward_tables(range(3)).costs[:, 0]
    np.testing.assert_allclose(costs[..., OWN_GAP], [[0, 1.0, 0.6], [0.8, 0, 0.4]])
    average = np.array([2.0, 0.8, 1.2]) / 3
    np.testing.assert_allclose(costs[..., NETWORK_GAP], [average.max() - average] * 2)
    np.testing.assert_allclose(costs[..., BEST], [[1.0] * 3, [0.8] * 3])


def test_the_best_arm_is_the_best_of_those_allowed() -> None:
    tables = cb.subsets(P, {"1": [1, 2]}).reward_tables(range(2))
    assert tables.allowed is not None
    own = tables.costs[tables.group, 0, :, OWN_GAP]
    np.testing.assert_allclose(own, [[0, 0.2, 0.5], [-0.2, 0, 0.3]])
    np.testing.assert_allclose(tables.costs[..., NETWORK_GAP], tables.costs[..., OWN_GAP])
    assert tables.playable(np.array([2, 1, 0])) == [[0, 1, 2], [0, 1]]


def test_the_order_of_changes_does_not_matter_and_values_are_compared() -> None:
    def one(problem: cb.Problem) -> cb.World:
        return cb.subsets(cb.sites(cb.drift(problem, switch_every=5), 0.1), [[0, 1], [1, 2]])

    other = cb.drift(cb.subsets(cb.sites(P, 0.1), [[0, 1], [2, 1]]), switch_every=5)
    assert one(P) == other
    assert hash(one(P)) == hash(other)
    assert deepcopy(other) == other
    assert one(P) != one(cb.GaussianBandit([1.0, 0.8, 0.4]))
    assert cb.drift(P, switch_every=5) != cb.drift(P, switch_every=6)
    assert cb.drift(P, switch_every=5) != P


def test_sites_drift_together() -> None:
    world = cb.drift(cb.sites(P, groups=[P.means, [2.0, 0.8, 0.5]]), {5: [0.0, 0.8, 0.5]})
    np.testing.assert_allclose(
        world.reward_tables(range(2)).means[:, :, 0], [[1.0, 0.0], [2.0, 1.0]]
    )


def test_a_segment_may_be_a_problem_that_sites_still_differ_from() -> None:
    wide = cb.GaussianBandit([0.0, 1.0, 0.0], sigma=3.0)
    world = cb.drift(cb.sites(P, groups=[P.means, [2.0, 0.8, 0.5]]), {5: wide})
    tables = world.reward_tables(range(2))
    np.testing.assert_allclose(tables.means[:, 1], [[0, 1, 0], [1, 1, 0]])
    assert tables.sigma == 3.0


def test_what_a_plain_problem_has_once_a_world_refuses() -> None:
    world = cb.drift(P, switch_every=5)
    for name in ("means", "gaps", "best_arm", "sigma", "bounds"):
        with pytest.raises(cb.InputError, match=f"no single {name}"):
            getattr(world, name)
    with pytest.raises(cb.InputError, match="no single reward"):
        world.rewards([0], [0.5])
    assert not hasattr(world, "nonsense")


REFUSED = [
    (lambda: cb.drift(P), "switch_every"),
    (lambda: cb.drift(P, {5: P.means}, switch_every=2), "steps.*switch_every"),
    (lambda: cb.drift(P, {}), "steps"),
    (lambda: cb.drift(P, "x"), "steps.* 'x'"),  # type: ignore[arg-type]  # the point
    (lambda: cb.drift(P, [(5, P.means), (5, P.means)]), r" 5\b"),
    (lambda: cb.drift(P, {0: P.means}), r"round.* 0\b"),
    (lambda: cb.drift(P, {5: [1, 2]}), "2 means.* 3 arms"),
    (lambda: cb.drift(P, {5: cb.BernoulliBandit([0.1, 0.2, 0.3])}), "BernoulliBandit with 3 arms"),
    (lambda: cb.drift(cb.PoissonBandit([1.0]), {5: [-1.0]}), "above 0"),
    (lambda: cb.drift(P, {5: P.means}, period=5), r"period.* 5\b"),
    (lambda: cb.drift(P, switch_every=5, period=5), "period.*steps"),
    (lambda: cb.drift(P, switch_every=5, pieces=5), "pieces.*ramp"),
    (lambda: cb.drift(P, switch_every=0), r"switch_every.* 0\b"),
    (lambda: cb.drift(P, ramp=(0, 5, P.means)), "ramp.*round 0 to 5"),
    (lambda: cb.drift(P, ramp=(0, 5)), "begin, end, means"),  # type: ignore[arg-type]  # the point
    (lambda: cb.drift(P, ramp=(0, 50, P)), "ramp"),
    (lambda: cb.drift(P, replay=50), "replay.*logged"),
    (lambda: cb.drift(cb.drift(P, switch_every=5), switch_every=5), "drift already"),
    (lambda: cb.drift(3, switch_every=5), r"problem.* 3\b"),  # type: ignore[arg-type]  # the point
    (lambda: cb.sites(P), "spread.*groups"),
    (lambda: cb.sites(P, 0.1, groups=[P.means]), "spread.*groups"),
    (lambda: cb.sites(P, -0.1), r"spread.* -0\.1"),
    (lambda: cb.sites(P, 0.1, seed=-1), r"seed.* -1\b"),
    (lambda: cb.sites(P, 0.1, of=[0]), r"\bof\b.*groups"),
    (lambda: cb.sites(P, groups=[]), "groups"),
    (lambda: cb.sites(P, groups=[P.means], of=["x"]), "unknown group 'x'"),
    (lambda: cb.sites(P, groups=[P.means], of=3), r"\bof\b.* 3\b"),  # type: ignore[arg-type]  # the point
    (lambda: cb.sites(P, groups=[[1]]), "1 means.* 3 arms"),
    (lambda: cb.sites(cb.ParetoBandit([1.5], cap=9.0), 0.1), "cannot be moved"),
    (lambda: cb.sites(cb.drift(P, {5: P}), groups=[P]), "problems"),
    (lambda: cb.subsets(P, []), "allowed"),
    (lambda: cb.subsets(P, [[]]), "no arm"),
    (lambda: cb.subsets(P, [[3]]), "0 to 2"),
    (lambda: cb.subsets(P, ["01"]), "list of arms"),
    (lambda: cb.subsets(EVERY[6], [["d"]]), "unknown arm 'd'"),
    (lambda: P.moved([1.0]), "1 numbers.* 3 arms"),
]


@pytest.mark.parametrize(("make", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_bad_changes_get_one_sentence(make: Any, words: str) -> None:
    with pytest.raises(cb.InputError, match=words) as refusal:
        make()
    assert "\n" not in str(refusal.value)


MISFITS = [
    (cb.sites(P, groups=[P.means] * 2, of=[0, 0]), r"group 1\b.* 2 agents"),
    (cb.sites(P, groups=[P.means] * 2, of=[0, 1, 0]), "3 groups.* 2 agents"),
    (cb.sites(P, groups=[P.means], of={"0": 0}), r"agent 1\b.*group"),
    (cb.sites(P, groups=[P.means], of={"zoe": 0}), "unknown agent 'zoe'"),
    (cb.subsets(P, [[0], [1], [2]]), "3 subsets.* 2 agents"),
    (cb.subsets(P, {"zoe": [0]}), "unknown agent 'zoe'"),
]


@pytest.mark.parametrize(("world", "words"), MISFITS, ids=[words for _, words in MISFITS])
def test_what_does_not_fit_the_network_is_refused_before_anything_is_played(
    world: cb.World, words: str
) -> None:
    with pytest.raises(cb.InputError, match=words):
        cb.simulate(world, cb.Network.from_spec("complete:2"), cb.DDUCB(), 10)


def test_tables_that_take_too_much_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coopbandits.problems.tables.MOST_BYTES", 1000)
    with pytest.raises(cb.InputError, match="100 reward tables take"):
        cb.sites(P, 0.1).reward_tables(range(100))


@given(
    st.lists(st.integers(1, 50), min_size=1, max_size=6, unique=True),
    st.integers(0, 30),
    st.integers(0, 300),
)
def test_a_round_is_in_the_last_segment_that_has_begun(
    starts: list[int], more: int, done: int
) -> None:
    starts = sorted(starts)
    period = starts[-1] + more if more else None
    tables = cb.drift(P, [(start, P.means) for start in starts], period=period).reward_tables(
        range(1)
    )
    within = done % period if period else done
    assert tables.segment(done) == sum(start <= within for start in starts)


def test_numbers_of_numpy_are_arms() -> None:
    found = cb.subsets(P, [list(np.arange(2)), [np.uint8(2)]])
    assert found == cb.subsets(P, [[0, 1], [2]])
    assert json.loads(json.dumps(found.describe())) == found.describe()
