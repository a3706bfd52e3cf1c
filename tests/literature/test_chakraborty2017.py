"""Pull or tell: what telling costs, and what it gains."""

from __future__ import annotations

import math

import pytest

from coopbandits import InputError
from coopbandits.literature import pull_or_tell
from coopbandits.literature.models import Dice

MEANS = [0.8, 0.5, 0.5, 0.5]


def test_who_never_tells_is_ucb_alone() -> None:
    """One agent, against a plain loop on its own rewards."""
    dice, n, s, regret = Dice(5, 0), [0] * 4, [0.0] * 4, 0.0
    for t in range(100):
        index = [
            s[k] / n[k] + math.sqrt(math.log(t) / (2 * n[k])) if n[k] else math.inf
            for k in range(4)
        ]
        arm = index.index(max(index))
        s[arm] += dice.uniform() < MEANS[arm]
        n[arm] += 1
        regret += 0.8 - MEANS[arm]
    result = pull_or_tell(MEANS, agents=1, horizon=100, eagerness=0.0, seed=5)
    assert result.told.tolist() == [0]
    assert result.regret[0] == pytest.approx(regret)


@pytest.mark.plays
@pytest.mark.parametrize("runs", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_a_little_telling_pays_and_much_does_not(runs: int) -> None:
    regret, told = {}, {}
    for eagerness in (0.0, 3.0, 1e9):
        result = pull_or_tell(MEANS, agents=12, horizon=300, eagerness=eagerness, runs=runs)
        regret[eagerness], told[eagerness] = result.regret.mean(), result.told.mean()
    print(regret, told)
    assert regret[3.0] < regret[0.0] < regret[1e9]
    assert told[1e9] == 12 * 150  # every second round
    assert result.messages.tolist() == [11 * 12 * 150] * runs
    assert result.values.tolist() == [22 * 12 * 150] * runs
    assert (result.worst > result.regret / 12 - 1e-9).all()


def test_bad_input() -> None:
    with pytest.raises(InputError, match=r"eagerness.* -1\b"):
        pull_or_tell(MEANS, 2, 10, -1)
