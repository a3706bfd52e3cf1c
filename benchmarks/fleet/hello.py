"""The least that uvicorn can do: greet. What an agent's HTTP is compared with."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn

GREETING = b'{"hello":"world"}'
HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(GREETING))]


async def greet(
    scope: MutableMapping[str, Any],
    receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
    send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
) -> None:
    """Greet whoever calls."""
    del scope, receive
    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
    await send({"type": "http.response.body", "body": GREETING})


if __name__ == "__main__":
    uvicorn.run(
        greet, port=int(sys.argv[1]), http="httptools", loop="asyncio", ws="none",
        lifespan="off", access_log=False, log_level="warning",
    )  # fmt: skip
