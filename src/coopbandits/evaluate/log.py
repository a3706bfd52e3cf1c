"""A log of decisions: who chose what, in which context, with what chance, and what it paid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.checks import require_count, require_number
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.evaluate.log_files import (
    COLUMNS,
    NUM_ARMS,
    check_size,
    read_decisions,
    write_rows,
)
from coopbandits.problems.context_log import numbers, read_context_log

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Kind(NamedTuple):
    """What a column is made of, and how many dimensions it has."""

    dtype: type[np.generic]
    dimensions: int
    accepted: str

    def read(self, name: str, given: Any) -> NDArray[Any]:
        """Return a column as an array; refuse one of another type or shape."""
        try:
            found = np.asarray(given)
        except (TypeError, ValueError):  # lists of unequal lengths
            raise InputError(
                f"{name} of a log make no array; give {self.accepted}, equally many in every row"
            ) from None
        fits = found.dtype == self.dtype or (
            found.dtype.kind in "iuf" and np.can_cast(found.dtype, self.dtype, "same_kind")
        )
        if found.ndim != self.dimensions or (found.size and not fits):
            raise InputError(
                f"{name} of a log have type {found.dtype} and shape {found.shape}; give "
                f"{self.accepted}, in an array of {self.dimensions} dimension"
                f"{'s' if self.dimensions > 1 else ''}"
            )
        return found.astype(self.dtype, copy=False)


_WHOLE, _NUMBERS = Kind(np.int64, 1, "whole numbers"), Kind(np.float64, 1, "numbers")

KINDS = {
    "features": Kind(np.float64, 3, "numbers"),
    "arms": _WHOLE,
    "rewards": _NUMBERS,
    "propensities": _NUMBERS,
    "allowed": Kind(np.bool_, 2, "true or false"),
    "times": _WHOLE,
    "agents": _WHOLE,
}


@dataclass(frozen=True, eq=False)
class DecisionLog:
    """n decisions among K arms; every array has one row per decision.

    Attributes
    ----------
    features : array of shape (n, K, d), (n, 1, d) or (n, 1, 0)
        The context: a row per arm, one for all arms, or no features at all.
    arms : array of int
        The arm that was played.
    rewards : array
        What it paid.
    propensities : array
        The chance that it had of being played, above 0.
    allowed : array of bool, shape (n, K)
        The arms that could be played.
    times, agents : array of int
        The round, and who chose.
    """

    features: Floats
    arms: Integers
    rewards: Floats
    propensities: Floats
    allowed: NDArray[np.bool_]
    times: Integers
    agents: Integers

    def __post_init__(self) -> None:
        """Refuse a log that contradicts itself."""
        for field, kind in KINDS.items():
            # Fields of a frozen class are set this way.
            object.__setattr__(self, field, kind.read(field, getattr(self, field)))
        lengths = {field.name: len(getattr(self, field.name)) for field in fields(self)}
        if len(set(lengths.values())) > 1 or not len(self.arms):
            raise InputError(f"a log has columns of lengths {lengths}; give all the same, above 0")
        wrong = (self.arms < 0) | (self.arms >= self.num_arms)
        self._refuse("arm", self.arms, wrong, f"a number in 0 to {self.num_arms - 1}")
        outside = ~self.allowed[np.arange(len(self)), self.arms]
        self._refuse("arm", self.arms, outside, "one that was allowed")
        chance = ~((self.propensities > 0.0) & (self.propensities <= 1.0))
        self._refuse("propensity", self.propensities, chance, "above 0 and at most 1")
        self._refuse("reward", self.rewards, ~np.isfinite(self.rewards), "finite")
        strange = np.asarray(~np.isfinite(self.features).all(axis=(1, 2)))
        self._refuse("context", self.features[:, 0], strange, "made of finite features")
        if self.features.shape[1] not in (1, self.num_arms):
            raise InputError(
                f"features have shape {self.features.shape}; give one row for all of "
                f"{self.num_arms} arms, or one each"
            )

    def _refuse(self, what: str, values: Any, wrong: NDArray[np.bool_], accepted: str) -> None:
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InputError(
                f"decision {row} has {what} {np.asarray(values[row]).tolist()}; it must be "
                f"{accepted}"
            )

    def __len__(self) -> int:
        return len(self.arms)

    @property
    def num_arms(self) -> int:
        """K."""
        return int(self.allowed.shape[1])

    @property
    def num_features(self) -> int:
        """How many features there are."""
        return int(self.features.shape[2])

    @classmethod
    def from_table(
        cls,
        table: Any,
        context: Sequence[str] = (),
        *,
        arm: str = "arm",
        reward: str = "reward",
        propensity: str | float = "propensity",
    ) -> DecisionLog:
        """Read a log with one row per decision.

        Parameters
        ----------
        table : DataFrame, dict of columns, or path
            Of pandas or polars, or a `.csv` or `.parquet` file.
        context : sequence of str
            The columns that are features. Of a column of text every category becomes a feature,
            1 where it is that category and else 0, in alphabetical order.
        arm, reward : str
            The columns of what was played, as numbers 0 … K−1 or as text, which is numbered in
            alphabetical order, and of what it paid.
        propensity : str or float
            The column of the chance that the arm had, or that chance if it was always the same:
            1/K where arms were drawn evenly.
        """
        log, columns = read_context_log(table, context, arm, reward)
        count = len(log.arms)
        check_size("the log", count, len(log.arm_names))
        if isinstance(propensity, str):
            if propensity not in columns:
                raise unknown_name("column of the log", propensity, columns)
            chances = numbers(propensity, columns)
        else:
            require_number("propensity", propensity, "above 0 and at most 1", 0.0, 1.0 + 1e-15)
            chances = np.full(count, min(1.0, float(propensity)))
        return cls(
            features=log.features[:, None, :],
            arms=log.arms,
            rewards=log.rewards,
            propensities=chances,
            allowed=np.ones((count, len(log.arm_names)), dtype=bool),
            times=np.arange(count),
            agents=np.zeros(count, dtype=np.int64),
        )

    def last(self, most: int) -> DecisionLog:
        """Return the last decisions, at most so many."""
        require_count("most", most)
        return self.rows(slice(-most, None))

    def rows(self, which: slice) -> DecisionLog:
        """Return some of the decisions."""
        return replace(
            self, **{field.name: getattr(self, field.name)[which] for field in fields(self)}
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the log as `.jsonl`, one decision per line, or as `.parquet`."""
        more = {} if self.allowed[:, -1].any() else {NUM_ARMS: self.num_arms}
        rows = [dict(zip(COLUMNS, row, strict=True)) | more for row in self._rows()]
        write_rows(Path(path), rows)

    def _rows(self) -> Any:
        one = self.features.shape[1] == 1
        contexts = self.features[:, 0] if one else self.features
        may = [np.flatnonzero(row).tolist() for row in self.allowed]
        others = (self.arms, self.propensities, self.rewards)
        columns = [self.times, self.agents, contexts]
        return zip(
            *(each.tolist() for each in columns), may, *(each.tolist() for each in others),
            strict=True,
        )  # fmt: skip

    @classmethod
    def load(cls, path: str | PathLike[str]) -> DecisionLog:
        """Read what `save` has written."""
        found = read_decisions(Path(path))
        return cls(
            features=found["context"],
            arms=found["arm"],
            rewards=found["reward"],
            propensities=found["propensity"],
            allowed=found["allowed"],
            times=found["time"],
            agents=found["agent"],
        )
