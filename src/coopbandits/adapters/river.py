"""Bandits of river, one per agent. The library is imported when a policy is made."""

from __future__ import annotations

from dataclasses import dataclass
from inspect import isclass
from typing import Any, ClassVar

from coopbandits.adapters.extra import not_installed
from coopbandits.adapters.learner import Learner, LearnerPolicy, made_of_settings
from coopbandits.core.errors import unknown_name


@dataclass(frozen=True)
class River(LearnerPolicy):
    """A bandit of river for every agent, without cooperation.

    Parameters
    ----------
    learner : str
        A class of ``river.bandit`` without context: BayesUCB, EpsilonGreedy, Exp3, KLUCB,
        RandomPolicy, ThompsonSampling or UCB.
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
        Pulls of every arm before the learner chooses.
    """

    learner: str
    epsilon: float | None = None
    decay: float | None = None
    delta: float | None = None
    gamma: float | None = None
    reward_obj: str | None = None
    burn_in: int | None = None
    name: ClassVar[str] = "river"

    def __post_init__(self) -> None:
        """Let the library refuse settings."""
        self.make_learner(2, 0)

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
        fixed = {"seed": seed}
        if self.reward_obj is not None:
            fixed["reward_obj"] = _distribution(proba, self.reward_obj)
        return made_of_settings(self, self.learner, known, **fixed)


def _distribution(proba: Any, name: str) -> Any:
    """Return a fresh distribution that river knows; those of one number make sense here."""
    known = ("Beta", "Gaussian")
    if name not in known:
        raise unknown_name("reward_obj of river", str(name), known)
    return getattr(proba, name)()
