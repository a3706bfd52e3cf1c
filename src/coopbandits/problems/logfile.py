"""Reading logged rewards from CSV and parquet files."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.errors import InputError

if TYPE_CHECKING:
    from os import PathLike

Table = dict[str, NDArray[Any]]
"""Columns by name: floats with NaN where a reward is missing, or objects, text and None."""

MISSING = {"", "na", "nan", "null"}


def read_log(path: str | PathLike[str]) -> Table:
    """Return the columns of a file."""
    file = Path(path)
    readers = {".csv": _read_csv, ".parquet": _read_parquet}
    reader = readers.get(file.suffix.lower())
    if reader is None:
        raise InputError(
            f"log file {str(file)!r} ends in {file.suffix!r}; accepted are .csv and .parquet, "
            "so convert or rename it"
        )
    if not file.is_file():
        raise InputError(f"log file {str(file)!r} does not exist or is no file; check the path")
    try:
        return reader(file)
    except OSError as error:
        raise InputError(
            f"log file {str(file)!r} cannot be read ({error.strerror or error}); check the file"
        ) from None


def _read_csv(file: Path) -> Table:
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.reader(stream, strict=True)
            # An empty line is ambiguous: with one arm it is a missing reward, else a blank line.
            lines = [(reader.line_num, row) for row in reader if row]
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(
            f"log file {str(file)!r} is no CSV text ({error}); save it as comma-separated UTF-8"
        ) from None
    names = _header(file, lines)
    if len(lines) == 1:
        raise InputError(
            f"log file {str(file)!r} has no rewards below its line of arm names; add some"
        )
    for number, cells in lines[1:]:
        _check_row(file, names, number, cells)
    return {
        name: _read_cells(file, name, [(number, cells[place]) for number, cells in lines[1:]])
        for place, name in enumerate(names)
    }


def _header(file: Path, lines: list[tuple[int, list[str]]]) -> list[str]:
    if not lines:
        raise InputError(
            f"log file {str(file)!r} is empty; the first line must name the arms, "
            "then one reward per arm and line"
        )
    names = [name.strip() for name in lines[0][1]]
    nameless = [name for name in names if not name or _is_number(name)]
    if nameless:
        raise InputError(
            f"log file {str(file)!r} has {nameless[0]!r} for an arm's name in its first line; "
            "put a line of arm names that are no numbers above the rewards"
        )
    _refuse_twins(file, names)
    return names


def _refuse_twins(file: Path, names: list[str]) -> None:
    twins = [name for place, name in enumerate(names) if name in names[:place]]
    if twins:
        raise InputError(
            f"log file {str(file)!r} names arm {twins[0]!r} twice; rename one of the two"
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _check_row(file: Path, names: list[str], number: int, cells: list[str]) -> None:
    if len(cells) != len(names):
        raise InputError(
            f"log file {str(file)!r} has {len(cells)} cells in row {number} but {len(names)} arms; "
            "give every row one cell per arm, empty where a reward is missing"
        )


def _read_cells(file: Path, name: str, numbered: list[tuple[int, str]]) -> NDArray[Any]:
    """Return a column: text where no cell is a number, else rewards, and then all cells must be."""
    cells = [None if cell.strip().lower() in MISSING else cell.strip() for _, cell in numbered]
    filled = [cell for cell in cells if cell is not None]
    if filled and not any(map(_is_number, filled)):
        return np.array(cells, dtype=object)
    rewards = [math.nan if cell is None else _read_number(cell) for cell in cells]
    for (number, _), cell, value in zip(numbered, cells, rewards, strict=True):
        if cell is not None and not math.isfinite(value):
            raise InputError(
                f"log file {str(file)!r} has {cell!r} in row {number}, column {name!r}; rewards "
                "are finite numbers, and a missing one is an empty cell"
            )
    return np.array(rewards)


def _read_number(cell: str) -> float:
    return float(cell) if _is_number(cell) else math.nan


def _read_parquet(file: Path) -> Table:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise InputError(
            f"log file {str(file)!r} needs pyarrow, which is not installed; "
            "run pip install 'coopbandits[parquet]'"
        ) from None
    try:
        # Not read_table, which would turn folder names such as arm=1 into columns.
        with parquet.ParquetFile(file) as source:
            table = source.read()
    except pa.ArrowException as error:
        raise InputError(
            f"log file {str(file)!r} is no parquet file ({str(error).splitlines()[0]}); "
            "write it again"
        ) from None
    # pandas stores a row index that is not a plain count as a column of this name.
    names = [name for name in table.column_names if not name.startswith("__index_level_")]
    if not names or table.num_rows == 0:
        raise InputError(
            f"log file {str(file)!r} is empty; give it one column per arm and at least one row"
        )
    _refuse_twins(file, names)
    return {name: _read_column(file, name, table.column(name)) for name in names}


def _read_column(file: Path, name: str, column: Any) -> NDArray[Any]:
    """Return one parquet column as floats, or as text; other types are refused."""
    from pyarrow import types

    kind = column.type
    if types.is_dictionary(kind):
        kind, column = kind.value_type, column.cast(kind.value_type)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return np.array(column.to_pylist(), dtype=object)
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
        row = next((i for i, cell in enumerate(column) if cell.is_valid), 0)
        raise InputError(
            f"log file {str(file)!r} has {column[row].as_py()!r} of type {kind} in row {row}, "
            f"column {name!r}; rewards are numbers, so store the column as floats"
        )
    # Whole numbers beyond 2^53 are rounded to the nearest float, as in a CSV file.
    floats = column.cast("float64", safe=False).to_numpy()
    return np.asarray(floats, dtype=np.float64)
