"""A log of decisions: who chose what, in which context, with what chance, and what it paid."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.errors import InputError, unknown_name
from coopbandits.plots.writing import write_text
from coopbandits.problems.logfile import Table
from coopbandits.problems.readings import read_table

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

COLUMNS = ("time", "agent", "context", "allowed", "arm", "propensity", "reward")


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
            The columns of what was played, as numbers 0 … K−1, and of what it paid.
        propensity : str or float
            The column of the chance that the arm had, or that chance if it was always the same:
            1/K where arms were drawn evenly.
        """
        columns = read_table(table)
        wanted = [*context, arm, reward, *([propensity] if isinstance(propensity, str) else [])]
        for name in wanted:
            if name not in columns:
                raise unknown_name("column of the log", name, columns)
        played = _whole(arm, columns)
        count, num_arms = len(played), int(played.max()) + 1
        chances = (
            _numbers(propensity, columns)
            if isinstance(propensity, str)
            else np.full(count, float(propensity))
        )
        parts = [_encoded(name, columns) for name in context]
        return cls(
            features=np.concatenate([np.empty((count, 0)), *parts], axis=1)[:, None, :],
            arms=played,
            rewards=_numbers(reward, columns),
            propensities=chances,
            allowed=np.ones((count, num_arms), dtype=bool),
            times=np.arange(count),
            agents=np.zeros(count, dtype=np.int64),
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the log as `.jsonl`, one decision per line, or as `.parquet`."""
        file = Path(path)
        rows = [dict(zip(COLUMNS, row, strict=True)) for row in self._rows()]
        if file.suffix == ".jsonl":
            write_text(file, "".join(json.dumps(row) + "\n" for row in rows))
        elif file.suffix == ".parquet":
            arrow, parquet = _pyarrow(file)
            parquet.write_table(arrow.Table.from_pylist(rows), file)
        else:
            raise _unknown_ending(file)

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
        file = Path(path)
        rows = _lines(file) if file.suffix == ".jsonl" else _parquet_rows(file)
        if not rows or any(not set(COLUMNS) <= row.keys() for row in rows):
            raise InputError(
                f"log file {str(file)!r} has no decisions with {', '.join(COLUMNS)}; read a table "
                "of your own with DecisionLog.from_table"
            )
        num_arms = 1 + max(max(row["allowed"], default=row["arm"]) for row in rows)
        allowed = np.zeros((len(rows), num_arms), dtype=bool)
        for mask, row in zip(allowed, rows, strict=True):
            mask[row["allowed"]] = True
        features = np.array([row["context"] for row in rows], dtype=np.float64)
        return cls(
            features=features[:, None, :] if features.ndim == 2 else features,
            arms=np.array([row["arm"] for row in rows], dtype=np.int64),
            rewards=np.array([row["reward"] for row in rows], dtype=np.float64),
            propensities=np.array([row["propensity"] for row in rows], dtype=np.float64),
            allowed=allowed,
            times=np.array([row["time"] for row in rows], dtype=np.int64),
            agents=np.array([row["agent"] for row in rows], dtype=np.int64),
        )


def _numbers(name: str, columns: Table) -> Floats:
    if columns[name].dtype == object:
        raise InputError(f"column {name!r} of the log holds text; it must hold numbers")
    return np.asarray(columns[name], dtype=np.float64)


def _whole(name: str, columns: Table) -> Integers:
    found = _numbers(name, columns)
    if not found.size or not (np.isfinite(found) & (found == np.floor(found))).all():
        raise InputError(f"column {name!r} of the log must number arms 0, 1, …")
    return found.astype(np.int64)


def _encoded(name: str, columns: Table) -> Floats:
    column = columns[name]
    if column.dtype != object:
        return np.asarray(column, dtype=np.float64)[:, None]
    if any(cell is None for cell in column):
        raise InputError(f"column {name!r} of the log has empty cells; fill them in")
    categories = sorted(set(column.tolist()))
    return np.array([[float(cell == each) for each in categories] for cell in column])


def _lines(file: Path) -> list[dict[str, Any]]:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines if line.strip()]
    except OSError as error:
        raise InputError(f"log file {str(file)!r} cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise InputError(f"log file {str(file)!r} holds no JSON lines ({error})") from None
    return [row for row in rows if isinstance(row, dict)]


def _parquet_rows(file: Path) -> list[dict[str, Any]]:
    if file.suffix != ".parquet":
        raise _unknown_ending(file)
    arrow, parquet = _pyarrow(file)
    try:
        with parquet.ParquetFile(file) as source:
            rows: list[dict[str, Any]] = source.read().to_pylist()
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
