"""The service of an agent with several bandits: one `ApplicationService` each, and all together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from coopbandits.core.errors import unknown_name
from coopbandits.fleet.config import NodeConfig
from coopbandits.fleet.config.bandits import BanditConfig
from coopbandits.fleet.protocol.many import ManyNode
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
from coopbandits.fleet.service.application import ApplicationService, Waiting, unready
from coopbandits.fleet.service.bandits import bandit_metrics
from coopbandits.fleet.service.ruling import adopt, ruling, state_of
from coopbandits.page.state import AgentState


class ManyService:
    """Implements `Service` for an agent with several bandits.

    What is asked without naming one is answered where there is one only.

    Parameters
    ----------
    config : NodeConfig
        The agent's configuration.
    node : ManyNode
        The agent's protocol.
    words : callable
        Returns 64 random bits.
    """

    def __init__(self, config: NodeConfig, node: ManyNode, words: Callable[[], int]) -> None:
        self.config, self.node, self.words = config, node, words
        self.services: dict[int, ApplicationService] = {}
        self._committer: Waiting | None = None
        self._failure, self._draining = "", False
        self._ready_neighbors = config.ready_neighbors
        self.take([talk.bandit for talk in node.talks.talks.values()])

    def take(self, bandits: Iterable[BanditConfig]) -> None:
        """Go by these declarations from now on."""
        for bandit in bandits:
            service = self.services.get(bandit.number)
            if service is None:
                service = ApplicationService(self.config, self.node, self.words, bandit)
                service.committer, service.failure = self._committer, self._failure
                service.listed = partial(self._listed, service)
                service.owner_of = self._owner_of
                service.draining, service.ready_neighbors = self._draining, self._ready_neighbors
                self.services[bandit.number] = service
            else:
                service.take(bandit)

    def renew_tokens(self, tokens: Mapping[str, str]) -> None:
        """Go by what token files hold by now; retired bandits keep their tokens."""
        for service in self._live():
            service.token = tokens.get(service.declared.name)

    @property
    def token(self) -> str | None:
        """The token of the bandit that is asked without being named; None where there are more."""
        live = self._live()
        return live[0].token if len(live) == 1 else None

    @property
    def committer(self) -> Waiting | None:
        """What stores events while others are gathered."""
        return self._committer

    @committer.setter
    def committer(self, committer: Waiting) -> None:
        self._committer = committer
        for service in self.services.values():
            service.committer = committer

    @property
    def failure(self) -> str:
        """Why the agent serves no more."""
        return self._failure

    @failure.setter
    def failure(self, reason: str) -> None:
        self._failure = reason
        for service in self.services.values():
            service.failure = reason

    @property
    def draining(self) -> bool:
        """Whether the agent is about to stop."""
        return self._draining

    @draining.setter
    def draining(self, draining: bool) -> None:
        self._draining = draining
        for service in self.services.values():
            service.draining = draining

    @property
    def ready_neighbors(self) -> int:
        """How many neighbours must be linked for the agent to be ready."""
        return self._ready_neighbors

    @ready_neighbors.setter
    def ready_neighbors(self, needed: int) -> None:
        self._ready_neighbors = needed
        for service in self.services.values():
            service.ready_neighbors = needed

    def bandit(self, name: str) -> ApplicationService:
        """Return the service of one bandit."""
        for service in self.services.values():
            if service.declared.name == name:
                return service
        known = [service.declared.name for service in self._live()]
        raise UnknownBanditError(str(unknown_name("bandit", name[:63], known)))

    def bandits(self) -> list[BanditState]:
        """Return all bandits, the retired ones last."""
        found = [state for service in self.services.values() for state in service.bandits()]
        return sorted(found, key=lambda state: state.retired)

    def _live(self) -> list[ApplicationService]:
        return [service for service in self.services.values() if service.declared.arms]

    def _only(self) -> ApplicationService:
        live = self._live()
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
            owner = self._owner_of(ticket)
            if owner is None:
                raise
        return owner.observe(ticket, reward)

    def _owner_of(self, ticket: str) -> ApplicationService | None:
        """Return the bandit that handed out a ticket: each has other tickets, also once retired."""
        for service in self.services.values():
            with suppress(UnknownTicketError):
                service.replica.tickets.number(ticket)
                return service
        return None

    def stored(self, then: Stored) -> None:
        """Call `then` once all that was chosen and observed so far is on disk."""
        if self._committer is None:
            then(None)
        else:
            self._committer.wait(then)

    def arms(self, context: Context | None = None) -> list[ArmEstimate]:
        """Return an estimate of every arm where there is one bandit only."""
        return self._only().arms(context)

    def context_schema(self) -> dict[str, Any] | None:
        """Return what a context must be where there is one bandit only."""
        live = self._live()
        return live[0].context_schema() if len(live) == 1 else None

    def recommendation(self, confidence: float = CONFIDENCE) -> Recommendation:
        """Return which option won so far where there is one bandit only."""
        return self._only().recommendation(confidence)

    def health(self) -> dict[str, Any]:
        """Return the agent's state as plain data."""
        node, services = self.node, self.services.values()  # late rewards count, too
        return {
            "id": self.config.id,
            "cluster": self.config.cluster.name,
            "mode": "robust",
            "round": node.bandits.rounds,
            "incarnation": node.settings.incarnation,
            "links": {
                name: "up" if peer.met else f"down: {peer.reason or 'no HELLO yet'}"
                for name, peer in node.peers.items()
            },
            "open_tickets": sum(len(each.replica.tickets.open) for each in services),
            "rewards": sum(int(each.replica.own_counts.sum()) for each in services),
            "refused_frames": dict(node.refusals),
            "refused_strangers": node.strangers,
            "journal_bytes": node.bandits.journal.size,
            "trouble": node.trouble,
            "document": state_of(node),
            "bandits": {state.name: state._asdict() for state in self.bandits()},
        }

    def ruling(self) -> dict[str, Any]:
        """Return the cluster's document as plain data, and who has which version of it."""
        return ruling(self.node)

    def adopt(self, signed: bytes | bytearray) -> dict[str, Any]:
        """Take a new document of the cluster, signed and as JSON; return what `ruling` does."""
        return adopt(self.node, signed, self._failure)

    def state(self, since: int = 0) -> AgentState:
        """Return what a page shows of the first bandit, with what happened after an event."""
        live = self._live() or list(self.services.values())
        if not live:
            raise UnavailableError("this agent has no bandit yet")
        return live[0].state(since)

    def _listed(self, shown: ApplicationService) -> list[str]:
        """Return the names of all that choose, that of one first."""
        others = [each for each in self._live() if each is not shown]
        return [each.declared.name for each in (shown, *others)]

    def ready(self) -> str | None:
        """Return None if the agent can serve, otherwise the reason in one sentence."""
        if self.node.bandits.journal.read_only and not self._failure:
            return f"{self.node.trouble}; until it can, choices come without tickets"
        peers, needed = self.node.peers.values(), self.ready_neighbors
        why = unready(peers, needed, draining=self.draining)
        return self._failure or self.node.trouble or why

    def metrics(self) -> list[Metric]:
        """Return the agent's metrics, under a bounded number of labels."""
        return bandit_metrics(self.node, list(self.services.values()))

    def export(self) -> dict[str, Any]:
        """Return everything learned, of all bandits."""
        exported = {service.declared.name: service.export() for service in self.services.values()}
        return {"agent": self.config.id, "cluster": self.config.cluster.name, "bandits": exported}
