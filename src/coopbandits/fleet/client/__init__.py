"""How an application asks its agent, from Python: `Client`, and `AsyncClient` for asyncio."""

from coopbandits.fleet.client.asynchronous import AsyncClient
from coopbandits.fleet.client.blocking import Client
from coopbandits.fleet.client.exchange import UnreachableError

__all__ = ["AsyncClient", "Client", "UnreachableError"]
