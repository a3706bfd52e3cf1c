"""Timeouts and retry pauses of a transport."""

from __future__ import annotations

import secrets
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Timeouts and pauses, in seconds.

    Attributes
    ----------
    connect : float
        For a TCP connection, including the lookup of the host's name.
    handshake : float
        From then on until the other end is authenticated.
    user_timeout : float
        Until a connection breaks whose bytes are not acknowledged, if the system supports that.
    close : float
        For sending what is queued when a link is closed.
    first_pause, longest_pause : float
        Between two attempts to dial. Pauses grow by half each time, so after an outage the last
        one is about a third of it.
    proven : float
        How long a link must have been up for pauses to start again at the first.
    """

    connect: float = 1.0
    handshake: float = 5.0
    user_timeout: float = 2.0
    close: float = 1.0
    first_pause: float = 0.02
    longest_pause: float = 5.0
    proven: float = 1.0

    def pause(self, failures: int, uniform: float) -> float:
        """Return the pause after this many failures in a row; half of it is random."""
        whole = min(self.longest_pause, self.first_pause * 1.5 ** min(failures, 60))
        return whole * (0.5 + 0.5 * uniform)


def chance() -> float:
    """Return a uniform number from the system's source, so that agents do not retry in step."""
    return secrets.randbits(53) * 2.0**-53
