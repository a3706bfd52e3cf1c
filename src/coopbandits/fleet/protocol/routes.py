"""Which agents there are, and over which neighbour each of them is reached.

An agent announces itself: its id, a version that grows, and a signature. Everyone passes a new
announcement on to all neighbours once, so it crosses every link about once. The neighbour from
which it came first is the next hop towards its author; those from which it came later are the
alternatives. So routes are as short as links are fast, and lead around what has failed with the
next announcement at the latest.

**Only on demand.** An announcement may say that its author *wants* routes, since it has a call to
make (`calls`) or a bandit that remembers units. Agents announce themselves as long as anyone does,
and so a fleet that uses neither sends nothing.

**Bounded.** Announcements come at intervals that grow with the number of agents, so that a link
carries `ANNOUNCEMENTS` a second, and soon after links have changed. When a link comes up, both ends
send what they have as pairs of number and version, and ask for what they lack. There are at most
`max_agents` members. Members that were not heard for some intervals are dropped; intervals are
counted in beats, so a clock that is set does not drop everyone.

A liar cannot announce others, nor keep them: versions are signed. It can pass announcements on
faster than others, and drop what is then routed through it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import msgspec

from coopbandits.core.errors import InputError
from coopbandits.fleet.identity.notary import (
    FINGERPRINT,
    PROOF,
    Notary,
    is_intermediate,
    pack,
    unpack,
)
from coopbandits.fleet.protocol.frames import UNREADABLE
from coopbandits.fleet.ratelimit import Allowance

if TYPE_CHECKING:
    from coopbandits.fleet.protocol.node import Node
    from coopbandits.fleet.protocol.peers import Peer

ANNOUNCEMENTS = 5.0
"""Announcements a second over one link, all authors together."""

BEAT = 0.9
"""Seconds of one beat, at least; but a clock that is set makes one only."""

LEAST_INTERVAL = 5.0
"""Beats between two announcements of one agent in a small fleet."""

LIVES = 3.5
"""Intervals after which a member that was not heard is dropped."""

APART = 2
"""Beats between two announcements of one agent, at least; but for those that cannot wait."""

MOST_FRESH = 3
"""Announcements of one author that are read in a beat: each takes a signature to check."""

WANTED = 600
"""Beats for which routes are kept up after the last call."""

SETTLING, ALONE = 3, 10
"""Beats with a link, and without any, after which the members are known."""

BATCH, MOST_LISTED = 10, 3000
"""Announcements, and pairs of a digest, in one message."""

MOST_CERTIFICATES = 4 * BATCH
"""Certificates in one message: those of authors, and intermediates."""

PAIR, NUMBER = struct.Struct("<QQ"), struct.Struct("<Q")

MOST_CERTIFIED = 1 << 15
"""Bytes of certificates in one message; those of a single author are fewer."""

READ_RATE, READ_BURST = 200.0, 5000.0
"""Announcements and pairs that are read from one neighbour."""

TOLD = 3.0
"""How often one neighbour may tell of as many agents as there may be, at once: when a link comes up
it lists them, is asked for them, and sends them."""

FALSE_RATE, FALSE_BURST = 1.0, 32.0
"""Certificates that cannot be used, of those looked at from one neighbour: each takes time."""


class Announcement(msgspec.Struct, frozen=True, array_like=True):
    """An agent announces itself.

    Attributes
    ----------
    version : int
        Grows with every announcement of an agent, over all its lives.
    wants : bool
        Whether it needs routes.
    left : bool
        Whether it is about to stop.
    proof : bytes
        Its signature.
    """

    name: Annotated[str, msgspec.Meta(max_length=255)]
    version: Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
    wants: bool
    left: bool
    proof: Annotated[bytes, msgspec.Meta(max_length=PROOF)]

    @property
    def form(self) -> bytes:
        """What its author signs."""
        parts = self.name, self.version, self.wants, self.left
        return b"member" + msgspec.msgpack.encode(parts)

    @property
    def fingerprint(self) -> bytes:
        return self.proof[:FINGERPRINT]


class News(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message to a neighbour.

    Attributes
    ----------
    announcements : list of Announcement
        What it may not have heard yet.
    certificates : bytes
        Those behind the announcements that were not sent over this link yet.
    digest : bytes
        What the sender has: pairs of an agent's number and its version.
    asks : bytes
        Numbers of the agents whose announcements the receiver is to send.
    """

    announcements: Annotated[list[Announcement], msgspec.Meta(max_length=BATCH)] = []
    certificates: bytes = b""
    digest: bytes = b""
    asks: bytes = b""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(News).decode


