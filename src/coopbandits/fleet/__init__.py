"""One real agent beside an application: transports, TLS, journal, HTTP API, metrics.

Names load on first use, so that a client loads nothing of what runs an agent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from coopbandits.loading import part

if TYPE_CHECKING:
    from coopbandits.fleet.client import AsyncClient as AsyncClient
    from coopbandits.fleet.client import Client as Client
    from coopbandits.fleet.process.embedded import LocalAgent as LocalAgent

_HOME_OF = {
    "AsyncClient": "client",
    "Client": "client",
    "LocalAgent": "process.embedded",
}


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(part(f"fleet.{_HOME_OF[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
