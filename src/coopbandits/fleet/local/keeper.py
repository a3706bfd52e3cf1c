"""A process group that dies with its creator, even if that is killed by SIGKILL.

This file imports the standard library alone, so that a process can load it by itself: a program
that starts processes should not need the whole package to be sure that they end.
"""

from __future__ import annotations

import subprocess
from types import TracebackType
from typing import Self

WATCH = "read line; kill -KILL 0"
"""Run by the group's first process: wait until stdin is closed, then kill the whole group."""


class Keeper:
    """A process group that is killed when the block ends, or this process does.

    Its first process reads from a pipe whose other end only this process holds. Even if this
    process dies of a signal that it cannot catch, the system closes that end.

    Attributes
    ----------
    group : int
        The group's id, for processes to join.
    """

    def __enter__(self) -> Self:
        self._watch = subprocess.Popen(  # noqa: S603  a constant command
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
        assert self._watch.stdin is not None  # noqa: S101  it is a pipe
        self._watch.stdin.close()
        self._watch.wait()
