"""What an agent answers applications: for each bandit a `ServedBandit`, and all together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from coopbandits.core.errors import unknown_name
from coopbandits.fleet.config import NodeConfig
from coopbandits.fleet.config.bandits import BanditConfig
from coopbandits.fleet.protocol.node import Node
from coopbandits.fleet.service import (
    CONFIDENCE,
    ArmEstimate,
    BanditState,
    Choice,
    Context,
    Metric,
    Receipt,
    Recommendation,
    Stored,
    UnavailableError,
    UnknownBanditError,
    UnknownTicketError,
)
from coopbandits.fleet.service.bandit import DRAINING, ServedBandit
from coopbandits.fleet.service.bandits import adopt, bandit_metrics, bandit_state, ruling, state_of
from coopbandits.page.state import AgentState


class ServedAgent:
    """Implements `Service` for one agent.

    What is asked without naming a bandit is answered where there is one only.

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
    failure : str
        Why the agent serves no more; "" while it does.
    draining : bool
        Whether the agent is about to stop.
    ready_neighbors : int
        How many neighbours must be linked for the agent to be ready.
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
        self._live: list[ServedBandit] = []  # those that have arms
        self.failure, self.draining = "", False
        self.ready_neighbors = config.ready_neighbors
        self.take(session.bandit for session in node.sessions.by_number.values())

    def take(self, bandits: Iterable[BanditConfig]) -> None:
        """Use these declarations from now on."""
        for bandit in bandits:
            if bandit.number in self.services:
                self.services[bandit.number].take(bandit)
            else:
                self.services[bandit.number] = ServedBandit(self, bandit)
        self._live = [each for each in self.services.values() if each.declared.arms]

    def renew_tokens(self, tokens: Mapping[str, str]) -> None:
        """Use what token files hold by now; retired bandits keep their tokens."""
        for service in self._live:
            service.token = tokens.get(service.declared.name)

    @property
    def token(self) -> str | None:
        """The token of the bandit that is asked without being named; None where there are more."""
        live = self._live
        return live[0].token if len(live) == 1 else None

    def bandit(self, name: str) -> ServedBandit:
        """Return the service of one bandit."""
        for service in self.services.values():
            if service.declared.name == name:
                return service
        known = [service.declared.name for service in self._live]
        raise UnknownBanditError(str(unknown_name("bandit", name[:63], known)))

    def bandits(self) -> list[BanditState]:
        """Return all bandits, the retired ones last."""
        return sorted(map(bandit_state, self.services.values()), key=lambda state: state.retired)

    def _only(self) -> ServedBandit:
        live = self._live
        if len(live) != 1:
            names = [service.declared.name for service in live][:10]
            raise UnknownBanditError(
                f"this agent has {len(live)} bandits: {', '.join(names)}"
                f"{', …' if len(live) > 10 else ''}; name one, as in /bandits/"
                f"{names[0] if names else 'NAME'}/choose"
            )
        return live[0]

    def choose(
        self, allowed: Sequence[str] | None = None, context: Context | None = None
    ) -> Choice:
        """Choose where there is one bandit only."""
        return self._only().choose(allowed, context)

    def observe(self, ticket: str, reward: float) -> Receipt:
        """Count a reward where there is one bandit only, or a late one of a retired bandit."""
        only = self._only()
        try:
            return only.observe(ticket, reward)
        except UnknownTicketError:
            owner = self.owner_of(ticket)
            if owner is None:
                raise
        return owner.observe(ticket, reward)

    def owner_of(self, ticket: str) -> ServedBandit | None:
        """Return the bandit that handed out a ticket: each has other tickets, also once retired."""
        for service in self.services.values():
            with suppress(UnknownTicketError):
                service.replica.tickets.number(ticket)
                return service
        return None

    def arms(self, context: Context | None = None) -> list[ArmEstimate]:
        """Return an estimate of every arm where there is one bandit only."""
        return self._only().arms(context)

    def context_schema(self) -> dict[str, Any] | None:
        """Return what a context must be where there is one bandit only."""
        live = self._live
        return live[0].context_schema() if len(live) == 1 else None

    def recommendation(self, confidence: float = CONFIDENCE) -> Recommendation:
        """Return which option won so far where there is one bandit only."""
        return self._only().recommendation(confidence)

    def health(self) -> dict[str, Any]:
        """Return the agent's state as plain data."""
        node = self.node
        return {
            "id": self.config.id,
            "cluster": self.config.cluster.name,
            "round": node.bandits.rounds,
            "incarnation": node.settings.incarnation,
            "links": {
                name: "up" if peer.met else f"down: {peer.reason or 'no HELLO yet'}"
                for name, peer in node.peers.items()
            },
            "open_tickets": node.bandits.open_tickets,
            "rewards": node.bandits.rewards,
            "refused_frames": dict(node.refusals),
            "refused_strangers": node.strangers,
            "journal_bytes": node.bandits.journal.size,
            "trouble": node.trouble,
            "document": state_of(node),
            "bandits": {each.declared.name: each.health() for each in self.services.values()},
        }

    def ruling(self) -> dict[str, Any]:
        """Return the cluster's document as plain data, and who has which version of it."""
        return ruling(self.node)

    def adopt(self, signed: bytes | bytearray) -> dict[str, Any]:
        """Take a new document of the cluster, signed and as JSON; return what `ruling` does."""
        return adopt(self.node, signed, self.failure, self.clock())

    def state(self, since: int = 0) -> AgentState:
        """Return what a page shows of the first bandit, with what happened after an event."""
        live = self._live or list(self.services.values())
        if not live:
            raise UnavailableError("this agent has no bandit yet")
        return live[0].state(since)

    def listed(self, shown: ServedBandit) -> list[str]:
        """Return the names of all bandits that choose, that of one first."""
        others = [each for each in self._live if each is not shown]
        return [each.declared.name for each in (shown, *others)]

    def ready(self) -> str | None:
        """Return None if the agent can serve, otherwise the reason in one sentence."""
        if self.node.bandits.journal.read_only and not self.failure:
            return f"{self.node.trouble}; until it can, choices come without tickets"
        return self.failure or self.node.trouble or self._unready()

    def _unready(self) -> str | None:
        """Return why an agent in which nothing is wrong shall not be asked, if so."""
        if self.draining:
            return DRAINING
        peers, needed = self.node.peers.values(), self.ready_neighbors
        linked = sum(peer.met for peer in peers)
        if linked < needed:
            return (
                f"{linked} of {len(peers)} neighbours are linked, and ready_neighbors is {needed}"
            )
        return None

    def metrics(self) -> list[Metric]:
        """Return the agent's metrics, under a bounded number of labels."""
        return bandit_metrics(self.node, list(self.services.values()))

    def export(self) -> dict[str, Any]:
        """Return everything learned, of all bandits."""
        exported = {service.declared.name: service.export() for service in self.services.values()}
        return {"agent": self.config.id, "cluster": self.config.cluster.name, "bandits": exported}
