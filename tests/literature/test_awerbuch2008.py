"""Users who follow each other: Exp3 for one, what following gains, and what liars cost."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coopbandits import InputError
from coopbandits.literature import collaborate
from coopbandits.literature.awerbuch2008 import _sources
from coopbandits.literature.models import Dice, Played, parse_model


def needle(resources: int) -> list[list[float]]:
    """One good resource among many, the same for all."""
    return [[0.9] + [0.2] * (resources - 1)]


def test_a_user_alone_plays_exp3() -> None:
    """A plain loop on the same numbers, with probabilities worked out from all losses."""
    means, horizon = [0.8, 0.5, 0.2], 200
    dice, losses, regret = Dice(4, 0), [0.0] * 3, 0.0
    rate = math.sqrt(2 * math.log(3) / (3 * horizon))
    for _ in range(horizon):
        weights = [math.exp(-rate * each) for each in losses]
        chances = [each / sum(weights) for each in weights]
        drawn, arm = dice.uniform(), 0
        while drawn >= sum(chances[: arm + 1]):
            arm += 1
        losses[arm] += (1 - (dice.uniform() < means[arm])) / chances[arm]
        regret += 0.8 - means[arm]
    result = collaborate([means], users=1, horizon=horizon, seed=4)
    assert result.regret[0] == pytest.approx(regret)
    assert result.messages.tolist() == [0]


def test_sources_are_other_users_and_resources_without_repetition() -> None:
    contacts, tried = _sources(honest=20, liars=5, resources=12, sources=6, dice=Dice(1))
    assert contacts.shape == tried.shape == (20, 6)
    for user, (follows, tries) in enumerate(zip(contacts.tolist(), tried.tolist(), strict=True)):
        assert user not in follows
        assert len(set(follows)) == len(set(tries)) == 6
    assert contacts.max() > 19  # some follow liars
    alone = _sources(honest=2, liars=0, resources=3, sources=0, dice=Dice(1))
    assert (alone[0].size, alone[1].tolist()) == (0, [[0, 1, 2], [0, 1, 2]])


@pytest.mark.plays
def test_following_others_pays_though_a_quarter_of_them_lies() -> None:
    """Against the same users who try all resources by themselves."""
    together, alone, late = (
        collaborate(needle(60), users=60, horizon=1500, liars=15, **how).regret[0]
        for how in ({}, {"sources": 0}, {"betrayal": 750})
    )
    print(f"together {together:.0f}, alone {alone:.0f}, betrayed half-way {late:.0f}")
    assert together < 0.8 * alone
    assert late < 0.8 * alone


def test_liars_are_not_followed_for_long() -> None:
    """Two users: the honest one has one resource, the best one, and a liar to follow."""
    worst = collaborate([[0.9, 0.0]], users=2, horizon=1000, liars=1, sources=1, runs=8)
    good = worst.regret < 450  # runs in which the resource that it tries is the good one
    assert 0 < good.sum() < 8
    assert (worst.messages[good] < 100).all()  # of 1000 rounds
    assert worst.messages.tolist() == worst.values.tolist()


@pytest.mark.slow
def test_regret_grows_slower_with_resources_than_alone_and_with_groups() -> None:
    """Logarithmic in the number of resources, where a user alone has a square root."""
    regret = {
        (size, how): collaborate(
            needle(size), users=size, horizon=3000, sources=how, runs=4
        ).agent_regret.mean()
        for size in (40, 160)
        for how in (None, 0)
    }
    together, alone = (regret[160, how] / regret[40, how] for how in (None, 0))
    print(f"{regret}; four times the resources cost {together:.2f}, alone {alone:.2f}")
    assert together < 0.85 * alone
    first = needle(100)[0]
    one, two = (
        collaborate(groups, users=100, horizon=3000, runs=4).agent_regret.mean()
        for groups in ([first], [first, first[::-1]])
    )
    print(f"one group {one:.0f}, two groups {two:.0f}")
    assert 1.0 < two / one < 2.5


def test_bad_input_and_seeds() -> None:
    with pytest.raises(InputError, match=r"liars.* 5\b.* 4\b"):
        collaborate(needle(5), users=5, horizon=10, liars=5)
    with pytest.raises(InputError, match=r"sources.* 5\b.* 4\b"):
        collaborate(needle(9), users=5, horizon=10, sources=5)
    with pytest.raises(InputError, match=r"betrayal.* -1\b"):
        collaborate(needle(9), users=5, horizon=10, betrayal=-1)
    with pytest.raises(InputError, match=r"liars.* 1\b"):
        parse_model("collaborate:liars=1").play(Played([0.5, 0.4], 3, 10, 1, 0))
    one, two, other = (collaborate(needle(5), 5, 50, seed=s).regret for s in (1, 1, 2))
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)
