"""The checks of a transport: agents that only talk write down what it tells each of them.

What it does with links, bytes and strangers is compared with what was sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from coopbandits.fleet.transport import Transport

MakeTransport = Callable[[str, tuple[str, ...]], Transport]
"""From an agent's id and its neighbours' ids to a transport that has not been started."""

STEP = 0.002
"""Seconds between two looks at whether something has happened."""

CALM = 0.05
"""Seconds in which something that must not happen is given the chance to."""


class TransportCheckError(AssertionError):
    """A transport breaks the contract: the message names the check, what happened, what should."""


def finding(did: str, expected: str) -> TransportCheckError:
    """Return the error for something a transport did, on one line whatever was printed in it."""
    return TransportCheckError(" ".join(f"{did}; expected is {expected}".split()))


@dataclass
class Witness:
    """Writes down the events of one agent, and whether they come in an order that makes sense."""

    node: str
    up: set[str] = field(default_factory=set)
    ups: list[str] = field(default_factory=list)
    downs: list[tuple[str, str]] = field(default_factory=list)
    refusals: list[tuple[str, str]] = field(default_factory=list)
    heard: dict[str, bytearray] = field(default_factory=dict)
    events: int = 0
    wrong: list[str] = field(default_factory=list)

    def link_up(self, peer: str) -> None:
        """Begin to listen afresh."""
        self._expect(peer not in self.up, f"link_up({peer!r}) came while that link was up")
        self.up.add(peer)
        self.ups.append(peer)
        self.heard[peer] = bytearray()

    def received(self, peer: str, data: bytes) -> None:
        """Add to what was heard on this link."""
        good = isinstance(data, bytes) and peer in self.up
        self._expect(good, f"received({peer!r}, …) came without a link, or not with bytes")
        self.heard.setdefault(peer, bytearray()).extend(data)

    def link_down(self, peer: str, reason: str) -> None:
        """Stop listening."""
        self._expect(peer in self.up, f"link_down({peer!r}, …) came while that link was down")
        self.up.discard(peer)
        self.downs.append((peer, reason))

    def refused(self, who: str, reason: str) -> None:
        """Write it down."""
        self._expect(True, "")
        self.refusals.append((who, reason))

    def _expect(self, good: bool, did: str) -> None:
        self.events += 1
        if not good:
            self.wrong.append(f"{did} (at {self.node})")


@dataclass
class Party:
    """An agent with a transport, and what it was told."""

    node: str
    transport: Transport
    witness: Witness
    running: bool = True


class Meeting:
    """Some agents on one network, stopped at the end whatever happens."""

    def __init__(self, make: MakeTransport, patience: float) -> None:
        self.make, self.patience = make, patience
        self.parties: list[Party] = []

    async def __aenter__(self) -> Meeting:
        return self

    async def __aexit__(self, *_: object) -> None:
        for party in self.parties:
            if party.running:
                await self.stop(party)

    async def join(self, node: str, *neighbors: str) -> Party:
        """Start an agent."""
        party = Party(node, self.make(node, neighbors), Witness(node))
        self.parties.append(party)
        await self.soon(party.transport.start(party.witness), f"start of {node}")
        return party

    async def stop(self, party: Party) -> None:
        """Stop an agent."""
        party.running = False
        await self.soon(party.transport.stop(), f"stop of {party.node}")

    async def pair(self) -> tuple[Party, Party]:
        """Start two neighbours and wait for their link."""
        alpha = await self.join("alpha", "beta")
        beta = await self.join("beta", "alpha")
        await self.linked(alpha, beta)
        return alpha, beta

    async def linked(self, one: Party, other: Party) -> None:
        """Wait until both ends of a link are up."""
        await self.until(
            lambda: other.node in one.witness.up and one.node in other.witness.up,
            f"no link between {one.node} and {other.node}",
            "link_up at both ends",
        )

    async def down(self, party: Party, times: int, did: str) -> None:
        """Wait until an agent has seen so many links go down."""
        missing = f"{did}, but no link_down at {party.node}"
        await self.until(
            lambda: len(party.witness.downs) >= times, missing, "one link_down at both ends"
        )

    async def soon(self, work: Coroutine[Any, Any, None], what: str) -> None:
        """Wait for a coroutine of the transport."""
        try:
            await asyncio.wait_for(work, self.patience)
        except TimeoutError:
            did = f"{what} did not return within {self.patience} s"
            raise finding(did, "that it returns") from None

    async def until(self, condition: Callable[[], bool], did: str, expected: str) -> None:
        """Wait until something has happened."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self.patience
        while not condition():
            self.expect_order()
            if loop.time() > end:
                raise finding(f"{did} within {self.patience} s", expected)
            await asyncio.sleep(STEP)
        self.expect_order()

    async def calm(self) -> None:
        """Let some time pass."""
        await asyncio.sleep(CALM)
        self.expect_order()

    def expect_order(self) -> None:
        """Expect that nobody was told anything out of order."""
        for party in self.parties:
            for did in party.witness.wrong:
                raise finding(did, "up, received any number of times, down, and so on")


