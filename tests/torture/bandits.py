"""Two bandits on a stage: an arm of the first comes and goes, the second may come late.

What applications and checks count, they count by option: a bandit and an arm. A stage with one
bandit has the first three.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from coopbandits.fleet.config.bandits import Arm, BanditConfig, derived_number
from coopbandits.fleet.storage.purging import PURGED
from tests.torture.schedule import ARMS, MAIN


class Option(NamedTuple):
    """An arm of a bandit, and what it pays at least."""

    bandit: str
    arm: str
    pays: float


SIDE, EXTRA = "side", "extra"
PAYS = (0.75, 0.25, 0.0)
OPTIONS = (
    *(Option(MAIN, arm, pays) for arm, pays in zip(ARMS, PAYS, strict=True)),
    *(Option(SIDE, arm, pays) for arm, pays in zip(ARMS, PAYS, strict=True)),
    Option(MAIN, EXTRA, 0.25),
)
NUMBERS = {name: derived_number(name) for name in (MAIN, SIDE)}


def option_of(bandit: str, arm: str) -> int:
    """Return the place of an option."""
    return next(at for at, each in enumerate(OPTIONS) if (each.bandit, each.arm) == (bandit, arm))


PLACES: dict[int, dict[int, int]] = {number: {} for number in NUMBERS.values()}
"""Options of all arms of all bandits, by their numbers."""
for _at, _option in enumerate(OPTIONS):
    PLACES[NUMBERS[_option.bandit]][Arm(_option.arm, _option.arm).number] = _at
# What is left of purged arms counts for the only one that ever is.
PLACES[NUMBERS[MAIN]][PURGED] = option_of(MAIN, EXTRA)


@dataclass
class Declared:
    """What one agent's file says.

    Attributes
    ----------
    side : bool
        Whether it has the second bandit; once it has, it keeps it.
    extra, purged : bool
        Whether the first has the arm that comes and goes, or purges it, which is for ever.
    era : int
        The era of both.
    """

    side: bool = True
    extra: bool = False
    purged: bool = False
    era: int = 0

    def bandits(self, main: BanditConfig) -> dict[str, BanditConfig]:
        """Return the bandits, of which the first one is like `main`."""
        found = {}
        for name in (MAIN, SIDE) if self.side else (MAIN,):
            arms = (*ARMS, EXTRA) if self.extra and name == MAIN else ARMS
            listed = tuple(Arm(arm, arm) for arm in arms)
            gone = (EXTRA,) if self.purged and name == MAIN else ()
            found[name] = replace(main, name=name, number=NUMBERS[name], arms=listed, purged=gone)
        return found
