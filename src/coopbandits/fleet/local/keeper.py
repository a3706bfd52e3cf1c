"""Nobody is left behind: a process group that dies with the one who made it, whatever kills it."""

from __future__ import annotations

import subprocess
from types import TracebackType
from typing import Self

WATCH = "read line; kill -KILL 0"
"""What the group's first process does: wait for the end of its input, then end the whole group."""


class Keeper:
    """A process group that is killed when this process ends or the block does.

    Its first process reads a pipe whose other end is held here alone. That end is closed by the
    system, at the latest, even if this process is killed by a signal that it cannot catch.

    Attributes
    ----------
    group : int
        Number of the group, for those who join.
    """

    def __enter__(self) -> Self:
        self._watch = subprocess.Popen(  # noqa: S603  these very words
            ["/bin/sh", "-c", WATCH], stdin=subprocess.PIPE, process_group=0
        )
        self.group = self._watch.pid
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._watch.stdin is not None  # noqa: S101  it was asked for
        self._watch.stdin.close()
        self._watch.wait()
