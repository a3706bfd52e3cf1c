"""Spellings."""

from __future__ import annotations

from dataclasses import Field, fields, is_dataclass
from typing import Any, ClassVar


class Named:
    """Settings with a name; as a frozen dataclass their fields make the spelling."""

    name: ClassVar[str]

    @property
    def spelling(self) -> str:
        """The policy as one word, as on the command line: settings at their default left out."""
        settings: tuple[Field[Any], ...] = fields(self) if is_dataclass(self) else ()
        changed = [
            f"{setting.name}={spell(getattr(self, setting.name))}"
            for setting in settings
            if getattr(self, setting.name) != setting.default
        ]
        return self.name + (":" + ",".join(changed) if changed else "")

    @property
    def bonus_constant(self) -> float | None:
        """B of a bonus sqrt(B σ² ln t / n): the setting `constant` where there is one.

        A policy that makes its B of other settings says so; None where there is no such bonus.
        """
        constant: float | None = getattr(self, "constant", None)
        return constant


def spell(value: Any) -> str:
    """Spell a setting as the command line reads it."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "..".join(spell(part) for part in value)
    if isinstance(value, float):
        return repr(float(value)).removesuffix(".0")  # a numpy float as well
    return str(value)
