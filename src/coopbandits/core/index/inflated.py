"""Upper confidence bounds that are inflated for what has not been mixed well."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

from coopbandits.core.checks import require_number
from coopbandits.core.choice import NO_INFORMATION
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.core.index.index import Floats, Index

if TYPE_CHECKING:
    from coopbandits.core.contract import Estimate, LocalView

EPSILON_C_FORMS = ("closed", "landgren")

GROWING = -1.0
"""Stands for an inflation f(t) = sqrt(ln t) instead of a number."""


def inflated_ucb(
    total: float, count: float, least: float, exploration: float, inflation: float
) -> float:
    """Return total/count + sqrt(exploration·(1 + inflation/count)/count), or +∞.

    `exploration` is 2γσ² ln t; `inflation` is N ε_c, or N f(t).
    """
    if count <= least:
        return math.inf
    return total / count + math.sqrt(exploration * (1.0 + inflation / count) / count)


def root_log(rounds: float) -> float:
    """Return f(t) = sqrt(ln t), Landgren's inflation without knowledge of the graph."""
    return math.sqrt(math.log(max(1.0, rounds)))


@dataclass(frozen=True)
class InflatedUCB(Index):
    r"""coop-UCB's index (Landgren, Srivastava, Leonard 2016), with n̂ = counts/N.

    .. math:: \hat s/\hat n + σ \sqrt{2γ \frac{\hat n + ε}{N \hat n} \frac{\ln t}{\hat n}}

    Parameters
    ----------
    gamma : float
        γ > 1, exploration.
    epsilon_c : {"closed", "landgren"} or None
        Which form of ε, a number per agent that says how well the graph mixes for it; None for
        f(t) = sqrt(ln t), which takes no knowledge of the graph.

    Notes
    -----
    t is the number of pulls per agent behind the estimate. *Differs from the paper*: an arm without
    information has index +∞.
    """

    gamma: float = 1.01
    epsilon_c: str | None = None
    name: ClassVar[str] = "inflated-ucb"
    random: ClassVar[bool] = False
    prepare_reads: ClassVar[str] = "time"

    def __post_init__(self) -> None:
        """Refuse settings outside what the index is defined for."""
        require_gamma(self.gamma)
        if self.epsilon_c is not None and self.epsilon_c not in EPSILON_C_FORMS:
            raise unknown_name("form of epsilon_c", str(self.epsilon_c), EPSILON_C_FORMS)

    @property
    def needs(self) -> frozenset[str]:
        """ε_c, where it is not sqrt(ln t)."""
        return frozenset() if self.epsilon_c is None else frozenset({self._knowledge})

    @property
    def _knowledge(self) -> str:
        return f"epsilon_c:{self.epsilon_c}"

    @property
    def bonus_constant(self) -> float:
        """B = 2γ, which the inflation then multiplies."""
        return 2 * self.gamma

    def with_constant(self, constant: float) -> Self:
        """B = 2γ."""
        return replace(self, gamma=constant / 2)

    def numbers(self, view: LocalView) -> tuple[float, ...]:
        """2γσ² and ε."""
        epsilon = GROWING
        if self.epsilon_c is not None:
            if self._knowledge not in view.global_knowledge:
                raise InputError(
                    f"{self.name} needs {self._knowledge} of agent {view.agent_id}; tell it"
                )
            epsilon = view.global_knowledge[self._knowledge]
        return self.bonus_constant * view.sigma**2, epsilon

    def scratch_size(self, num_arms: int) -> int:
        """As `prepare` fills it."""
        del num_arms
        return 3

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> None:
        """2γσ² ln t, N f(t), and the count up to which an arm is unknown."""
        rounds = estimate.time / estimate.num_agents
        scratch[0] = numbers[0] * math.log(max(1.0, rounds))
        scratch[1] = estimate.num_agents * root_log(rounds)
        scratch[2] = NO_INFORMATION * estimate.num_agents

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> float:
        """Return the inflated bound of one arm."""
        epsilon = numbers[1]
        inflation = scratch[1] if epsilon == GROWING else estimate.num_agents * epsilon
        total, count = estimate.sums[arm], estimate.counts[arm]
        return inflated_ucb(total, count, scratch[2], scratch[0], inflation)

    @staticmethod
    def bonus(estimate: Estimate, numbers: Floats, scratch: Floats) -> tuple[float, float]:
        """2γσ² ln t, and that times N ε."""
        epsilon = numbers[1]
        inflation = scratch[1] if epsilon == GROWING else estimate.num_agents * epsilon
        return scratch[0], scratch[0] * inflation


def require_gamma(gamma: float) -> None:
    """Refuse all but finite numbers above 1."""
    require_number("gamma", gamma, "a finite number larger than 1", 1.0, math.inf)
