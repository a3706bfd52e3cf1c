"""State as data: what a part remembers lives in named fields, exported and restored as such."""

from __future__ import annotations

from typing import Any

import numpy as np

from coopbandits.core.contract import State
from coopbandits.core.errors import InputError

STATE_VERSION = 1
"""Version of an agent's exported state."""


class Stateful:
    """State that lives in the attributes named by `fields`: numpy arrays, ints and floats.

    Those that are also named by `tables` are arrays with any number of rows; those named by `links`
    have one row per neighbour, in ascending order.
    """

    fields: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    links: tuple[str, ...] = ()

    def keep_also(self, name: str, *, is_table: bool = False, is_link: bool = False) -> None:
        """Count one more attribute of this object, but not of its class, among the fields."""
        self.fields = (*self.fields, name)
        if is_table:
            self.tables = (*self.tables, name)
        if is_link:
            self.links = (*self.links, name)

    @property
    def owner(self) -> str:
        """Whose state it is, for sentences."""
        return type(self).__name__

    def export_state(self) -> State:
        """Return the fields as plain data."""
        held = {name: self._held(name) for name in self.fields}
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in held.items()
        }

    def restore_state(self, state: State) -> None:
        """Set the fields from plain data, or change nothing if they do not fit."""
        if set(state) != set(self.fields):
            raise InputError(
                f"state has fields {sorted(state)}, but {self.owner} keeps "
                f"{sorted(self.fields)}; restore a state exported by the same policy"
            )
        values = {
            name: read_field(self._held(name), state[name], name, any_rows=name in self.tables)
            for name in self.fields
        }
        self.check_state(values)
        self.fit(values)
        for name, value in values.items():
            self._set(name, value)

    def check_state(self, values: State) -> None:
        """Reject fields of the right form that no agent of this kind can hold."""
        # The form is all there is to check, unless a subclass knows better.

    def fit(self, values: State) -> None:
        """Make tables as long as those of a state that is about to be restored."""

    def _held(self, name: str) -> Any:
        return getattr(self, name)

    def _set(self, name: str, value: Any) -> None:
        setattr(self, name, value)


def read_field(present: Any, value: Any, name: str, *, any_rows: bool = False) -> Any:
    """Turn plain data into what `present` is, refusing another shape or kind."""
    if not isinstance(present, np.ndarray):
        if type(value) is not type(present):
            raise InputError(f"state field {name} is {value!r}; expected {type(present).__name__}")
        return value
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"state field {name} holds no array of numbers") from error
    shape = array.shape[:1] + present.shape[1:] if any_rows else present.shape
    if array.shape == shape[:1] == (0,):
        array = array.reshape(shape)  # without a row nothing tells how long one is
    if array.shape != shape:
        raise InputError(
            f"state field {name} has shape {array.shape}, but this agent keeps {shape}; "
            "restore it into an agent of the same policy, arms and neighbours"
        )
    if not np.isfinite(array).all() or (array.astype(present.dtype) != array).any():
        raise InputError(f"state field {name} has values that no agent of this kind can hold")
    return array.astype(present.dtype)
