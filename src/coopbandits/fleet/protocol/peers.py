"""What an agent knows of one neighbour: its link, its incarnation, and counters."""

from __future__ import annotations

from dataclasses import dataclass, field

from coopbandits.core.contract import Vector
from coopbandits.fleet.protocol.frames import NO_ENDPOINT, ApiEndpoint, Decoder, HelloFrame

FRAMES = ("received", "sent", "resent", "duplicate", "stale", "refused", "skipped")
"""The kinds of frames counted per neighbour."""


@dataclass
class Peer:
    """A neighbour.

    Attributes
    ----------
    name, number : str and int
        Its id, and its number in the agent's view.
    last_heard : float
        When it was last heard; before that, when the agent or the link started.
    decoder : Decoder or None
        Decodes its bytes while the link is up.
    met : bool
        Whether its HELLO over this link was accepted.
    closing : bool
        Whether the link is about to go down, and nothing more is read from it.
    incarnation : int
        Which start of the neighbour's process this is.
    heard_round, heard_start : int
        The round of its last message, and the incarnation that sent it.
    memory : int
        Which memory it has; 0 before it has told.
    first_sent, acked : int
        The first own message over this link, and the last that it acknowledged over this link.
    former : int
        The message of a former start that it acknowledges until it has heard one of this start; 0
        if that is none, or one that is remembered to have arrived.
    has_told : bool
        Whether a message came over this link.
    certificates : set of bytes
        Fingerprints of those sent over this link.
    last_sent : float
        When anything was last sent to it.
    waited : float
        Seconds that the last round waited for it.
    endpoint : ApiEndpoint
        Where its API is, as it told.
    links : int
        How often a link came up.
    reason : str
        Why the link is down.
    frames : dict of str to int
        Counts by kind, see `FRAMES`.
    """

    name: str
    number: int
    last_heard: float
    decoder: Decoder | None = None
    met: bool = False
    closing: bool = False
    incarnation: int = 0
    heard_round: int = 0
    heard_start: int = 0
    memory: int = 0
    first_sent: int = 0
    acked: int = 0
    former: int = 0
    has_told: bool = False
    certificates: set[bytes] = field(default_factory=set)
    last_sent: float = 0.0
    waited: float = 0.0
    endpoint: ApiEndpoint = NO_ENDPOINT
    links: int = 0
    reason: str = "no link yet"
    frames: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FRAMES, 0))

    def up(self, decoder: Decoder, now: float) -> None:
        """Note that the link came up."""
        self.decoder, self.met, self.last_heard, self.reason = decoder, False, now, ""
        self.closing, self.first_sent, self.acked, self.has_told = False, 0, 0, False
        self.certificates.clear()
        self.links += 1

    def meet(self, frame: HelloFrame, now: float) -> None:
        """Note what an accepted HELLO tells."""
        self.met, self.incarnation, self.last_heard = True, frame.stamp.incarnation, now
        self.endpoint = ApiEndpoint(frame.hello.api_port, frame.hello.api_secure)

    def answered(self, values: Vector, arrived: float) -> Vector:
        """Return a message that acknowledges no more of a former start than has surely `arrived`.

        What was sent later may be forgotten, as after a loss of power, and its numbers are given
        again. Who has heard one of these tells another number, at the latest in its next message.
        """
        if values.item(1) != self.former:
            self.former = 0
            return values
        found = values.copy()
        found[1] = arrived
        return found

    def down(self, reason: str) -> None:
        """Note that the link went down."""
        self.decoder, self.met, self.reason = None, False, reason
