"""The check of teams finds those that do not play what agents play."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from coopbandits.core import GSE, LocalView
from coopbandits.core.policies.gse import GSETeam
from coopbandits.core.team import Sent
from coopbandits.testing import PolicyCheckError
from coopbandits.testing.checks.teams import team_form
from coopbandits.testing.world import Trial


class Stubborn(GSETeam):
    """Plays the first arm for ever."""

    def choose(self, words: Any) -> Any:
        return np.zeros(words.size, dtype=np.int64)


class Shy(GSETeam):
    """Says that it sent nothing."""

    def exchange(self) -> Sent:
        none = np.zeros_like(super().exchange().messages)
        return Sent(none, none)


@dataclass(frozen=True)
class Broken(GSE):
    """GSE with another team."""

    team: ClassVar[Any] = None

    def make_team(self, views: Sequence[LocalView]) -> Any:
        return "us" if self.team is None else self.team(views, self.make_agent(views[0]))


@dataclass(frozen=True)
class StubbornGSE(Broken):
    team = Stubborn


@dataclass(frozen=True)
class ShyGSE(Broken):
    team = Shy


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Broken, r"make_team returned 'us'.*a coopbandits\.core\.team\.Team, or None"),
        (StubbornGSE, r"the team played \[0, 0, 0, 0\] \(cycle of 4, round 1\).*\[1, 1, 1, 1\]"),
        (
            ShyGSE,
            r"told of \[0, 0, 0, 0\] messages .*\(cycle of 4, round 0\).*\[2, 2, 2, 2\] with \[8,",
        ),
    ],
)
def test_what_differs_is_told(kind: type[GSE], said: str) -> None:
    with pytest.raises(PolicyCheckError, match=said):
        team_form(Trial(kind(horizon=20), 3, 5, 0))


def test_the_honest_one_passes() -> None:
    team_form(Trial(GSE(horizon=20), 3, 5, 0))
