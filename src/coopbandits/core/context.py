"""Features as an agent is told them: checked, and remembered of pulls that are still open."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.errors import InputError
from coopbandits.core.statistic.linear import in_context

if TYPE_CHECKING:
    from coopbandits.core.contract import Context, Estimate, Vector
    from coopbandits.core.statistic import Registers

LARGEST = 1e70
"""The largest feature that is taken: sums of squares of such numbers are finite."""


class Scene:
    """The features that one agent is told.

    Parameters
    ----------
    registers : Registers
        What is added up; it says how many features there are.
    policy : str
        The policy's spelling, for sentences.
    """

    def __init__(self, registers: Registers, policy: str) -> None:
        self.registers, self.policy = registers, policy
        self._opened, self._any_opened = registers.zeros(), False
        self._latest: tuple[int, Vector] | None = None

    def read_all(self, context: Context | None) -> Context:
        """Return the features of every arm, or refuse what is given."""
        num_arms, size = self.registers.num_arms, self.registers.num_features
        found = self._numbers(context, "to choose")
        if found.shape == (num_arms, size):
            return found
        if self.registers.one_context and found.shape == (size,):
            return np.broadcast_to(found, (num_arms, size))
        alone = f" or ({size},)" if self.registers.one_context else ""
        raise InputError(
            f"context has shape {found.shape}; policy {self.policy} takes ({num_arms}, {size})"
            f"{alone}: a row of {size} features per arm"
        )

    def read_one(self, context: Vector | None) -> Vector:
        """Return the features of the arm that was pulled, or refuse what is given."""
        found = self._numbers(context, "to observe")
        if found.shape != (self.registers.num_features,):
            raise InputError(
                f"context has shape {found.shape}; policy {self.policy} takes the "
                f"{self.registers.num_features} features of the arm that was pulled"
            )
        return found

    def _numbers(self, context: Any, purpose: str) -> NDArray[np.float64]:
        if context is None:
            raise InputError(
                f"policy {self.policy} was told no context {purpose}; give it "
                f"{self.registers.num_features} features per arm, as context=…"
            )
        try:
            found = np.asarray(context, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(
                f"context is {context!r}; it must hold numbers alone, categories as one-hot columns"
            ) from None
        # The sum of squares says so sooner.
        if not np.vdot(found, found) <= LARGEST and not (abs(found) <= LARGEST).all():
            wrong = found[~(abs(found) <= LARGEST)][0]
            raise InputError(
                f"context has a feature {wrong:g}; features are finite numbers up to {LARGEST:g}"
            )
        return found

    def shown(self, estimate: Estimate, features: Context) -> Estimate:
        """Return an estimate for a choice among arms with these features, open pulls included."""
        opened = self.opened
        if not self._any_opened:
            return in_context(estimate, features)
        waiting = self.registers.read(opened, time=0.0, num_agents=1.0)
        return in_context(estimate, features, waiting.extra.outer)

    # Mostly a pull is closed before the next one: only those that wait longer are added up.

    @property
    def opened(self) -> Vector:
        """What open pulls would add, if they paid nothing."""
        if self._latest is not None:
            arm, features = self._latest
            self._latest, self._any_opened = None, True
            self.registers.record(self._opened, arm, 0.0, features)
        return self._opened

    @opened.setter
    def opened(self, values: Vector) -> None:
        self._opened, self._latest = values, None
        self._any_opened = bool(self.registers.version(values))

    def open(self, arm: int, features: Vector) -> None:
        """Remember a pull that was chosen."""
        _ = self.opened  # adds the one before
        self._latest = arm, features

    def close(self, arm: int, features: Vector, any_left: bool) -> None:
        """Forget it again; it is told whether others are open still."""
        if any_left:
            self.registers.record(self.opened, arm, 0.0, features, -1.0)
        elif self._any_opened:
            self.opened = self.registers.zeros()  # rounding ends with the last one
        else:
            self._latest = None
