"""What choices are asked for once everything has healed."""

from __future__ import annotations

import numpy as np
import pytest

from coopbandits.core.contract import Estimate
from tests.torture import Setting, make_schedule, play
from tests.torture.recovery import is_sensible

# Arm 0 has the largest mean; of arm 1 less is known, of arm 2 more.
SEEN = Estimate(np.array([80.0, 25.0, 60.0]), np.array([100.0, 50.0, 120.0]), 270.0, 8.0)


@pytest.mark.parametrize(
    ("chosen", "drawn", "computed"),
    [
        ([0] * 9, True, True),
        ([0, 1, 0, 2, 0, 1, 0, 2, 0], True, False),
        ([1, 0, 1, 2, 0, 1, 0, 2, 0], False, False),
        ([1] * 9, False, True),
        ([2] * 9, False, False),
        ([1] * 8 + [0], False, False),
    ],
)
def test_what_is_asked_of_choices(chosen: list[int], drawn: bool, computed: bool) -> None:
    assert is_sensible(chosen, SEEN, random=True) is drawn
    assert is_sensible(chosen, SEEN, random=False) is computed


def test_an_arm_of_another_mean_here_may_be_chosen() -> None:
    """As where sites differ, and others' pulls count less."""
    better = SEEN._replace(sums=np.array([80.0, 25.0, 110.0]))
    assert is_sensible([2] * 9, better, random=False)


@pytest.mark.plays
def test_an_index_that_draws_nothing_may_explore_in_the_end() -> None:
    """In this seed the bonus of the second arm is the largest just when all has healed."""
    assert not play(make_schedule(3, Setting("flooded-totals*kl-ucb"))).violation
