"""Exp3-Coop: exponential weights on losses that neighbours report, against an adversary.

Rewards need not come from any distribution; all agents meet the same ones in a round. A message is
a list of items (agent, round, arm, loss, K probabilities), passed on up to d hops. What was played
in round t − d within d hops is known to all there when round t ends, and counts then: an arm's loss
by the probability that somebody would have played it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.aggregate.exchange import all_finite, check_arms
from coopbandits.core.aggregate.flooded_pulls import check_keys
from coopbandits.core.checks import require_count, require_positive
from coopbandits.core.contract import LocalView, State, Vector
from coopbandits.core.draws import uniform_of, uniforms, word_at, words_of
from coopbandits.core.errors import InputError
from coopbandits.core.links import Links
from coopbandits.core.policy import Policy
from coopbandits.core.ruled import RuledAgent
from coopbandits.core.team import Arms, Sent, Team

HEADER = 4
"""Values of an item before its probabilities: agent, round, arm, loss."""

LEAST = 2.0**-52
"""An arm that was played has at least this probability, whatever rounding made of it."""


@dataclass(frozen=True)
class Exp3Coop(Policy):
    r"""Exp3-Coop (Cesa-Bianchi, Gentile, Mansour, Minora 2016).

    Draws an arm with probability :math:`p_k \propto w_k`, and multiplies every :math:`w_k` by
    :math:`\exp(-η\,\ell_k B_k/q_k)`, :math:`B_k` whether somebody within d hops played the arm d
    rounds ago and :math:`q_k = 1 - \prod_j (1 - p_k^j)` the probability of that.

    Parameters
    ----------
    hop_limit : int
        d, how many links the news of a pull may cross; 0 for Exp3 without communication.
    eta : float or None
        η; None for :math:`\sqrt{\ln K/(t (d + 1 + K/m))}` in round t, m the agents within d hops
        that were heard.

    Notes
    -----
    Losses are 1 − reward, for rewards in [0, 1]; others count as 0 or 1, whichever is nearer. Knows
    its own number, who its neighbours are, and the number of the round, common to all. Sends K + 4
    values for every pull made at most d − 1 hops away.

    *Differs from the paper*: its η is fixed, and made of the horizon and the independence number of
    the graph; ours takes the round and the neighbourhood in their place unless it is given.
    """

    hop_limit: int = 1
    eta: float | None = None
    name: ClassVar[str] = "exp3-coop"

    def __post_init__(self) -> None:
        """Refuse settings outside what it is defined for."""
        require_count("hop_limit", self.hop_limit, least=0)
        if self.eta is not None:
            require_positive("eta", self.eta)

    @property
    def needs_common_round(self) -> bool:
        """Yes: losses count by their round."""
        return True

    def make_agent(self, view: LocalView) -> Exp3CoopAgent:
        """Return a fresh agent."""
        return Exp3CoopAgent(view, self)

    def make_team(self, views: Sequence[LocalView]) -> Exp3CoopTeam:
        """Return all agents in arrays."""
        return Exp3CoopTeam(views, self)


class Exp3CoopAgent(RuledAgent):
    """One agent: logarithms of its weights, and items that have not counted yet."""

    fields = ("logits", "rounds", "items", "fresh")
    tables = ("items", "fresh")

    def __init__(self, view: LocalView, settings: Exp3Coop) -> None:
        super().__init__(view, settings.spelling)
        self.hop_limit, self.eta = settings.hop_limit, settings.eta
        self.logits = np.zeros(view.num_arms)
        self.rounds = 0
        self.items = np.empty((0, HEADER + view.num_arms))  # of rounds that have not counted yet
        self.fresh = self.items  # those of them to send in this round

    def probabilities(self) -> Vector:
        """Return what is played with which probability."""
        return shares_of(self.logits)

    def pick(self, word: int, arms: Sequence[int]) -> int:
        """Draw an arm."""
        shares = self.probabilities()[list(arms)]
        if not shares.any():  # arms that were given up are all there is
            shares = np.ones(len(arms))
        sums = np.cumsum(shares)
        place = np.searchsorted(sums, uniform_of(word_at(word, 0)) * sums[-1], side="right")
        return arms[min(int(place), len(arms) - 1)]

    def learn(self, arm: int, reward: float) -> None:
        """Note one own pull."""
        loss = min(1.0, max(0.0, 1.0 - reward))
        item = np.concatenate([[self.view.agent_id, self.rounds, arm, loss], self.probabilities()])
        self.items = np.vstack([self.items, item])
        self.fresh = np.vstack([self.fresh, item])

    def tell(self, neighbor: int) -> Vector | None:
        """Return the items of this round, or None."""
        del neighbor  # all are told the same
        return self.fresh.flatten() if self.fresh.size and self.hop_limit else None

    def hear(self, messages: Mapping[int, Vector]) -> None:
        """Take in items not heard before, then let the losses of d rounds ago count."""
        heard = [self._read(j, message) for j, message in messages.items()]
        seen = {tuple(key) for key in self.items[:, :2].tolist()}
        news: list[list[float]] = []
        for rows in heard:
            # Items of one key come in one message: only the messages before make it old.
            new = [row for row in rows.tolist() if self._is_news(row, seen)]
            seen.update((row[0], row[1]) for row in new)
            news += new
        fresh = np.array(news, dtype=np.float64).reshape(-1, self.items.shape[1])
        self.items = np.vstack([self.items, fresh])
        self._count(self.items[self.items[:, 1] == self.rounds - self.hop_limit])
        self.items = self.items[self.items[:, 1] > self.rounds - self.hop_limit]
        self.fresh = fresh[fresh[:, 1] > self.rounds - self.hop_limit + 1]
        self.rounds += 1

    def _is_news(self, row: list[float], seen: set[tuple[float, ...]]) -> bool:
        is_young = row[1] >= self.rounds - self.hop_limit
        return row[0] != self.view.agent_id and is_young and (row[0], row[1]) not in seen

    def _count(self, items: Vector) -> None:
        """Move the weights by the losses of one round."""
        if items.size == 0:
            return
        arms, losses = items[:, 2].astype(np.int64), items[:, 3]
        plays = np.bincount(arms, minlength=self.logits.size)
        totals = np.bincount(arms, losses, minlength=self.logits.size)
        reached = np.maximum(LEAST, 1.0 - np.prod(1.0 - items[:, HEADER:], axis=0))
        played = plays > 0
        rate = self._rate(len(np.unique(items[:, 0])))
        self.logits[played] -= rate * totals[played] / plays[played] / reached[played]
        self.logits -= self.logits.max()

    def _rate(self, agents: int) -> float:
        if self.eta is not None:
            return self.eta
        return float(usual_rate(self.logits.size, self.hop_limit, self.rounds, np.array(agents)))

    def _read(self, sender: int, message: Vector) -> Vector:
        width = self.items.shape[1]
        if np.ndim(message) != 1 or np.size(message) % width or not all_finite(message):
            raise InputError(
                f"message from {sender} has shape {np.shape(message)}; it must be one vector of "
                f"{width} finite values per pull"
            )
        rows = np.reshape(message, (-1, width))
        self._check(rows, self.rounds, f"message from {sender}")
        return rows

    def _check(self, rows: Vector, now: int, source: str) -> None:
        check_keys(rows[:, :2], 0, now, source)
        check_arms(rows[:, 2], self.view.num_arms, source)
        shares = rows[:, HEADER - 1 :]
        if not ((shares >= 0.0) & (shares <= 1.0)).all():
            raise InputError(
                f"{source} has losses and probabilities {shares.tolist()}; they lie in 0 to 1"
            )

    def check_state(self, values: State) -> None:
        """Refuse items that no agent can have heard."""
        super().check_state(values)
        require_count("state field rounds", values["rounds"], least=0)
        for name in self.tables:
            self._check(values[name], values["rounds"], f"state field {name}")


class Exp3CoopTeam(Team):
    """All agents in arrays: who is near hears of a pull in time to count it, so nothing is sent."""

    def __init__(self, views: Sequence[LocalView], settings: Exp3Coop) -> None:
        self.hop_limit, self.eta = settings.hop_limit, settings.eta
        links = Links(views)
        balls = links.within(self.hop_limit)
        self.near, self.sizes = np.concatenate(balls), np.array([len(ball) for ball in balls])
        self.starts = np.cumsum([0, *self.sizes[:-1]])
        self.degrees = links.degrees if self.hop_limit else np.zeros_like(links.degrees)
        # How many items agents send in round 0, 1, …: their own, and those of one hop more each.
        self.items = [
            self.degrees * [len(ball) for ball in links.within(hops)]
            for hops in range(max(1, self.hop_limit))
        ]
        self.logits = np.zeros((len(views), views[0].num_arms))
        self.rows, self.rounds = np.arange(len(views)), 0
        self.waiting: deque[tuple[Vector, Vector, Vector]] = deque()  # what has not counted yet

    def choose(self, words: NDArray[np.uint64]) -> Arms:
        """Draw an arm each."""
        self.shares = shares_of(self.logits)
        sums = np.cumsum(self.shares, axis=1)
        drawn = uniforms(words_of(words, np.zeros_like(words)))[:, None] * sums[:, -1:]
        found: Arms = np.minimum((sums <= drawn).sum(axis=1), sums.shape[1] - 1)
        return found

    def learn(self, arms: Arms, rewards: NDArray[np.float64]) -> None:
        """Note who played what, and what it lost."""
        plays = np.zeros_like(self.logits)
        plays[self.rows, arms] = 1.0
        losses = np.clip(1.0 - rewards, 0.0, 1.0)
        self.waiting.append((plays, plays * losses[:, None], self.shares))

    def exchange(self) -> Sent:
        """Let the losses of d rounds ago count."""
        if len(self.waiting) > self.hop_limit:
            self._count(*self.waiting.popleft())
        items = self.items[min(self.rounds, len(self.items) - 1)]
        self.rounds += 1
        return Sent(self.degrees, items * (HEADER + self.logits.shape[1]))

    def _count(self, plays: Vector, losses: Vector, shares: Vector) -> None:
        """Move all weights by the losses of one round."""
        played = self._near(np.add, plays)
        reached = np.maximum(LEAST, 1.0 - self._near(np.multiply, 1.0 - shares))
        loss = self._near(np.add, losses) / np.maximum(1.0, played) / reached
        self.logits -= np.where(played > 0.0, self._rates()[:, None] * loss, 0.0)
        self.logits -= self.logits.max(axis=1, keepdims=True)

    def _near(self, how: np.ufunc, values: Vector) -> Vector:
        """Return what every agent makes of the rows of all within d hops."""
        found: Vector = how.reduceat(values[self.near], self.starts, axis=0)
        return found

    def _rates(self) -> Vector:
        if self.eta is not None:
            return np.full(self.rows.size, self.eta)
        return usual_rate(self.logits.shape[1], self.hop_limit, self.rounds, self.sizes)


def shares_of(logits: Vector) -> Vector:
    """Return what is played with which probability, by the logarithms of weights."""
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    found: Vector = weights / weights.sum(axis=-1, keepdims=True)
    return found


def usual_rate(arms: int, hops: int, rounds: int, agents: NDArray[np.int64]) -> Vector:
    """Return η after so many rounds, where so many agents are heard."""
    found: Vector = np.sqrt(math.log(arms) / ((rounds + 1) * (hops + 1 + arms / agents)))
    return found
