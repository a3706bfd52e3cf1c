"""Sources: the noise of sums, which never serves two sets of rewards, and thresholds by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from coopbandits.core import Estimate, FloodUCB, InputError, Private, Truncated, at_source, sources
from coopbandits.core.sources import STEPS, Coins, SourceState, laplace

from .fleet import one_view, through_json

NOTHING = Estimate(np.zeros(2), np.zeros(2), 2.0, 1.0)


def noisy(epsilon: float, horizon: int, secret: int = 1) -> SourceState:
    return Private(epsilon, horizon).make(one_view(secret=secret.to_bytes(32, "little")))


def noise_of(noisy: SourceState, arm: int, pulls: int) -> float:
    """The noise of an arm's sum, by the definition: one variate per binary digit 1 of the pulls."""
    digits = [level for level in range(pulls.bit_length()) if pulls >> level & 1]
    blocks = [(level, (pulls >> level << level) - (1 << level)) for level in digits]
    return sum(sources.noise_of(noisy.state, arm, *block) for block in blocks) / STEPS


def coins(number: int) -> Coins:
    return Coins(bytes(32), number.to_bytes(8, "little"))


@pytest.mark.parametrize("scale", [1, 3])
def test_variates_have_the_discrete_laplace_distribution(scale: int) -> None:
    drawn = np.array([laplace(coins(i), scale) for i in range(4_000)])
    ratio = math.exp(-1 / scale)
    for value in range(-4, 5):
        chance = (1 - ratio) / (1 + ratio) * ratio ** abs(value)
        deviation = math.sqrt(chance * (1 - chance) / drawn.size)
        assert abs(np.mean(drawn == value) - chance) < 4 * deviation, value


def test_whole_numbers_are_uniform_for_as_long_as_they_are_drawn() -> None:
    one = coins(0)
    drawn = np.array([one.below(10) for _ in range(4_000)])  # many hashes' worth
    assert np.bincount(drawn).size == 10
    assert (abs(np.bincount(drawn) - 400) < 4 * math.sqrt(360)).all()
    assert one.below(1) == 0


@pytest.mark.covering(2)
@pytest.mark.parametrize("pulls", [1, 6, 7, 8])
def test_released_sums_have_one_variate_per_block(pulls: int) -> None:
    """7 pulls are blocks of 4, 2 and 1, each with Laplace noise of scale L/ε; here L = 4."""
    released = []
    for secret in range(1_000):
        one = noisy(0.5, 8, secret)
        released.append(sum(one.drawn(1, 0.25, NOTHING) for _ in range(pulls)) - 0.25 * pulls)
    errors = np.array(released)
    variance = pulls.bit_count() * 2 * (4 / 0.5) ** 2
    assert variance <= 2 * 4**3 / 0.5**2
    assert abs(errors.mean()) < 4 * math.sqrt(variance / errors.size)
    assert abs(errors.var() / variance - 1) < 4 * math.sqrt(5 / errors.size)


def test_a_sum_has_the_noise_of_its_own_blocks_whatever_was_released_before() -> None:
    one = noisy(1.0, 16, secret=3)
    released = 0.0
    for pulls in range(1, 17):
        released += one.drawn(0, 1.0, NOTHING)
        assert released == pulls + noise_of(one, 0, pulls)
    places = ((0, 2, 8), (1, 2, 8), (0, 3, 8))
    assert len({sources.noise_of(one.state, *place) for place in places}) == 3


def test_equal_secrets_make_equal_noise_and_a_state_continues() -> None:
    left, right = noisy(1.0, 50, 7), noisy(1.0, 50, 7)
    first = [left.drawn(0, 0.5, NOTHING) for _ in range(9)]
    assert first == [right.drawn(0, 0.5, NOTHING) for _ in range(9)]
    assert first != [noisy(1.0, 50, 8).drawn(0, 0.5, NOTHING) for _ in range(9)]
    fresh = noisy(1.0, 50, 7)
    fresh.restore_state(through_json(left.export_state()))
    assert fresh.drawn(0, 0.5, NOTHING) == right.drawn(0, 0.5, NOTHING)


def test_released_numbers_lie_on_one_grid_whatever_the_rewards() -> None:
    """The last bits of a float must not tell which rewards are possible."""
    for reward in (0.0, 0.1, 1 / 3, 1.0):
        one = noisy(0.3, 50)
        released = np.array([one.drawn(0, reward, NOTHING) for _ in range(50)]) * STEPS
        assert (released == np.round(released)).all()


def test_an_old_memory_that_is_opened_again_draws_other_noise() -> None:
    """Noise that serves two sets of rewards cancels in the difference of what was released."""
    one = noisy(1.0, 50)
    before = sum(one.drawn(0, 1.0, NOTHING) for _ in range(5))
    backup = through_json(one.export_state())
    first = before + sum(one.drawn(0, 1.0, NOTHING) for _ in range(4))

    def restored(word: int | None) -> float:
        again = noisy(1.0, 50)
        again.restore_state(backup)
        if word is not None:
            again.reopened(word)
            assert again.state.in_trees.tolist() == [0, 0]
        return before + sum(again.drawn(0, 0.0, NOTHING) for _ in range(4))

    assert first - restored(None) == 4.0  # the difference of all rewards since, exactly
    reopened = [restored(word) for word in range(1, 40)]
    assert len(set(reopened)) == len(reopened)
    assert min(abs(first - each - 4.0) for each in reopened) > 1e-3


def test_an_old_reward_is_in_no_block_of_a_new_tree() -> None:
    """Else every opening would release it once more, and ε would hold for one life only."""
    one, other = noisy(1.0, 50), noisy(1.0, 50)
    for reward, each in ((0.0, one), (1.0, other)):
        each.drawn(0, reward, NOTHING)
        each.reopened(9)
    for _ in range(20):
        assert one.drawn(0, 0.5, NOTHING) == other.drawn(0, 0.5, NOTHING)


