"""Where neighbours are, by the cluster's document; and what in a document a file contradicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from coopbandits.fleet.address import Address
from coopbandits.fleet.config import NodeConfig
from coopbandits.fleet.document.check import node_problems
from coopbandits.fleet.document.content import Document
from coopbandits.fleet.document.keeper import Taker


class Places(Taker):
    """Acts on documents, for one agent's configuration.

    Parameters
    ----------
    config : NodeConfig
        What the agent's own file says.
    move : callable
        Has a neighbour dialled at another address.
    """

    def __init__(self, config: NodeConfig, move: Callable[[str, Address], None]) -> None:
        self.config, self.move = config, move

    def problems(self, document: Document) -> Iterable[str]:
        """Return a sentence for everything that this agent cannot do."""
        return node_problems(document, self.config)

    def take(self, document: Document) -> None:
        """Dial neighbours where the document says that they are."""
        for name, place in self.config.neighbors.items():
            self.move(name, document.members.get(name, place))
