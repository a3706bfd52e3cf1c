"""Calls of another agent of the fleet, over the links that are there.

    origin --CALL--> relay --CALL--> destination
    origin <-ANSWER- relay <-ANSWER- destination

The origin seals a call for its destination and keeps it in memory until the answer comes or the
time is up. Whoever is on the way sends it on to the next hop (`routes`), and remembers nothing. The
destination unseals it, has it served (`service.forwarding`), and its answer waits for the disk like
everything that a crash could undo. So an answer means that the effect is on the destination's disk,
and a call without an answer can be repeated: calls are idempotent.

Frames may be lost with a link, so the origin sends a call again after `AGAIN` seconds, sealed
again. A relay without a route says so, and the origin tries another neighbour.

What relays can do is bounded. They cannot read, change or answer a call, since both directions are
sealed. They can drop it, or repeat it: every neighbour has an allowance, and frames have a limit of
hops. A call is known by the tag of what is sealed in it, which no one off the way can guess.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Annotated

import msgspec

from coopbandits.fleet.identity.notary import TAG, Notary
from coopbandits.fleet.protocol.frames import UNREADABLE
from coopbandits.fleet.protocol.routes import Routes
from coopbandits.fleet.ratelimit import Allowance

if TYPE_CHECKING:
    from coopbandits.fleet.protocol.node import Node
    from coopbandits.fleet.protocol.peers import Peer

AGAIN = 0.4
"""Seconds until a call without an answer is sent again."""

MAX_HOPS = 64
"""Links that a frame may pass: a route may lead in a circle while links change."""

MAX_SEALED = 1 << 14
"""Bytes of a sealed call or answer."""

MAX_PLAIN = MAX_SEALED - 64
"""Bytes of a call before it is sealed."""

RELAY_RATE, RELAY_BURST = 2000.0, 4000.0
"""KiB, begun ones included, of calls and answers a second from one neighbour."""

LINGER = 2.0
"""Seconds after a call or an answer in which others are to be expected."""

NO_ROUTE, UNREADABLE_CALL = "no route", "unreadable"
"""Problems: why a relay, or the destination, does not answer."""

Serve = Callable[[str, bytes], bytes]
"""Serves a call of an agent; returns the answer."""

Then = Callable[[bytes | None], None]
"""Called with the answer to a call, or None if there was none in time."""

Name = Annotated[str, msgspec.Meta(max_length=255)]
Hops = Annotated[int, msgspec.Meta(ge=0, le=MAX_HOPS)]
Sealed = Annotated[bytes, msgspec.Meta(max_length=MAX_SEALED)]


class Call(msgspec.Struct, frozen=True, array_like=True):
    """A call that only its destination can read."""

    origin: Name
    destination: Name
    hops: Hops
    sealed: Sealed

    @property
    def tag(self) -> bytes:
        return self.sealed[-TAG:]


class Answer(msgspec.Struct, frozen=True, array_like=True):
    """The answer to a call, on its way to the agent that made it; sealed unless a problem."""

    origin: Name
    destination: Name
    hops: Hops
    call: Annotated[bytes, msgspec.Meta(max_length=TAG)]
    problem: Annotated[str, msgspec.Meta(max_length=16)] = ""
    sealed: Sealed = b""


_encode = msgspec.msgpack.Encoder().encode
_decode_call = msgspec.msgpack.Decoder(Call).decode
_decode_answer = msgspec.msgpack.Decoder(Answer).decode


def _about(*parts: str | bytes) -> bytes:
    """Return what a seal covers besides the content."""
    return _encode(parts)


@dataclass(eq=False)
class Pending:
    """A call that waits for its answer.

    Attributes
    ----------
    due, again : float
        When it is given up, and when it is sent again.
    hop : str
        The neighbour that has it.
    tags : list of bytes
        Of all times that it was sent.
    """

    destination: str
    plain: bytes
    then: Then
    due: float
    again: float = 0.0
    hop: str = ""
    tags: list[bytes] = field(default_factory=list)


class Calls:
    """The calls that one agent makes, relays and serves.

    Parameters
    ----------
    node : Node
        Has the links.
    routes : Routes
        Know the way.
    notary : Notary
        Seals.

    Attributes
    ----------
    pending : list of Pending
        Calls of this agent without an answer, in order.
    serve : callable
        Serves calls of others.
    served : int
        How many were served.
    relayed : Counter
        Frames of others, by what became of them: "passed" or "dropped".
    """

    def __init__(self, node: Node, routes: Routes, notary: Notary) -> None:
        self.node, self.routes, self.notary = node, routes, notary
        self.name = node.settings.node
        self.pending: list[Pending] = []
        self.serve: Serve | None = None
        self.served = 0
        self.relayed: Counter[str] = Counter(passed=0, dropped=0)
        self._by_tag: dict[bytes, Pending] = {}
        self._allowances: dict[str, Allowance] = {}
        self._used = -math.inf
        self._failed: dict[str, int] = {}  # versions of members that did not answer in time
        routes.found = self._found

    # Making calls

    def begin(self, destination: str, plain: bytes, now: float, seconds: float, then: Then) -> None:
        """Call another agent; `then` follows within so many seconds."""
        self.node.now = now
        self.routes.want()
        self._used = now
        call = Pending(destination, plain, then, now + seconds)
        self.pending.append(call)
        self._attempt(call)

    def is_away(self, name: str) -> bool:
        """Return whether an agent has not answered the last call, and was not heard since."""
        member = self.routes.members.get(name)
        return member is not None and self._failed.get(name) == member.announcement.version

    @property
    def is_lively(self) -> bool:
        """Whether calls or answers are to be expected, which should be read at once."""
        return self.node.now < self._used + LINGER

    @property
    def next_due(self) -> float:
        """The time at which a call is to be sent again or given up, where one is pending."""
        return min(min(each.due, each.again) for each in self.pending)

    def tick(self, now: float) -> None:
        """Send calls again that have no answer, or give them up."""
        for call in list(self.pending):
            if now >= call.due:
                member = self.routes.members.get(call.destination)
                if member is not None:
                    self._failed[call.destination] = member.announcement.version
                self._end(call, None)
            elif now >= call.again:
                self._attempt(call)
        for name in self._failed.keys() - self.routes.members.keys():
            del self._failed[name]

    def _attempt(self, call: Pending) -> None:
        """Send a call, or wait for a route."""
        hop = self.routes.next_hop(call.destination)
        fingerprint = self.routes.fingerprint_of(call.destination)
        call.again = self.node.now + AGAIN
        if hop is None or fingerprint is None:
            call.hop = ""
            return
        about = _about("call", self.name, call.destination)
        sealed = self.notary.seal(fingerprint, call.plain, about)
        message = Call(self.name, call.destination, MAX_HOPS, sealed)
        call.hop = hop
        call.tags.append(message.tag)
        self._by_tag[message.tag] = call
        self.node.send_call(hop, _encode(message))

    def _found(self, name: str) -> None:
        """Send the calls that have waited for a route to an agent."""
        for call in self.pending:
            if call.destination == name and not call.hop:
                self._attempt(call)

    def _end(self, call: Pending, answer: bytes | None) -> None:
        self.pending.remove(call)
        for tag in call.tags:
            del self._by_tag[tag]
        self.node.resume(partial(call.then, answer))

    def abandon(self) -> None:
        """Give up all calls at once: nothing is sent or read any more."""
        pending, self.pending, self._by_tag = self.pending, [], {}
        for call in pending:
            call.then(None)

    # Relaying and serving

    def link_down(self, peer: str) -> None:
        """Send calls over other links."""
        self._allowances.pop(peer, None)
        for call in self.pending:
            if call.hop == peer:
                call.again, call.hop = self.node.now, ""

    def _is_allowed(self, link: Peer, body: bytes) -> bool:
        allowance = self._allowances.setdefault(link.name, Allowance(RELAY_RATE, RELAY_BURST))
        if allowance.grant(self.node.now, 1 + len(body) // 1024):
            self._used = self.node.now
            return True
        self.relayed["dropped"] += 1
        return False

    def heard_call(self, link: Peer, body: bytes) -> None:
        """Serve a call, or pass it on."""
        if not self._is_allowed(link, body):
            return
        try:
            call = _decode_call(body)
        except UNREADABLE as error:
            self.node.refuse(link, "call", f"a call that cannot be read: {error}")
            return
        if call.destination == self.name:
            self._serve(link, call)
            return
        hop = self.routes.next_hop(call.destination)
        if hop is None or hop == link.name:
            self._report(link, call, NO_ROUTE)
        elif call.hops == 0:
            self.relayed["dropped"] += 1
        else:
            self.relayed["passed"] += 1
            self.node.send_call(hop, _encode(msgspec.structs.replace(call, hops=call.hops - 1)))

    def _report(self, link: Peer, call: Call, problem: str) -> None:
        """Return a problem the way that the call came."""
        if problem == NO_ROUTE:
            self.relayed["dropped"] += 1
        answer = Answer(self.name, call.origin, MAX_HOPS, call.tag, problem)
        self.node.send_answer(link.name, _encode(answer), waits=False)

    def _serve(self, link: Peer, call: Call) -> None:
        if self.node.bars(call.origin) or self.serve is None:
            return
        fingerprint = self.routes.fingerprint_of(call.origin)
        about = _about("call", call.origin, self.name)
        plain = fingerprint and self.notary.unseal(fingerprint, call.sealed, about)
        if not fingerprint or plain is None:  # its certificate is not known here, or renewed
            self._report(link, call, UNREADABLE_CALL)
            return
        self.served += 1
        reply = self.serve(call.origin, plain)
        about = _about("answer", self.name, call.origin, call.tag)
        sealed = self.notary.seal(fingerprint, reply, about)
        answer = Answer(self.name, call.origin, MAX_HOPS, call.tag, "", sealed)
        self.node.send_answer(link.name, _encode(answer), waits=True)

    def heard_answer(self, link: Peer, body: bytes) -> None:
        """End a call, or pass the answer on."""
        if not self._is_allowed(link, body):
            return
        try:
            answer = _decode_answer(body)
        except UNREADABLE as error:
            self.node.refuse(link, "call", f"an answer that cannot be read: {error}")
            return
        if answer.destination == self.name:
            call = self._by_tag.get(answer.call)
            if call is not None:
                self._hear(call, answer)
            return
        hop = self.routes.next_hop(answer.destination)
        if hop is None or hop == link.name or answer.hops == 0:
            self.relayed["dropped"] += 1
            return
        self.relayed["passed"] += 1
        passed = msgspec.structs.replace(answer, hops=answer.hops - 1)
        self.node.send_answer(hop, _encode(passed), waits=False)

    def _hear(self, call: Pending, answer: Answer) -> None:
        if answer.problem:
            if answer.problem == NO_ROUTE and call.tags[-1] == answer.call and call.hop:
                self.routes.avoid(call.destination, call.hop)
                hop = self.routes.next_hop(call.destination)
                if hop is None or hop == call.hop:
                    call.hop = ""  # until there is a route, or it is time to try again
                else:
                    self._attempt(call)
            return
        fingerprint = self.routes.fingerprint_of(call.destination)
        about = _about("answer", call.destination, self.name, answer.call)
        plain = fingerprint and self.notary.unseal(fingerprint, answer.sealed, about)
        if plain is not None and fingerprint:
            self._failed.pop(call.destination, None)
            self.routes.note_seen(call.destination)
            self._end(call, plain)
