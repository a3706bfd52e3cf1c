"""GosInE: agents tell each other arms, never rewards, and play few of them.

Every agent holds its *sticky* arms for ever, and two more, one on trial. At the end of every phase
it keeps the better one of the two, and takes the arm that a random neighbour likes best in the
place of the other. A message is one value, the number of an arm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.aggregate.aggregation import told_agents
from coopbandits.core.aggregate.exchange import check_arms, check_vectors
from coopbandits.core.checks import require_count, require_flag, require_positive
from coopbandits.core.choice import best_arm, best_arms
from coopbandits.core.contract import LocalView, State, Vector
from coopbandits.core.draws import uniform_of, word_at
from coopbandits.core.errors import InputError
from coopbandits.core.policy import Policy
from coopbandits.core.ruled import RuledAgent
from coopbandits.core.team import Arms, Sent, Team

BLOCKING_POWER = 2
"""η: a neighbour that is blocked in phase j is blocked up to phase j^η."""


@dataclass(frozen=True)
class GosInE(Policy):
    r"""GosInE (Chawla, Sankararaman, Ganesh, Shakkottai 2020), with synchronous phases.

    Plays UCB, :math:`\hat\mu_k + \sqrt{B σ^2 \ln(t + 1)/n_k}`, on its own pulls of the ⌈K/N⌉ + 2
    arms that it holds; phase j ends in round j³.

    Parameters
    ----------
    blocking : bool
        Whether an agent ignores, for a while, a neighbour whose advice turned out to be useless
        (Vial, Shakkottai, Srikant 2021, 2022).
    constant : float
        B; 16 is the authors' α = 4 for rewards in [0, 1].

    Notes
    -----
    Knows N, its own number, who its neighbours are, and a random word. Sends one value to each
    neighbour at the end of a phase: about :math:`T^{1/3}` times in T rounds.

    *Differs from the paper*: all neighbours are told, and one of them is listened to, where the
    paper asks one alone; so an agent sends as many values as it has neighbours. The thresholds of
    blocking are ours.
    """

    blocking: bool = False
    constant: float = 16.0
    name: ClassVar[str] = "gosine"

    def __post_init__(self) -> None:
        """Refuse settings outside what it is defined for."""
        require_flag("blocking", self.blocking)
        require_positive("constant", self.constant)

    @property
    def needs(self) -> frozenset[str]:
        """N and a random word."""
        return frozenset({"num_agents", "random_word"})

    def make_agent(self, view: LocalView) -> GosInEAgent:
        """Return a fresh agent."""
        return GosInEAgent(view, self)

    def make_team(self, views: Sequence[LocalView]) -> GosInETeam:
        """Return all agents, whose pulls stand in one table."""
        return GosInETeam([self.make_agent(view) for view in views])


class GosInEAgent(RuledAgent):
    """One agent: sticky arms, the one kept (`kept`) and the one on trial (`tried`)."""

    fields = (
        "sums", "counts", "in_phase", "rounds", "phase", "kept", "tried", "favourite", "since",
        "adviser", "advised", "blocked",
    )  # fmt: skip
    links = ("blocked",)

    def __init__(self, view: LocalView, settings: GosInE) -> None:
        super().__init__(view, settings.spelling)
        self.blocking, self.scale = settings.blocking, settings.constant * view.sigma**2
        arms, size = view.num_arms, -(-view.num_arms // told_agents(view, settings.name))
        first = view.agent_id * size
        self.sticky = frozenset((first + k) % arms for k in range(size))
        self.kept, self.tried = (first + size) % arms, (first + size + 1) % arms
        self.sums, self.counts = np.zeros(arms), np.zeros(arms)
        self.in_phase = np.zeros(arms)  # pulls in this phase
        self.rounds, self.phase = 0, 1
        self.favourite, self.since = 0, 0  # the arm played most in a phase, and since which one
        self.adviser, self.advised = -1, 0  # the place of who gave advice, and which; −1: nobody
        self.blocked = np.zeros(len(self.places))  # up to which phase each neighbour is ignored

    @property
    def held(self) -> frozenset[int]:
        """The arms that may be played."""
        return self.sticky | {self.kept, self.tried}

    def pick(self, word: int, arms: Sequence[int]) -> int:
        """Return the held arm with the largest index."""
        del word
        log = math.log(1.0 + self.counts.sum())
        return best_arm(
            [self._index(k, log) for k in range(self.counts.size)],
            [k for k in arms if k in self.held] or arms,
        )

    def _index(self, arm: int, log: float) -> float:
        count = float(self.counts[arm])
        if count == 0.0:
            return -math.inf if self.open_pulls[arm] else math.inf  # one first pull is enough
        width = math.sqrt(self.scale * log / (count + float(self.open_pulls[arm])))
        return float(self.sums[arm]) / count + width

    def learn(self, arm: int, reward: float) -> None:
        """Count one own pull."""
        self.sums[arm] += reward
        self.counts[arm] += 1.0
        self.in_phase[arm] += 1.0

    def tell(self, neighbor: int) -> Vector | None:
        """Return the arm played most in this phase, in its last round."""
        del neighbor  # all are told the same
        return np.array([float(self._most_played())]) if self._ends_phase() else None

    def _ends_phase(self) -> bool:
        return self.rounds + 1 >= self.phase**3

    def _most_played(self) -> int:
        held = sorted(self.held)
        return held[int(self.in_phase[held].argmax())]

    def hear(self, messages: Mapping[int, Vector]) -> None:
        """End the phase in its last round; what arrives in others is late, and of no use."""
        check_vectors(messages, 1)
        for j, message in messages.items():
            check_arms(message, self.view.num_arms, f"message from {j}")
        if self._ends_phase():
            self._end_phase(messages)
        self.rounds += 1

    def _end_phase(self, messages: Mapping[int, Vector]) -> None:
        favourite = self._most_played()
        if favourite != self.favourite:
            self.favourite, self.since = favourite, self.phase
        if self.blocking and self.adviser >= 0 and self._is_useless(self.advised):
            self.blocked[self.adviser] = self.phase**BLOCKING_POWER
        if self.in_phase[self.kept] < self.in_phase[self.tried]:
            self.kept, self.tried = self.tried, self.kept
        self.adviser = self._ask(messages)
        if self.adviser >= 0:
            self.advised = int(messages[list(self.places)[self.adviser]][0])
            if self.advised not in self.held:
                self.tried = self.advised
        self.in_phase[:] = 0.0
        self.phase += 1

    def _is_useless(self, arm: int) -> bool:
        """Return whether an arm advised a phase ago was hardly played, and not for want of time."""
        settled = self.since <= math.ceil(self.phase / 2)
        return settled and bool(self.counts[arm] < math.ceil(math.log(self.phase + 1) ** 2))

    def _ask(self, messages: Mapping[int, Vector]) -> int:
        """Return the place of a random neighbour that is not blocked; −1 if it was not heard."""
        open_to = np.flatnonzero(self.blocked <= self.phase)
        if open_to.size == 0:
            return -1
        uniform = uniform_of(word_at(self.view.random_word, self.phase))
        place = int(open_to[int(uniform * open_to.size)])
        return place if list(self.places)[place] in messages else -1

    def check_state(self, values: State) -> None:
        """Refuse arms, rounds and neighbours that do not exist."""
        super().check_state(values)
        for name, least in (("rounds", 0), ("phase", 1), ("since", 0), ("adviser", -1)):
            require_count(f"state field {name}", values[name], least=least)
        if values["adviser"] >= len(self.places):
            raise InputError(
                f"state field adviser is {values['adviser']}; this agent has {len(self.places)} "
                "neighbours, counted from 0"
            )
        names = ("kept", "tried", "favourite", "advised")
        arms = np.array([values[name] for name in names], dtype=np.float64)
        check_arms(arms, self.view.num_arms, f"state fields {', '.join(names)}")


class GosInETeam(Team):
    """All agents: choices are made in arrays, and the agents themselves end the phases."""

    def __init__(self, agents: Sequence[GosInEAgent]) -> None:
        self.agents, self.scale = agents, agents[0].scale
        shape = (len(agents), agents[0].view.num_arms)
        self.rows, self.rounds = np.arange(len(agents)), 0
        self.sums, self.counts, self.in_phase = (np.zeros(shape) for _ in range(3))
        for i, agent in enumerate(agents):  # theirs are rows of these tables from now on
            agent.sums, agent.counts = self.sums[i], self.counts[i]
            agent.in_phase = self.in_phase[i]
        self._look()

    def _look(self) -> None:
        """See who holds what."""
        self.held = np.zeros(self.counts.shape, dtype=np.bool_)
        for row, agent in zip(self.held, self.agents, strict=True):
            row[sorted(agent.held)] = True

    def choose(self, words: NDArray[np.uint64]) -> Arms:
        """Return the held arm with the largest index."""
        del words
        level = self.scale * math.log(1.0 + self.rounds)
        known = np.maximum(1.0, self.counts)
        values = np.where(self.counts > 0.0, self.sums / known + np.sqrt(level / known), np.inf)
        return best_arms(np.where(self.held, values, -np.inf))

    def learn(self, arms: Arms, rewards: NDArray[np.float64]) -> None:
        """Count the pulls."""
        self.sums[self.rows, arms] += rewards
        self.counts[self.rows, arms] += 1.0
        self.in_phase[self.rows, arms] += 1.0

    def exchange(self) -> Sent:
        """End the phase in its last round, as all agents do."""
        sent = np.zeros(len(self.agents), dtype=np.int64)
        if self.rounds + 1 >= self.agents[0].phase ** 3:
            for agent in self.agents:
                agent.rounds = self.rounds
            told = [agent.tell(-1) for agent in self.agents]
            for i, agent in enumerate(self.agents):
                heard = {j: told[j] for j in agent.places}
                agent.hear(heard)  # type: ignore[arg-type]  # all tell something now
                sent[i] = len(heard)
            self._look()
        self.rounds += 1
        return Sent(sent, sent)
