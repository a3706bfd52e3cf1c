"""GSE, gossip successive elimination: arms are ruled out by means that all agents track together.

Agents may earn differently from an arm; the one with the largest mean over all of them is sought.
With x the own means, z ← z + Σ_j (z_j − z)/N + x(new) − x(old) in every round, over the neighbours
that were heard: since each change is the other's loss, Σ z = Σ x over all agents always, provided
that links work both ways. A message is [z | which arms are out], the latter as bits of as few
values as hold them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.aggregate.aggregation import told_agents
from coopbandits.core.aggregate.exchange import check_vectors
from coopbandits.core.checks import require_count, require_number, require_positive
from coopbandits.core.contract import LocalView, State, Vector
from coopbandits.core.errors import InputError
from coopbandits.core.links import Links
from coopbandits.core.policy import Policy
from coopbandits.core.ruled import RuledAgent
from coopbandits.core.team import Arms, Sent, Team

BITS = 52
"""Flags in one value: whole numbers up to 2^53 are exact."""


@dataclass(frozen=True)
class GSE(Policy):
    r"""GSE (Liu, Qiu, Yang, Xu 2025), for sites that differ and links that come and go.

    Plays the arm that it pulled least of those left. Arm k is out for good once :math:`z_k + c_k <
    \max_l (z_l - c_l)`, or when a neighbour says so, with :math:`c_k = \sqrt{4σ^2 \ln T/m_k} + (τ +
    \sqrt N)/m_k`, :math:`m_k = N \max(n_k - K \ln T/p, 1)` and :math:`n_k` the own pulls.

    Parameters
    ----------
    horizon : int
        T.
    up : float
        p, the probability that a link works in a round.
    spread : float or None
        τ in units of :math:`\ln T/p`; None for N, as the authors have it on grids. On a complete
        graph they take 1.

    Notes
    -----
    Knows N, T and p. Sends K values, and one more per 52 arms, to each neighbour in every round.

    *Differs from the paper*, whose pseudocode we know from the authors' program: the bonus is for
    rewards in [0, 1] there (σ = 1/2), and is scaled by σ here; if every arm is said to be out, the
    one with the largest z is kept.
    """

    horizon: int
    up: float = 1.0
    spread: float | None = None
    name: ClassVar[str] = "gse"

    def __post_init__(self) -> None:
        """Refuse settings outside what it is defined for."""
        require_count("horizon", self.horizon, least=2)
        require_number("up", self.up, "a number above 0, and at most 1", 0.0, math.nextafter(1, 2))
        if self.spread is not None:
            require_positive("spread", self.spread)

    @property
    def needs(self) -> frozenset[str]:
        """N."""
        return frozenset({"num_agents"})

    def make_agent(self, view: LocalView) -> GSEAgent:
        """Return a fresh agent."""
        return GSEAgent(view, self)

    def make_team(self, views: Sequence[LocalView]) -> GSETeam:
        """Return all agents in arrays."""
        return GSETeam(views, self.make_agent(views[0]))


class GSEAgent(RuledAgent):
    """One agent: own sums, the means it tracks, and which arms are out."""

    fields = ("sums", "counts", "means", "tracked", "out")

    def __init__(self, view: LocalView, settings: GSE) -> None:
        super().__init__(view, settings.spelling)
        arms = view.num_arms
        self.num_agents = told_agents(view, settings.name)
        log = math.log(settings.horizon)
        spread = float(self.num_agents if settings.spread is None else settings.spread)
        self.level = 4.0 * view.sigma**2 * log
        self.burn_in = arms * log / settings.up
        self.bias = spread * log / settings.up + math.sqrt(self.num_agents)
        self.sums, self.counts = np.zeros(arms), np.zeros(arms)
        self.means, self.tracked = np.zeros(arms), np.zeros(arms)
        self.out = np.zeros(arms, dtype=np.bool_)

    def pick(self, word: int, arms: Sequence[int]) -> int:
        """Return the arm pulled least of those left; among equals the lowest."""
        del word
        left = [k for k in arms if not self.out[k]] or list(arms)
        return min(left, key=lambda k: self.counts[k] + self.open_pulls[k])

    def learn(self, arm: int, reward: float) -> None:
        """Count one own pull."""
        self.sums[arm] += reward
        self.counts[arm] += 1.0

    def tell(self, neighbor: int) -> Vector | None:
        """Return [z | flags]."""
        del neighbor  # all are told the same
        return np.concatenate([self.tracked, pack(self.out)])

    def hear(self, messages: Mapping[int, Vector]) -> None:
        """Average with who was heard, add what the own means changed by, and rule arms out."""
        arms = self.out.size
        check_vectors(messages, arms + flag_values(arms))
        told = {j: unpack(message[arms:], arms, j) for j, message in messages.items()}
        means = self.sums / np.maximum(1.0, self.counts)
        pulled = sum((m[:arms] - self.tracked for m in messages.values()), np.zeros(arms))
        self.tracked = self.tracked + pulled / self.num_agents + means - self.means
        self.means = means
        out = self.out | self.hopeless(self.counts, self.tracked)
        for flags in told.values():
            out |= flags
        if out.all():
            out[int(self.tracked.argmax())] = False
        self.out = out

    def hopeless(self, counts: Vector, tracked: Vector) -> NDArray[np.bool_]:
        """Return which arms lie below another by more than both are uncertain."""
        known = self.num_agents * np.maximum(counts - self.burn_in, 1.0)
        width = np.sqrt(self.level / known) + self.bias / known
        best = (tracked - width).max(axis=-1, keepdims=True)
        found: NDArray[np.bool_] = tracked + width < best
        return found

    def check_state(self, values: State) -> None:
        """Refuse counts that cannot be, and a state in which no arm is left."""
        super().check_state(values)
        if (values["counts"] < 0.0).any():
            raise InputError("state field counts has counts below 0; counts are never negative")
        if values["out"].all():
            raise InputError("state field out leaves no arm; one is always left")


class GSETeam(Team):
    """All agents in arrays; `one` of them knows the widths, which are the same for all."""

    def __init__(self, views: Sequence[LocalView], one: GSEAgent) -> None:
        shape = (len(views), one.out.size)
        self.one, self.links, self.rows = one, Links(views), np.arange(len(views))
        self.sums, self.counts = np.zeros(shape), np.zeros(shape)
        self.means, self.tracked = np.zeros(shape), np.zeros(shape)
        self.out = np.zeros(shape, dtype=np.bool_)

    def choose(self, words: NDArray[np.uint64]) -> Arms:
        """Return the arm pulled least of those left; among equals the lowest."""
        del words
        found: Arms = np.where(self.out, np.inf, self.counts).argmin(axis=1)
        return found

    def learn(self, arms: Arms, rewards: NDArray[np.float64]) -> None:
        """Count the pulls."""
        self.sums[self.rows, arms] += rewards
        self.counts[self.rows, arms] += 1.0

    def exchange(self) -> Sent:
        """Average, add what the own means changed by, and rule arms out."""
        means = self.sums / np.maximum(1.0, self.counts)
        before, links = self.tracked, self.links
        self.tracked = before + means - self.means
        told = np.zeros_like(self.out)
        if links.senders.size:
            pulled = links.joined(np.add, before[links.senders] - before[links.receivers])
            self.tracked = before + pulled / self.one.num_agents + means - self.means
            told = links.joined(np.logical_or, self.out[links.senders])
        self.means = means
        self.out |= told | self.one.hopeless(self.counts, self.tracked)
        for i in np.flatnonzero(self.out.all(axis=1)).tolist():
            self.out[i, int(self.tracked[i].argmax())] = False
        size = self.out.shape[1] + flag_values(self.out.shape[1])
        return Sent(links.degrees, size * links.degrees)


def flag_values(arms: int) -> int:
    """Return how many values hold one flag per arm."""
    return -(-arms // BITS)


def pack(flags: NDArray[np.bool_]) -> Vector:
    """Return flags as bits of whole numbers."""
    padded = np.zeros(flag_values(flags.size) * BITS)
    padded[: flags.size] = flags
    packed: Vector = padded.reshape(-1, BITS) @ 2.0 ** np.arange(BITS)
    return packed


def unpack(values: Vector, arms: int, sender: int) -> NDArray[np.bool_]:
    """Return the flags that whole numbers hold, or refuse what holds none."""
    if not ((values >= 0.0) & (values < 2.0**BITS) & (values == np.floor(values))).all():
        raise InputError(
            f"message from {sender} has flags {values.tolist()}; they are whole numbers below "
            f"2^{BITS}"
        )
    bits = values.astype(np.int64)[:, None] >> np.arange(BITS) & 1
    flags: NDArray[np.bool_] = bits.ravel()[:arms].astype(np.bool_)
    return flags
