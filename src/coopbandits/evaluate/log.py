"""A log of decisions: who chose what, in which context, with which propensity and reward.

A file holds one decision per line (JSON) or per row (Parquet). Everything in it is checked before
it becomes an array, since a file may come from anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.checks import require_count, require_number
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.plots.writing import write_text
from coopbandits.problems.context_log import numbers, read_context_log

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Records = list[dict[str, Any]]

COLUMNS = ("time", "agent", "context", "allowed", "arm", "propensity", "reward")

NUM_ARMS = "num_arms"
"""One more column if the last arms were never allowed: no other one shows that they exist."""

MOST_FLAGS = 2_000_000_000
"""Largest number of decisions times arms."""


class Kind(NamedTuple):
    """What a column is made of, and how many dimensions it has."""

    dtype: type[np.generic]
    dimensions: int
    accepted: str

    def read(self, name: str, given: Any) -> NDArray[Any]:
        """Return a column as an array of this type and shape."""
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
    """n decisions among K arms, in order of time; every array has one row per decision.

    Attributes
    ----------
    features : array of shape (n, K, d), (n, 1, d) or (n, 1, 0)
        The context: a row per arm, one for all arms, or no features at all.
    arms : array of int
        The arm that was played.
    rewards : array
        Its reward.
    propensities : array
        The probability with which it was played, above 0.
    allowed : array of bool, shape (n, K)
        The arms that could be played.
    times, agents : array of int
        The round, which never decreases, and who chose.
    """

    features: Floats
    arms: Integers
    rewards: Floats
    propensities: Floats
    allowed: NDArray[np.bool_]
    times: Integers
    agents: Integers

    def __post_init__(self) -> None:
        """Reject a log that contradicts itself."""
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
        early = np.append(False, self.times[1:] < self.times[:-1])
        self._refuse("time", self.times, early, "at least that before it: sort the log by time")
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
        """Number of features, d."""
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
        """Read a table with one row per decision, in order of time.

        Parameters
        ----------
        table : DataFrame, dict of columns, or path
            A pandas or polars frame, or a `.csv` or `.parquet` file.
        context : sequence of str
            The columns that are features. A column of text becomes one 0/1 feature per category, in
            alphabetical order.
        arm, reward : str
            The columns of arms, numbers 0 … K−1 or text that is numbered in alphabetical order, and
            of rewards.
        propensity : str or float
            The column of the probability with which the arm was played, or that probability if it
            was always the same: 1/K if arms were drawn uniformly.
        """
        log, columns = read_context_log(table, context, arm, reward)
        count = len(log.arms)
        _check_size("the log", count, len(log.arm_names))
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

    def pooled(self) -> DecisionLog:
        """Return the log with one agent, for agents that all meet the same world."""
        return replace(self, agents=np.zeros(len(self), dtype=np.int64))

    def last(self, most: int) -> DecisionLog:
        """Return the last decisions, at most as many as given."""
        require_count("most", most)
        return self.rows(slice(-most, None))

    def rows(self, which: slice) -> DecisionLog:
        """Return some of the decisions."""
        return replace(
            self, **{field.name: getattr(self, field.name)[which] for field in fields(self)}
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the log to a `.jsonl` or `.parquet` file."""
        more = {} if self.allowed[:, -1].any() else {NUM_ARMS: self.num_arms}
        rows = [dict(zip(COLUMNS, row, strict=True)) | more for row in self._rows()]
        _write_records(Path(path), rows)

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
        """Read a file that `save` has written."""
        found = _read_columns(Path(path))
        return cls(
            features=found["context"],
            arms=found["arm"],
            rewards=found["reward"],
            propensities=found["propensity"],
            allowed=found["allowed"],
            times=found["time"],
            agents=found["agent"],
        )


def _write_records(file: Path, rows: Records) -> None:
    if file.suffix == ".jsonl":
        write_text(file, "".join(json.dumps(row) + "\n" for row in rows))
    elif file.suffix == ".parquet":
        arrow, parquet = _pyarrow(file)
        parquet.write_table(arrow.Table.from_pylist(rows), file)
    else:
        raise _unknown_ending(file)


