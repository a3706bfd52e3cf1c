"""One neighbour as an agent sees it: the link, who is there, and what was counted."""

from __future__ import annotations

from dataclasses import dataclass, field

from coopbandits.fleet.frames import Decoder

FRAMES = ("received", "sent", "resent", "duplicate", "stale", "refused")
"""What is counted of frames, per neighbour."""


@dataclass
class Peer:
    """A neighbour.

    Attributes
    ----------
    name, number : str and int
        Its id, and its number in the agent's view.
    decoder : Decoder or None
        What reads its bytes while the link is up.
    met : bool
        Whether it said HELLO over this link, and is who it should be.
    incarnation : int
        Which start of the neighbour's process this is.
    heard_round : int
        The last round of which it told.
    last_heard, last_sent : float
        When anything was heard, or sent.
    waited : float
        Seconds that the last round waited for it.
    reconnects : int
        Links that came up, but for the first.
    reason : str
        Why there is no link.
    """

    name: str
    number: int
    decoder: Decoder | None = None
    met: bool = False
    incarnation: int = 0
    heard_round: int = 0
    last_heard: float = 0.0
    last_sent: float = 0.0
    waited: float = 0.0
    links: int = 0
    reason: str = "no link yet"
    frames: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FRAMES, 0))

    def up(self, decoder: Decoder, now: float) -> None:
        """Begin a link."""
        self.decoder, self.met, self.last_heard, self.reason = decoder, False, now, ""
        self.links += 1

    def down(self, reason: str) -> None:
        """End a link."""
        self.decoder, self.met, self.reason = None, False, reason
