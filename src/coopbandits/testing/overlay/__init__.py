"""Thousands of agents that find each other, in one process: the real state machine, no sockets."""

from coopbandits.testing.overlay.liars import LyingWorld
from coopbandits.testing.overlay.world import OverlayWorld, grow

__all__ = ["LyingWorld", "OverlayWorld", "grow"]
