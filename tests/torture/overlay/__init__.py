"""Thousands of agents that find each other, in one process, without sockets.

`world.py` has the state machines alone, by the thousand, and `liars.py` some that lie; `party.py`
has whole agents, with protocol, policy and journal.
"""

from tests.torture.overlay.liars import LyingWorld
from tests.torture.overlay.party import Party
from tests.torture.overlay.world import OverlayWorld, grow

__all__ = ["LyingWorld", "OverlayWorld", "Party", "grow"]
