"""Arms that pay logged rewards."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coopbandits.core.errors import InputError
from coopbandits.problems.checks import distinct_names, float_array
from coopbandits.problems.logfile import read_log
from coopbandits.problems.problem import Problem
from coopbandits.problems.rewards import STEP, RewardForm

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike


class LoggedBandit(Problem):
    """Arm k pays one of its logged rewards, each equally likely at every pull.

    The log is not replayed in order: the model requires rewards that are independent over pulls and
    agents, while a replay would pay every agent the same sequence (or hand one agent's luck to
    another), carry over any drift of the logged period, and run out. So the means are known
    exactly: they are the averages of the columns.

    Parameters
    ----------
    rewards : array of shape (rows, K)
        Logged rewards, one column per arm; NaN where there is none, so that arms may have
        different numbers of rewards. Their order does not matter.
    arm_names : sequence of str, optional
        One name per arm; the numbers 0 … K−1 if left out.
    sigma : float, optional
        σ of the variance proxy; by default half the widest range of an arm (Hoeffding's lemma).

    Attributes
    ----------
    arm_names : tuple of str
        The arms' names.
    num_rewards : tuple of int
        How many logged rewards each arm has.
    """

    def __init__(
        self,
        rewards: ArrayLike,
        arm_names: Sequence[str] | None = None,
        sigma: float | None = None,
    ) -> None:
        log = float_array("logged rewards", rewards, "a table with one column per arm")
        if log.ndim != 2 or log.shape[1] == 0:
            raise InputError(
                f"logged rewards have shape {log.shape}; pass rows × arms with at least one arm"
            )
        numbers = tuple(str(arm) for arm in range(log.shape[1]))
        names = numbers if arm_names is None else distinct_names(arm_names, log.shape[1])
        self.arm_names: tuple[str, ...] = names
        columns = _columns(log, names)
        self.num_rewards = tuple(column.size for column in columns)
        sigma = _half_range(columns) if sigma is None else sigma
        form = RewardForm(STEP, _step_table(columns))
        super().__init__([_mean(column) for column in columns], sigma, form)

    @classmethod
    def from_file(cls, path: str | PathLike[str], sigma: float | None = None) -> LoggedBandit:
        """Read a log from a `.csv` or `.parquet` file.

        Parameters
        ----------
        path : path
            One column per arm; a CSV file starts with a line of arm names. Empty cells, `NA`,
            `nan` and `null` are missing rewards.
        sigma : float, optional
            As for the class.
        """
        names, rewards = read_log(path)
        return cls(rewards, names, sigma)

    def describe(self) -> dict[str, Any]:
        """Return names, counts, sigma and a digest of the rewards."""
        return {
            "problem": "logged",
            "arm_names": list(self.arm_names),
            "num_rewards": list(self.num_rewards),
            "sigma": self.sigma,
            "table_sha256": hashlib.sha256(self._form.table.tobytes()).hexdigest(),
        }


def _columns(log: NDArray[np.float64], names: Sequence[str]) -> list[NDArray[np.float64]]:
    infinite = np.argwhere(np.isinf(log))
    if infinite.size:
        row, arm = infinite[0]
        raise InputError(
            f"logged reward in row {row}, column {names[arm]!r} is {log[row, arm]}; rewards are "
            "finite numbers, NaN marks a missing one"
        )
    # Sorted, because order carries no meaning: the same rewards make the same problem.
    columns = [np.sort(column[~np.isnan(column)]) for column in log.T]
    for name, column in zip(names, columns, strict=True):
        if column.size == 0:
            raise InputError(
                f"arm {name!r} has no logged reward; every arm needs at least one, "
                "so add one or leave the arm out"
            )
    return columns


def _mean(column: NDArray[np.float64]) -> float:
    # A sum of equal numbers rounds, but the mean of a constant arm should be exact.
    return float(np.clip(column.mean(), column[0], column[-1]))


def _half_range(columns: list[NDArray[np.float64]]) -> float:
    widest = max(float(column[-1] - column[0]) for column in columns)
    if widest == 0:
        raise InputError(
            "every arm's logged rewards are all equal, so their range gives sigma = 0; "
            "pass sigma, a number above 0"
        )
    return widest / 2


def _step_table(columns: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    table = np.zeros((len(columns), 1 + max(column.size for column in columns)))
    for row, column in zip(table, columns, strict=True):
        row[0] = column.size
        row[1 : 1 + column.size] = column
    return table
