"""One neighbour as an agent sees it: the link, who is there, and what was counted."""

from __future__ import annotations

from dataclasses import dataclass, field

from coopbandits.fleet.protocol.frames import Decoder

FRAMES = ("received", "sent", "resent", "duplicate", "stale", "refused")
"""What is counted of frames, per neighbour."""


@dataclass
class Peer:
    """A neighbour.

    Attributes
    ----------
    name, number : str and int
        Its id, and its number in the agent's view.
    last_heard : float
        When anything was heard; before that, when the agent or the link began.
    decoder : Decoder or None
        What reads its bytes while the link is up.
    met : bool
        Whether it said HELLO over this link, and is who it should be.
    incarnation : int
        Which start of the neighbour's process this is.
    heard_round : int
        The last round of which it told.
    last_sent : float
        When anything was sent.
    waited : float
        Seconds that the last round waited for it.
    links : int
        How often a link came up.
    reason : str
        Why there is no link.
    frames : dict of str to int
        How many there were of each kind in `FRAMES`.
    """

    name: str
    number: int
    last_heard: float
    decoder: Decoder | None = None
    met: bool = False
    incarnation: int = 0
    heard_round: int = 0
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
