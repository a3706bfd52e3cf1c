"""Decisions in files: one JSON object per line, or a row of Parquet, as `DecisionLog.save` writes.

Whatever stands in a file is checked before it becomes an array: a file may come from anywhere.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.errors import InputError
from coopbandits.plots.writing import write_text

COLUMNS = ("time", "agent", "context", "allowed", "arm", "propensity", "reward")

NUM_ARMS = "num_arms"
"""One more column, where the last arms were never allowed: nothing else tells of them."""

MOST_FLAGS = 2_000_000_000
"""Most decisions times arms in one file."""

Rows = list[dict[str, Any]]


def write_rows(file: Path, rows: Rows) -> None:
    """Write decisions as `.jsonl` or `.parquet`."""
    if file.suffix == ".jsonl":
        write_text(file, "".join(json.dumps(row) + "\n" for row in rows))
    elif file.suffix == ".parquet":
        arrow, parquet = _pyarrow(file)
        parquet.write_table(arrow.Table.from_pylist(rows), file)
    else:
        raise _unknown_ending(file)


def read_decisions(file: Path) -> dict[str, NDArray[Any]]:
    """Return the columns of a file that `write_rows` has written."""
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
    check_size(owner, len(given), largest + 1)
    allowed = np.zeros((len(given), largest + 1), dtype=bool)
    for mask, arms in zip(allowed, given, strict=True):
        mask[arms] = True
    return allowed


def check_size(owner: str, decisions: int, num_arms: int) -> None:
    """Refuse so many arms that flags of what was allowed would fill the memory."""
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


def _lines(file: Path) -> Rows:
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        rows = [json.loads(line) for line in lines if line.strip()]
    except OSError as error:
        raise InputError(f"log file {str(file)!r} cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"log file {str(file)!r} holds no JSON lines ({error})") from None
    return [row if isinstance(row, dict) else {} for row in rows]


def _parquet_rows(file: Path) -> Rows:
    if file.suffix != ".parquet":
        raise _unknown_ending(file)
    arrow, parquet = _pyarrow(file)
    try:
        with parquet.ParquetFile(file) as source:
            rows: Rows = source.read().to_pylist()
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
