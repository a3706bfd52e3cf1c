"""How the cluster's document spreads: agents with a higher version send it to those with a lower.

Agents report their version when they meet and whenever it changes. An agent with a higher version
sends its document, in pieces, and sends it again after a pause until the other end reports that
version; a new link does not shorten the pause. A document is never sent to an agent that has it, so
it cannot circulate.

Every piece comes with the seal. An agent keeps nothing of a document before it has verified a
trusted signature on its seal, and never more than the signed length.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

import msgspec

from coopbandits.core.errors import InputError
from coopbandits.fleet.document.seal import MAX_CHAIN, ForgedError, Seal, Signed
from coopbandits.fleet.document.store import DocumentStore, RivalError

PIECE = 1 << 15
"""Bytes of content in one message: with the seals, less than the longest body of a frame."""

FIRST_PAUSE, LONGEST_PAUSE = 2.0, 60.0
"""Seconds until an unacknowledged document is sent again; doubled each time."""

Send = Callable[[str, bytes], None]
"""Sends bytes to a neighbour."""

Refuse = Callable[[str, str, str], None]
"""Counts a rejected message: neighbour, reason as a keyword, and a sentence."""


class News(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message: the sender's version, and perhaps a piece of its document."""

    version: Annotated[int, msgspec.Meta(ge=0)]
    digest: Annotated[bytes, msgspec.Meta(max_length=32)] = b""
    seal: Seal | None = None
    chain: Annotated[tuple[Seal, ...], msgspec.Meta(max_length=MAX_CHAIN)] = ()
    at: Annotated[int, msgspec.Meta(ge=0)] = 0
    piece: Annotated[bytes, msgspec.Meta(max_length=PIECE)] = b""


_decode = msgspec.msgpack.Decoder(News).decode


@dataclass
class Peer:
    """A neighbour that accepts documents, while its link is up.

    Attributes
    ----------
    version, digest : int and bytes
        The document that it reported last.
    seal, content : Seal or None, and bytearray
        The document that it is sending, as far as it has arrived.
    """

    version: int
    digest: bytes
    seal: Seal | None = None
    content: bytearray = field(default_factory=bytearray)


@dataclass
class Backoff:
    """The earliest time to send a document to a neighbour again, and the pause after that."""

    due: float = 0.0
    pause: float = FIRST_PAUSE


class Spread:
    """Sends the document to neighbours and receives it from them.

    Parameters
    ----------
    store : DocumentStore
        Has the document.
    send, refuse : callable
        Send a message; count a rejected one.
    """

    def __init__(self, store: DocumentStore, send: Send, refuse: Refuse) -> None:
        self.store, self._send, self._refuse = store, send, refuse
        self.peers: dict[str, Peer] = {}
        self._backoffs: dict[str, Backoff] = {}  # also of links that went down, for a while
        self._announced = (store.version, store.alarm)

    def greeting(self) -> dict[str, int | bytes]:
        """Return the fields of HELLO about documents; none if the agent accepts no documents."""
        if not self.store.enabled:
            return {}
        return {"document": self.store.version, "document_digest": self.store.digest}

    def link_up(self, peer: str, version: int | None, digest: bytes, now: float) -> None:
        """Handle the HELLO of a neighbour; None if it accepts no documents."""
        self.peers.pop(peer, None)
        if version is not None and self.store.enabled:
            self.peers[peer] = Peer(version, digest)
            self._offer(peer, now)

    def link_down(self, peer: str) -> None:
        """Forget a neighbour whose link is down."""
        self.peers.pop(peer, None)

    def received(self, peer: str, body: bytes, now: float) -> None:
        """Handle a message.

        Raises
        ------
        DiskError
            A document could not be stored.
        """
        sender = self.peers.get(peer)
        if sender is None:
            return
        try:
            news = _decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self._refuse(peer, "document", f"a document that cannot be read: {error}")
            return
        sender.version, sender.digest = news.version, news.digest
        before = self.store.version
        try:
            if news.seal is not None:
                self._gather(sender, news, news.seal)
                if news.piece and news.at == 0 and news.seal.open().version <= before:
                    self._report(peer)  # it does not know our version yet
        except ForgedError as error:
            self._refuse(peer, "forged", str(error))
        except RivalError:
            pass  # the store has raised the alarm
        except InputError as error:
            self._refuse(peer, "document", "; ".join(str(error).splitlines()))
        self._offer(peer, now)
        self.announce(now)

    def _gather(self, sender: Peer, news: News, seal: Seal) -> None:
        """Add a piece to the previous ones; adopt the document once it is complete."""
        is_next = seal == sender.seal and news.at == len(sender.content) > 0
        if not is_next:
            sender.seal, sender.content = None, bytearray()
            older = seal.open().version < self.store.version
            if older or self.store.verify(seal, news.chain) is None:
                return
            if news.at > 0 or not news.piece:
                return  # a piece was lost: the document will be sent again
            sender.seal = seal
        sender.content += news.piece
        if len(sender.content) >= seal.open().size:
            content, sender.seal, sender.content = bytes(sender.content), None, bytearray()
            self.store.adopt(Signed(seal, content, news.chain))

    def announce(self, now: float) -> None:
        """Inform all neighbours if there is a new document or alarm."""
        state = self.store.version, self.store.alarm
        if state == self._announced:
            return
        self._announced = state
        self._backoffs.clear()
        for name, peer in self.peers.items():
            if peer.version >= self.store.version:
                self._report(name)
            self._offer(name, now)

    def tick(self, now: float) -> None:
        """Send unacknowledged documents again."""
        self.store.retry()
        self.announce(now)
        for peer in self.peers:
            self._offer(peer, now)
        for peer in self._backoffs.keys() - self.peers:
            if now >= self._backoffs[peer].due + LONGEST_PAUSE:
                del self._backoffs[peer]

    def _offer(self, peer: str, now: float) -> None:
        """Send the document to a peer with a lower version, its seal to one with other content."""
        known, store = self.peers[peer], self.store
        backoff = self._backoffs.get(peer) or Backoff()
        if store.stored is None or now < backoff.due:
            return
        signed = store.stored.signed
        if known.version == store.version and known.digest != store.digest:
            self._report(peer, signed.seal)
        elif known.version < store.version and not store.alarm:
            for at in range(0, len(signed.content), PIECE):
                piece = signed.content[at : at + PIECE]
                self._report(peer, signed.seal, signed.chain, at, piece)
        else:
            return
        self._backoffs[peer] = Backoff(now + backoff.pause, min(2 * backoff.pause, LONGEST_PAUSE))

    def _report(
        self,
        peer: str,
        seal: Seal | None = None,
        chain: tuple[Seal, ...] = (),
        at: int = 0,
        piece: bytes = b"",
    ) -> None:
        news = News(self.store.version, self.store.digest, seal, chain, at, piece)
        self._send(peer, msgspec.msgpack.encode(news))
