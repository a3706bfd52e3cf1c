"""Messages in transit between the agents of one run, and what became of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from coopbandits.core.contract import Agent, Vector
from coopbandits.core.errors import InputError
from coopbandits.network import Network
from coopbandits.network.faults import DOWN, LOST, directed_links
from coopbandits.sim.record import Record


@dataclass
class Counts:
    """What was sent, in values and messages, and what became of it.

    A message that was sent is delivered, lost, or still in transit. It is `late` if it is delivered
    one round or more after it was sent. Of two that arrive together over one link, the newer is
    delivered and the older counts as lost; so does one that arrives after a newer one, where the
    newest says it all (`AnyAggregation.overtakes`).
    """

    values: int = 0
    sent: int = 0
    delivered: int = 0
    late: int = 0
    lost: int = 0

    def write(self, record: Record, row: int) -> None:
        """Write the numbers of messages into one row of the record."""
        record.messages[row] = self.sent
        record.delivered[row] = self.delivered
        record.late[row] = self.late
        record.lost[row] = self.lost


def outgoing(agent: Agent, neighbor: int) -> Vector | None:
    """Return an agent's message to a neighbour; refuse what is none."""
    message: object = agent.outgoing(neighbor)
    if message is None or (isinstance(message, np.ndarray) and message.ndim == 1):
        return message
    shape = f" of shape {message.shape}" if isinstance(message, np.ndarray) else ""
    raise InputError(
        f"outgoing of agent {agent.view.agent_id} returned a {type(message).__name__}{shape}; "
        "return a numpy array with one dimension, or None for no message"
    )


class Mail:
    """The messages of agents in rounds; of senders in `overtaking`, the newest says it all."""

    def __init__(self, network: Network, *, overtaking: Collection[int] = ()) -> None:
        links = directed_links(network)
        self.overtaking = frozenset(overtaking)
        self.newest: dict[tuple[int, int], int] = {}  # when the newest delivered was sent
        self.links = list(zip(links.receivers.tolist(), links.senders.tolist(), strict=True))
        self.rounds = 0
        self.due: dict[int, dict[tuple[int, int], tuple[Vector, int]]] = {}
        self.counts = Counts()

    def exchange(self, agents: Sequence[Agent], fates: Sequence[int]) -> None:
        """Collect this round's messages, apply their fates, and deliver what arrives now."""
        for (receiver, sender), fate in zip(self.links, fates, strict=True):
            if fate == DOWN:
                continue
            message = outgoing(agents[sender], receiver)
            if message is not None:
                self._send(receiver, sender, message, fate)
        self._deliver(agents)
        self.rounds += 1

    def _send(self, receiver: int, sender: int, message: Vector, fate: int) -> None:
        self.counts.sent += 1
        self.counts.values += message.size
        if fate == LOST:
            self.counts.lost += 1
            return
        due = self.due.setdefault(self.rounds + fate, {})
        self.counts.lost += (receiver, sender) in due  # sent earlier, overtaken by this one
        due[receiver, sender] = message, fate

    def _deliver(self, agents: Sequence[Agent]) -> None:
        """End the round for all agents; the inbox of one that does not act is empty."""
        inboxes: list[dict[int, Vector]] = [{} for _ in agents]
        for (receiver, sender), (message, fate) in sorted(
            self.due.pop(self.rounds, {}).items(), key=lambda item: item[0]
        ):
            if self._is_overtaken((receiver, sender), self.rounds - fate):
                self.counts.lost += 1
                continue
            inboxes[receiver][sender] = message
            self.counts.delivered += 1
            self.counts.late += fate > 0
        for agent, inbox in zip(agents, inboxes, strict=True):
            agent.receive(inbox)

    def _is_overtaken(self, link: tuple[int, int], sent: int) -> bool:
        """Return whether a newer message was delivered before one that was sent in some round."""
        newest = self.newest[link] = max(sent, self.newest.get(link, sent))
        return link[1] in self.overtaking and sent < newest
