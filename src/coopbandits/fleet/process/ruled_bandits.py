"""Bandits and arms by the cluster's document."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from coopbandits.core.errors import InputError
from coopbandits.fleet.document.check import declared_by, declared_problems
from coopbandits.fleet.document.content import Document
from coopbandits.fleet.document.keeper import Taker
from coopbandits.fleet.process.declare import (
    journal_problems,
    purge_problems,
    take,
)
from coopbandits.fleet.service import UnavailableError
from coopbandits.fleet.service.agent import ServedAgent
from coopbandits.fleet.storage.disk import DiskError


class RuledBandits(Taker):
    """Has an agent go by the bandits that a document declares.

    A document that declares none leaves those of the agent's own file.
    """

    def __init__(self, service: ServedAgent) -> None:
        self.service = service

    def problems(self, document: Document) -> Iterator[str]:
        """Yield a sentence for every declaration that cannot be taken, the file's included."""
        config = self.service.config
        yield from declared_problems(document, config)
        with suppress(InputError):  # of which everything was said
            yield from journal_problems(self.service.node.bandits, declared_by(document, config))

    def hasty(self, document: Document) -> Iterator[str]:
        """Yield a sentence for every arm that would be purged while it is chosen."""
        with suppress(InputError):  # `problems` tells
            bandits = self.service.node.bandits
            yield from purge_problems(bandits, declared_by(document, self.service.config))

    def take(self, document: Document) -> None:
        """Go by the bandits of a document."""
        try:
            take(self.service, declared_by(document, self.service.config))
        except UnavailableError as error:
            raise DiskError(str(error)) from error