def test_any_word_begins_new_trees() -> None:
    one, other = noisy(1.0, 50), noisy(1.0, 50)
    for each in (one, other):
        each.reopened(2**64 - 3)
    other.restore_state(through_json(one.export_state()))
    assert one.drawn(0, 0.5, NOTHING) == other.drawn(0, 0.5, NOTHING)
    assert one.drawn(0, 0.5, NOTHING) != noisy(1.0, 50).drawn(0, 0.5, NOTHING)


def test_agents_tell_their_source_that_they_are_opened_again() -> None:
    agent = at_source(Private(1.0, 9), FloodUCB()).make_agent(one_view())
    agent.observe(0, 1.0)
    agent.reopened(77)
    assert agent.export_state()["source"] == {"in_trees": [0, 0], "life": 77}


def test_secrets_are_not_shown() -> None:
    view = one_view(secret=b"the quick brown fox jumps over t")
    agent = at_source(Private(1.0, 9), FloodUCB()).make_agent(view)
    agent.observe(0, 1.0)
    for text in (repr(view), str(view), repr(agent.export_state())):
        assert "quick" not in text


def test_without_noise_rewards_are_as_they_are_and_with_it_they_are_clipped() -> None:
    free = Private(math.inf, 3).make(one_view(secret=b""))
    assert [free.drawn(0, reward, NOTHING) for reward in (-2.0, 0.3, 5.0)] == [-2.0, 0.3, 5.0]
    left, right = noisy(1.0, 3), noisy(1.0, 3)
    assert left.drawn(0, 5.0, NOTHING) == right.drawn(0, 1.0, NOTHING)
    assert left.drawn(1, -5.0, NOTHING) == right.drawn(1, 0.0, NOTHING)


def test_noise_is_never_smaller_than_was_asked_for() -> None:
    for epsilon, horizon in ((1.0, 8), (0.3, 100), (1e-9, 5), (3.7, 2**40)):
        assert noisy(epsilon, horizon).state.me.scale * epsilon >= STEPS * horizon.bit_length()


@pytest.mark.parametrize("horizon", [1, 2, 7, 8, 100])
def test_every_reward_lies_in_as_many_blocks_as_the_noise_is_made_for(
    horizon: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, blocks = noisy(1.0, horizon), set()

    def noted(secret: Any, life: int, arm: int, level: int, first: int, scale: int) -> int:
        del secret, scale
        assert life == arm == 0
        blocks.add((first, first + 2**level))
        return 0

    monkeypatch.setattr(sources, "laplace_of", noted)
    assert sum(one.drawn(0, 1.0, NOTHING) for _ in range(horizon)) == horizon
    held = [sum(start <= pull < end for start, end in blocks) for pull in range(horizon)]
    assert max(held) <= horizon.bit_length() <= one.state.me.scale / STEPS


def test_bad_input() -> None:
    with pytest.raises(InputError, match=r"epsilon.* 0\b"):
        Private(0, 10)
    with pytest.raises(InputError, match=r"horizon.* 0\b"):
        Private(1.0, 0)
    with pytest.raises(InputError, match=r"secret.*agent 0.* 0 bytes.*32"):
        Private(1.0, 10).make(one_view(secret=b""))
    one = noisy(1.0, 1)
    one.drawn(0, 0.5, NOTHING)
    with pytest.raises(InputError, match=r"arm 0\b.* 1 times"):
        one.drawn(0, 0.5, NOTHING)
    assert one.state.in_trees.tolist() == [1, 0]
    with pytest.raises(InputError, match=r"in_trees.*\[2, 0\].*0 to 1"):
        one.restore_state({"in_trees": [2, 0], "life": 0})
    with pytest.raises(InputError, match=r"life.* 9223372036854775808;.*64"):
        one.restore_state({"in_trees": [1, 0], "life": 2**63})


def drawn(reward: float, count: float, time: float, limit: float, moment: float) -> float:
    estimate = Estimate(np.zeros(1), np.array([count]), time, 1.0)
    return Truncated(limit, moment).make(one_view(num_arms=1)).drawn(0, reward, estimate)


def test_rewards_above_the_threshold_count_as_nothing() -> None:
    """(u n / ln t²)^{1/p} with u = 3, n = 20, t = 50."""
    for moment in (1.5, 2.0):
        largest = (3 * 20 / math.log(50**2)) ** (1 / moment)
        for sign in (-1.0, 1.0):
            assert drawn(sign * 0.999 * largest, 19, 50, 3.0, moment) == sign * 0.999 * largest
            assert drawn(sign * 1.001 * largest, 19, 50, 3.0, moment) == 0.0


def test_before_the_first_pull_the_time_is_two() -> None:
    assert drawn(1.2, 0, 1.0, 2.0, 2.0) == 1.2  # √(2/ln 4) = 1.201
    assert drawn(1.21, 0, 1.0, 2.0, 2.0) == 0.0


def test_any_rewards_are_truncated_and_a_restart_changes_nothing() -> None:
    source = Truncated(2.0)
    assert source.support == (-math.inf, math.inf)
    assert source.needs == frozenset()
    tap = source.make(one_view(num_arms=1))
    before = tap.export_state()
    tap.reopened(7)
    assert tap.export_state() == before


def test_bad_thresholds_are_refused() -> None:
    with pytest.raises(InputError, match=r"limit.* 0\b"):
        Truncated(0)
    for moment in (1, 2.1):
        with pytest.raises(InputError, match=f"moment.* {moment!r}"):
            Truncated(1.0, moment)
