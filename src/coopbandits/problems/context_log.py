"""Logs of choices in context: columns as features, arms and rewards, and models fitted to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.checks import require_positive
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.problems.logfile import Table
from coopbandits.problems.readings import read_table

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MOST_CATEGORIES = 1000
"""Columns of text with more are refused: they are identifiers, and no features."""


class ContextLog(NamedTuple):
    """Rows of a table: features (n, d), arms, rewards, and what arms and features are called."""

    features: Floats
    arms: Integers
    rewards: Floats
    arm_names: tuple[str, ...]
    feature_names: tuple[str, ...]


def read_context_log(
    table: Any, context: Sequence[str], arm: str, reward: str
) -> tuple[ContextLog, Table]:
    """Read a table with one row per choice; return the whole table beside it."""
    if isinstance(context, str) or not all(isinstance(name, str) for name in context):
        raise InputError(f"context is {context!r}; give the names of columns, such as ['hour']")
    columns = read_table(table)
    for name in (*context, arm, reward):
        if name not in columns:
            raise unknown_name("column of the log", name, columns)
    arms, arm_names = arm_numbers(arm, columns)
    parts = [_encoded(name, columns) for name in context]
    features = np.concatenate([np.empty((len(arms), 0)), *(part for part, _ in parts)], axis=1)
    names = tuple(name for _, told in parts for name in told)
    return ContextLog(features, arms, numbers(reward, columns), arm_names, names), columns


def numbers(name: str, columns: Table) -> Floats:
    """Return a column of finite numbers, or refuse it."""
    if columns[name].dtype == object:
        raise InputError(f"column {name!r} of the log holds text; it must hold numbers")
    found = np.asarray(columns[name], dtype=np.float64)
    if (wrong := np.flatnonzero(~np.isfinite(found))).size:
        raise InputError(
            f"column {name!r} of the log has {found[wrong[0]]} in row {wrong[0]}; it must be "
            "finite, so fill it in or leave the row out"
        )
    return found


def arm_numbers(name: str, columns: Table) -> tuple[Integers, tuple[str, ...]]:
    """Return the arms of a column as numbers from 0 on, and their names.

    Arms named by text are numbered in alphabetical order.
    """
    if columns[name].dtype == object:
        names, arms = _categories(name, columns)
        return arms.astype(np.int64), names
    found = np.asarray(columns[name], dtype=np.float64)
    if not found.size or not ((found >= 0.0) & (found < 1e6) & (found == np.floor(found))).all():
        raise InputError(
            f"column {name!r} of the log must number arms 0, 1, …, or name them by text"
        )
    return found.astype(np.int64), tuple(str(arm) for arm in range(int(found.max()) + 1))


def _encoded(name: str, columns: Table) -> tuple[Floats, list[str]]:
    """Return a column as features: itself, or one per category."""
    if columns[name].dtype != object:
        return numbers(name, columns)[:, None], [name]
    categories, places = _categories(name, columns)
    flags = places[:, None] == np.arange(len(categories))
    return flags.astype(np.float64), [f"{name}={category}" for category in categories]


def _categories(name: str, columns: Table) -> tuple[tuple[str, ...], NDArray[np.intp]]:
    cells = columns[name]
    if not all(isinstance(cell, str) for cell in cells):
        raise InputError(
            f"column {name!r} of the log has empty cells, or numbers beside text; fill them in"
        )
    found, places = np.unique(cells.astype(str), return_inverse=True)
    if found.size > MOST_CATEGORIES:
        raise InputError(
            f"column {name!r} of the log has {found.size} different texts; take one with at most "
            f"{MOST_CATEGORIES}"
        )
    return tuple(found.tolist()), places


def with_intercept(features: Floats) -> Floats:
    """Return features (…, d + 1) with a 1 before the others."""
    return np.concatenate([np.ones((*features.shape[:-1], 1)), features], axis=-1)


def ridge_fit(design: Floats, rewards: Floats, ridge: float) -> Floats:
    """Return the coefficients of a ridge regression."""
    matrix = design.T @ design + ridge * np.eye(design.shape[1])
    return np.asarray(np.linalg.solve(matrix, design.T @ rewards), dtype=np.float64)


def fit_models(
    features: Floats, arms: Integers, rewards: Floats, names: Sequence[str], ridge: float
) -> tuple[Floats, float]:
    """Fit a model (d + 1) per arm, intercept first; return them and the noise that they leave.

    Models are shrunk towards the average reward by `ridge`.
    """
    require_positive("ridge", ridge)
    design, average = with_intercept(features), float(rewards.mean())
    theta, left = np.empty((len(names), design.shape[1])), np.empty(len(rewards))
    for arm, name in enumerate(names):
        rows = np.flatnonzero(arms == arm)
        if not rows.size:
            raise InputError(
                f"arm {name} was never played in the log; number arms 0, 1, … without gaps"
            )
        theta[arm] = ridge_fit(design[rows], rewards[rows] - average, ridge)
        left[rows] = rewards[rows] - average - design[rows] @ theta[arm]
    theta[:, 0] += average
    return theta, float(np.sqrt(np.mean(left**2)))
