"""Worlds in the engines: the same arms and costs in all of them, and regret as by hand."""

from __future__ import annotations

import numpy as np
import pytest

import coopbandits as cb
from benchmarks.parts import OwnPushSum
from coopbandits.core.aggregate import Controller
from coopbandits.core.policy import AnyPolicy
from coopbandits.core.registry import EXAMPLES, parse_policy
from coopbandits.sim import cpu
from coopbandits.sim.record import Task
from coopbandits.sim.setup import Setup, recorded_rounds

CYCLE = cb.Network.from_spec("cycle:5")
NUMBERS = ("regret", "global_regret", "worst_regret", "realized_regret", "agent_regret")


def worlds(problem: cb.Problem) -> dict[str, cb.Problem]:
    """Return a problem under every kind of change that kernels play."""
    turned = problem.means[::-1].copy()
    return {
        "steps": cb.drift(problem, {7: turned, 40: np.roll(problem.means, 1).tolist()}),
        "switch": cb.drift(problem, switch_every=9),
        "spread": cb.sites(problem, 0.1),
        "both": cb.drift(
            cb.sites(problem, groups=[problem.means, turned]),
            ramp=(5, 30, turned), pieces=4, period=50,
        ),
    }  # fmt: skip


GAUSSIAN = worlds(cb.GaussianBandit([0.5, 1.0, 0.8]))
BERNOULLI = worlds(cb.BernoulliBandit([0.3, 0.6, 0.5]))


def play(world: cb.Problem, policy: AnyPolicy, engine: str, **more: object) -> cb.Result:
    settings = {"keep": "arms", "rounds": 9, "progress": False, **more}
    return cb.simulate(world, CYCLE, policy, 90, 2, 3, engine, **settings)  # type: ignore[arg-type]  # of many kinds


def compare(world: cb.Problem, policy: AnyPolicy, engine: str = "cpu", **more: object) -> None:
    """Play with the reference engine and with another; arms must be equal, and costs agree."""
    expected, found = (play(world, policy, each, **more) for each in ("reference", engine))
    assert found.meta["engines"] == [engine]
    np.testing.assert_array_equal(found.arms.values, expected.arms.values)
    for name in NUMBERS:
        np.testing.assert_allclose(found.dataset[name], expected.dataset[name], atol=1e-9)
    regret = expected.agent_regret
    np.testing.assert_allclose(expected.regret, regret.sum("agent"), atol=1e-9)
    np.testing.assert_allclose(expected.worst_regret, regret.max("agent"), atol=1e-9)


SAMPLE = [
    ("dec-ts", "both"), ("dducb", "both"), ("dducb", "switch"), ("dducb:own_pulls=false", "steps"),
    ("staged-mixing*normal-draw", "both"), ("dducb:neighbor_pulls=true", "switch"),
    ("independent-ucb", "both"), ("independent-ts", "spread"), ("flood-ts", "both"),
    ("tree-ts", "both"), ("gossip-ts", "both"), ("running-sums*ucb", "both"),
    ("mp-ucb:hop_limit=2", "both"), ("ucb-network", "steps"), ("central-ts", "both"),
    ("central-ucb", "spread"),
]  # fmt: skip


@pytest.mark.covering(6)
@pytest.mark.plays
@pytest.mark.parametrize(("policy", "name"), SAMPLE)
def test_kernels_play_worlds_as_the_reference_engine_does(policy: str, name: str) -> None:
    compare(GAUSSIAN[name], parse_policy(policy), shuffle_arms=name == "both")


def fitting(text: str) -> list[str]:
    setup = Setup(GAUSSIAN["both"], CYCLE, 10, recorded_rounds(10))
    bernoulli = "bernoulli" in text
    return [] if bernoulli or cpu.obstacle(Task(setup, parse_policy(text))) is not None else [text]


@pytest.mark.slow
@pytest.mark.parametrize("name", GAUSSIAN)
@pytest.mark.parametrize("policy", [text for each in EXAMPLES for text in fitting(each)])
def test_all_kernels_play_all_worlds(policy: str, name: str) -> None:
    compare(GAUSSIAN[name], parse_policy(policy))
    compare(BERNOULLI[name], parse_policy(policy), shuffle_arms=True)


@pytest.mark.plays
@pytest.mark.parametrize("policy", ["dec-ts", "tree-ts", "flood-ts", "gossip-ts"])
def test_worlds_under_faults(policy: str) -> None:
    compare(GAUSSIAN["both"], parse_policy(policy), faults="loss=0.2,sleep=0.2")


@pytest.mark.plays
@pytest.mark.parametrize("name", ["steps", "both"])
def test_custom_aggregations_play_worlds(name: str) -> None:
    compare(GAUSSIAN[name], cb.combine(OwnPushSum(), cb.UCB()))


