"""Features of requests: their declaration, and the encoding of a context as columns.

::

    [bandits.NAME.features]
    hour = [0, 24]                     # a number, and its range
    country = ["PT", "ES", "FR"]       # a category

An agent's linear model sees 1, then the features in the order of their names, since a TOML table
has none. A number is scaled by its range to −1 … 1, a category is one-hot encoded. So every column
is in −1 … 1, by which neighbours check claims, and the column of ones makes the model's reward sums
those of the arms.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from coopbandits.core.checks import to_float
from coopbandits.core.contract import Vector
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.fleet.config.values import is_number, read_name
from coopbandits.fleet.service import require_context

ONES = 0
"""The column of ones."""

LARGEST = 1.0
"""Bound on the absolute value of every column."""

MAX_COLUMNS = 100
"""Agents send a number for every pair of columns, of every arm."""

SHOWN = 200
"""Maximum length of a list in an error message, in characters."""

EXAMPLE = "hour = [0, 24] for a number, country = ['PT', 'ES'] for a category"


class Feature(NamedTuple):
    """One feature of a request, known before the choice.

    Attributes
    ----------
    name : str
        Its name in applications.
    range : (float, float) or None
        The lowest and the highest value of a number; None for a category.
    categories : tuple of str
        The values of a category.
    """

    name: str
    range: tuple[float, float] | None
    categories: tuple[str, ...] = ()

    @property
    def columns(self) -> int:
        """Number of columns that encode it."""
        return 1 if self.range else len(self.categories)

    @property
    def wanted(self) -> str:
        """The accepted values, in words."""
        if self.range:
            return f"a number from {self.range[0]:g} to {self.range[1]:g}"
        return f"one of {_listed(map(repr, self.categories))}"

    @property
    def schema(self) -> dict[str, Any]:
        """The accepted values, as a JSON schema."""
        if self.range:
            return {"type": "number", "minimum": self.range[0], "maximum": self.range[1]}
        return {"type": "string", "enum": list(self.categories)}


def _listed(texts: Iterable[str]) -> str:
    """Return texts separated by commas, as many as fit into an error message."""
    found = ""
    for text in texts:
        if found and len(found) + len(text) > SHOWN:
            return f"{found}, …"
        found = f"{found}, {text}" if found else text
    return found


def read_features(what: str, value: object) -> tuple[Feature, ...]:
    """Read a table of features: a range of numbers, or a list of categories, by name."""
    if not isinstance(value, dict) or not value:
        raise InputError(f"{what} is {value!r}; it must be a table of features: {EXAMPLE}")
    for key in value:
        read_name(f"a name in {what}", key)
    found = tuple(_read_feature(f"{what}.{key}", key, value[key]) for key in sorted(value))
    columns = _width(found)
    if columns > MAX_COLUMNS:
        raise InputError(
            f"{what} makes {columns} columns, one for every number and every category, and one of "
            f"ones; there may be {MAX_COLUMNS}: leave some out, or merge rare categories"
        )
    return found


def _read_feature(what: str, name: str, value: object) -> Feature:
    if isinstance(value, list) and len(value) >= 2:
        if all(isinstance(each, str) for each in value):
            for at, each in enumerate(value):
                read_name(f"{what}[{at}]", each)
                if each in value[:at]:
                    raise InputError(f"{what} has {each!r} twice; list every category once")
            return Feature(name, None, tuple(value))
        if len(value) == 2 and all(map(is_number, value)):
            low, high = map(to_float, value)
            if 0.0 < high - low < math.inf:
                return Feature(name, (low, high))
    raise InputError(
        f"{what} is {value!r}; it must be the lowest and the highest number, or a list of two or "
        f"more categories: {EXAMPLE}"
    )


Features = Annotated[tuple[Feature, ...], read_features]


def features_table(features: Sequence[Feature]) -> dict[str, list[Any]]:
    """Return features as a configuration declares them."""
    return {feature.name: list(feature.range or feature.categories) for feature in features}


def _width(features: Sequence[Feature]) -> int:
    return 1 + sum(feature.columns for feature in features)


class Encoder:
    """Encodes contexts as columns of a linear model.

    Parameters
    ----------
    features : sequence of Feature, or None
        The declared features.
    """

    def __init__(self, features: Sequence[Feature] | None) -> None:
        self.features = tuple(features or ())
        self.names = [feature.name for feature in self.features]
        self.width = _width(self.features) if features else 0

    def encode(self, context: Mapping[str, Any] | None) -> Vector | None:
        """Return the columns of a context; None if none is declared and none is given."""
        if context is not None:
            return self.columns(context)
        if self.features:
            wanted = _listed(f"{feature.name}: {feature.wanted}" for feature in self.features)
            raise InputError(f"there is no context; send the features of the request: {wanted}")
        return None

    def columns(self, context: Mapping[str, Any]) -> Vector:
        """Return the columns of a context."""
        if not self.features:
            raise InputError(
                "a context was given, but this bandit declares no features; leave it out, or "
                "declare them on all nodes"
            )
        given = require_context(context)
        for name in given:
            if name not in self.names:
                raise unknown_name("feature", name[:100], self.names)
        found = [1.0]
        for feature in self.features:
            if feature.name not in given:
                raise InputError(f"context has no {feature.name!r}; it must be {feature.wanted}")
            value = given[feature.name]
            if value in feature.categories:
                found += [float(value == each) for each in feature.categories]
            elif (
                feature.range
                and not isinstance(value, str)
                and feature.range[0] <= value <= feature.range[1]
            ):
                low, high = feature.range
                found.append(2.0 * ((value - low) / (high - low)) - 1.0)
            else:
                shown = repr(value) if len(repr(value)) <= 100 else f"{repr(value)[:100]}…"
                raise InputError(
                    f"feature {feature.name!r} is {shown}; it must be {feature.wanted}"
                )
        return np.array(found)

    def schema(self) -> dict[str, Any] | None:
        """Return the JSON schema of a context; None if there are no features."""
        if not self.features:
            return None
        return {
            "type": "object",
            "properties": {feature.name: feature.schema for feature in self.features},
            "required": self.names,
            "additionalProperties": False,
        }
