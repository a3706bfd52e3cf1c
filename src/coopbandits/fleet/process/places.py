"""Where neighbours are, by the cluster's document; and what in a document a file contradicts."""

from __future__ import annotations

from collections.abc import Iterable

from coopbandits.fleet.config import NodeConfig
from coopbandits.fleet.document.check import node_problems
from coopbandits.fleet.document.content import Document
from coopbandits.fleet.document.keeper import Taker
from coopbandits.fleet.transport import Transport


class Places(Taker):
    """Acts on documents, for one agent's configuration.

    Parameters
    ----------
    config : NodeConfig
        What the agent's own file says.
    transport : Transport
        Dials the neighbours.
    """

    def __init__(self, config: NodeConfig, transport: Transport) -> None:
        self.config, self.transport = config, transport

    def problems(self, document: Document) -> Iterable[str]:
        """Return a sentence for everything that this agent cannot do."""
        return node_problems(document, self.config)

    def take(self, document: Document) -> None:
        """Dial neighbours where the document says that they are."""
        for name, place in self.config.neighbors.items():
            self.transport.move(name, document.members.get(name, place))
