"""The check of teams finds those that do not play what agents play."""

from __future__ import annotations

import pytest

from coopbandits.core import GSE
from coopbandits.testing import PolicyCheckError
from coopbandits.testing.checks.forms import team_form
from coopbandits.testing.world import Trial

from .broken_teams import Broken, ShyGSE, StubbornGSE


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Broken, "make_team.*'us'.*Team"),
        (StubbornGSE, r"\[0, 0, 0, 0\].*\(cycle of 4, round 1\).*\[1, 1, 1, 1\]"),
        (
            ShyGSE,
            r"\[0, 0, 0, 0\].*\(cycle of 4, round 0\).*\[2, 2, 2, 2\]",
        ),
    ],
)
def test_what_differs_is_told(kind: type[GSE], said: str) -> None:
    with pytest.raises(PolicyCheckError, match=said):
        team_form(Trial(kind(horizon=20), 3, 5, 0))


def test_the_honest_one_passes() -> None:
    team_form(Trial(GSE(horizon=20), 3, 5, 0))
