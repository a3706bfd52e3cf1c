"""Players that collide: the lower bound, the papers' rules and claims, a second implementation."""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import pytest

from coopbandits import InputError
from coopbandits.literature import (
    TDFS,
    MCTopM,
    RandTopM,
    RhoRand,
    Selfish,
    collision_bound,
    play_collisions,
)
from coopbandits.literature.besson2018 import Player
from coopbandits.literature.models import Dice

from .naive_players import play

MEANS = [0.9, 0.7, 0.3, 0.1]
FIVE = [0.2, 0.9, 0.1, 0.8, 0.3]


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


def test_the_bound_by_hand() -> None:
    """Two players; arms after the second have 0.3, 0.2 and 0.1."""

    def kl(p: float, q: float) -> float:
        return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))

    expected = 2 * math.log(1000) * sum((0.8 - k) / kl(k, 0.8) for k in (0.3, 0.2, 0.1))
    assert collision_bound(FIVE, 2, 1000) == pytest.approx(expected, rel=1e-12)
    assert collision_bound(FIVE, 5, 1000) == 0.0
    assert collision_bound([0.5, 0.5, 0.4], 1, 10) == math.inf


def test_the_bounds_that_its_authors_print() -> None:
    """Besson, Kaufmann 2018, six players on means 0.1 … 0.9: 48.8 ln t, and 8.14 ln t for one."""
    means = [k / 10 for k in range(1, 10)]
    bound = collision_bound(means, 6, 1000) / math.log(1000)
    assert bound == pytest.approx(48.8, abs=0.05)
    assert bound / 6 == pytest.approx(8.14, abs=0.005)


@pytest.mark.plays
@pytest.mark.parametrize("kind", [RhoRand, MCTopM, TDFS])
@pytest.mark.parametrize("runs", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_all_learn(kind: type[Player], runs: int) -> None:
    result = play_collisions(FIVE, kind, players=2, horizon=600, runs=runs)
    shares = result.pulls.sum(axis=(0, 1)) / result.pulls.sum()
    assert shares[[1, 3]].sum() > 0.75  # by chance 0.4
    assert result.regret.mean() < 0.5 * 600 * (1.7 - 2 * np.mean(FIVE))  # half of guessing's
    assert result.pulls.sum(axis=2).tolist() == [[600, 600]] * runs


class Talking(MCTopM):
    """Players that see each other's rewards, which the bound does not allow."""

    team: ClassVar[list[MCTopM]] = []

    def __init__(self, num_arms: int, players: int, dice: Dice) -> None:
        super().__init__(num_arms, players, dice)
        if len(self.team) == players:
            self.team.clear()
        self.team.append(self)
        self.counts, self.sums = self.team[0].counts, self.team[0].sums


def slope(kind: type[Player]) -> tuple[float, float]:
    """Return by how much regret grows per unit of ln t, from 300 to 3000, and its error.

    A shorter horizon is the beginning of a longer one, so both are of the same runs.
    """
    early, late = (play_collisions(FIVE, kind, 2, t, runs=20).regret for t in (300, 3000))
    found = (late - early) / math.log(10)
    return float(found.mean()), float(found.std(ddof=1)) / math.sqrt(20)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [RhoRand, MCTopM, TDFS, Talking])
def test_regret_grows_as_fast_as_the_bound_unless_players_talk(kind: type[Player]) -> None:
    """The bound is one for T → ∞: what is constant drops out of a slope, and does not of regret."""
    least = collision_bound(FIVE, 2, 3000) / math.log(3000)
    mean, error = slope(kind)
    print(f"{kind.__name__}: slope {mean:.2f} ± {error:.2f}, the bound's is {least:.2f}")
    assert (mean < least - 3 * error) == (kind is Talking)


@pytest.mark.plays
def test_with_time_division_players_share_evenly_and_musical_chairs_keep_their_seats() -> None:
    fair = play_collisions([0.9, 0.5, 0.0], TDFS, players=2, horizon=500, runs=4).pulls
    assert (fair[:, :, 0] > 200).all()
    seated = play_collisions([0.9, 0.5, 0.0], MCTopM, players=2, horizon=500, runs=4)
    assert (seated.pulls[:, :, :2].max(axis=2) > 400).all()
    assert seated.collisions.mean() < 30


def test_one_player_meets_nobody_and_loses_what_its_arms_lose() -> None:
    result = play_collisions([0.6, 0.4], MCTopM, players=1, horizon=80, runs=2)
    assert result.collisions.tolist() == [0, 0]
    np.testing.assert_allclose(result.regret, 0.2 * result.pulls[:, 0, 1])
    np.testing.assert_array_equal(result.regret, result.worst)


def test_shares_of_regret_add_up_and_nothing_is_sent() -> None:
    result = play_collisions([0.9, 0.5, 0.0], MCTopM, players=2, horizon=100, runs=2)
    earned = result.regret.sum() + result.agent_regret[:, ::-1].sum()
    assert earned == pytest.approx(2 * result.regret.sum())
    assert (result.worst > result.regret / 2).all()  # one of them sits on the second arm
    assert result.messages.tolist() == result.bits.tolist() == [0, 0]


def test_a_seated_player_stays_in_a_collision() -> None:
    player = MCTopM(3, 2, Dice(1))
    player.arm, player.indices = 0, [1.0, 0.9, 0.1]
    player.react(0, False, [1.0, 0.9, 0.1])
    assert player.seated
    player.react(0, True, [1.0, 0.9, 0.1])
    assert player.choose() == 0
    player.indices = [0.5, 0.9, 0.8]
    player.react(0, True, [0.85, 0.9, 0.8])
    assert (player.choose(), player.seated) == (2, False)  # arm 1 had been above arm 0


def test_ranks_are_places_by_index() -> None:
    player = RhoRand(4, 3, Dice(2))
    player.indices = [0.1, 0.9, 0.5, 0.7]
    for rank, arm in enumerate((1, 3, 2)):
        player.rank = rank
        assert player.choose() == arm


def test_equal_seeds_play_equally_and_bad_input_is_refused() -> None:
    one, two = (play_collisions(FIVE, TDFS, 2, 40, seed=3) for _ in range(2))
    assert np.array_equal(one.pulls, two.pulls)
    other = play_collisions(FIVE, TDFS, 2, 40, seed=4)
    assert not np.array_equal(one.pulls, other.pulls)
    with pytest.raises(InputError, match=r"6 players.* 5 arms"):
        play_collisions(FIVE, TDFS, 6, 40)
    with pytest.raises(InputError, match="0 to 1"):
        collision_bound([0.5, 1.5], 1, 10)
    with pytest.raises(InputError, match=r"horizon.* 0\b"):
        play_collisions(FIVE, TDFS, 2, 0)
