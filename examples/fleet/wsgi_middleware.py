"""A bandit in front of a WSGI application: it chooses an option for every request, and learns.

Beside an agent whose bandit `button` has the options blue and green, from this folder:

    gunicorn --preload --workers 4 --threads 8 wsgi_middleware:application

`--preload` is safe: after the fork, every worker's client makes connections of its own.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from typing import Any
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from coopbandits.core.errors import InputError
from coopbandits.fleet.client import Client, UnreachableError
from coopbandits.fleet.service import UnavailableError

logger = logging.getLogger(__name__)


class Bandit:
    """Puts a choice into `environ`, and hands in how the request went: 0.0 for errors, else 1.0.

    An application that knows better puts a number into `environ["bandit.reward"]`.
    """

    def __init__(self, app: WSGIApplication, client: Client) -> None:
        self.app, self.client = app, client

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        choice = self.client.choose()  # the default, whatever the agent answers
        environ["bandit.arm"] = choice.arm

        def start(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            environ.setdefault("bandit.reward", 0.0 if status.startswith("5") else 1.0)
            return start_response(status, headers, *rest)

        body = self.app(environ, start)
        try:
            yield from body
        finally:
            getattr(body, "close", lambda: None)()
            self.hand_in(choice.ticket, environ.get("bandit.reward", 0.0))

    def hand_in(self, ticket: str, reward: float) -> None:
        try:
            self.client.observe(ticket, reward)
        except (UnreachableError, UnavailableError, InputError) as error:
            logger.warning("a reward is lost: %s", error)  # the ticket expires; nothing else is


def shop(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Greet in the colour that was chosen."""
    start_response("200 OK", [("Content-Type", "text/html")])
    return [f'<h1 style="color: {environ["bandit.arm"]}">Welcome</h1>'.encode()]


agent = os.environ.get("AGENT", "127.0.0.1:8400")
client = Client(agent, timeout=0.5, default="blue", bandit="button")
application = Bandit(shop, client)
