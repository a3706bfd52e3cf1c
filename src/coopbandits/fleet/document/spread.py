"""How the cluster's document travels: from who has a higher version to who says it has a lower one.

Agents tell their version when they meet and whenever it changes. Who has a higher one sends its
document, in pieces, and sends it again after a pause as long as the other end does not say that it
has it; a new link does not shorten that pause. A document is sent to nobody who has it, so news
cannot go round in circles.

Every piece comes with the seal. Nothing is kept of a document before a trusted signature on its
seal was seen, and never more than the signed length of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

import msgspec

from coopbandits.core.errors import InputError
from coopbandits.fleet.document.keeper import Keeper, RivalError
from coopbandits.fleet.document.seal import MAX_CHAIN, ForgedError, Seal, Signed

PIECE = 1 << 15
"""Bytes of content in one message: with the seals, less than the longest body of a frame."""

FIRST_PAUSE, LONGEST_PAUSE = 2.0, 60.0
"""Seconds until a document is sent again to who does not say that it has it; doubled each time."""

Send = Callable[[str, bytes], None]
"""Sends a neighbour some bytes."""

Refuse = Callable[[str, str, str], None]
"""Counts what a neighbour sent and was refused; takes the reason as a keyword and a sentence."""


class News(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one agent tells another: its version, and perhaps a piece of its document."""

    version: Annotated[int, msgspec.Meta(ge=0)]
    digest: Annotated[bytes, msgspec.Meta(max_length=32)] = b""
    seal: Seal | None = None
    chain: Annotated[tuple[Seal, ...], msgspec.Meta(max_length=MAX_CHAIN)] = ()
    at: Annotated[int, msgspec.Meta(ge=0)] = 0
    piece: Annotated[bytes, msgspec.Meta(max_length=PIECE)] = b""


_read = msgspec.msgpack.Decoder(News).decode


@dataclass
class Reader:
    """A neighbour that takes documents, while its link is up.

    Attributes
    ----------
    version, digest : int and bytes
        What it says that it has.
    seal, content : Seal or None, and bytearray
        The document that it is sending, as far as it has come.
    """

    version: int
    digest: bytes
    seal: Seal | None = None
    content: bytearray = field(default_factory=bytearray)


@dataclass
class Pace:
    """When somebody is sent the document again, at the earliest, and how long after that."""

    due: float = 0.0
    pause: float = FIRST_PAUSE


class Spread:
    """Hands the document on, and takes it from neighbours.

    Parameters
    ----------
    keeper : Keeper
        Has the document.
    send, refuse : callable
        How to talk to neighbours.
    """

    def __init__(self, keeper: Keeper, send: Send, refuse: Refuse) -> None:
        self.keeper, self._send, self._refuse = keeper, send, refuse
        self.readers: dict[str, Reader] = {}
        self._paces: dict[str, Pace] = {}  # also of links that are down, for a while
        self._told = (keeper.version, keeper.alarm)

    def greeting(self) -> dict[str, int | bytes]:
        """Return what is said in HELLO; nothing where no documents are taken."""
        if not self.keeper.takes_part:
            return {}
        return {"document": self.keeper.version, "document_digest": self.keeper.digest}

    def met(self, peer: str, version: int | None, digest: bytes, now: float) -> None:
        """Note what a neighbour's HELLO says; None if it takes no documents."""
        self.readers.pop(peer, None)
        if version is not None and self.keeper.takes_part:
            self.readers[peer] = Reader(version, digest)
            self._answer(peer, now)

    def lost(self, peer: str) -> None:
        """Forget a neighbour whose link is down."""
        self.readers.pop(peer, None)

    def heard(self, peer: str, body: bytes, now: float) -> None:
        """Handle a message.

        Raises
        ------
        DiskError
            A document could not be stored.
        """
        reader = self.readers.get(peer)
        if reader is None:
            return
        try:
            news = _read(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            self._refuse(peer, "document", f"a document that cannot be read: {error}")
            return
        reader.version, reader.digest = news.version, news.digest
        before = self.keeper.version
        try:
            if news.seal is not None:
                self._gather(reader, news, news.seal)
                if news.piece and news.at == 0 and news.seal.open().version <= before:
                    self._acknowledge(peer)  # it has not heard of what is here
        except ForgedError as error:
            self._refuse(peer, "forged", str(error))
        except RivalError:
            pass  # the alarm is raised, and says it
        except InputError as error:
            self._refuse(peer, "document", "; ".join(str(error).splitlines()))
        self._answer(peer, now)
        self.tell(now)

    def _gather(self, reader: Reader, news: News, seal: Seal) -> None:
        """Add a piece to what came before; adopt the document once it is whole."""
        goes_on = seal == reader.seal and news.at == len(reader.content) > 0
        if not goes_on:
            reader.seal, reader.content = None, bytearray()
            older = seal.open().version < self.keeper.version
            if older or self.keeper.weigh(seal, news.chain) is None:
                return
            if news.at > 0 or not news.piece:
                return  # a piece was lost: the document will come again
            reader.seal = seal
        reader.content += news.piece
        if len(reader.content) >= seal.open().size:
            content, reader.seal, reader.content = bytes(reader.content), None, bytearray()
            self.keeper.adopt(Signed(seal, content, news.chain))

    def tell(self, now: float) -> None:
        """Tell all neighbours if something changed: a new document, or an alarm."""
        state = self.keeper.version, self.keeper.alarm
        if state == self._told:
            return
        self._told = state
        self._paces.clear()
        for peer, reader in self.readers.items():
            if reader.version >= self.keeper.version:
                self._acknowledge(peer)
            self._answer(peer, now)

    def beat(self, now: float) -> None:
        """Send again what nobody said has arrived."""
        self.keeper.act()
        self.tell(now)
        for peer in self.readers:
            self._answer(peer, now)
        for peer in self._paces.keys() - self.readers:
            if now >= self._paces[peer].due + LONGEST_PAUSE:
                del self._paces[peer]

    def _answer(self, peer: str, now: float) -> None:
        """Send the document to who has a lower version, and its seal to who has another content."""
        reader, keeper = self.readers[peer], self.keeper
        pace = self._paces.get(peer) or Pace()
        if keeper.kept is None or now < pace.due:
            return
        signed = keeper.kept.signed
        if reader.version == keeper.version and reader.digest != keeper.digest:
            self._say(peer, News(keeper.version, keeper.digest, signed.seal))
        elif reader.version < keeper.version and not keeper.alarm:
            self._offer(peer, signed)
        else:
            return
        self._paces[peer] = Pace(now + pace.pause, min(2 * pace.pause, LONGEST_PAUSE))

    def _offer(self, peer: str, signed: Signed) -> None:
        state, sealed = (self.keeper.version, self.keeper.digest), (signed.seal, signed.chain)
        for at in range(0, len(signed.content), PIECE):
            self._say(peer, News(*state, *sealed, at, signed.content[at : at + PIECE]))

    def _acknowledge(self, peer: str) -> None:
        self._say(peer, News(self.keeper.version, self.keeper.digest))

    def _say(self, peer: str, news: News) -> None:
        self._send(peer, msgspec.msgpack.encode(news))
