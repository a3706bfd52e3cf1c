"""A row of the benchmark of agents, and how it is shown."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One measured number and its target.

    Attributes
    ----------
    what, loop : str
        What was measured, on which event loop.
    value, unit : float and str
        The measurement.
    target : float or None
        The most it should be; the least, if `rising`.
    ratio : float or None
        Cost over that of the bare ping-pong on the same loop.
    """

    what: str
    loop: str
    value: float
    unit: str
    target: float | None = None
    rising: bool = False
    ratio: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without a target."""
        if self.target is None:
            return None
        return self.value >= self.target if self.rising else self.value <= self.target


HEADER = ("agents", "loop", "value", "unit", "target", "met", "× bare")


def cells(row: Row) -> tuple[str, ...]:
    """Return one line of the table."""
    sign = "≥" if row.rising else "≤"
    return (
        row.what,
        row.loop,
        f"{row.value:.3g}" if row.value < 100 else f"{row.value:.0f}",
        row.unit,
        "" if row.target is None else f"{sign} {row.target:g}",
        {True: "yes", False: "no", None: ""}[row.met],
        "" if row.ratio is None else f"{row.ratio:.2f}",
    )


def as_json(rows: list[Row]) -> list[dict[str, Any]]:
    """Return all figures."""
    return [asdict(row) | {"met": row.met} for row in rows]
