"""Learners of mabwiser, one per agent. The library is imported when a policy is made."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from coopbandits.adapters.extra import not_installed
from coopbandits.adapters.learner import LearnerPolicy, made_of_settings
from coopbandits.core.errors import InputError

if TYPE_CHECKING:
    from mabwiser.mab import MAB


@dataclass(frozen=True)
class MABWiser(LearnerPolicy):
    """A learner of mabwiser for every agent, without cooperation.

    Every arm is pulled once before the learner is asked, as it expects some history.

    Parameters
    ----------
    learner : str
        A learning policy without context: EpsilonGreedy, Popularity, Random, Softmax,
        ThompsonSampling (for rewards of 0 and 1) or UCB1.
    epsilon : float, optional
        Chance of exploration, of EpsilonGreedy.
    tau : float, optional
        Temperature of Softmax.
    alpha : float, optional
        Width of UCB1's confidence bound.
    """

    learner: str
    epsilon: float | None = None
    tau: float | None = None
    alpha: float | None = None
    name: ClassVar[str] = "mabwiser"

    def make_learner(self, num_arms: int, seed: int) -> History:
        """Return a fresh learner."""
        try:
            from mabwiser.mab import MAB, LearningPolicy
        except ImportError as error:
            raise not_installed(error, "mabwiser") from error
        known = {name: kind for name, kind in vars(LearningPolicy).items() if name[0] != "_"}
        settings = made_of_settings(self.name, known, **asdict(self))
        try:
            bandit = MAB(list(range(num_arms)), settings, seed=seed)
        except (TypeError, ValueError) as error:
            raise InputError(f"mabwiser refuses {settings}: {error}") from error
        if bandit.is_contextual:
            raise InputError(
                f"mabwiser's {self.learner} learns from contexts, and pulls here have none; take "
                "one without, such as UCB1"
            )
        return History(bandit)


class History:
    """A bandit of mabwiser behind the two calls that agents make."""

    def __init__(self, bandit: MAB) -> None:
        self.bandit = bandit
        self.untried = list(bandit.arms)

    def pull(self, arm_ids: list[int]) -> Any:
        """Return the first arm without a reward, and then the learner's choice."""
        if len(arm_ids) != len(self.bandit.arms):
            raise InputError(
                f"allowed is {arm_ids}; learners of mabwiser choose among all arms, so leave it out"
            )
        return self.untried[0] if self.untried else self.bandit.predict()

    def update(self, arm_id: int, reward: float) -> None:
        """Take in one reward."""
        self.bandit.partial_fit([arm_id], [reward])
        if arm_id in self.untried:
            self.untried.remove(arm_id)
