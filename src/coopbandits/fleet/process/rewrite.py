"""Writes a journal anew beside the event loop, while every event goes to the old one by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coopbandits.fleet.process.worker import Worker
from coopbandits.fleet.storage.disk import DiskError
from coopbandits.fleet.storage.journal import Journal, Rewrite


class BesideRewriter:
    """Prepares a file in a worker, switches to it in the event loop, and has its folder synced."""

    def __init__(self, journal: Journal, worker: Worker) -> None:
        self.journal, self.worker = journal, worker
        self._busy = False
        journal.rewriter = self

    def request(self, export: Callable[[], dict[str, Any]]) -> None:
        """Begin, unless it is being done already."""
        if self._busy:
            return
        rewrite = self.journal.begin_rewrite(export())
        self._busy = True
        self.worker.run(
            lambda: self.journal.prepare(rewrite), lambda error: self._prepared(rewrite, error)
        )

    def _prepared(self, rewrite: Rewrite, error: DiskError | None) -> None:
        if error is None:
            try:
                self.journal.switch(rewrite)
            except DiskError as failure:
                error = failure
        self.journal.finish_rewrite(rewrite, error)
        if error is None:
            self.worker.run(self.journal.disk.settle, self._settled)
        else:
            self._busy = False

    def _settled(self, error: DiskError | None) -> None:
        self.journal.finish_settling(error)
        self._busy = False

    async def close(self) -> None:
        """Wait until it is done, and leave the journal to write itself anew."""
        while self._busy:
            await self.worker.rest()
        self.journal.rewriter = None
