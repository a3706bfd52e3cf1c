"""What a transport does with links, bytes and strangers."""

from __future__ import annotations

import asyncio

from coopbandits.testing.checks.party import Meeting, Party, finding

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
    """`drop` at either end leads to one `link_down` at both; then the link comes up again."""
    pair = await meeting.pair()
    for turn, party in enumerate(pair, start=1):
        other = pair[turn % 2]
        party.transport.drop(other.node, "for a reason")
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
    if gamma.witness.ups or alpha.witness.ups != ["beta"]:
        raise finding("a stranger got a link", expected)
    if gamma.transport.send("alpha", b"let me in") is not False:
        raise finding("a stranger could send", "False")
    if alpha.witness.downs or beta.witness.downs:
        raise finding("a stranger took the link of neighbours down", "that it stays up")
