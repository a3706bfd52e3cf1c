"""What a cluster declares about requests, and how an application's context becomes numbers.

::

    [cluster.features]
    hour = [0, 24]                     # a number, and its range
    country = ["PT", "ES", "FR"]       # one of these

An agent's linear model sees 1, then the features in the order of their names, since a TOML table
has none. A number is scaled by its range to −1 … 1; a category is a column per value, 1 in its own
and 0 in the others. So every column lies in −1 … 1, which is what neighbours check claims by, and
the column of ones makes the model's reward sums those of the arms.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from coopbandits.core.contract import Vector
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.fleet.config import fields
from coopbandits.fleet.service import require_context

ONES = 0
"""The column of ones."""

LARGEST = 1.0
"""No column is larger, in size."""

MOST_COLUMNS = 100
"""Agents send a number for every pair of columns, of every arm."""

SHOWN = 200
"""So many characters of a list are told in a sentence."""

EXAMPLE = "hour = [0, 24] for a number, country = ['PT', 'ES'] for a category"


class Feature(NamedTuple):
    """One thing that is known of a request before the choice.

    Attributes
    ----------
    name : str
        What applications call it.
    range : (float, float) or None
        The lowest and the highest value of a number.
    categories : tuple of str
        The values that it may have, where it is no number.
    """

    name: str
    range: tuple[float, float] | None
    categories: tuple[str, ...] = ()

    @property
    def columns(self) -> int:
        """How many numbers it becomes."""
        return 1 if self.range else len(self.categories)

    @property
    def wanted(self) -> str:
        """What it must be, in words."""
        if self.range:
            return f"a number from {self.range[0]:g} to {self.range[1]:g}"
        return f"one of {_listed(map(repr, self.categories))}"

    @property
    def schema(self) -> dict[str, Any]:
        """What it must be, as a JSON schema."""
        if self.range:
            return {"type": "number", "minimum": self.range[0], "maximum": self.range[1]}
        return {"type": "string", "enum": list(self.categories)}


def _listed(texts: Iterable[str]) -> str:
    """Return texts with commas between them, as many as fit into a sentence."""
    found = ""
    for text in texts:
        if found and len(found) + len(text) > SHOWN:
            return f"{found}, …"
        found = f"{found}, {text}" if found else text
    return found


def read_features(what: str, value: Any) -> tuple[Feature, ...]:
    """Read a table of features: a range of numbers, or a list of categories, by name."""
    if not isinstance(value, dict) or not value:
        raise InputError(f"{what} is {value!r}; it must be a table of features: {EXAMPLE}")
    for key in value:
        fields.name(f"a name in {what}", key)
    found = tuple(_feature(f"{what}.{key}", key, value[key]) for key in sorted(value))
    columns = width_of(found)
    if columns > MOST_COLUMNS:
        raise InputError(
            f"{what} makes {columns} columns, one for every number and every category, and one of "
            f"ones; there may be {MOST_COLUMNS}: leave some out, or merge rare categories"
        )
    return found


def _feature(what: str, name: str, value: Any) -> Feature:
    if isinstance(value, list) and len(value) >= 2:
        if all(isinstance(each, str) for each in value):
            return Feature(name, None, _categories(what, value))
        if len(value) == 2 and all(map(fields.is_number, value)):
            low, high = map(float, value)
            if 0.0 < high - low < math.inf:
                return Feature(name, (low, high))
    raise InputError(
        f"{what} is {value!r}; it must be the lowest and the highest number, or a list of two or "
        f"more categories: {EXAMPLE}"
    )


def _categories(what: str, values: Sequence[str]) -> tuple[str, ...]:
    for at, value in enumerate(values):
        fields.name(f"{what}[{at}]", value)
        if value in values[:at]:
            raise InputError(f"{what} has {value!r} twice; list every category once")
    return tuple(values)


def width_of(features: Sequence[Feature]) -> int:
    """Return how many columns some features have, with that of ones."""
    return 1 + sum(feature.columns for feature in features)


def table_of(features: Sequence[Feature]) -> dict[str, list[Any]]:
    """Return features as a configuration declares them."""
    return {feature.name: list(feature.range or feature.categories) for feature in features}


class Encoder:
    """Turns contexts into columns, or says what is wrong with them.

    Parameters
    ----------
    features : sequence of Feature, or None
        What the cluster declares.
    """

    def __init__(self, features: Sequence[Feature] | None) -> None:
        self.features = tuple(features or ())
        self.names = [feature.name for feature in self.features]
        self.width = width_of(self.features) if features else 0

    def encode(self, context: Mapping[str, Any] | None) -> Vector | None:
        """Return the columns of a context; None where none is declared and none is given."""
        if context is not None:
            return self.columns(context)
        if self.features:
            wanted = _listed(f"{feature.name}: {feature.wanted}" for feature in self.features)
            raise InputError(f"there is no context; send what is known of the request, {wanted}")
        return None

    def columns(self, context: Mapping[str, Any]) -> Vector:
        """Return the columns of a context."""
        if not self.features:
            raise InputError(
                "a context was given, but this bandit declares no features; leave it out, or "
                "declare them on all nodes"
            )
        told = require_context(context)
        for name in told:
            if name not in self.names:
                raise unknown_name("feature", name[:100], self.names)
        found = [1.0]
        for feature in self.features:
            if feature.name not in told:
                raise InputError(f"context has no {feature.name!r}; it must be {feature.wanted}")
            found += _numbers(feature, told[feature.name])
        return np.array(found)

    def schema(self) -> dict[str, Any] | None:
        """Return what a context must be, as a JSON schema; None where there is none."""
        if not self.features:
            return None
        return {
            "type": "object",
            "properties": {feature.name: feature.schema for feature in self.features},
            "required": self.names,
            "additionalProperties": False,
        }


def _numbers(feature: Feature, value: float | str) -> list[float]:
    if value in feature.categories:
        return [float(value == each) for each in feature.categories]
    if feature.range and not isinstance(value, str):
        low, high = feature.range
        if low <= value <= high:
            return [2.0 * ((value - low) / (high - low)) - 1.0]
    shown = repr(value) if len(repr(value)) <= 100 else f"{repr(value)[:100]}…"
    raise InputError(f"feature {feature.name!r} is {shown}; it must be {feature.wanted}")
