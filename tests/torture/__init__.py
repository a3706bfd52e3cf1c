"""Torture: the fleet's own protocol on a virtual clock, network and disk, wrong in every way.

`make_schedule` decides by a seed what goes wrong, `play` plays it and checks the fleet's promises
after every event, and `shrink` makes a schedule that fails as short as it can be made. Nothing real
is involved, so the same seed gives the same events, faster than real time.
"""

from tests.torture.application import ViolationError
from tests.torture.run import Outcome, play, play_seeds
from tests.torture.schedule import Schedule, Setting, Trouble, Weather, make_schedule
from tests.torture.shrinking import shrink

__all__ = [
    "Outcome",
    "Schedule",
    "Setting",
    "Trouble",
    "ViolationError",
    "Weather",
    "make_schedule",
    "play",
    "play_seeds",
    "shrink",
]
