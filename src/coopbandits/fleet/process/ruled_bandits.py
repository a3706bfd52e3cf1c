"""Bandits and arms by the cluster's document, on an agent whose file declares sections of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from coopbandits.core.errors import InputError
from coopbandits.fleet.config.read import parse_bandits
from coopbandits.fleet.document.content import Document
from coopbandits.fleet.document.keeper import Taker
from coopbandits.fleet.process.declare import Declarations, take, take_problems
from coopbandits.fleet.service import UnavailableError
from coopbandits.fleet.service.many import ManyService
from coopbandits.fleet.storage.disk import DiskError


class RuledBandits(Taker):
    """Has an agent go by the bandits that a document declares.

    A document that declares none leaves those of the agent's own file. The token of a bandit is a
    file on each machine: it stays the one that the agent's own file names.
    """

    def __init__(self, service: ManyService) -> None:
        self.service = service

    def problems(self, document: Document) -> Iterator[str]:
        """Yield a sentence for every declaration that cannot be taken."""
        for name, table in document.bandits.items():
            if "token_file" in table:
                yield f"[bandits.{name}] token_file is a file of each node; name it there instead"
        try:
            declared = self._declared(document)
        except InputError as error:
            yield from str(error).splitlines()
        else:
            yield from take_problems(self.service, declared)

    def take(self, document: Document) -> None:
        """Go by the bandits of a document."""
        try:
            take(self.service, self._declared(document))
        except UnavailableError as error:
            raise DiskError(str(error)) from error

    def _declared(self, document: Document) -> Declarations:
        own, rounds = self.service.config, document.settings.get("rounds_per_second")
        cluster = own.cluster if rounds is None else replace(own.cluster, rounds_per_second=rounds)
        if not document.bandits:
            return {
                name: replace(bandit, settings=replace(bandit.settings, rounds_per_second=rounds))
                if rounds is not None
                else bandit
                for name, bandit in own.declared.items()
            }
        found = parse_bandits(document.bandits, cluster)
        return {
            name: replace(bandit, token_file=own.declared[name].token_file)
            if name in own.declared
            else bandit
            for name, bandit in found.items()
        }
