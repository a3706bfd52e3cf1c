"""What logged rewards may come as, and how each is read: arrays, lists, dicts, tables and files.

Tables are *wide*, with one column per arm, or *long*, with one row per reward, which names its arm.
Lists are read by *arms*, one list each. Where two readings are possible none is guessed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.errors import InputError, unknown_name
from coopbandits.problems.checks import distinct_names, float_array
from coopbandits.problems.logfile import Table, read_log

READINGS = ("wide", "long", "arms")

WIDE, LONG, ARMS = "one column per arm", "one row per reward", "one list per arm"


class How(NamedTuple):
    """How the caller wants rewards to be read; None where that is left to us."""

    reading: str | None = None
    arm: str | None = None
    reward: str | None = None
    time: str | None = None


class Log(NamedTuple):
    """Rewards of every arm, the missing ones left out, and the reading that was taken.

    `times` are those of the rewards, where a column tells.
    """

    names: tuple[str, ...]
    samples: list[NDArray[np.float64]]
    reading: str
    times: list[NDArray[np.float64]] | None = None


def read_rewards(rewards: Any, arm_names: Sequence[str] | None, how: How) -> Log:
    """Read logged rewards of any kind, or refuse them."""
    if how.reading is not None and how.reading not in READINGS:
        raise unknown_name("reading", str(how.reading), READINGS)
    if isinstance(rewards, str | PathLike):
        path = Path(rewards)
        log = _from_table(f"log file {str(path)!r}", read_log(path), how)
    elif hasattr(rewards, "collect"):
        raise InputError("logged rewards are a query; pass rewards.collect(), the table it makes")
    elif hasattr(rewards, "columns"):
        log = _from_table("table of logged rewards", _from_frame(rewards), how)
    elif isinstance(rewards, Mapping):
        log = _from_mapping(rewards, how)
    else:
        log = _from_lists(rewards, arm_names, how)
    names = log.names if arm_names is None else distinct_names(arm_names, len(log.samples))
    kept, order = _cleaned(names, log.samples)
    times = log.times and [t[at] for t, at in zip(log.times, order, strict=True)]
    return log._replace(names=names, samples=kept, times=times)


def read_table(table: Any) -> Table:
    """Return the columns of a table: of pandas or polars, a dict of columns, or a file."""
    if isinstance(table, str | PathLike):
        return read_log(table)
    if hasattr(table, "columns"):
        return _from_frame(table)
    if not isinstance(table, Mapping):
        raise InputError(f"the table is a {type(table).__name__}; give a DataFrame, dict or path")
    return _from_columns(table)


def _from_table(source: str, table: Table, how: How) -> Log:
    if not table:
        raise InputError(f"{source} has no columns; give it one per arm")
    if how.time is not None:
        if how.time not in table:
            raise unknown_name(f"column of {source}", how.time, table)
        others = {name: column for name, column in table.items() if name != how.time}
        times = read_times(f"column {how.time!r} of {source}", table[how.time])
        return _timed(_from_table(source, others, how._replace(time=None)), times, how.time)
    reading = "long" if how.arm or how.reward else how.reading or _guess(source, table)
    if reading == "long":
        return _from_long(source, table, how)
    texts = [name for name, column in table.items() if column.dtype == object]
    if texts or reading == "arms":
        what = f"text in column {texts[0]!r}" if texts else "columns, and no lists"
        raise InputError(
            f"{source} has {what}; rewards are numbers, so leave the column out, or "
            "name two columns with arm=… and reward=…"
        )
    rows = np.arange(float(next(iter(table.values())).size))
    return Log(tuple(table), list(table.values()), WIDE, [rows] * len(table))


def _timed(log: Log, times: NDArray[np.float64], name: str) -> Log:
    """Put times in the place of rows."""
    assert log.times is not None  # noqa: S101  tables have rows
    return log._replace(
        times=[times[rows.astype(np.int64)] for rows in log.times],
        reading=f"{log.reading}, time in {name!r}",
    )


def read_times(owner: str, column: NDArray[Any]) -> NDArray[np.float64]:
    """Return times as numbers; text is read as ISO 8601 dates."""
    times = column
    try:
        if column.dtype == object:
            times = column.astype("datetime64[us]").astype(np.float64)
    except (TypeError, ValueError):
        times = np.array([np.nan])
    if not np.isfinite(times).all() or (column.dtype == object and any(c is None for c in column)):
        raise InputError(
            f"{owner} holds what is no time; give every row a number, or a date such as "
            "2026-01-31T12:00"
        )
    return np.asarray(times, dtype=np.float64)


def _guess(source: str, table: Table) -> str:
    texts = [name for name, column in table.items() if column.dtype == object]
    named = {"arm", "reward"} & table.keys()
    if len(named) == 2 or (len(texts) == 1 and len(table) == 2):
        return "long"
    if texts or named:
        raise InputError(
            f"{source} has the columns {', '.join(map(repr, table))}, and it is unclear which are "
            "arms; name two with arm=… and reward=… if every row is one reward, or say "
            "reading='wide' if every column is an arm"
        )
    return "wide"


def _from_long(source: str, table: Table, how: How) -> Log:
    texts = [name for name, column in table.items() if column.dtype == object]
    arm = how.arm or ("arm" if "arm" in table or len(texts) != 1 else texts[0])
    others = [name for name in table if name != arm]
    reward = how.reward or ("reward" if "reward" in table or len(others) != 1 else others[0])
    for name in (arm, reward):
        if name not in table:
            raise unknown_name(f"column of {source}", name, table)
    if arm == reward or table[reward].dtype == object:
        raise InputError(
            f"column {reward!r} of {source} holds no rewards; name one of numbers with reward=…"
        )
    labels = [_label(value) for value in table[arm].tolist()]
    rows: dict[str | float, list[float]] = {}
    places: dict[str | float, list[int]] = {}
    for row, (label, paid) in enumerate(zip(labels, table[reward].tolist(), strict=True)):
        if label is None and not np.isnan(paid):
            raise InputError(
                f"{source} has the reward {paid} without an arm in row {row}; fill in column "
                f"{arm!r}"
            )
        if label is not None:
            rows.setdefault(label, []).append(paid)
            places.setdefault(label, []).append(row)
    arms = sorted(rows)  # all text or all numbers
    names = tuple(str(int(a)) if isinstance(a, float) and a.is_integer() else str(a) for a in arms)
    reading = f"{LONG}, arm in {arm!r}, reward in {reward!r}"
    found = [np.array(rows[each]) for each in arms]
    return Log(names, found, reading, [np.array(places[each], dtype=np.float64) for each in arms])


def _label(value: Any) -> str | float | None:
    return None if value is None or value != value else value


def _from_frame(frame: Any) -> Table:
    """Return the columns of a table of pandas or polars, which need not be imported for that."""
    names = [str(name) for name in frame.columns]
    twins = sorted({name for name in names if names.count(name) > 1})
    if twins:
        raise InputError(f"logged rewards have two columns {twins[0]!r}; rename one of them")
    return {str(name): _from_values(frame[name].to_list()) for name in frame.columns}


def _from_values(values: list[Any]) -> NDArray[Any]:
    known = [None if type(value).__name__ == "NAType" else value for value in values]
    try:
        if any(isinstance(value, str) for value in known):
            raise TypeError
        return np.array([np.nan if value is None else value for value in known], dtype=np.float64)
    except (TypeError, ValueError):
        return np.array([_text(value) for value in known], dtype=object)


def _text(value: Any) -> str | None:
    return None if value is None or value != value else str(value)


def _from_mapping(rewards: Mapping[Any, Any], how: How) -> Log:
    """Read one list per arm, or columns where that is said."""
    if how.reading in ("wide", "long") or how.arm or how.reward or how.time:
        return _from_table("table of logged rewards", _from_columns(rewards), how)
    if how.reading is None and {"arm", "reward"} <= rewards.keys():
        raise InputError(
            "logged rewards have the keys 'arm' and 'reward', which may be two arms or two "
            "columns; say reading='arms' or reading='long'"
        )
    if not rewards:
        raise InputError("logged rewards are empty, so there are no arms; pass at least one")
    return Log(tuple(map(str, rewards)), _lists(list(rewards.values()), map(str, rewards)), ARMS)


def _from_columns(table: Mapping[Any, Any]) -> Table:
    columns = {str(name): _from_values(list(values)) for name, values in table.items()}
    if len({column.size for column in columns.values()}) > 1:
        raise InputError("columns of logged rewards have different lengths; make them equal")
    return columns


def _from_lists(rewards: Any, arm_names: Sequence[str] | None, how: How) -> Log:
    if how.reading == "long" or how.arm or how.reward or how.time:
        raise InputError(
            "logged rewards have no columns with names; for one row per reward pass a dict, a "
            "DataFrame or a file"
        )
    reading = how.reading or _list_reading(rewards, arm_names)
    if reading == "arms":
        names = [str(arm) for arm in range(len(rewards))]
        return Log(tuple(names), _lists(list(rewards), names), ARMS)
    log = float_array("logged rewards", rewards, "a table with one column per arm")
    if log.ndim != 2 or log.shape[1] == 0:
        raise InputError(
            f"logged rewards have shape {log.shape}; pass rows × arms with at least one arm"
        )
    return Log(tuple(str(arm) for arm in range(log.shape[1])), list(log.T), WIDE)


def _list_reading(rewards: Any, arm_names: Sequence[str] | None) -> str:
    """Tell whether lists are arms or rows, or refuse to guess."""
    if not isinstance(rewards, list | tuple) or not rewards or not all(map(_is_list, rewards)):
        return "wide"
    sizes = {len(each) for each in rewards}
    if len(sizes) > 1 or all(isinstance(each, np.ndarray) for each in rewards):
        return "arms"
    rows, columns = float_array("logged rewards", rewards, "lists of numbers").shape
    if arm_names is not None and rows != columns and len(arm_names) in (rows, columns):
        return "arms" if len(arm_names) == rows else "wide"
    raise InputError(
        f"logged rewards are {rows} lists of {columns}, which may be one list per arm or one row "
        "with a reward of every arm; say reading='arms' or reading='wide'"
    )


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim == 1)


def _lists(values: Sequence[Any], names: Any) -> list[NDArray[np.float64]]:
    found = []
    for name, each in zip(names, values, strict=True):
        samples = float_array(f"logged rewards of arm {name!r}", each, "a list of numbers")
        if samples.ndim != 1:
            raise InputError(
                f"logged rewards of arm {name!r} have shape {samples.shape}; pass a list of numbers"
            )
        found.append(samples)
    return found


def _cleaned(
    names: Sequence[str], samples: list[NDArray[np.float64]]
) -> tuple[list[NDArray[np.float64]], list[NDArray[np.int64]]]:
    """Return the rewards without missing ones and sorted, and where each stood."""
    found, orders = [], []
    for name, each in zip(names, samples, strict=True):
        infinite = np.flatnonzero(np.isinf(each))
        if infinite.size:
            raise InputError(
                f"logged reward in row {infinite[0]}, column {name!r} is {each[infinite[0]]}; "
                "rewards are finite numbers, NaN marks a missing one"
            )
        order = np.argsort(each, kind="stable")  # missing ones come last
        orders.append(order[: np.count_nonzero(~np.isnan(each))])
        found.append(each[orders[-1]])
        if found[-1].size == 0:
            raise InputError(
                f"arm {name!r} has no logged reward; every arm needs at least one, "
                "so add one or leave the arm out"
            )
    return found, orders
