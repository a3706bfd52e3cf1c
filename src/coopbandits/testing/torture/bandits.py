"""Two bandits on a stage, of one of which an arm comes and goes, and may be purged.

What applications and checks count, they count by option: a bandit and an arm. A stage with one
bandit has the first three.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from coopbandits.fleet.config import ClusterConfig
from coopbandits.fleet.config.bandits import Arm, BanditConfig, derived_number
from coopbandits.testing.torture.schedule import ARMS


class Option(NamedTuple):
    """An arm of a bandit, and what it pays at least."""

    bandit: str
    arm: str
    pays: float


MAIN, SIDE, EXTRA = "main", "side", "extra"
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


def declared(
    cluster: ClusterConfig, *, extra: bool, purged: bool = False
) -> dict[str, BanditConfig]:
    """Return both bandits, with or without the arm that comes and goes."""
    found = {}
    for name, number in NUMBERS.items():
        arms = (*ARMS, EXTRA) if extra and name == MAIN else ARMS
        settings = replace(cluster, arms=arms)
        listed = tuple(Arm(arm, arm) for arm in arms)
        gone = (EXTRA,) if purged and name == MAIN else ()
        found[name] = BanditConfig(name, number, settings, listed, purged=gone)
    return found