@pytest.mark.slow
@pytest.mark.plays
def test_several_blocks_and_whole_runs_see_segments_too() -> None:
    grid = cb.Network.from_spec("grid:6x7")
    for keep in ("", "arms"):
        results = [
            cb.simulate(
                GAUSSIAN["both"], grid, [cb.DDUCB(), cb.IndependentUCB()], 150, 3, 1, engine,
                keep=keep, rounds=5, threads=1 if engine == "cpu" else None,
            )
            for engine in ("reference", "cpu")
        ]  # fmt: skip
        for name in ("regret", "global_regret", "worst_regret", "pulls"):
            first, second = (result.dataset[name] for result in results)
            np.testing.assert_allclose(second, first, atol=1e-9)


@pytest.mark.covering(1)
@pytest.mark.parametrize("policy", [cb.DDUCB(), cb.CentralTS(), cb.DelayedCentralUCB(2)])
def test_nobody_plays_an_arm_that_is_not_allowed(policy: AnyPolicy) -> None:
    world = cb.subsets(cb.drift(GAUSSIAN["spread"], switch_every=9), [[0, 1], [2], [1, 2]])
    result = play(world, policy, "auto", shuffle_arms=True)
    assert result.meta["engines"] == ["cpu"]
    played = [set(row.ravel()) for row in np.moveaxis(result.arms.values[0], 1, 0)]
    assert played[1] == played[4] == {2}
    assert played[0] <= {0, 1}
    assert played[2] <= {1, 2}
    assert result.agent_regret.sel(agent=1).values.max() == 0.0


SUBSETS = [[0, 1], [2], [1, 2], [0, 2]]


@pytest.mark.covering(4)
@pytest.mark.plays
@pytest.mark.parametrize(
    "policy",
    [
        "dec-ts", "dducb", "dducb:own_pulls=false", "dducb:neighbor_pulls=true", "independent-ucb",
        "coop-ucb:gamma=1.01", "flood-ts", "tree-ts", "gossip-ts", "running-sums*ucb",
        "mp-ucb:hop_limit=2", "ucb-network", "central-ucb", "central-ts", "central-batched-ucb",
        "delayed-central-ucb:delay=3", "local-sums*top-two", "flooded-totals*kl-ucb",
    ],
)  # fmt: skip
def test_kernels_play_subsets_as_the_reference_engine_does(policy: str) -> None:
    problem = cb.BernoulliBandit([0.3, 0.6, 0.5])
    compare(cb.subsets(problem, SUBSETS), parse_policy(policy), shuffle_arms="ts" in policy)


@pytest.mark.plays
def test_subsets_go_with_sites_faults_and_custom_aggregations() -> None:
    world = cb.subsets(GAUSSIAN["both"], SUBSETS)
    compare(world, cb.TreeTS(), faults="loss=0.2,sleep=0.2", shuffle_arms=True)
    compare(world, cb.combine(OwnPushSum(), cb.UCB()))


def test_an_arm_that_nobody_may_play_keeps_nobody_waiting() -> None:
    """A delayed controller plays arms in turn until it knows all; but only those that matter."""
    world = cb.subsets(cb.GaussianBandit([1.0, -1.0, 0.0], sigma=0.1), [[0, 1]])
    compare(world, cb.DelayedCentralUCB(3))
    assert play(world, cb.DelayedCentralUCB(3), "cpu").pulls.values[:, :, 1].max() < 2 * 5 * 10


class Stubborn(cb.UCB):
    """Picks an arm whether or not it may be played."""

    @staticmethod
    def pick(values: object, estimate: object, word: int, numbers: object, scratch: object) -> int:
        return 0


@pytest.mark.plays
@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_a_pick_that_may_not_be_played_is_refused(engine: str) -> None:
    world = cb.subsets(cb.GaussianBandit([1, 0]), [[0, 1], [1]])
    with pytest.raises(cb.InputError, match=r"\bpick\b"):
        play(world, cb.combine(cb.LocalSums(), Stubborn()), engine)


class Sees(cb.CentralUCB):
    """Its controller has never heard of subsets."""

    def make_controller(self, num_arms: int, sigma: float, num_features: int = 0) -> Controller:
        class Old(Controller):
            def choose(self, word: int) -> int:  # type: ignore[override]  # the point
                return super().choose(word)

        made = super().make_controller(num_arms, sigma)
        return Old(made.index, made.registers, sigma, -1)


