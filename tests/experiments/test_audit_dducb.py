"""The audit's DDUCB: without deviations it is the package's, with them it is what is described."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coopbandits.core import DDUCB
from coopbandits.core.choice import best_arm
from coopbandits.core.mixing import mixing_rounds
from coopbandits.experiments.audit.dducb import Deviations, play_dducb, stage
from coopbandits.experiments.audit.matrices import inverse_degree_matrix, second_eigenvalue
from coopbandits.experiments.audit.tapes import Setting
from coopbandits.network import Network
from coopbandits.problems import BernoulliBandit, GaussianBandit, Problem
from coopbandits.sim import simulate

THREE = GaussianBandit([1.0, 0.8, 0.5])


def setting(graph: str, horizon: int, problem: Problem = THREE, runs: int = 2) -> Setting:
    return Setting(problem, Network.from_spec(graph), horizon, runs, seed=5)


@pytest.mark.parametrize(
    ("graph", "horizon", "problem"),
    [
        ("cycle:9", 100, THREE),
        ("grid:3x4", 75, THREE),
        ("complete:5", 30, THREE),
        ("path:4", 60, BernoulliBandit([0.6, 0.5])),
        ("cycle:5", 2, THREE),
    ],
)
@pytest.mark.filterwarnings("ignore:horizon 2 is below")
def test_without_deviations_it_is_the_package(graph: str, horizon: int, problem: Problem) -> None:
    world = setting(graph, horizon, problem)
    result = simulate(
        problem, world.network, DDUCB(), horizon, world.runs, world.seed, "reference", keep="arms"
    )
    played = play_dducb(world)
    np.testing.assert_array_equal(np.moveaxis(played, 0, 2), result.arms.values[0])
    np.testing.assert_allclose(world.regret(played), result.regret.values[0, :, -1])


def naive_arms(world: Setting, deviations: Deviations) -> list[list[int]]:
    """The first run in plain steps from the pseudocode, with the slips that are described."""
    P, lam, N, K = world.network.matrix.toarray(), world.network.lambda2, 6, 3
    if deviations.inverse_degrees:
        P = inverse_degree_matrix(world.network)
        lam = second_eigenvalue(P)
    C = mixing_rounds(N, lam, 1 / 22)
    rewards = world.tape()[:, 0, :, None] + THREE.means
    arms = [[k] * N for k in range(K)]
    zeta = np.stack([rewards[k, :, k] for k in range(K)], axis=1)
    start = K if deviations.start_over_arms else N
    alpha, a, beta, b = zeta / start, np.ones((N, K)) / start, zeta, np.ones((N, K))
    delta, d = np.zeros((N, K)), np.zeros((N, K))
    t = s = K
    while t < world.horizon:
        gamma, c = np.zeros((N, K)), np.zeros((N, K))
        y = [np.zeros((N, 2 * K)), np.concatenate([beta, b], axis=1)]
        r = 0
        for _ in range(C):
            arms.append([best_arm(alpha[i] / a[i] + np.sqrt(4 * np.log(s) / (N * a[i])))
                         for i in range(N)])  # fmt: skip
            for i, k in enumerate(arms[-1]):
                u = rewards[t, i, k]
                gamma[i, k], c[i, k] = gamma[i, k] + u, c[i, k] + 1
                alpha[i, k], a[i, k] = alpha[i, k] + u / N, a[i, k] + 1 / N
            for _ in range(C if deviations.whole_mix_every_round else 1):
                w = [chebyshev(r + step, 1 / lam) for step in (-1, 0, 1)]
                first = P @ y[1]
                later = (2 / lam * w[1] * (P @ y[1]) - w[0] * y[0]) / w[2]
                y, r = [y[1], later if r else first], (r + 1) % C
            t += 1
            s += N if deviations.time_by_agents else 1
            if t == world.horizon:
                return arms
        s = (t - C) * N
        delta += y[1][:, :K]
        d += y[1][:, K:]
        alpha, a = (delta, d) if deviations.shared_totals else (delta.copy(), d.copy())
        beta, b = gamma, c
    return arms


def chebyshev(degree: int, x: float) -> float:
    return math.cosh(degree * math.acosh(x))


@pytest.mark.parametrize(
    "deviations",
    [
        Deviations(start_over_arms=True),
        Deviations(time_by_agents=True),
        Deviations(shared_totals=True),
        Deviations(whole_mix_every_round=True),
        Deviations(inverse_degrees=True),
        Deviations(True, True, True, True, inverse_degrees=True),
    ],
)
def test_each_deviation_is_what_is_described(deviations: Deviations) -> None:
    world = setting("grid:2x3", 160, runs=1)
    played = play_dducb(world, deviations)[:, 0].tolist()
    assert played == naive_arms(world, deviations)
    assert played != play_dducb(world)[:, 0].tolist()


def test_one_round_stages_read_everything_one_round_later() -> None:
    """On the complete graph a stage has one round anyway."""
    world = setting("complete:5", 40)
    deviating = play_dducb(world, Deviations(one_round_stages=True))
    np.testing.assert_array_equal(deviating, play_dducb(world))
    stage_map, rounds = stage(Network.from_spec("cycle:9"), Deviations(one_round_stages=True))
    assert rounds == 1
    assert np.abs(9 * stage_map - 1).max() < 1 / 22


def test_the_tape_is_read_only() -> None:
    with pytest.raises(ValueError, match="read-only"):
        setting("cycle:5", 10).tape()[0, 0, 0] = 1.0
