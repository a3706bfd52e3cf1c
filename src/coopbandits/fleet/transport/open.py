"""Links with any agent of the fleet, opened and closed one by one while the agent runs.

Seeds may be services, hosts and ports under one name by SRV records (RFC 2782). asyncio and the C
library look up addresses alone. dnspython reads the machine's `resolv.conf`, repeats questions that
are lost, and asks over TCP where an answer is too long for a datagram.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from coopbandits.fleet.address import Address, parse_address
from coopbandits.fleet.identity.tls import Credentials, reason_of
from coopbandits.fleet.transport.actions import ITSELF, Arrival
from coopbandits.fleet.transport.connection import Connection
from coopbandits.fleet.transport.sockets import resolve
from coopbandits.fleet.transport.tcp import TcpTransport

log = logging.getLogger(__name__)

MOST_FOUND = 64
"""The most addresses that are taken of one name."""


class OpenTransport(TcpTransport):
    """Links with whoever has a certificate of the fleet, by calls.

    Either end may call. Where both do at the same time, the call of the higher id is the one that
    counts. A link that is down is not dialled again by itself.

    Parameters
    ----------
    node, listen, credentials, settings
        As for `TcpTransport`.
    """

    says_name = True

    def __init__(
        self, node: str, listen: Address, credentials: Credentials, **settings: Any
    ) -> None:
        super().__init__(node, listen, {}, credentials, **settings)
        self._calls: Counter[str] = Counter()

    def call(
        self, peer: str, address: Address, cause: object, failed: Callable[[str], None]
    ) -> None:
        """Call an agent once: `peer`, or whoever answers if that is empty.

        Either `link_up` follows, and `arrival_of` has the cause, or `failed` with a reason.
        """
        self._spawn(self._call_once(peer, address, cause, failed))

    async def _call_once(
        self, peer: str, address: Address, cause: object, failed: Callable[[str], None]
    ) -> None:
        self._calls[peer] += 1
        try:
            connection = await self._connect(peer, address, cause)
        except Exception:  # whoever called waits for an answer
            log.exception("agent %s failed to call %s", self.node, peer or address)
            connection = None
        finally:
            self._calls -= Counter([peer])
        if connection is None:
            failed("nobody answers")
        elif not connection.up:
            failed(connection.refusal)

    def arrival_of(self, peer: str) -> Arrival:
        """Return why a neighbour was called, and its address without port."""
        link = self._links[peer]
        return Arrival(link.cause, parse_address(link.address).host)

    def objection(self, name: str, *, dialled: bool) -> str | None:
        """Return why another end is refused: itself, one that is linked, or the lower of two."""
        if name == self.node:
            return ITSELF
        link = self._links.get(name)
        if link is not None and not link.closing and not self._gives_way(link, name, dialled):
            return f"{name!r} is linked already"
        if not dialled and name < self.node and self._is_calling(name):
            return f"{name!r} is being called, and has the lower id"
        return None

    def _is_calling(self, name: str) -> bool:
        return bool(self._calls[name]) or any(  # it was called by its address, and has proved it
            each.dialled and each.peer == name and not (each.up or each.closing)
            for each in self.connections
        )

    def _gives_way(self, link: Connection, name: str, dialled: bool) -> bool:
        """Return whether a link ends when another one with the same agent could begin.

        Who calls twice has lost the first one. Of two that called each other at the same time, the
        higher id counts.
        """
        if link.dialled == dialled:
            return not dialled
        young = asyncio.get_running_loop().time() - link.since < self.timing.proven
        return self.node > name and young if dialled else name > self.node

    def look_up(self, places: Iterable[Address], found: Callable[[list[Address]], None]) -> None:
        """Look up names, and tell all addresses that were found."""
        self._spawn(self._look_up(list(places), found))

    async def _look_up(self, places: list[Address], found: Callable[[list[Address]], None]) -> None:
        addresses: dict[Address, None] = {}
        for place in places:
            try:
                async with asyncio.timeout(self.timing.handshake):
                    answers = await _addresses(place)
            except OSError as error:  # a timeout, too
                log.info("the name of %s cannot be looked up: %s", place, reason_of(error))
                continue
            addresses |= dict.fromkeys(answers[:MOST_FOUND])
        found(list(addresses))


async def _addresses(place: Address) -> list[Address]:
    """Return all addresses of a name, or of the hosts of a service."""
    places = [place]
    if place.is_service:
        places = (await find_service(place.host))[:MOST_FOUND]
    found = await asyncio.gather(*map(resolve, places), return_exceptions=True)
    failed = [each for each in found if isinstance(each, BaseException)]
    if failed and len(failed) == len(found):
        raise failed[0]
    told = [each for each in found if not isinstance(each, BaseException)]
    return [Address(*each[4][:2]) for answers in told for each in answers]


def make_resolver() -> Any:
    """Return what asks the name servers of this machine."""
    from dns.asyncresolver import Resolver  # optional, and imported by agents that need it alone

    return Resolver()


async def find_service(name: str) -> list[Address]:
    """Return where a service is, such as `_coopbandits._tcp.example.org`.

    All records count, whatever their priority and weight: seeds are places to look first, and not a
    load to be shared.

    Raises
    ------
    OSError
        Its name cannot be looked up.
    """
    from dns.exception import DNSException

    try:
        answer = await make_resolver().resolve(f"{name}.", "SRV", search=False)
    except DNSException as error:
        raise OSError(str(error)) from error
    found = sorted((each.priority, str(each.target).rstrip("."), each.port) for each in answer)
    return [Address(host, port) for _, host, port in found if host and port]
