"""The contract of a transport, as checks that anybody can run on a transport of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from coopbandits.core import InputError
from coopbandits.testing.checks import transport as checks
from coopbandits.testing.checks.transport import MakeTransport, Meeting, TransportCheckError

__all__ = ["TRANSPORT_CHECKS", "TransportCheckError", "check_transport"]

TRANSPORT_CHECKS: tuple[Callable[[Meeting], Awaitable[None]], ...] = (
    checks.one_link,
    checks.bytes_in_order,
    checks.several_neighbors,
    checks.nobody_there,
    checks.drop_and_return,
    checks.restart,
    checks.stop_ends_everything,
    checks.full_buffer,
    checks.strangers,
)
"""All checks. They run in this order: a later one takes for granted what an earlier one showed."""


def check_transport(
    make: MakeTransport,
    *,
    patience: float = 10.0,
    run: Callable[[Coroutine[Any, Any, None]], None] = asyncio.run,
) -> None:
    """Check that a transport fulfils the contract, or say in one sentence where it does not.

    Agents called alpha, beta and gamma are connected, disconnected, restarted and stopped. The
    checks, listed in ``TRANSPORT_CHECKS``, are functions whose docstrings are the contract.

    Parameters
    ----------
    make : callable
        ``make(node, neighbors)`` returns a new transport for the agent of that id, which knows
        where its neighbours are and has not been started. All that it returns are on one network;
        an agent is made again after it was stopped.
    patience : float
        Seconds after which something that should have happened counts as missing.
    run : callable
        Runs a coroutine in a new event loop, such as ``uvloop.run``.

    Raises
    ------
    TransportCheckError
        For the first check that fails; it is an AssertionError.

    Examples
    --------
    >>> from coopbandits.fleet.transport.memory import MemoryNetwork
    >>> check_transport(MemoryNetwork().transport)
    """
    if not patience > 0:
        raise InputError(f"check_transport got patience={patience}; it takes seconds above 0")
    for check in TRANSPORT_CHECKS:
        run(_run_check(check, Meeting(make, patience)))


async def _run_check(check: Callable[[Meeting], Awaitable[None]], meeting: Meeting) -> None:
    name = check.__name__.replace("_", " ")
    try:
        async with meeting:
            await check(meeting)
            meeting.expect_order()
    except TransportCheckError as found:
        raise TransportCheckError(f"check '{name}': {found}") from None
    except Exception as error:
        raise TransportCheckError(
            f"check '{name}': the transport raised {type(error).__name__} ({error}); expected is "
            "that every call the contract allows succeeds"
        ) from error
