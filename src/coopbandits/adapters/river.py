"""Bandits of river, one per agent. The library is imported when a policy is made."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from inspect import isclass
from typing import ClassVar

from coopbandits.adapters.extra import not_installed
from coopbandits.adapters.learner import Learner, LearnerPolicy, made_of_settings
from coopbandits.core.errors import InputError, unknown_name

REWARD_OBJECTS = ("Beta", "Gaussian")
"""Distributions of river that can be learnt from single rewards."""


@dataclass(frozen=True)
class River(LearnerPolicy):
    """A bandit of river for every agent, without cooperation.

    Parameters
    ----------
    learner : str
        A class of ``river.bandit`` without context: BayesUCB, EpsilonGreedy, Exp3, RandomPolicy,
        ThompsonSampling or UCB.
    epsilon, decay : float, optional
        Chance of exploration of EpsilonGreedy, and how fast it falls.
    delta : float, optional
        Width of UCB's confidence bound.
    gamma : float, optional
        Share of exploration of Exp3.
    reward_obj : str, optional
        What is learnt of an arm, a class of ``river.proba``: Beta for rewards of 0 and 1, or
        Gaussian; ThompsonSampling needs one.
    burn_in : int, optional
        Pulls of every arm before EpsilonGreedy, ThompsonSampling or UCB choose.
    """

    learner: str
    epsilon: float | None = None
    decay: float | None = None
    delta: float | None = None
    gamma: float | None = None
    reward_obj: str | None = None
    burn_in: int | None = None
    name: ClassVar[str] = "river"

    def make_learner(self, num_arms: int, seed: int) -> Learner:
        """Return a fresh learner; it is told its arms with every pull."""
        del num_arms
        try:
            from river import bandit, proba
        except ImportError as error:
            raise not_installed(error, "river") from error
        plain, contextual = bandit.base.Policy, bandit.base.ContextualPolicy
        known = {
            name: kind
            for name, kind in vars(bandit).items()
            if isclass(kind) and issubclass(kind, plain) and not issubclass(kind, contextual)
        }
        settings = asdict(self) | {"seed": seed}
        if self.reward_obj in REWARD_OBJECTS:
            settings["reward_obj"] = getattr(proba, self.reward_obj)()
        elif self.reward_obj is not None:
            raise unknown_name("reward_obj of river", str(self.reward_obj), REWARD_OBJECTS)
        elif self.learner == "ThompsonSampling":  # its default is a mean, which cannot be sampled
            raise InputError(
                "river's ThompsonSampling has no reward_obj; give it, reward_obj=Beta for rewards "
                "of 0 and 1, or else reward_obj=Gaussian"
            )
        learner: Learner = made_of_settings(self.name, known, **settings)
        counts = self.reward_obj == "Beta" or self.learner == "BayesUCB"
        return Successes(learner) if counts else learner


class Successes:
    """A bandit of river that counts successes, and would take 0.3 for one."""

    def __init__(self, bandit: Learner) -> None:
        self.bandit = bandit

    def pull(self, arm_ids: list[int]) -> int:
        """Return the bandit's choice."""
        return self.bandit.pull(arm_ids)

    def update(self, arm_id: int, reward: float) -> None:
        """Take in a success or a failure."""
        if reward not in (0, 1):
            raise ValueError("it counts rewards of 0 and 1 alone")
        self.bandit.update(arm_id, reward)
