"""What a policy is: settings that make one agent per LocalView."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import Field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from coopbandits.core.agent import Agent, LocalView


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


class Policy(Named, ABC):
    """Settings of an algorithm; immutable, compared by value.

    A policy of one's own sets `name` and writes `make_agent`. As a frozen dataclass its fields are
    its settings, and the spelling (``name:setting=value,…``) follows from them.

    Attributes
    ----------
    needs_common_round : bool
        Whether its agents only work where all count rounds together, and not on own clocks.
    """

    needs_common_round: ClassVar[bool] = False

    @property
    def needs(self) -> frozenset[str]:
        """What the agents must be told beyond their row of P.

        "num_agents", "lambda_bound", a "random_word", or global knowledge such as
        "epsilon_c:closed".
        """
        return frozenset()

    @abstractmethod
    def make_agent(self, view: LocalView) -> Agent:
        """Return a fresh agent that knows `view` and nothing else."""


def spell(value: Any) -> str:
    """Spell a setting as the command line reads it."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "..".join(spell(part) for part in value)
    if isinstance(value, float):
        return repr(float(value)).removesuffix(".0")  # a numpy float as well
    return str(value)
