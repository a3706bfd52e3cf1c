"""Both clients as one test drives them, and servers that behave badly."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from coopbandits.fleet.client import AsyncClient, Client

Make = Callable[..., Any]


class Driven:
    """An `AsyncClient` whose calls block."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        self.runner = asyncio.Runner()
        self.client = AsyncClient(*arguments, **settings)

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: self.runner.run(getattr(self.client, name)(*arguments))

    def together(self, name: str, count: int) -> list[Any]:
        """Call a method from several tasks at once; return the answers, or the errors."""

        async def call() -> list[Any]:
            calls = (getattr(self.client, name)() for _ in range(count))
            return await asyncio.gather(*calls, return_exceptions=True)

        return self.runner.run(call())

    @property
    def defaults(self) -> Mapping[str, int]:
        return self.client.defaults

    def bandit(self, name: str, *, default: str | None = None) -> Driven:
        """Return one for a bandit, on the same event loop."""
        made = object.__new__(Driven)
        made.runner, made.client = self.runner, self.client.bandit(name, default=default)
        return made

    def __enter__(self) -> Driven:
        self.runner.run(self.client.__aenter__())
        return self

    def __exit__(self, *error: Any) -> None:
        self.runner.run(self.client.__aexit__(*error))
        self.runner.close()


class Threaded(Client):
    """A `Client` that several threads can be sent to at once."""

    def together(self, name: str, count: int) -> list[Any]:
        """Call a method from several threads at once; return the answers, or the errors."""
        found: list[Any] = []

        def call() -> None:
            try:
                found.append(getattr(self, name)())
            except Exception as error:
                found.append(error)

        threads = [threading.Thread(target=call) for _ in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return found


@contextmanager
def silent() -> Iterator[str]:
    """Listen at an address, and never answer."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listening:
        host, port = listening.getsockname()
        yield f"{host}:{port}"


def scripted(*replies: bytes) -> tuple[socket.socket, threading.Thread]:
    """Listen, and answer one connection after the other with these bytes, then hang up."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for reply in replies:
            connection, _ = listening.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(reply)

    thread = threading.Thread(target=serve)
    thread.start()
    return listening, thread


@contextmanager
def answering(reply: Callable[[bytes], bytes | None]) -> Iterator[str]:
    """Answer every request with bytes made of it, then hang up; with None, never answer."""
    over = threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection, suppress(OSError):  # a client may read a part of it only
            found = reply(connection.recv(65536))
            if found is None:
                over.wait()
            else:
                connection.sendall(found)

    def accept() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=[connection], daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=accept)
        thread.start()
        host, port = listening.getsockname()
        try:
            yield f"{host}:{port}"
        finally:
            over.set()
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def answer(status: str, body: bytes) -> bytes:
    return b"HTTP/1.1 %b\r\ncontent-length: %d\r\n\r\n%b" % (status.encode(), len(body), body)
