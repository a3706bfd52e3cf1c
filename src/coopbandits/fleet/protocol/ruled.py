"""What the cluster's document says of links and of the pace of gossip, in force on one node.

Agents adopt a document one after the other. So what a node itself does follows the document at
once, while what it believes of others never becomes less than its own file declares: who has not
heard of the document yet is not taken for a liar.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coopbandits.fleet.document.content import Document
from coopbandits.fleet.document.store import DocumentSubscriber

if TYPE_CHECKING:
    from coopbandits.fleet.protocol.gossip import Gossip
    from coopbandits.fleet.protocol.node import Node


class Ruled(DocumentSubscriber):
    """Acts on documents, for one node.

    Attributes
    ----------
    revoked : frozenset of str
        Who is no longer believed.
    members : frozenset of str
        Who may have links; empty for everybody.
    """

    def __init__(self, node: Node) -> None:
        self.node = node
        self.revoked, self.members = frozenset[str](), frozenset[str]()
        declared = node.settings
        self._period, self._interval = declared.period, declared.signing_interval
        self.rounds, self.rate, self.interval = 1.0 / self._period, 0.0, self._interval

    def bars(self, name: str) -> str:
        """Return why an agent may have no link; empty if it may."""
        if self.members and name not in self.members:
            return f"{name} is no member by the cluster's document"
        return ""

    def apply(self, document: Document) -> None:
        """Do what a document says."""
        node, names = self.node, frozenset(document.members)
        self._set_rates(document)
        if self.revoked != document.revoked:
            self.revoked = document.revoked
            node.believe()
        if self.members != names:
            self.members = names
            node.close_barred()
        node.chronicle.note("document", f"cluster document version {document.version} is in force")

    def _set_rates(self, document: Document) -> None:
        given = document.settings
        self.rounds = given.get("rounds_per_second", 1.0 / self._period)
        self.rate = given.get("max_pulls_per_second", 0.0)
        self.interval = 1.0 / min(
            self.rounds, given.get("signatures_per_second", 1.0 / self._interval)
        )
        self.node.set_period(1.0 / self.rounds)
        for gossip in self.node.gossips:
            self.adjust(gossip)

    def adjust(self, gossip: Gossip) -> None:
        """Bring what is said of one bandit to the pace that holds now."""
        gossip.period = 1.0 / self.rounds
        gossip.claims.rate = max(gossip.declared_rate, self.rate)
        gossip.claims.pace = max(1.0 / self._period, self.rounds)
        if gossip.entries is not None:
            gossip.entries.interval = self.interval
            if gossip.entries.book is not None:
                gossip.entries.book.interval = min(self._interval, self.interval)
