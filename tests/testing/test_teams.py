"""The check of teams finds those that do not play what agents play."""

from __future__ import annotations

import pytest

from coopbandits.core import Exp3Coop
from coopbandits.testing import PolicyCheckError
from coopbandits.testing.checks.forms import team_form
from coopbandits.testing.world import Trial

from .broken_teams import Broken, ShyExp3, StubbornExp3


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Broken, "make_team.*'us'.*Team"),
        (StubbornExp3, r"\[0, 0, 0, 0\].*\(cycle of 4, round 0\).*\[1, 0, 2, 0\]"),
        (
            ShyExp3,
            r"\[0, 0, 0, 0\].*\(cycle of 4, round 0\).*\[2, 2, 2, 2\]",
        ),
    ],
)
def test_what_differs_is_told(kind: type[Exp3Coop], said: str) -> None:
    with pytest.raises(PolicyCheckError, match=said):
        team_form(Trial(kind(), 3, 5, 0))


def test_the_honest_one_passes() -> None:
    team_form(Trial(Exp3Coop(), 3, 5, 0))