SIZES = (1, 2, 3, 7, 100, 1000, 4096, 65535, 65536, 65537, 1 << 20)
"""Messages of so many bytes are sent; a link must take the last one when nothing waits."""

CHUNK = 1 << 16
MANY = 1 << 10
"""So many chunks are too much for any link whose other end is not reading."""


def pattern(start: int, size: int) -> bytes:
    """Return a piece of an endless text in which no two neighbouring blocks are alike."""
    first = start % 251
    return (bytes(range(251)) * (size // 251 + 2))[first : first + size]


async def one_link(meeting: Meeting) -> None:
    """Two neighbours have one link: up at both ends exactly once, whoever was started first."""
    for first, second in (("alpha", "beta"), ("beta", "alpha")):
        one = await meeting.join(first, second)
        await meeting.calm()
        other = await meeting.join(second, first)
        await meeting.linked(one, other)
        await meeting.calm()
        for party in (one, other):
            witness = party.witness
            if len(witness.ups) != 1 or witness.downs or witness.refusals:
                did = f"{party.node} saw {len(witness.ups)} times up, {len(witness.downs)} down, "
                did += f"{len(witness.refusals)} refusals"
                raise finding(did, "one link_up and nothing else")
        for party in (one, other):
            await meeting.stop(party)


async def bytes_in_order(meeting: Meeting) -> None:
    """Bytes arrive complete and in order in both directions, from single ones to a megabyte."""
    pair = await meeting.pair()
    sent = 0
    for sizes in (SIZES[:-1], SIZES[-1:]):
        for size in sizes:
            _exchange(pair, pattern(sent, size))
            sent += size
            await asyncio.sleep(0)
        await _expect_heard(meeting, *pair, pattern(0, sent))
        await _expect_heard(meeting, *pair[::-1], pattern(0, sent))


def _exchange(pair: tuple[Party, Party], data: bytes) -> None:
    for one, other in (pair, pair[::-1]):
        if one.transport.send(other.node, data) is not True:
            did = f"send of {len(data)} bytes over a link that is up did not return True"
            raise finding(did, "True")


async def _expect_heard(meeting: Meeting, one: Party, other: Party, text: bytes) -> None:
    def heard() -> bytearray:
        return other.witness.heard.get(one.node, bytearray())

    did = f"{other.node} did not hear all of {len(text)} bytes"
    await meeting.until(lambda: len(heard()) >= len(text), did, "all of them")
    if heard() != text:
        raise finding(f"{other.node} heard other bytes than {one.node} sent", "the same in order")


async def several_neighbors(meeting: Meeting) -> None:
    """Every neighbour has a link of its own, and bytes say whose they are."""
    alpha = await meeting.join("alpha", "beta", "gamma")
    beta = await meeting.join("beta", "alpha", "gamma")
    gamma = await meeting.join("gamma", "alpha", "beta")
    parties = (alpha, beta, gamma)
    links = [(one, other) for one in parties for other in parties if one is not other]
    for one, other in links:
        await meeting.linked(one, other)
    for number in range(50):
        for one, other in links:
            one.transport.send(other.node, f"{one.node} to {other.node} {number};".encode())
        await asyncio.sleep(0)
    for one, other in links:
        text = "".join(f"{one.node} to {other.node} {number};" for number in range(50))
        await _expect_heard(meeting, one, other, text.encode())


async def nobody_there(meeting: Meeting) -> None:
    """`send` to somebody without a link returns False, and `drop` of them does nothing."""
    alpha = await meeting.join("alpha", "beta")
    for peer in ("beta", "gamma", "alpha", ""):
        if alpha.transport.send(peer, b"hello") is not False:
            raise finding(f"send to {peer!r}, with whom there is no link, was not False", "False")
        alpha.transport.drop(peer, "no reason")
    await meeting.calm()
    if alpha.witness.ups or alpha.witness.downs:
        raise finding("there were links with nobody", "no event")


async def drop_and_return(meeting: Meeting) -> None:
    """`drop` at either end leads to one `link_down` at both; then the link comes up again.

    No event comes out of `drop` itself: whoever calls it is in the middle of something.
    """
    pair = await meeting.pair()
    for turn, party in enumerate(pair, start=1):
        other = pair[turn % 2]
        party.transport.drop(other.node, "for a reason")
        if len(party.witness.downs) == turn:
            raise finding("link_down came before drop had returned", "an event of its own")
        for end in pair:
            await meeting.down(end, turn, f"{party.node} dropped its link")
        if party.witness.downs[-1] != (other.node, "for a reason"):
            did = f"link_down told {party.witness.downs[-1]}"
            raise finding(did, "the reason that drop was given")
        await meeting.linked(*pair)
        _exchange(pair, b"after drop")
        await _expect_heard(meeting, *pair, b"after drop")
        await meeting.calm()
        if any(len(end.witness.downs) != turn for end in pair):
            raise finding("one drop took several links down", "one link_down at both ends")


async def restart(meeting: Meeting) -> None:
    """Either end may stop and come back: a link goes down at the other end, and up at both."""
    alpha, beta = await meeting.pair()
    for _ in range(2):
        await meeting.stop(alpha)
        await meeting.down(beta, len(beta.witness.ups), f"{alpha.node} stopped")
        alpha = await meeting.join(alpha.node, beta.node)
        await meeting.linked(alpha, beta)
        _exchange((alpha, beta), b"once more")
        await _expect_heard(meeting, alpha, beta, b"once more")
        await _expect_heard(meeting, beta, alpha, b"once more")
        alpha, beta = beta, alpha


async def stop_ends_everything(meeting: Meeting) -> None:
    """After `stop`, no task runs, no event comes, `send` returns False; again it is harmless."""
    before = asyncio.all_tasks()
    alone = await meeting.join("gamma", "alpha")
    await meeting.stop(alone)
    pair = await meeting.pair()
    for party, other in (pair, pair[::-1]):
        other.transport.send(party.node, b"too late")
        await meeting.stop(party)
        events = party.witness.events
        await meeting.calm()
        await meeting.stop(party)
        if party.witness.events != events:
            raise finding(f"events came to {party.node} after stop had returned", "none")
        if party.transport.send(other.node, b"too late") is not False:
            raise finding("send after stop did not return False", "False")
    left = asyncio.all_tasks() - before
    if left:
        raise finding(f"after stop, {len(left)} tasks were running: {left}", "none")


async def full_buffer(meeting: Meeting) -> None:
    """A link that takes no more is closed, so that what waits to be sent has a bound."""
    alpha, beta = pair = await meeting.pair()
    for number in range(MANY):
        # Nothing is awaited here, so the other end cannot read.
        if not alpha.transport.send("beta", pattern(number * CHUNK, CHUNK)):
            break
    else:
        did = f"send took {MANY * CHUNK >> 20} MB that nobody read"
        raise finding(did, "False at some point, and then link_down")
    for party in pair:
        await meeting.down(party, 1, "send returned False for want of room")
    text = beta.witness.heard["alpha"]
    if text != pattern(0, len(text)):
        raise finding("what arrived before is not what was sent first", "the first bytes sent")
    await meeting.linked(alpha, beta)


async def strangers(meeting: Meeting) -> None:
    """Who is not a neighbour gets no link and no bytes, and `refused` tells of it."""
    alpha, beta = await meeting.pair()
    gamma = await meeting.join("gamma", "alpha")
    expected = "refused, and no link"
    did = "a stranger came, but alpha was not told"
    await meeting.until(lambda: bool(alpha.witness.refusals), did, expected)
    await meeting.calm()
    if gamma.witness.ups or "gamma" in alpha.witness.ups:
        raise finding("a stranger got a link", expected)
    if gamma.transport.send("alpha", b"let me in") is not False:
        raise finding("a stranger could send", "False")
    if alpha.witness.downs or beta.witness.downs:
        raise finding("a stranger took the link of neighbours down", "that it stays up")