def test_a_controller_that_takes_no_subsets_is_told_so() -> None:
    world = cb.subsets(cb.GaussianBandit([1, 0]), [[0, 1], [1]])
    with pytest.raises(cb.InputError, match="all arms"):
        play(world, Sees(), "reference")
    assert play(cb.GaussianBandit([1, 0]), Sees(), "reference").meta["engines"] == ["reference"]


def test_regret_by_hand() -> None:
    """Constant rewards tell UCB all: everything here can be counted on paper."""
    base = cb.GaussianBandit([1.0, 0.0], sigma=1e-6)
    world = cb.drift(cb.sites(base, groups=[[1.0, 0.0], [0.0, 3.0]]), {4: [0.0, 1.0]})
    result = cb.simulate(
        world, cb.Network.from_spec("complete:2"), cb.IndependentUCB(), 6, engine="reference",
        keep="arms", rounds=[1, 2, 4, 6],
    )  # fmt: skip
    # Rounds 1, 2 try arms 0 and 1; then agent 0 plays arm 0 and agent 1 arm 1. After 4 rounds the
    # means change from (1, 0) and (0, 3) to (0, 1) and (−1, 4).
    assert result.arms.values[0, 0].tolist() == [[0, 1, 0, 0, 0, 0], [0, 1, 1, 1, 1, 1]]
    np.testing.assert_allclose(result.agent_regret.values[0, 0], [[0, 1, 1, 3], [3, 3, 3, 3]])
    np.testing.assert_allclose(result.regret.values[0, 0], [3, 4, 4, 6])
    np.testing.assert_allclose(result.worst_regret.values[0, 0], [3, 3, 3, 3])
    # The network's means are (0.5, 1.5), then (−0.5, 2.5): arm 0 costs 1, then 3.
    np.testing.assert_allclose(result.global_regret.values[0, 0], [2, 2, 4, 10])
    np.testing.assert_allclose(result.realized_regret, result.regret, atol=1e-4)


def test_clocks_turn_segments_by_time() -> None:
    world = cb.drift(cb.GaussianBandit([1.0, 0.0], sigma=1e-6), {3: [0.0, 1.0]})
    result = cb.simulate(
        world, CYCLE, cb.IndependentUCB(), 6, clocks="regular", rounds=[3, 6], keep="agents"
    )
    np.testing.assert_allclose(result.realized_regret, result.regret, atol=1e-3)
    assert result.regret.values[0, 0, 1] >= 5.0


@pytest.mark.parametrize("engine", ["reference", "cpu"])
def test_one_table_is_the_plain_problem_to_the_bit(engine: str) -> None:
    plain = cb.GaussianBandit([0.5, 1.0, 0.8])
    same = [cb.drift(plain, {20: plain.means}), cb.sites(plain, groups=[plain.means])]
    expected = play(plain, cb.DecTS(), engine)
    np.testing.assert_array_equal(expected.global_regret, expected.regret)
    for world in same:
        found = play(world, cb.DecTS(), engine)
        np.testing.assert_array_equal(found.arms, expected.arms)
        np.testing.assert_allclose(found.global_regret, expected.regret, atol=1e-12)
        np.testing.assert_allclose(found.realized_regret, expected.realized_regret, atol=1e-9)


def test_a_logged_drift_drifts() -> None:
    log = cb.LoggedBandit(
        {"when": list(range(100)), "a": [1] * 50 + [0] * 50, "b": [0] * 50 + [1] * 50}, time="when"
    )
    result = play(cb.drift(log, replay=60, pieces=2), cb.IndependentTS(), "reference")
    regret = result.regret.isel(run=0, policy=0).values
    assert regret[-1] > 2 * result.regret.sel(round=slice(0, 30)).values.max()


@pytest.mark.slow
def test_a_moved_best_arm_costs_what_it_costs_elsewhere() -> None:
    """Own vectorised code gave 48 ± 3 before and 1360 ± 128 after the switch, in 20 runs."""
    base = cb.BernoulliBandit([0.9, 0.8, 0.8, 0.8, 0.8])
    world = cb.drift(base, {1500: [0.8, 0.8, 0.9, 0.8, 0.8]})
    cycle = cb.Network.from_spec("cycle:20")
    policies = [cb.FloodTS(family="bernoulli"), cb.IndependentTS(family="bernoulli")]
    result = cb.simulate(world, cycle, policies, 3000, 20, rounds=[1500, 3000])
    before, after = result.regret.values[..., 0], np.diff(result.regret.values)[..., 0]
    wanted = [((48, 3), (1360, 128)), ((529, 21), (2219, 38))]
    for row, oracle in enumerate(wanted):
        for (mean, error), sample in zip(oracle, (before[row], after[row]), strict=True):
            own = sample.std(ddof=1) / np.sqrt(sample.size)
            assert abs(sample.mean() - mean) <= 3 * np.hypot(own, error)
