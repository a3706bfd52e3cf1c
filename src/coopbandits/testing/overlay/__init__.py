"""Thousands of agents that find each other, in one process, without sockets.

`world.py` has the state machines alone, by the thousand, and `liars.py` some that lie; `party.py`
has whole agents, with protocol, policy and journal.
"""

from coopbandits.testing.overlay.liars import LyingWorld
from coopbandits.testing.overlay.party import Party
from coopbandits.testing.overlay.world import OverlayWorld, grow

__all__ = ["LyingWorld", "OverlayWorld", "Party", "grow"]
