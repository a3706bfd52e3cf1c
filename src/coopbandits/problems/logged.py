"""Arms that pay logged rewards."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.errors import InputError
from coopbandits.problems.problem import Problem
from coopbandits.problems.readings import How, read_rewards
from coopbandits.problems.rewards import STEP, RewardForm

if TYPE_CHECKING:
    from collections.abc import Sequence
    from os import PathLike


class LoggedBandit(Problem):
    """Arm k pays one of its logged rewards, each equally likely at every pull.

    The log is not replayed row by row: the model requires rewards that are independent over pulls
    and agents, while such a replay would pay every agent the same sequence (or hand one agent's
    luck to another) and run out. So the means are known exactly: they are the averages of the
    columns. Where a column tells the time, ``drift(log, replay=rounds)`` lets the log's own drift
    pass over some rounds.

    Parameters
    ----------
    rewards : array, list, dict, DataFrame or path
        Logged rewards; their order does not matter, and NaN or None marks a missing one. An array
        has shape (rows, K), with one column per arm. A dict, or a list of lists of different
        lengths, has one list per arm. A DataFrame of pandas or polars, or a `.csv` or `.parquet`
        file, is wide (one column per arm) or long (one row per reward, in two columns).
    arm_names : sequence of str, optional
        One name per arm; as the rewards tell, or else the numbers 0 … K−1.
    sigma : float, optional
        σ of the variance proxy; by default half the widest range of an arm (Hoeffding's lemma).
    reading : {"wide", "long", "arms"}, optional
        One column per arm, one row per reward, or one list per arm, where more than one is
        possible.
    arm, reward : str, optional
        The two columns of a long table, where they are not called so.
    time : str, optional
        The column of a table that tells when each reward was paid: numbers, or dates as text.

    Attributes
    ----------
    arm_names : tuple of str
        The arms' names.
    num_rewards : tuple of int
        How many logged rewards each arm has.
    reading : str
        The reading that was taken, in words.

    Examples
    --------
    >>> LoggedBandit({"blue": [0, 1, 1, 1], "green": [0, 1]})
    LoggedBandit(means=[0.75, 0.5], sigma=0.5, read as one list per arm)
    """

    def __init__(
        self,
        rewards: Any,
        arm_names: Sequence[str] | None = None,
        sigma: float | None = None,
        *,
        reading: str | None = None,
        arm: str | None = None,
        reward: str | None = None,
        time: str | None = None,
    ) -> None:
        log = read_rewards(rewards, arm_names, How(reading, arm, reward, time))
        self._log = log if time is not None else None
        self.arm_names: tuple[str, ...] = log.names
        self.reading = log.reading
        self.num_rewards = tuple(column.size for column in log.samples)
        self._is_binary = all(np.isin(column, (0.0, 1.0)).all() for column in log.samples)
        sigma = _half_range(log.samples) if sigma is None else sigma
        form = RewardForm(STEP, _step_table(log.samples))
        super().__init__([_mean(column) for column in log.samples], sigma, form)

    @property
    def family(self) -> str:  # type: ignore[override]  # only an instance knows its rewards
        """Bernoulli where every logged reward is 0 or 1."""
        return "bernoulli" if self._is_binary else "gaussian"

    @classmethod
    def from_file(
        cls, path: str | PathLike[str], sigma: float | None = None, **how: str | None
    ) -> LoggedBandit:
        """Read a log from a `.csv` or `.parquet` file.

        Parameters
        ----------
        path : path
            A wide or a long table; a CSV file starts with a line of names. Empty cells, `NA`, `nan`
            and `null` are missing rewards.
        sigma : float, optional
            As for the class.
        **how
            `reading`, `arm`, `reward` and `time`, as for the class.
        """
        return cls(Path(path), sigma=sigma, **how)

    def pieces(self, number: int) -> list[LoggedBandit]:
        """Return the log cut into so many pieces of equal time; needs `time`."""
        if self._log is None or self._log.times is None:
            raise InputError("the log has no time; say which column tells it, with time=…")
        whole = np.concatenate(self._log.times)
        edges = np.linspace(whole.min(), whole.max(), number + 1)
        return [
            self._piece(*edges[at : at + 2].tolist(), is_last=at + 1 == number)
            for at in range(number)
        ]

    def _piece(self, begin: float, end: float, *, is_last: bool) -> LoggedBandit:
        log = self._log
        assert log is not None and log.times is not None  # noqa: S101  `pieces` says so
        parts = []
        for name, samples, times in zip(log.names, log.samples, log.times, strict=True):
            parts.append(samples[(times >= begin) & ((times < end) | is_last)])
            if parts[-1].size == 0:
                raise InputError(
                    f"arm {name!r} has no logged reward between times {begin:g} and {end:g}; cut "
                    "the log into fewer pieces"
                )
        piece = self._like(np.array([*map(_mean, parts)]), _step_table(parts))
        piece.num_rewards, piece._log = tuple(part.size for part in parts), None
        return piece

    def turned(self, places: NDArray[np.int64]) -> Self:
        """Return the same rewards at other arms; names stay where they are."""
        other = super().turned(places)
        other.num_rewards = tuple(self.num_rewards[place] for place in places)
        return other

    def describe(self) -> dict[str, Any]:
        """Return names, counts, sigma and a digest of the rewards."""
        return {
            "problem": "logged",
            "arm_names": list(self.arm_names),
            "num_rewards": list(self.num_rewards),
            "sigma": self.sigma,
            "table_sha256": hashlib.sha256(self._form.table.tobytes()).hexdigest(),
        }

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, read as {self.reading})"


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
