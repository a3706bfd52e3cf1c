"""Agents that only talk: what a transport tells each of them is written down and compared."""

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
