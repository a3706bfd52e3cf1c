"""Connections that are kept between calls."""

from __future__ import annotations

import select
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from coopbandits.fleet.client.wire import BROKEN, Wire


class Link(Protocol):
    """A connection to the agent."""

    wire: Wire

    def is_quiet(self) -> bool:
        """Whether it is open, and nothing has come that nobody asked for."""

    def close(self) -> None:
        """Close it."""


L = TypeVar("L", bound=Link)


class Ear:
    """Hears what has come over a socket, without taking it.

    Parameters
    ----------
    descriptor : int
        The socket's.
    """

    def __init__(self, descriptor: int) -> None:
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    def is_quiet(self) -> bool:
        """Whether it is open, and nothing has come."""
        return not self._poll.poll(0)


class Pool(Generic[L]):
    """Connections in use, and idle ones; of these the one used last is used first.

    Attributes
    ----------
    all : set
        All of them, for a child process that has to close its copies.
    """

    def __init__(self) -> None:
        self.all: set[L] = set()
        self._idle: list[L] = []
        self._closed = False

    def reuse(self) -> L | None:
        """Return an idle connection that is still good, if there is one."""
        while self._idle:
            try:
                link = self._idle.pop()
            except IndexError:  # another thread was faster
                return None
            if link.is_quiet():
                return link
            self.drop(link)
        return None

    @contextmanager
    def using(self, link: L, *, kept: bool) -> Iterator[None]:
        """Keep a connection after a call, if it can be used again; otherwise close it."""
        link.wire.reusable = False
        try:
            yield
        except BROKEN:
            if kept:
                self.empty()  # the agent was restarted, and the others are stale too
            raise
        finally:
            if link.wire.reusable and not self._closed:
                self._idle.append(link)
            else:  # also after an interrupted call
                self.drop(link)

    def drop(self, link: L) -> None:
        """Close a connection."""
        self.all.discard(link)
        link.close()

    def empty(self) -> None:
        """Close all idle connections."""
        while self._idle:
            try:
                self.drop(self._idle.pop())
            except IndexError:
                return

    def close(self) -> None:
        """Close all idle connections now, and the others after their call."""
        self._closed = True
        self.empty()
