"""Top-two Thompson sampling: every so often the best arm but one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from coopbandits.core.checks import require_number
from coopbandits.core.draws import uniform_of, word_at
from coopbandits.core.index.greedy import largest_of
from coopbandits.core.index.index import Floats, Index, Support, family_support, require_family
from coopbandits.core.index.posterior import draw_beta, draw_normal, write_betas, write_centred
from coopbandits.core.spelling import AUTO

if TYPE_CHECKING:
    from coopbandits.core.contract import Estimate, LocalView

MOST_DRAWS = 16
"""Draws in search of another arm; where one arm wins them all, it is played."""


def draw_mean(arm: int, num_arms: int, word: int, is_beta: bool, scratch: Floats) -> float:
    """Return one draw of an arm's mean."""
    if is_beta:
        return draw_beta(arm, num_arms, word, scratch)
    return draw_normal(arm, num_arms, word, scratch)


@dataclass(frozen=True)
class TopTwo(Index):
    """Top-two Thompson sampling (Russo 2016).

    A draw from the posterior has a leader. With probability β it is played, otherwise the posterior
    is drawn again until another arm leads, which is played. It finds the best arm with the fewest
    pulls, rather than earning the most on the way.

    Parameters
    ----------
    beta : float
        β, the probability of playing the leader.
    family : {"auto", "gaussian", "bernoulli"}
        The posterior: that of `CentredDraw` with known σ, or of `BetaDraw`; "auto" as in `KLUCB`.

    Notes
    -----
    *Differs from the paper*: after 16 draws that one arm has all led, it is played.
    """

    beta: float = 0.5
    family: str = AUTO
    name: ClassVar[str] = "top-two"
    prepare_reads: ClassVar[str] = "arms"

    def __post_init__(self) -> None:
        """Refuse settings outside what the index is defined for."""
        require_number("beta", self.beta, "above 0, and at most 1", 0.0, math.nextafter(1.0, 2.0))
        require_family(self.family)

    @property
    def support(self) -> Support:
        return family_support(self.family)

    def numbers(self, view: LocalView) -> tuple[float, ...]:
        """β, σ, and 1 for Bernoulli rewards."""
        return self.beta, view.sigma, float(self.family == "bernoulli")

    def scratch_size(self, num_arms: int) -> int:
        """Posteriors, and the values of another draw."""
        return 2 * num_arms + 1

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> None:
        """Write the posteriors."""
        if numbers[2] > 0.0:
            write_betas(estimate, scratch)
        else:
            write_centred(estimate, numbers[1], scratch)

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Floats, scratch: Floats) -> float:
        """Draw one arm's mean."""
        return draw_mean(arm, len(estimate.counts), word, numbers[2] > 0.0, scratch)

    @staticmethod
    def pick(
        values: Floats, estimate: Estimate, word: int, numbers: Floats, scratch: Floats
    ) -> int:
        """Play the leader, or look for another one."""
        num_arms, leader = len(values), largest_of(values)
        own = word_at(word, 2 * num_arms)  # the words of all arms' draws come before
        if uniform_of(own) < numbers[0]:
            return leader
        for again in range(MOST_DRAWS):
            other, best, drawn_word = leader, -math.inf, word_at(own, again)
            for k in range(num_arms):
                drawn = draw_mean(k, num_arms, drawn_word, numbers[2] > 0.0, scratch)
                if values[k] > -math.inf and drawn > best:
                    other, best = k, drawn
            if other != leader:
                return other
        return leader
