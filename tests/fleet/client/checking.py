"""Applications behind the middleware of the examples, as gunicorn and uvicorn load them.

Each request pulls once more and answers 200 only if the receipt is that of its own choice.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from itertools import count
from wsgiref.types import StartResponse, WSGIEnvironment

import asgi_middleware
import wsgi_middleware

from coopbandits.fleet.client import AsyncClient, Client
from coopbandits.fleet.service import Choice, Receipt

BANDIT = "load"  # of the benchmarks' agents
TEXT = [("Content-Type", "text/plain")]
_numbers = count(1)


def reward_of_its_own() -> float:
    """Return a reward from 0 to 1 that no other request of any worker hands in soon."""
    return (os.getpid() * 1009 + next(_numbers) * 7919) % 999_983 / 1_000_000


def verdict(choice: Choice, reward: float, receipt: Receipt, arm: str) -> tuple[bool, bytes]:
    right = receipt == (choice.ticket, choice.arm, reward, False) and arm != ""
    return right, f"{reward!r} {os.getpid()} {choice} {receipt}".encode()


def check(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    choice, reward = blocking.choose(), reward_of_its_own()
    receipt = blocking.observe(choice.ticket, reward)
    right, told = verdict(choice, reward, receipt, environ["bandit.arm"])
    start_response("200 OK" if right else "418 Wrong", [*TEXT, ("Content-Length", str(len(told)))])
    return [told]


async def async_check(
    scope: asgi_middleware.Message, receive: asgi_middleware.Receive, send: asgi_middleware.Send
) -> None:
    if scope["type"] != "http":
        await asgi_middleware.shop(scope, receive, send)
        return
    choice, reward = await asynchronous.choose(), reward_of_its_own()
    receipt = await asynchronous.observe(choice.ticket, reward)
    right, told = verdict(choice, reward, receipt, scope["bandit.arm"])
    headers = [(b"content-length", b"%d" % len(told))]
    status = 200 if right else 418
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": told})


blocking = Client(os.environ["AGENT"], timeout=20.0, bandit=BANDIT)
asynchronous = AsyncClient(os.environ["AGENT"], timeout=20.0, bandit=BANDIT)
wsgi = wsgi_middleware.Bandit(check, blocking)
asgi = asgi_middleware.Bandit(async_check, asynchronous)
for _ in range(3):
    blocking.choose()  # before the fork, so that there is a connection to inherit
