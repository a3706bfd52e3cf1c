"""Arms that pay one of several rewards, drawn anew at every pull."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coopbandits.core.draws import normal_quantile
from coopbandits.core.errors import InputError
from coopbandits.problems.checks import above_zero, arm_values
from coopbandits.problems.own import Reward
from coopbandits.problems.problem import Problem
from coopbandits.problems.proxies import smallest_proxy
from coopbandits.problems.rewards import LOCATION_SCALE, reward_from_variate


class MixtureBandit(Problem):
    """Arm k pays as arm k of one of several problems, drawn with fixed chances at every pull.

    One uniform makes both draws: where it falls tells the problem, and how far into that stretch
    is the uniform of its reward. σ² is the largest σ² of the problems and, added to it, the
    smallest variance proxy of the drawn problem's mean.

    Parameters
    ----------
    weights : sequence of float
        Chance of each problem, above 0; they add up to 1.
    problems : sequence of Problem
        Problems with the same number of arms, of any kind.

    Examples
    --------
    >>> from coopbandits import GaussianBandit
    >>> calm, rough = GaussianBandit([1.0, 0.5], 0.1), GaussianBandit([0.0, 5.5], 2.0)
    >>> MixtureBandit([0.9, 0.1], [calm, rough]).means
    array([0.9, 1. ])
    """

    _unread = frozenset({"reward"})

    def __init__(self, weights: ArrayLike, problems: Sequence[Problem]) -> None:
        self.weights = arm_values("weights", weights)
        above_zero("weights", self.weights)
        self.problems = tuple(problems)
        _check(self.weights, self.problems)
        means = np.stack([problem.means for problem in self.problems])
        between = max(smallest_proxy(column, self.weights) for column in means.T)
        within = max(problem.sigma**2 for problem in self.problems)
        super().__init__(
            self.weights @ means,
            math.sqrt(within + between),
            numbers=_numbers(self.weights, self.problems),
            bounds=_bounds(self.problems),
        )

    def moved(self, change: ArrayLike) -> MixtureBandit:
        """Return a mixture of the same problems, each moved."""
        return MixtureBandit(self.weights, [problem.moved(change) for problem in self.problems])

    def turned(self, places: NDArray[np.int64]) -> Self:
        """Return a mixture of the same problems, the arms of each in other places."""
        other = super().turned(places)
        other.problems = tuple(problem.turned(places) for problem in self.problems)
        return other

    def reward_function(self) -> Reward:
        """Return the functions of all problems, the first beside the mixture of the others."""
        *others, mixed = map(_of_uniform, self.problems)
        for function in reversed(others):
            mixed = _mix(function, mixed)
        return mixed

    def describe(self) -> dict[str, Any]:
        """Return the weights, and what identifies each problem."""
        return {
            "problem": "mixture",
            "weights": self.weights.tolist(),
            "problems": [problem.describe() for problem in self.problems],
        }


def _check(weights: NDArray[np.float64], problems: tuple[Problem, ...]) -> None:
    strangers = [problem for problem in problems if not isinstance(problem, Problem)]
    if strangers:
        raise InputError(f"problem {strangers[0]!r} of a mixture is none; pass problems")
    if len(problems) != weights.size:
        raise InputError(
            f"a mixture has {weights.size} weights and {len(problems)} problems; pass one weight "
            "per problem"
        )
    arms = sorted({problem.num_arms for problem in problems})
    if len(arms) > 1:
        raise InputError(
            f"problems of a mixture have {arms[0]} and {arms[-1]} arms; give all the same number"
        )
    if abs(weights.sum() - 1.0) > 1e-9:
        raise InputError(
            f"weights of a mixture add up to {weights.sum():.12g}; they must add up to 1, so "
            "divide each by the sum"
        )


def _bounds(problems: tuple[Problem, ...]) -> tuple[float, float] | None:
    known = [problem.bounds for problem in problems if problem.bounds is not None]
    if len(known) < len(problems):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def _numbers(weights: NDArray[np.float64], problems: tuple[Problem, ...]) -> NDArray[np.float64]:
    """Return rows as `_mix` reads them: chance and width of the first, its row, the others."""
    numbers, left = problems[-1].kernel_form().table, float(weights[-1])
    for weight, problem in zip(weights[-2::-1].tolist(), problems[-2::-1], strict=True):
        table, left = problem.kernel_form().table, left + weight
        head = np.tile([weight / left, float(table.shape[1])], (len(table), 1))
        numbers = np.hstack([head, table, numbers])
    return numbers


def _mix(first: Reward, others: Reward) -> Reward:
    def reward(numbers: Any, variate: float) -> float:
        chance, end = numbers[0], 2 + int(numbers[1])
        if variate < chance:
            return first(numbers[2:end], _inside(variate / chance))
        return others(numbers[end:], _inside((variate - chance) / (1.0 - chance)))

    return reward


def _inside(uniform: float) -> float:
    """Keep away from 0 and 1, where quantiles may be infinite, as the tape does."""
    return min(max(uniform, 2.0**-53), 1.0 - 2.0**-53)


def _of_uniform(problem: Problem) -> Reward:
    """Return the reward of a problem as a function of its numbers and a uniform."""
    own, kind = problem.reward_function(), problem.kernel_form().kind
    if own is None:
        return _from_normal(_of_table(kind)) if kind == LOCATION_SCALE else _of_table(kind)
    return _from_normal(own) if problem.variate == "normal" else own


def _of_table(kind: int) -> Reward:
    def reward(numbers: Any, variate: float) -> float:
        return reward_from_variate(kind, numbers.reshape((1, numbers.size)), 0, variate)

    return reward


def _from_normal(function: Reward) -> Reward:
    def reward(numbers: Any, variate: float) -> float:
        return function(numbers, normal_quantile(variate))

    return reward
