from __future__ import annotations

import pytest

from coopbandits import InputError
from coopbandits.fleet.config.bandits import reward_scale


def test_a_range_becomes_the_unit_interval() -> None:
    scale = reward_scale((-10.0, 30.0), None)
    assert [scale.unit(reward) for reward in (-10.0, 0.0, 30.0)] == [0.0, 0.25, 1.0]
    assert [scale.reward(unit) for unit in (0.0, 0.25, 1.0)] == [-10.0, 0.0, 30.0]
    assert scale.sigma == 0.5
    assert reward_scale((-10.0, 30.0), 8.0).sigma == pytest.approx(0.2)


@pytest.mark.parametrize("reward", [-10.000001, 30.1, 1e300])
def test_rewards_outside_are_refused(reward: float) -> None:
    with pytest.raises(InputError, match="-10 to 30"):
        reward_scale((-10.0, 30.0), 1.0).unit(reward)


def test_without_a_range_rewards_stay_as_they_are() -> None:
    scale = reward_scale(None, 8.0)
    assert [scale.unit(reward) for reward in (-1e60, 0.1)] == [-1e60, 0.1]
    assert [scale.reward(reward) for reward in (-1e60, 0.1)] == [-1e60, 0.1]
    assert scale.sigma == 8.0


@pytest.mark.parametrize("reward", [1.0001e60, -1e200, 1e308])
def test_rewards_that_cannot_be_summed_are_refused(reward: float) -> None:
    with pytest.raises(InputError, match="too large"):
        reward_scale(None, 1.0).unit(reward)


@pytest.mark.parametrize("declared", [((0.0, 1.0), None), (None, 1.0)])
@pytest.mark.parametrize("reward", [float("inf"), float("-inf"), float("nan")])
def test_rewards_are_finite(
    declared: tuple[tuple[float, float] | None, float | None], reward: float
) -> None:
    with pytest.raises(InputError, match="finite"):
        reward_scale(*declared).unit(reward)


def test_something_must_be_declared() -> None:
    with pytest.raises(InputError, match="neither reward_range nor sigma"):
        reward_scale(None, None)
