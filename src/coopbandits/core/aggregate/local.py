"""No communication: every agent keeps its own sums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from coopbandits.core import rows
from coopbandits.core.aggregate.aggregation import OWN
from coopbandits.core.aggregate.fields import Aggregation, FieldMachine, Sizes
from coopbandits.core.aggregate.forgetting import (
    check_forgetting,
    check_ring,
    keep_totals,
    window_fields,
)
from coopbandits.core.errors import InputError

if TYPE_CHECKING:
    from coopbandits.core.contract import LocalView, State, Vector


class Silent(Aggregation):
    """Totals of pulls that are never sent, and perhaps a window of them."""

    def start(self, s: Any, view: LocalView) -> None:
        s.me.kept = 1

    def message_width(self, sizes: Sizes) -> int:
        return 0

    @staticmethod
    def age_message(s: Any, message: Vector, factors: Vector, factor: float) -> None:
        """Do nothing: there are no messages."""

    @staticmethod
    def observe(s: Any, pull: Vector) -> None:
        rows.add(s.totals, pull)

    @staticmethod
    def message(s: Any, out: Vector) -> int:
        return 0


@dataclass(frozen=True)
class LocalSums(Silent):
    """Own pulls alone: nothing is sent, nothing is heard.

    Parameters
    ----------
    discount : float
        γ, what a pull counts in every round compared with the one before; 1 for ever the same.
    window : int or None
        How many rounds a pull counts; None for ever.
    """

    discount: float = 1.0
    window: int | None = None
    name: ClassVar[str] = "local-sums"
    shares: ClassVar[str] = OWN
    shared: ClassVar[str] = "totals"
    certifies: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_forgetting(self.discount, self.window)

    def fields(self, sizes: Sizes) -> Mapping[str, Any]:
        return {"totals": sizes.width, **window_fields(self.window, sizes.width)}

    def check_messages(self, agent: FieldMachine, messages: Mapping[int, Vector]) -> None:
        if messages:
            raise InputError(
                f"messages arrived from {list(messages)}, but this policy does not communicate; "
                "deliver none"
            )

    def check_state(self, agent: FieldMachine, values: State) -> None:
        check_ring(values, self.window)

    @staticmethod
    def age(s: Any, factors: Vector, factor: float) -> None:
        rows.multiply(s.totals, factors)

    @staticmethod
    def receive(s: Any, inbox: Any, lengths: Any) -> None:
        if s.past.shape[0] > 0:
            keep_totals(s, s.totals)

    @staticmethod
    def estimate(s: Any, totals: Vector, certain: Vector, about: Vector) -> None:
        """Write the own totals: an agent counts each of its own pulls once."""
        rows.copy(totals, s.totals)
        if s.past.shape[0] > 0:
            rows.subtract(totals, s.past[s.me.oldest])
        rows.copy(certain, totals)
