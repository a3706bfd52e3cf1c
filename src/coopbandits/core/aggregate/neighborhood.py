"""Pulls told to the neighbours: every agent counts its own pulls and those of its neighbours.

A message is the list of pulls since the last round, two values (arm, reward) each, and before them
the round where the statistic decays. What a neighbour pulls in one round is known in the next; what
others pull is never known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from coopbandits.core.aggregate.aggregation import Aggregation, Machine, MessageSize
from coopbandits.core.aggregate.exchange import add_old, check_arms, read_items
from coopbandits.core.checks import require_count, require_flag
from coopbandits.core.contract import Estimate, LocalView, State, Vector
from coopbandits.core.draws import uniform_of, word_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coopbandits.core.statistic import Registers

LEAST_DEGREE = "least_degree"
"""Global knowledge: the smallest number of neighbours that an agent of the network has."""


@dataclass(frozen=True)
class NeighborhoodSums(Aggregation):
    r"""Own pulls and those of the neighbours.

    Parameters
    ----------
    exploring : bool
        Whether only pulls are told that explore, of another arm than the one with the best mean by
        what the agent knew before (ComEx; Madhushani, Leonard 2021).
    fair : bool
        Whether an agent with d neighbours counts each of their pulls with probability
        :math:`d_{\min}/d` alone, so that who has many does not run ahead (LF; Madhushani, Dubey,
        Leonard, Pentland 2021).

    Notes
    -----
    Knows who its neighbours are; to be fair also the smallest number of neighbours in the network,
    and a random word. Sends 2 values, arm and reward, to each of them for every pull that is told.
    """

    exploring: bool = False
    fair: bool = False
    name: ClassVar[str] = "neighborhood-sums"

    def __post_init__(self) -> None:
        """Refuse all but true and false."""
        require_flag("exploring", self.exploring)
        require_flag("fair", self.fair)

    @property
    def needs(self) -> frozenset[str]:
        """To be fair, the smallest number of neighbours and a random word."""
        return frozenset({LEAST_DEGREE, "random_word"} if self.fair else ())

    @property
    def uncertified(self) -> str:
        """Why no pulls are certified; "" where every pull is told."""
        return "lets rewards decide which pulls are told" if self.exploring else ""

    def make(self, view: LocalView, registers: Registers) -> NeighborhoodSumsMachine:
        """Return the machine of one agent."""
        return NeighborhoodSumsMachine(view, registers, self)

    def message_size(self, registers: Registers, max_agents: int) -> MessageSize:
        """Return the size for one pull a round."""
        del max_agents
        width = width_of(registers)
        return MessageSize(width, width, "with one pull a round")


class NeighborhoodSumsMachine(Machine):
    """Totals of the closed neighbourhood.

    Notes
    -----
    The time is the number of own pulls, as one agent's without communication. A lost message is
    lost for good, one delivered again counts again, and what is observed between sending and
    receiving is told to nobody.
    """

    fields = ("totals", "num_pulls", "rounds", "news")
    tables = ("news",)

    def __init__(self, view: LocalView, registers: Registers, settings: NeighborhoodSums) -> None:
        self.registers, self.common_round = registers, view.common_round
        self.exploring, self.word = settings.exploring, view.random_word
        degree = max(1, len(view.neighbor_weights))
        self.heard_share = view.global_knowledge[LEAST_DEGREE] / degree if settings.fair else 1.0
        self.totals = registers.zeros()
        self.num_pulls = self.rounds = 0
        self.news = np.empty((0, width_of(registers)))  # own pulls of this round: arm, reward

    def estimate(self) -> Estimate:
        """Return the totals of the closed neighbourhood."""
        time = max(2.0, float(self.num_pulls))
        found = self.registers.read(self.totals, time=time, num_agents=1.0)
        if self.exploring:
            return found
        return found._replace(certain=self.registers.share(self.totals))

    def observe(self, arm: int, reward: float) -> None:
        """Add one own pull, and put it down for the neighbours."""
        is_news = not self.exploring or arm != self._best()
        self.registers.add(self.totals, arm, reward)
        self.num_pulls += 1
        if not is_news:
            return
        pull = [self.rounds, arm, reward]
        self.news = np.vstack([self.news, pull[-self.news.shape[1] :]])

    def _best(self) -> int:
        """Return the arm with the largest mean, −1 before any pull."""
        read = self.estimate()
        means = np.where(read.counts > 0.0, read.sums / np.maximum(1e-300, read.counts), -np.inf)
        return int(means.argmax()) if read.counts.any() else -1

    def outgoing(self, neighbor: int) -> Vector | None:
        """Return the own pulls of this round that are told, or None if there are none."""
        del neighbor  # all get the same
        return self.news.flatten() if self.news.size else None

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Add what the neighbours pulled."""
        num_arms, width = self.registers.num_arms, self.news.shape[1]
        heard = {j: read_items(message, width, num_arms, j) for j, message in messages.items()}
        for item in (item for j, items in heard.items() for item in self._kept(j, items.tolist())):
            add_old(self.registers, self.totals, int(item[-2]), item[-1], self._age(item))
        self.rounds += 1
        self.news = self.news[:0]
        self.registers.age(self.totals)

    def _kept(self, sender: int, items: list[list[float]]) -> list[list[float]]:
        """Return the pulls of one neighbour that count."""
        if self.heard_share >= 1.0:
            return items
        key = word_at(word_at(self.word, self.rounds), sender)
        chances = (uniform_of(word_at(key, place)) for place in range(len(items)))
        return [item for item, u in zip(items, chances, strict=True) if u < self.heard_share]

    def _age(self, item: list[float]) -> int:
        """Return how many rounds ago a pull was made, as far as that matters and is known."""
        return self.rounds - int(item[0]) if len(item) > 2 and self.common_round else 0

    def check_state(self, values: State) -> None:
        """Refuse pulls of arms that do not exist."""
        require_count("state field rounds", values["rounds"], least=0)
        require_count("state field num_pulls", values["num_pulls"], least=len(values["news"]))
        check_arms(values["news"][:, -2], self.registers.num_arms, "state field news")


def width_of(registers: Registers) -> int:
    """Return how many values tell of a pull: arm and reward, after its round where pulls decay."""
    return 2 if registers.decay == 1.0 else 3