@dataclass
class Member:
    """Another agent, as it has announced itself.

    Attributes
    ----------
    heard : int
        The beat in which its newest announcement came.
    hops : list of str
        The neighbours that have it, in the order in which it came from them.
    fresh : int
        How many announcements of it were read in that beat.
    """

    announcement: Announcement
    number: int
    heard: int
    hops: list[str]
    fresh: int = 1


class Routes:
    """The members and routes of one agent.

    Parameters
    ----------
    node : Node
        Has the links.
    notary : Notary
        Signs announcements.
    most : int
        How many agents there may be.

    Attributes
    ----------
    members : dict of str to Member
        All other agents, also those that have left until they are forgotten.
    always : bool
        Whether routes are needed even without calls.
    generation : int
        Grows when an agent comes or goes.
    found : callable
        Called with the id of an agent to which there is a route now.
    """

    def __init__(self, node: Node, notary: Notary, most: int) -> None:
        self.node, self.notary, self.most = node, notary, most
        self.members: dict[str, Member] = {}
        self.always = False
        self.generation = 0
        self.found: Callable[[str], None] = lambda _: None
        self._names: dict[int, str] = {}
        self._number = node.settings.number_of(node.settings.node)
        self._own: Announcement | None = None
        self._beat = self._version = self._announced = 0
        self._due, self._next_beat = math.inf, 0.0
        self._wanted_until = -1
        self._linked_since: int | None = None
        self._active_since: int | None = None
        self._certified: dict[str, set[bytes]] = {}  # fingerprints sent over each link
        self._allowances: dict[str, Allowance] = {}
        self._patience: dict[str, Allowance] = {}
        self._started, self._seen = node.now, dict[str, float]()
        notary.holders.add(self)

    def fingerprints(self) -> set[bytes]:
        """Return the fingerprints of the certificates behind all announcements."""
        return {each.announcement.fingerprint for each in self.members.values()}

    # What is known

    def next_hop(self, name: str) -> str | None:
        """Return the neighbour over which an agent is reached; None if that is unknown."""
        peers = self.node.peers
        if name in peers and peers[name].met:
            return name
        member = self.members.get(name)
        if member is None or member.announcement.left:
            return None
        return next((hop for hop in member.hops if hop in peers and peers[hop].met), None)

    def fingerprint_of(self, name: str) -> bytes | None:
        """Return the fingerprint of a member's certificate, while that is trusted."""
        member = self.members.get(name)
        found = None if member is None else member.announcement.fingerprint
        return found if found in self.notary.authors else None

    def present(self) -> list[str]:
        """Return the agents that are there, this one among them."""
        others = [name for name, each in self.members.items() if not each.announcement.left]
        return sorted([self.node.settings.node, *others])

    def note_seen(self, name: str) -> None:
        """Note that an agent is there."""
        self._seen.pop(name, None)
        self._seen[name] = self.node.now
        if len(self._seen) > self.most:
            del self._seen[next(iter(self._seen))]

    def seconds_away(self, name: str) -> float:
        """Return the time since an agent was last seen, or since the start."""
        return self.node.now - self._seen.get(name, self._started)

    @property
    def is_settled(self) -> bool:
        """Whether the members are known, as far as agents can be reached."""
        if self.node.members is None and not self.node.peers:
            return True
        if self._active_since is None:
            return False
        if self._linked_since is None:
            return self._beat >= self._active_since + ALONE
        return self._beat >= max(self._linked_since, self._active_since) + SETTLING

    @property
    def wants(self) -> bool:
        return self.always or self._beat <= self._wanted_until

    @property
    def _is_active(self) -> bool:
        """Whether this agent or another one wants routes."""
        return self.wants or any(each.announcement.wants for each in self.members.values())

    @property
    def interval(self) -> float:
        """Beats between two announcements of an agent."""
        return max(LEAST_INTERVAL, (1 + len(self.members)) / ANNOUNCEMENTS)

    def want(self) -> None:
        """Keep up routes for a while."""
        self._wanted_until = self._beat + WANTED
        if self._own is None or not self._own.wants or self._due == math.inf:
            self._announce()

    # Announcing

    def tick(self) -> None:
        """Drop members that are gone, and announce this agent if it is time; once per beat."""
        if self.node.now < self._next_beat:
            return
        self._beat, self._next_beat = self._beat + 1, self.node.now + BEAT
        oldest = self._beat - LIVES * self.interval
        for name in [name for name, each in self.members.items() if each.heard < oldest]:
            self._drop(name)
        if not self._is_active:
            self._due, self._active_since = math.inf, None
        elif self._due == math.inf or self._beat >= self._due or self._has_new_key:
            self._announce()

    @property
    def _has_new_key(self) -> bool:
        return self._own is not None and self._own.fingerprint != self.notary.fingerprint

    def leave(self) -> None:
        """Announce that this agent is about to stop."""
        if self._is_active:
            self._announce(left=True)

    def _announce(self, *, left: bool = False) -> None:
        self._version = max(self._version + 1, int(1000 * self.node.now))
        plain = Announcement(self.node.settings.node, self._version, self.wants, left, b"")
        self._own = own = msgspec.structs.replace(plain, proof=self.notary.sign(plain.form))
        self._announced = self._beat
        if self._active_since is None:
            self._active_since = self._beat
        # Not all at the same time, although all may have begun together.
        share = ((self._number + self._version) * 0x9E3779B1 >> 8) % 1024 / 1024
        self._due = self._beat + self.interval * (0.75 + 0.5 * share)
        for peer in self._linked():
            self._send(peer, [own])

    def _soon(self) -> None:
        """Announce this agent with one of the next beats: its links have changed."""
        self._due = min(self._due, max(self._beat + 1, self._announced + APART))

    # Links

    def _linked(self) -> list[str]:
        return [peer.name for peer in self.node.peers.values() if peer.met]

    def link_up(self, peer: str) -> None:
        """Send what is known to a neighbour that has said HELLO."""
        self._certified[peer] = set()
        if self._linked_since is None:
            self._linked_since = self._beat
        if self._is_active:
            everyone = [(each.number, each.announcement.version) for each in self.members.values()]
            if self._own is not None:
                everyone.append((self._number, self._own.version))
            for at in range(0, len(everyone), MOST_LISTED):
                pairs = everyone[at : at + MOST_LISTED]
                self._post(peer, News(digest=b"".join(PAIR.pack(*pair) for pair in pairs)))
            self._soon()

    def link_down(self, peer: str) -> None:
        """Use other routes."""
        self._certified.pop(peer, None)
        self._allowances.pop(peer, None)
        self._patience.pop(peer, None)
        for member in self.members.values():
            if peer in member.hops:
                member.hops.remove(peer)
        if self._due != math.inf:
            self._soon()

    def avoid(self, name: str, hop: str) -> None:
        """Try other neighbours first: this one has no route to an agent at the moment."""
        member = self.members.get(name)
        if member is not None and hop in member.hops:
            member.hops.remove(hop)
            member.hops.append(hop)

    def _send(self, peer: str, announcements: list[Announcement]) -> None:
        """Send announcements, with certificates that were not sent over this link."""
        sent = self._certified.setdefault(peer, set())
        fresh = {each.fingerprint for each in announcements} - sent
        found = [known for each in sorted(fresh) if (known := self.notary.authors.get(each))]
        issuers = dict.fromkeys(issuer for author in found for issuer in author.intermediates)
        certificates = [*issuers, *(author.certificate for author in found)]
        size, half = sum(map(len, certificates)), len(announcements) // 2
        if half and (size > MOST_CERTIFIED or len(certificates) > MOST_CERTIFICATES):
            self._send(peer, announcements[:half])
            self._send(peer, announcements[half:])
            return
        sent |= fresh
        self._post(peer, News(announcements, pack(certificates)))

    def _post(self, peer: str, news: News) -> None:
        self.node.send_routes(peer, _encode(news))

    # What arrives

    def received(self, link: Peer, body: bytes) -> None:
        """Handle a neighbour's message."""
        try:
            news = _decode(body)
            if len(news.digest) % PAIR.size or len(news.asks) % NUMBER.size:
                raise InputError("pairs or numbers that end too early")
            certificates = unpack(news.certificates)
            if len(certificates) > MOST_CERTIFICATES:
                raise InputError(f"{len(certificates)} certificates for {BATCH} announcements")
        except (InputError, *UNREADABLE) as error:
            self.node.refuse(link, "routes", f"announcements that cannot be read: {error}")
            return
        size = len(news.announcements) + len(news.digest) // PAIR.size
        burst = max(READ_BURST, TOLD * self.most)
        allowance = self._allowances.setdefault(link.name, Allowance(READ_RATE, burst))
        if not allowance.grant(self.node.now, size + len(news.asks) // NUMBER.size):
            self.node.refuse(link, "routes", "announcements come faster than agents send them")
            return
        for each in news.announcements:
            self._hear(link, each, certificates)
        self._compare(link, PAIR.iter_unpack(news.digest))
        self._reply(link, [number for (number,) in NUMBER.iter_unpack(news.asks)])

    def _hear(self, link: Peer, new: Announcement, certificates: list[bytes]) -> None:
        node, known = self.node, self.members.get(new.name)
        is_own = new.name == node.settings.node
        version = self._version if is_own else known.announcement.version if known else -1
        if new.version < version or node.bars(new.name):
            return
        if new.version == version:
            self._add_hop(new.name, link.name)
            return
        if known is None:
            number = node.settings.number_of(new.name)
            if not is_own and (number in self._names or len(self.members) + 1 >= self.most):
                return
        elif known.heard == self._beat and known.fresh >= MOST_FRESH:
            return
        try:
            if not self._is_proven(link, new, certificates):
                return
        except InputError as error:
            node.refuse(link, "forged", str(error))
            return
        if is_own:  # of a former life, whose clock was ahead
            self._version = new.version
            self._soon()
            return
        self._note(link, new, known)

    def _is_proven(self, link: Peer, new: Announcement, certificates: list[bytes]) -> bool:
        """Check an announcement's signature; ask for the certificate where it is missing.

        An honest neighbour may trust other authorities than this agent, and believe a key under
        another of its ids. It never passes on what the author has not signed.
        """
        notary = self.notary
        if not notary.knows(new.fingerprint):
            given = {notary.fingerprint_of(each): each for each in certificates}
            if new.fingerprint not in given:  # sent before, and forgotten here
                number = self.node.settings.number_of(new.name)
                self._post(link.name, News(asks=NUMBER.pack(number)))
                return False
            if not self._can_use(link, given[new.fingerprint], certificates):
                return False
        author = notary.author(new.proof)
        if author is None or new.name not in author.names or not notary.holds(new.form, new.proof):
            raise InputError(f"an announcement of {new.name} that it has not signed")
        if notary.is_bound(author, new.name):
            return False
        notary.bind(author, new.name)
        return not author.names & self.node.revoked

    def _can_use(self, link: Peer, certificate: bytes, certificates: list[bytes]) -> bool:
        """Keep an author's certificate; return whether there is a path to it."""
        patience = self._patience.setdefault(link.name, Allowance(FALSE_RATE, FALSE_BURST))
        if not patience.grant(self.node.now):
            return False
        for each in certificates:
            if is_intermediate(each):
                self.notary.learn(each)
        try:
            self.notary.learn(certificate)
        except InputError as error:
            self.node.refuse(link, "routes", str(error))
            return False
        patience.refund()
        return True

    def _note(self, link: Peer, new: Announcement, known: Member | None) -> None:
        """Keep an announcement, and pass it on."""
        was_active = self._is_active
        self.note_seen(new.name)
        was_present = known is not None and not known.announcement.left
        if was_present == new.left:
            self.generation += 1
        if known is None:
            number = self.node.settings.number_of(new.name)
            self.members[new.name] = Member(new, number, self._beat, [link.name])
            self._names[number] = new.name
        else:
            known.fresh = known.fresh + 1 if known.heard == self._beat else 1
            known.announcement, known.heard, known.hops = new, self._beat, [link.name]
        for peer in self._linked():
            if peer != link.name:
                self._send(peer, [new])
        if new.wants and not was_active:
            self._announce()
        self.found(new.name)

    def _add_hop(self, name: str, hop: str) -> None:
        member = self.members.get(name)
        if member is not None and hop not in member.hops:
            member.hops.append(hop)
            self.found(name)

    def _compare(self, link: Peer, pairs: Iterable[tuple[int, ...]]) -> None:
        """Ask for what a neighbour has that is newer or unknown here."""
        asks = []
        for number, version in pairs:
            if number == self._number:
                own = self._version
            elif number in self._names:
                name = self._names[number]
                own = self.members[name].announcement.version
                if own == version:
                    self._add_hop(name, link.name)
            else:
                own = -1
            if version > own:
                asks.append(NUMBER.pack(number))
        if asks:
            self._post(link.name, News(asks=b"".join(asks)))

    def _reply(self, link: Peer, numbers: Iterable[int]) -> None:
        """Send announcements that a neighbour lacks, with their certificates."""
        found = []
        for number in numbers:
            if number in self._names:
                found.append(self.members[self._names[number]].announcement)
            elif number == self._number and self._own is not None:
                found.append(self._own)
        sent = self._certified.setdefault(link.name, set())
        sent -= {each.fingerprint for each in found}
        for at in range(0, len(found), BATCH):
            self._send(link.name, found[at : at + BATCH])

    # Ends

    def _drop(self, name: str) -> None:
        member = self.members.pop(name)
        del self._names[member.number]
        self.generation += 1

    def drop_barred(self) -> None:
        """Forget agents that are revoked, or no members any more."""
        revoked = self.node.revoked
        for name, member in list(self.members.items()):
            author = self.notary.author(member.announcement.proof)
            if self.node.bars(name) or (author and author.names & revoked):
                self._drop(name)