def _read_columns(file: Path) -> dict[str, NDArray[Any]]:
    rows = _lines(file) if file.suffix == ".jsonl" else _parquet_rows(file)
    if not rows or any(not set(COLUMNS) <= row.keys() for row in rows):
        raise InputError(
            f"log file {str(file)!r} has no decisions with {', '.join(COLUMNS)}; a table of your "
            "own is read by the names of its columns (DecisionLog.from_table, evaluate --context)"
        )
    owner = f"log file {str(file)!r}"
    found: dict[str, NDArray[Any]] = {
        name: _numbers(owner, name, [row[name] for row in rows])
        for name in ("time", "agent", "arm", "propensity", "reward")
    }
    for name in ("time", "agent", "arm"):
        found[name] = _whole(owner, name, found[name])
    stated = [row[NUM_ARMS] for row in rows if row.get(NUM_ARMS) is not None]
    num_arms = _whole(owner, NUM_ARMS, _numbers(owner, NUM_ARMS, stated)).max(initial=0)
    largest = max(int(found["arm"].max()), int(num_arms) - 1)
    found["allowed"] = _flags(owner, [row["allowed"] for row in rows], largest)
    found["context"] = _contexts(owner, [row["context"] for row in rows])
    return found


def _refusal(owner: str, name: str, row: int, value: Any, accepted: str) -> InputError:
    shown = repr(value) if len(repr(value)) <= 60 else f"{repr(value)[:57]}..."
    return InputError(f"{owner} has {name} {shown} in decision {row}; it must be {accepted}")


def _numbers(owner: str, name: str, values: list[Any]) -> NDArray[np.float64]:
    for row, value in enumerate(values):
        if not isinstance(value, int | float):
            raise _refusal(owner, name, row, value, "a number")
    try:
        return np.array(values, dtype=np.float64)
    except OverflowError:
        raise InputError(f"{owner} has a {name} too large for a float; correct it") from None


def _whole(owner: str, name: str, values: NDArray[np.float64]) -> NDArray[np.int64]:
    wrong = ~((abs(values) < 2.0**53) & (values == np.floor(values)))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise _refusal(owner, name, row, float(values[row]), "a whole number")
    return values.astype(np.int64)


def _flags(owner: str, given: list[Any], largest: int) -> NDArray[np.bool_]:
    for row, arms in enumerate(given):
        if not isinstance(arms, list) or any(type(arm) is not int or arm < 0 for arm in arms):
            raise _refusal(owner, "allowed", row, arms, "a list of arms, numbered from 0 on")
        largest = max(largest, *arms, 0)
    _check_size(owner, len(given), largest + 1)
    allowed = np.zeros((len(given), largest + 1), dtype=bool)
    for mask, arms in zip(allowed, given, strict=True):
        mask[arms] = True
    return allowed


def _check_size(owner: str, decisions: int, num_arms: int) -> None:
    """Reject logs whose table of allowed arms would fill the memory."""
    if decisions * num_arms > MOST_FLAGS:
        raise InputError(
            f"{owner} has {decisions} decisions among {num_arms} arms; number arms 0, 1, … without "
            "gaps, or take fewer decisions"
        )


def _contexts(owner: str, given: list[Any]) -> NDArray[np.float64]:
    """Return contexts (n, rows, d)."""
    try:
        found = np.array(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        found = np.empty(0)
    if found.ndim not in (2, 3):
        raise InputError(
            f"{owner} has contexts that are not as long as the others or hold no numbers; give "
            "every decision as many features, or a list of them per arm"
        )
    return found[:, None, :] if found.ndim == 2 else found


def _lines(file: Path) -> Records:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines if line.strip()]
    except OSError as error:
        raise InputError(f"log file {str(file)!r} cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"log file {str(file)!r} holds no JSON lines ({error})") from None
    return [row if isinstance(row, dict) else {} for row in rows]


def _parquet_rows(file: Path) -> Records:
    if file.suffix != ".parquet":
        raise _unknown_ending(file)
    arrow, parquet = _pyarrow(file)
    try:
        with parquet.ParquetFile(file) as source:
            rows: Records = source.read().to_pylist()
    except (OSError, arrow.ArrowException) as error:
        raise InputError(f"log file {str(file)!r} cannot be read ({error})") from None
    return rows


def _pyarrow(file: Path) -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise InputError(
            f"log file {str(file)!r} needs pyarrow, which is not installed; "
            "run pip install 'coopbandits[parquet]', or write .jsonl"
        ) from None
    return pa, parquet


def _unknown_ending(file: Path) -> InputError:
    return InputError(
        f"log file {str(file)!r} ends in {file.suffix!r}; accepted are .jsonl and .parquet"
    )
