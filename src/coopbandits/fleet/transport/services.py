"""Where a service is, by its SRV records: hosts and ports under one name (RFC 2782).

asyncio and the C library look up addresses alone. dnspython reads the machine's `resolv.conf`,
repeats questions that are lost, and asks over TCP where an answer is too long for a datagram.
"""

from __future__ import annotations

from typing import Any

from coopbandits.fleet.address import Address


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
