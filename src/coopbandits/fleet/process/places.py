"""Where neighbours are, by the cluster's document; and what in a document a file contradicts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from coopbandits.fleet.config import NodeConfig
from coopbandits.fleet.config.consistency import half_life_problems
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

    def problems(self, document: Document) -> Iterator[str]:
        """Yield a sentence for what this agent cannot do."""
        cluster, rounds = self.config.cluster, document.settings.get("rounds_per_second")
        if cluster.half_life is not None and rounds is not None:
            changed = replace(cluster, rounds_per_second=rounds)
            yield from half_life_problems(changed, cluster.half_life)
        if self.config.tls is None:
            for name, place in document.members.items():
                if name in self.config.neighbors and not place.is_loopback:
                    yield (
                        f"member {name} is at {place}, which others can reach, and there is no "
                        f"[tls] on {self.config.id}; give addresses of this machine"
                    )
        if document.bandits and not self.config.declared:
            yield (
                f"the document declares bandits ({', '.join(sorted(document.bandits))}), but "
                f"{self.config.id} has the one in [cluster] of its own file, which cannot change "
                "while it runs; leave [bandits] out, or declare sections in a new epoch"
            )

    def take(self, document: Document) -> None:
        """Dial neighbours where the document says that they are."""
        for name, place in self.config.neighbors.items():
            self.transport.move(name, document.members.get(name, place))
