"""Agents of aggregations on fields, whose fields tests read and set."""

from __future__ import annotations

from typing import Any

from coopbandits.core.aggregate.fields import FieldMachine


class Fields:
    """A machine with its fields, and numbers of the agent, as attributes."""

    machine: FieldMachine

    @property  # type: ignore[misc]  # it is one of every object
    def __class__(self) -> Any:  # for isinstance
        return type(self.machine)

    def __init__(self, machine: Any) -> None:
        assert isinstance(machine, FieldMachine)
        object.__setattr__(self, "machine", machine)

    def __getattr__(self, name: str) -> Any:
        state = self.machine.state
        holder = state if name in state._fields else state.me if hasattr(state.me, name) else None
        return getattr(holder or self.machine, name)

    def __setattr__(self, name: str, value: Any) -> None:
        state = self.machine.state
        if name in state._fields:
            getattr(state, name)[...] = value
        else:
            assert hasattr(state.me, name), f"{self.machine.spec.spelling} has no field {name}"
            setattr(state.me, name, value)
