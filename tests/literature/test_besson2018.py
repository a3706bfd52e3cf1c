"""RandTopM and Selfish: against a second implementation, the paper's rules, and its claims."""

from __future__ import annotations

import numpy as np
import pytest

from coopbandits.literature import RandTopM, Selfish
from coopbandits.models import MCTopM, RhoRand, play_collisions
from coopbandits.models.coins import Dice
from coopbandits.models.players import Player

from .naive_players import play

MEANS = [0.9, 0.7, 0.3, 0.1]


def test_rand_top_m_moves_after_a_collision_and_to_arms_that_were_no_better() -> None:
    player = RandTopM(4, 2, Dice(1))
    player.arm, player.indices = 0, [1.0, 0.9, 0.1, 0.0]
    player.react(0, False, [1.0, 0.9, 0.1, 0.0])
    assert player.choose() == 0  # it stays
    player.indices = [0.5, 0.9, 0.8, 0.0]
    player.react(0, False, [0.85, 0.9, 0.8, 0.0])
    assert player.choose() == 2  # arm 1 was above arm 0 before
    found = set()
    for _ in range(40):
        player.react(2, True, [0.0, 0.9, 0.8, 0.0])
        found.add(player.choose())
    assert found == {1, 2}  # any of the best two, also the arm that it was on


def test_selfish_takes_a_collision_for_a_reward_of_zero_and_plays_the_best() -> None:
    player = Selfish(3, 2, Dice(1))
    for arm, collided in ((0, True), (1, False), (2, False)):
        player.observe(arm, 1.0, collided)
    assert player.sums.tolist() == [0.0, 1.0, 1.0]
    player.indices = [0.3, 0.2, 0.9]
    assert player.choose() == 2


@pytest.mark.plays
def test_rand_top_m_learns_as_mc_top_m_does_and_selfish_collides_more() -> None:
    results = {
        kind: play_collisions(MEANS, kind, players=2, horizon=500, runs=4)
        for kind in (RandTopM, MCTopM, Selfish)
    }
    regret = {kind.name: result.regret.mean() for kind, result in results.items()}
    met = {kind.name: result.collisions.mean() for kind, result in results.items()}
    print(regret, met)
    assert max(regret.values()) < 0.3 * 500 * (1.6 - 2 * np.mean(MEANS))  # of guessing's
    assert met["selfish"] > met["rand-top-m"]


def test_selfish_players_can_collide_forever() -> None:
    """Two in the same state choose the same arm, as long as no tie separates them."""
    result = play_collisions([0.9, 0.8], Selfish, players=2, horizon=120, runs=100)
    lost = np.sort(result.regret / (120 * 1.7))
    print(f"lost, of all that there was: {lost[-4:].round(3)}")
    assert lost[-1] > 0.9
    assert np.median(lost) < 0.15
    safe = play_collisions([0.9, 0.8], MCTopM, players=2, horizon=120, runs=20)
    assert (safe.regret < 0.25 * 120 * 1.7).all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", [RhoRand, MCTopM, RandTopM, Selfish])
def test_regret_is_that_of_a_second_implementation(kind: type[Player]) -> None:
    ours = play_collisions(MEANS, kind, players=2, horizon=800, runs=40).regret
    naive = play(kind.name, MEANS, players=2, horizon=800, runs=400, seed=1)
    error = np.sqrt(ours.var(ddof=1) / ours.size + naive.var(ddof=1) / naive.size)
    print(f"{kind.name}: {ours.mean():.1f}, naive {naive.mean():.1f}, error {error:.1f}")
    assert abs(ours.mean() - naive.mean()) < 4 * error


@pytest.mark.slow
def test_bad_arms_are_pulled_as_rarely_as_the_paper_proves() -> None:
    """At most ln T/kl(μ_k, μ_M) of a player, and the o(ln T) that a slope leaves out."""
    early, late = (
        play_collisions(MEANS, RandTopM, players=2, horizon=t, runs=20).pulls[:, :, 2:]
        for t in (400, 3000)
    )
    slopes = (late - early).mean(axis=(0, 1)) / np.log(3000 / 400)
    most = [1 / (k * np.log(k / 0.7) + (1 - k) * np.log((1 - k) / 0.3)) for k in (0.3, 0.1)]
    print(f"pulls per unit of ln t: {slopes}, at most {most}")
    assert (slopes < 1.5 * np.array(most)).all()
