"""A bandit in front of an ASGI application: it chooses an option for every request, and learns.

Beside an agent whose bandit `button` has the options blue and green, from this folder:

    uvicorn --workers 4 asgi_middleware:application
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from coopbandits.core.errors import InputError
from coopbandits.fleet.client import AsyncClient, UnreachableError
from coopbandits.fleet.service import UnavailableError

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

logger = logging.getLogger(__name__)


class Bandit:
    """Puts a choice into the scope, and hands in how the request went: 0.0 for errors, else 1.0.

    An application that knows better puts a number into `scope["bandit.reward"]`.
    """

    def __init__(self, app: Application, client: AsyncClient) -> None:
        self.app, self.client = app, client

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        choice = await self.client.choose()  # the default, whatever the agent answers
        scope["bandit.arm"] = choice.arm

        async def watch(message: Message) -> None:
            if message["type"] == "http.response.start":
                scope.setdefault("bandit.reward", 0.0 if message["status"] >= 500 else 1.0)
            await send(message)

        try:
            await self.app(scope, receive, watch)
        finally:
            await self.hand_in(choice.ticket, scope.get("bandit.reward", 0.0))

    async def hand_in(self, ticket: str, reward: float) -> None:
        try:
            await self.client.observe(ticket, reward)
        except (UnreachableError, UnavailableError, InputError) as error:
            logger.warning("a reward is lost: %s", error)  # the ticket expires; nothing else is


async def shop(scope: Message, receive: Receive, send: Send) -> None:
    """Greet in the colour that was chosen."""
    if scope["type"] == "http":
        page = f'<h1 style="color: {scope["bandit.arm"]}">Welcome</h1>'.encode()
        headers = [(b"content-type", b"text/html"), (b"content-length", b"%d" % len(page))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": page})
        return
    while (await receive())["type"] != "lifespan.shutdown":  # of the server's start and end
        await send({"type": "lifespan.startup.complete"})
    await client.close()
    await send({"type": "lifespan.shutdown.complete"})


agent = os.environ.get("AGENT", "127.0.0.1:8400")
client = AsyncClient(agent, timeout=0.5, default="blue", bandit="button")
application = Bandit(shop, client)
