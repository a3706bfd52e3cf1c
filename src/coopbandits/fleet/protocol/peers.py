"""What an agent knows of one neighbour: of its link, and of its gossip about one bandit."""

from __future__ import annotations

from dataclasses import dataclass, field

from coopbandits.core.contract import Vector
from coopbandits.fleet.protocol.frames import NO_ENDPOINT, ApiEndpoint, Decoder, HelloFrame

FRAMES = ("received", "sent", "resent", "duplicate", "stale", "refused", "skipped")
"""The kinds of frames counted per neighbour."""


@dataclass
class Peer:
    """A neighbour, and the link to it.

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
    last_sent : float
        When anything was last sent to it.
    endpoint : ApiEndpoint
        Where it says that its API is.
    links : int
        How often a link came up.
    reason : str
        Why the link is down.
    certified : frozenset of str
        The ids in the certificate that it showed, its own among them.
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
    last_sent: float = 0.0
    endpoint: ApiEndpoint = NO_ENDPOINT
    links: int = 0
    reason: str = "no link yet"
    certified: frozenset[str] = frozenset()
    frames: dict[str, int] = field(default_factory=lambda: dict.fromkeys(FRAMES, 0))

    def up(self, decoder: Decoder, now: float) -> None:
        """Note that the link came up."""
        self.decoder, self.met, self.closing = decoder, False, False
        self.last_heard, self.reason = now, ""
        self.links += 1

    def meet(self, frame: HelloFrame, now: float) -> None:
        """Note what an accepted HELLO says."""
        self.met, self.incarnation, self.last_heard = True, frame.stamp.incarnation, now
        self.endpoint = ApiEndpoint(frame.hello.api_port, frame.hello.api_secure)

    def down(self, reason: str) -> None:
        """Note that the link went down."""
        self.decoder, self.met, self.reason = None, False, reason


class SessionPeer:
    """A neighbour in the gossip about one bandit.

    Attributes
    ----------
    link : Peer
        The neighbour.
    name, number, frames
        Those of the link.
    met : bool
        Whether its greeting over this link was accepted.
    incarnation : int
        Which start of its process has greeted.
    heard_round, heard_start : int
        The round of its last message, and the incarnation that sent it.
    memory : int
        Which memory it has; 0 before its first greeting.
    first_sent, acked : int
        The first own message over this link, and the last that it acknowledged over this link.
    former : int
        The message of a former start of this agent that it acknowledges until it has heard one of
        this start; 0 if that is none, or one that is remembered to have arrived.
    has_sent : bool
        Whether a message came over this link.
    certificates : set of bytes
        Fingerprints of those sent over this link.
    waited : float
        Seconds that the last round waited for it.
    """

    def __init__(self, link: Peer) -> None:
        self.link, self.name, self.number, self.frames = link, link.name, link.number, link.frames
        self.met = False
        self.incarnation = self.heard_round = self.heard_start = self.memory = self.former = 0
        self.waited = 0.0
        self.first_sent = self.acked = 0
        self.has_sent = False
        self.certificates: set[bytes] = set()

    def reset(self, link: Peer) -> None:
        """Begin with a new link: nothing was sent or acknowledged over it."""
        self.link, self.frames, self.incarnation = link, link.frames, link.incarnation
        self.met = self.has_sent = False
        self.first_sent = self.acked = 0
        self.certificates.clear()

    def answered(self, values: Vector, arrived: float) -> Vector:
        """Return a message that acknowledges no more of a former start than has surely `arrived`.

        What was sent later may be forgotten, as after a loss of power, and its numbers are given
        again. A neighbour that has heard one of these acknowledges another number, at the latest in
        its next message.
        """
        if values.item(1) != self.former:
            self.former = 0
            return values
        found = values.copy()
        found[1] = arrived
        return found
