"""How long a transport waits for what."""

from __future__ import annotations

import secrets
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Seconds that a transport waits.

    Attributes
    ----------
    connect : float
        For a TCP connection, the host's name looked up.
    handshake : float
        From then on, until it is proven who is there.
    user_timeout : float
        Until a connection breaks whose bytes nobody acknowledges (where the system can do that).
    close : float
        For bytes that were sent before a link was closed.
    first_pause, longest_pause : float
        Between two attempts to dial. Each is half as long again as the one before: who was away
        for a while waits a third of that at the most.
    proven : float
        That a link must have been up for pauses to begin anew.
    """

    connect: float = 1.0
    handshake: float = 5.0
    user_timeout: float = 2.0
    close: float = 1.0
    first_pause: float = 0.02
    longest_pause: float = 5.0
    proven: float = 1.0

    def pause(self, failures: int, uniform: float) -> float:
        """Return how long to wait after so many failures in a row: half of it is up to chance."""
        whole = min(self.longest_pause, self.first_pause * 1.5 ** min(failures, 60))
        return whole * (0.5 + 0.5 * uniform)


def chance() -> float:
    """Return a uniform from the system's source, so that no two agents retry in step."""
    return secrets.randbits(53) * 2.0**-53
