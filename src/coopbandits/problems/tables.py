"""Rewards and means by group of agents and segment of rounds: what engines play.

A plain problem is one table. Where sites differ or rewards drift there are several, and agent i
reads table v(i, t) = group[i]·S + segment(t) in round t.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.errors import InputError
from coopbandits.problems.rewards import STEP

if TYPE_CHECKING:
    from coopbandits.problems.problem import Problem

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

OWN_GAP, NETWORK_GAP, BEST = range(3)
"""Columns of what a pull costs: below the agent's own best mean, below the best mean of the
network's average, and that own best mean itself."""

MOST_BYTES = 2_000_000_000


class Blocks(NamedTuple):
    """What `Tables` are made of: one problem per group and segment, and how they are chosen."""

    problems: Sequence[Sequence[Problem]]
    group: Integers
    starts: Sequence[int] = (0,)
    period: int = 0
    allowed: NDArray[np.bool_] | None = None


@dataclass(frozen=True, eq=False)
class Tables:
    """All reward tables of G groups of agents and S segments of rounds.

    Attributes
    ----------
    means : array of shape (G, S, K)
        Expected rewards.
    rows : array of shape (G, S, K, M)
        What turns a variate into a reward, as in `RewardForm`.
    sigma : float
        The largest σ of all.
    bounds : pair of float or None
        The smallest and the largest reward; None if nobody said.
    group : array of shape (N,)
        Every agent's group.
    starts : array of shape (S,)
        How many rounds pass before each segment begins; the first is 0.
    period : int
        After how many rounds the segments begin anew; 0 for never.
    allowed : array of shape (G, K) or None
        Which arms a group may play; None for all.
    theta : array of shape (G, S, d) or (G, S, K, d), or None
        Coefficients, where rewards depend on features: then rows hold noise alone, and means say
        nothing.
    """

    means: Floats
    rows: Floats
    sigma: float
    bounds: tuple[float, float] | None
    group: Integers
    starts: Integers
    period: int = 0
    allowed: NDArray[np.bool_] | None = None
    theta: Floats | None = None

    @property
    def in_context(self) -> bool:
        """Whether rewards depend on features."""
        return self.theta is not None

    @property
    def is_one(self) -> bool:
        """Whether there is a single table, and every arm may be played."""
        return self.is_everywhere_alike and not self.in_context

    @property
    def is_single(self) -> bool:
        """Whether there is a single table, so that the arms tell what they cost."""
        return self.means.shape[:2] == (1, 1) and not self.in_context

    @property
    def is_everywhere_alike(self) -> bool:
        """Whether there is one group and one segment, and every arm may be played."""
        return self.means.shape[:2] == (1, 1) and self.allowed is None

    @property
    def places(self) -> Integers:
        """Where every agent's tables begin among all rows (G·S·K, M)."""
        places: Integers = self.group * (self.means.shape[1] * self.means.shape[2])
        return places

    def segments(self, rounds: Integers) -> Integers:
        """Return the segment that holds after so many rounds."""
        within = rounds % self.period if self.period else rounds
        found: Integers = np.searchsorted(self.starts, within, side="right") - 1
        return found

    def segment(self, rounds: int) -> int:
        """Return the segment that holds after so many rounds."""
        return int(self.segments(np.array(rounds)))

    def changes(self, horizon: int) -> Integers:
        """Return the rounds, counted from 1, that are the first of another segment."""
        held = self.segments(np.arange(horizon))
        return np.flatnonzero(held[1:] != held[:-1]) + 2

    @cached_property
    def costs(self) -> Floats:
        """What a pull of every arm costs (G, S, K, 3); see `OWN_GAP`."""
        own, common = self.means, np.broadcast_to(self.average, self.means.shape)
        best, common_best = self._best(own), self._best(common)
        return np.stack([best - own, common_best - common, best], axis=-1)

    @property
    def average(self) -> Floats:
        """The network's mean of every arm in every segment (S, K)."""
        return self.averaged(self.means)

    def averaged(self, values: Floats) -> Floats:
        """Return the network's mean (S, …) of what groups have (G, S, …)."""
        groups = len(values)
        if groups == 1:
            return np.asarray(values[0])  # to the bit
        sizes = np.bincount(self.group, minlength=groups)
        return np.asarray(np.tensordot(sizes, values, axes=1) / self.group.size)

    def _best(self, means: Floats) -> Floats:
        """Return the largest mean among the arms that a group may play, for all of its arms."""
        playable = True if self.allowed is None else self.allowed[:, None, :]
        best = np.where(playable, means, -np.inf).max(axis=2, keepdims=True)
        return np.broadcast_to(best, means.shape)

    def ordered(self, order: Integers) -> tuple[Floats, Floats]:
        """Return all rows (G·S·K, M) and costs (G·S·K, 3) for arms in this order."""
        return tuple(  # type: ignore[return-value]  # of two
            np.ascontiguousarray(each[:, :, order].reshape(-1, each.shape[3]))
            for each in (self.rows, self.costs)
        )

    def masks(self, order: Integers) -> Floats | None:
        """Return 1 where an agent may play an arm, else 0 (N, K), for arms in this order.

        None where everybody may play all.
        """
        if self.allowed is None:
            return None
        return self.allowed[self.group][:, order].astype(float)

    def playable(self, order: Integers) -> list[list[int] | None]:
        """Return the places that every agent may play, for arms in this order; None for all."""
        if self.allowed is None:
            return [None] * self.group.size
        places = [np.flatnonzero(mask[order]).tolist() for mask in self.allowed]
        return [places[group] for group in self.group.tolist()]


def stack(blocks: Blocks) -> Tables:
    """Put the problems of all groups and segments together."""
    flat = [problem for row in blocks.problems for problem in row]
    rows = _joined(flat)
    shape = (len(blocks.problems), len(blocks.starts))
    bounds = [problem.bounds for problem in flat]
    known = [each for each in bounds if each is not None]
    levels = np.stack([problem.levels for problem in flat])
    in_context = flat[0].num_features > 0
    means = np.zeros(rows.shape[:2]) if in_context else levels
    return Tables(
        means=means.reshape(*shape, -1),
        rows=rows.reshape(*shape, *rows.shape[1:]),
        sigma=max(problem.sigma for problem in flat),
        bounds=(min(low for low, _ in known), max(high for _, high in known))
        if len(known) == len(bounds)
        else None,
        group=blocks.group,
        starts=np.array(blocks.starts, dtype=np.int64),
        period=blocks.period,
        allowed=blocks.allowed,
        theta=levels.reshape(*shape, *levels.shape[1:]) if in_context else None,
    )


def _joined(problems: Sequence[Problem]) -> Floats:
    """Return all tables, as wide as the widest; refuse what cannot stand side by side."""
    forms = [problem.kernel_form() for problem in problems]
    num_arms, width = forms[0].table.shape[0], max(form.table.shape[1] for form in forms)
    is_padded = forms[0].kind == STEP or problems[0]._ragged
    if not is_padded and any(form.table.shape[1] != width for form in forms):
        raise InputError(
            f"{type(problems[0]).__name__} of one world have rows of up to {width} numbers, and "
            "some have fewer; give all the same size"
        )
    size = len(problems) * num_arms * width * 8
    if size > MOST_BYTES:
        raise InputError(
            f"{len(problems)} reward tables take {size / 1e9:.1f} GB; take fewer groups or "
            "segments, or a problem with smaller tables such as GaussianBandit"
        )
    rows = np.zeros((len(problems), num_arms, width))
    for row, form in zip(rows, forms, strict=True):
        row[:, : form.table.shape[1]] = form.table
    return rows
