"""An agent as its applications and operators see it: its bandits, the cluster's document, health.

Implements `Service`; each bandit is a `ServedBandit`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from coopbandits.core.errors import unknown_name
from coopbandits.fleet.config import NodeConfig
from coopbandits.fleet.config.bandits import BanditConfig
from coopbandits.fleet.document.seal import from_json
from coopbandits.fleet.identity.operators import key_text
from coopbandits.fleet.protocol.node import Node
from coopbandits.fleet.service import (
    BanditSchema,
    BanditState,
    Metric,
    Stored,
    UnavailableError,
    UnknownBanditError,
    UnknownTicketError,
)
from coopbandits.fleet.service.bandit import DRAINING, ServedBandit
from coopbandits.fleet.service.forwarding import Forwarding
from coopbandits.fleet.service.metrics import agent_metrics
from coopbandits.fleet.storage.disk import DiskError
from coopbandits.page.state import AgentState
from coopbandits.version import __version__

MOST_LISTED = 10
"""Bandits that an error lists."""


class ServedAgent:
    """Implements `Service` for one agent.

    Parameters
    ----------
    config : NodeConfig
        Its configuration.
    node : Node
        Its protocol.
    words : callable
        Returns 64 random bits.
    clock : callable
        Seconds since 1970, never going back.
    stored : callable
        Calls its argument once all that was chosen and observed so far is on disk, or with the
        reason why not.

    Attributes
    ----------
    services : dict of int to ServedBandit
        All bandits, retired ones too, by number.
    failure : str
        Why the agent serves no more; "" while it does.
    draining : bool
        Whether the agent is about to stop.
    ready_neighbors : int
        How many neighbours must be linked for the agent to be ready.
    certificate_ends : callable
        Returns when neighbours will reject the agent's certificate, None where links need none.
    forwarding : Forwarding
        Calls of other agents, and for them.
    """

    def __init__(
        self,
        config: NodeConfig,
        node: Node,
        words: Callable[[], int],
        clock: Callable[[], float],
        stored: Callable[[Stored], None],
    ) -> None:
        self.config, self.node, self.words, self.clock = config, node, words, clock
        self.stored = stored
        self.services: dict[int, ServedBandit] = {}
        self._by_name: dict[str, ServedBandit] = {}
        self._live: list[ServedBandit] = []  # those that have arms
        self.failure, self.draining = "", False
        self.ready_neighbors = config.ready_neighbors
        self.certificate_ends: Callable[[], float | None] = lambda: None
        self.forwarding = Forwarding(self)
        self.declare(session.bandit for session in node.sessions.of_bandits)
        node.sessions.followed = lambda bandit: self.declare([bandit])

    def declare(self, bandits: Iterable[BanditConfig]) -> None:
        """Go by these declarations from now on."""
        for bandit in bandits:
            if bandit.number in self.services:
                self.services[bandit.number].declare(bandit)
            else:
                self.services[bandit.number] = ServedBandit(self, bandit)
        self._by_name = {each.declared.name: each for each in self.services.values()}
        self._live = [each for each in self.services.values() if each.declared.arms]
        self.node.routes.always = any(each.declared.sticky_seconds > 0.0 for each in self._live)

    def renew_tokens(self, tokens: Mapping[str, str]) -> None:
        """Use the present contents of token files; retired bandits keep their tokens."""
        for service in self._live:
            service.token = tokens.get(service.declared.name)

    def bandit(self, name: str | None) -> ServedBandit:
        """Return the service of one bandit; without a name, of the default one."""
        wanted = self.config.default_bandit if name is None else name
        if wanted is None:
            raise self._unnamed()
        found = self._by_name.get(wanted)
        if found is None:
            known = [service.declared.name for service in self._live]
            raise UnknownBanditError(str(unknown_name("bandit", wanted[:63], known)))
        return found

    def _unnamed(self) -> UnknownBanditError:
        """Return the error of a call that must name a bandit."""
        names = [service.declared.name for service in self._live]
        listed = ", ".join(names[:MOST_LISTED]) + ", …" * (len(names) > MOST_LISTED)
        return UnknownBanditError(
            f"no bandit is named, and [node] default_bandit is not set; use /bandits/NAME/choose, "
            f"where NAME is one of {listed or 'the bandits to come'}, or set default_bandit"
        )

    def bandits(self) -> list[BanditState]:
        """Return all bandits, the retired ones last."""
        found = [each.summary() for each in self.services.values()]
        return sorted(found, key=lambda state: state.retired)

    def owner_of(self, ticket: str) -> ServedBandit | None:
        """Return the bandit that issued a ticket, which may be retired; tickets are unique.

        The ticket is given without the agent's id.
        """
        for service in self.services.values():
            with suppress(UnknownTicketError):
                service.replica.tickets.number(ticket)
                return service
        return None

    def schemas(self) -> list[BanditSchema]:
        """Return what requests of every bandit may contain."""
        return [each.schema() for each in self.services.values()]

    def state(self, since: int = 0) -> AgentState:
        """Return what a page shows of the first bandit, with events after number `since`."""
        live = self._live or list(self.services.values())
        if not live:
            raise UnavailableError("this agent has no bandit yet")
        return live[0].state(since)

    def names_from(self, first: ServedBandit) -> list[str]:
        """Return the name of one bandit, then those of all others that choose."""
        others = [each for each in self._live if each is not first]
        return [each.declared.name for each in (first, *others)]

    def export(self) -> dict[str, Any]:
        """Return everything learned, of all bandits."""
        exported = {service.declared.name: service.export() for service in self.services.values()}
        return {"agent": self.config.id, "cluster": self.config.cluster.name, "bandits": exported}

    def health(self) -> dict[str, Any]:
        """Return the agent's state as plain data."""
        node = self.node
        return {
            "id": self.config.id,
            "cluster": self.config.cluster.name,
            "version": __version__,
            "round": node.bandits.rounds,
            "incarnation": node.settings.incarnation,
            "links": {
                name: "up" if peer.met else f"down: {peer.reason or 'no HELLO yet'}"
                for name, peer in node.peers.items()
            },
            "open_tickets": node.bandits.open_tickets,
            "abandoned_tickets": sum(
                each.replica.tickets.num_abandoned for each in self.services.values()
            ),
            "rewards": node.bandits.rewards,
            "refused_frames": dict(node.refusals),
            "refused_strangers": node.strangers,
            "journal_bytes": node.bandits.journal.size,
            "trouble": node.trouble,
            "document": self._document(),
            "bandits": {each.declared.name: each.health() for each in self.services.values()},
        }

    def ready(self) -> str | None:
        """Return None if the agent can serve, otherwise the reason in one sentence."""
        node = self.node
        if self.failure:
            return self.failure
        if node.bandits.journal.read_only:
            return f"{node.trouble}; until it can, choices come without tickets"
        if node.trouble:
            return node.trouble
        if self.draining:
            return DRAINING
        linked, needed = sum(peer.met for peer in node.peers.values()), self.ready_neighbors
        if linked < needed:
            return (
                f"{linked} of {len(node.peers)} neighbours are linked, and ready_neighbors is "
                f"{needed}"
            )
        return None

    def metrics(self) -> list[Metric]:
        """Return the agent's metrics, under a bounded number of labels."""
        ends, services = self.certificate_ends(), list(self.services.values())
        left = None if ends is None else ends - self.clock()
        of_agent = agent_metrics(self.node, services, left)
        return [*of_agent, *self.forwarding.metrics(services)]

    def _document(self) -> dict[str, Any]:
        documents = self.node.settings.documents
        return {
            "version": documents.version,
            "digest": documents.digest.hex(),
            "alarm": documents.alarm,
        }

    def cluster(self) -> dict[str, Any]:
        """Return the cluster's document, whom the agent trusts, and its neighbours' versions.

        `bandits` and `retired` have the version of the document that declared or retired each.
        """
        node, documents = self.node, self.node.settings.documents
        document = documents.document
        signed = documents.stored.signed if documents.stored else None
        return {
            "id": node.settings.node,
            "cluster": documents.cluster,
            **self._document(),
            "operators": [key_text(key) for key in documents.keys],
            "neighbors": {
                name: peer.version if (peer := node.spread.peers.get(name)) else None
                for name in node.peers
            },
            "bandits": {name: each.version for name, each in document.sections.items()}
            if document
            else {},
            "retired": dict(document.stopped) if document else {},
            "content": signed.content.decode() if signed else None,
            "signed": msgspec.to_builtins(signed) if signed else None,
        }

    def adopt(self, signed: bytes | bytearray) -> dict[str, Any]:
        """Apply a new document of the cluster, signed and as JSON; return what `cluster` does."""
        if self.failure:
            raise UnavailableError(self.failure)
        try:
            self.node.adopt(from_json(signed), self.clock())
        except DiskError as error:
            raise UnavailableError(f"{error}; the document is not taken") from error
        return self.cluster()
