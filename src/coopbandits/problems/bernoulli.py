"""Arms that pay 1 or 0."""

from __future__ import annotations

from typing import Any, ClassVar

from numpy.typing import ArrayLike

from coopbandits.problems.checks import arm_values, within
from coopbandits.problems.problem import Problem
from coopbandits.problems.rewards import THRESHOLD, RewardForm


class BernoulliBandit(Problem):
    """Arm k pays 1 with probability mean_k and 0 otherwise.

    σ is 1/2, the variance proxy 1/4 of any reward in [0, 1] (Hoeffding's lemma); it is attained at
    probability 1/2.

    Parameters
    ----------
    means : sequence of float
        Probability of reward 1 for each arm, in [0, 1].

    Examples
    --------
    >>> BernoulliBandit([0.9, 0.5, 0.5])
    BernoulliBandit(means=[0.9, 0.5x2], sigma=0.5)
    """

    family: ClassVar[str] = "bernoulli"

    def __init__(self, means: ArrayLike) -> None:
        chances = arm_values("means", means)
        within("means", chances, 0.0, 1.0)
        super().__init__(chances, 0.5, RewardForm(THRESHOLD, chances[:, None].copy()))

    def describe(self) -> dict[str, Any]:
        """Return the means."""
        return {"problem": "bernoulli", "means": self.means.tolist()}
