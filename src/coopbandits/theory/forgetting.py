"""How fast to forget: which discount, and which window, for how much change.

Garivier and Moulines (2011) prove a regret of order √(T Υ) ln T for one agent and Υ changes in T
rounds, with 1 − γ = √(Υ/T)/(4R) for rewards in [0, R]. A network of N agents makes N pulls a round,
so in rounds its memory may be √N times as short. But news takes time to travel: an agent that
forgets within a few delays throws away what it hears when it hears it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from coopbandits.core.checks import require_count, require_positive
from coopbandits.core.errors import InputError

DELAYS = 4
"""A memory shorter than so many delays forgets faster than it hears."""

SAMPLING = 4.0
"""How many times as long Thompson sampling should remember; measured, see docs/forgetting.md."""


@dataclass(frozen=True)
class Memory:
    """How long to remember.

    Attributes
    ----------
    rounds : float
        1/(1 − γ): the pulls of so many rounds, at full weight, are what discounted ones amount to.
    discount : float
        γ.
    window : int
        A window of as many rounds.
    """

    rounds: float

    @property
    def discount(self) -> float:
        """γ."""
        return 1.0 - 1.0 / self.rounds

    @property
    def window(self) -> int:
        """w, rounded up."""
        return math.ceil(self.rounds)


def memory(
    horizon: int,
    changes: int,
    *,
    num_agents: int = 1,
    delay: float = 0.0,
    sigma: float = 0.5,
    sampling: bool = False,
) -> Memory:
    r"""Return how long to remember where the best arm changes some times.

    .. math:: \frac{1}{1 - γ} = 8 σ \sqrt{\frac{T}{Υ N}}

    Parameters
    ----------
    horizon, changes : int
        T, and how often the best arm changes in it.
    num_agents : int
        N.
    delay : float
        Rounds after which everybody has heard of a pull: the diameter, or a stage of DDUCB.
    sigma : float
        σ of the rewards; R/2 for rewards in [0, R].
    sampling : bool
        Whether the memory is that of Thompson sampling, which does best with a longer one.

    Notes
    -----
    Refuses what would forget faster than it hears, 1/(1 − γ) < 4 · delay. Ours are the N in the
    formula, the limit by the delay and the factor for sampling; none of them has a theorem.
    """
    require_count("horizon", horizon)
    require_count("changes", changes)
    require_count("num_agents", num_agents)
    require_positive("sigma", sigma)
    rounds = 8.0 * sigma * math.sqrt(horizon / (changes * num_agents))
    rounds = max(2.0, rounds * (SAMPLING if sampling else 1.0))
    if rounds < DELAYS * delay:
        raise InputError(
            f"changes every {horizon / changes:g} rounds ask for a memory of {rounds:.3g} rounds, "
            f"but news takes up to {delay:g} rounds here, and what remembers less than "
            f"{DELAYS * delay:g} forgets faster than it hears; connect agents better, or let them "
            "learn alone"
        )
    return Memory(rounds)
