"""How an application asks its agent, from Python: `Client`, and `AsyncClient` for asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coopbandits.fleet.client.blocking import Client
from coopbandits.fleet.client.exchange import UnreachableError

if TYPE_CHECKING:
    from coopbandits.fleet.client.asynchronous import AsyncClient

__all__ = ["AsyncClient", "Client", "UnreachableError"]


def __getattr__(name: str) -> Any:
    if name == "AsyncClient":  # loaded on first use: asyncio takes longer to load than all the rest
        from coopbandits.fleet.client.asynchronous import AsyncClient

        return AsyncClient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
