"""Teams that do not play what agents play, or do not say what they send."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from coopbandits.core import Exp3Coop, LocalView
from coopbandits.core.policies.exp3_coop import Exp3CoopTeam
from coopbandits.core.team import Sent


class Stubborn(Exp3CoopTeam):
    """Plays the first arm for ever."""

    def choose(self, words: Any) -> Any:
        return np.zeros(words.size, dtype=np.int64)


class Shy(Exp3CoopTeam):
    """Says that it sent nothing."""

    def exchange(self) -> Sent:
        none = np.zeros_like(super().exchange().messages)
        return Sent(none, none)


@dataclass(frozen=True)
class Broken(Exp3Coop):
    """Exp3-Coop with another team."""

    team: ClassVar[Any] = None

    def make_team(self, views: Sequence[LocalView]) -> Any:
        return "us" if self.team is None else self.team(views, self)


@dataclass(frozen=True)
class StubbornExp3(Broken):
    team = Stubborn


@dataclass(frozen=True)
class ShyExp3(Broken):
    team = Shy
