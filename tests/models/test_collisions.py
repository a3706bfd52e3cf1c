"""Players that collide: the lower bound, what players do after collisions, and who shares."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coopbandits import InputError
from coopbandits.models import TDFS, MCTopM, RhoRand, collision_bound, play_collisions
from coopbandits.models.coins import Dice
from coopbandits.models.players import Player

MEANS = [0.2, 0.9, 0.1, 0.8, 0.3]


def test_the_bound_by_hand() -> None:
    """Two players; arms after the second have 0.3, 0.2 and 0.1."""

    def kl(p: float, q: float) -> float:
        return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))

    expected = 2 * math.log(1000) * sum((0.8 - k) / kl(k, 0.8) for k in (0.3, 0.2, 0.1))
    assert collision_bound(MEANS, 2, 1000) == pytest.approx(expected, rel=1e-12)
    assert collision_bound(MEANS, 5, 1000) == 0.0
    assert collision_bound([0.5, 0.5, 0.4], 1, 10) == math.inf


@pytest.mark.plays
@pytest.mark.parametrize("kind", [RhoRand, MCTopM, TDFS])
def test_all_learn_and_regret_is_of_the_order_of_the_bound(kind: type[Player]) -> None:
    """It is one for T → ∞, so at 600 rounds half of it is all that nobody should undercut."""
    result = play_collisions(MEANS, kind, players=2, horizon=600, runs=4)
    regret = result.regret.mean()
    print(f"{kind.name}: regret {regret:.0f}, bound {collision_bound(MEANS, 2, 600):.0f}")
    assert regret > 0.5 * collision_bound(MEANS, 2, 600)
    shares = result.pulls.sum(axis=(0, 1)) / result.pulls.sum()
    assert shares[[1, 3]].sum() > 0.75  # by chance 0.4
    assert regret < 0.5 * 600 * (1.7 - 2 * np.mean(MEANS))  # half of what guessing loses
    assert result.pulls.sum(axis=2).tolist() == [[600, 600]] * 4


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
    one, two = (play_collisions(MEANS, TDFS, 2, 40, seed=3) for _ in range(2))
    assert np.array_equal(one.pulls, two.pulls)
    other = play_collisions(MEANS, TDFS, 2, 40, seed=4)
    assert not np.array_equal(one.pulls, other.pulls)
    with pytest.raises(InputError, match="there are 6 players and 5 arms; give at most one"):
        play_collisions(MEANS, TDFS, 6, 40)
    with pytest.raises(InputError, match="give at least two numbers from 0 to 1"):
        collision_bound([0.5, 1.5], 1, 10)
    with pytest.raises(InputError, match="horizon is 0"):
        play_collisions(MEANS, TDFS, 2, 0)
