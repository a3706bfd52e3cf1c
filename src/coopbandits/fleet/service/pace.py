"""How fast an application may pull: slower than neighbours would still believe."""

from __future__ import annotations

from coopbandits.core.aggregate.claims import SLACK
from coopbandits.fleet.document.content import Document
from coopbandits.fleet.document.store import DocumentSubscriber
from coopbandits.fleet.service import TooManyTicketsError

BURST = SLACK / 2
"""Seconds whose pulls may be made at once.

Neighbours grant `SLACK` seconds. The other half is left for news that come late and clocks that
differ, so what is taken here is never refused there.
"""

AFTER_RESTART = 1.0
"""As many after a restart, since nobody remembers how many were made just before."""


class Pace:
    """Lets calls pass at a rate, and a burst after a rest.

    Parameters
    ----------
    rate : float
        Calls per second.
    age : float
        Seconds since the epoch began.
    made : int
        Calls since then.
    now : float
        The time.
    """

    def __init__(self, rate: float, age: float, made: int, now: float) -> None:
        self.rate, self.most = rate, max(1.0, rate * BURST)
        rested = self.most if made == 0 else rate * AFTER_RESTART
        self._spare, self._when = min(rested, rate * (age + BURST) - made), now
        self.refused = 0

    def check(self, now: float) -> None:
        """Refuse a call that comes too early."""
        gained = self.rate * max(0.0, now - self._when)
        self._spare, self._when = min(self.most, self._spare + gained), now
        if self._spare < 1.0:
            self.refused += 1
            wait = (1.0 - self._spare) / self.rate
            raise TooManyTicketsError(
                f"this is faster than {self.rate:g} a second, and other agents would not believe "
                f"it; wait {wait:.3g} s, or raise max_pulls_per_second on all nodes",
                wait,
            )

    def change(self, rate: float) -> None:
        """Let calls pass at another rate from now on."""
        self.rate, self.most = rate, max(1.0, rate * BURST)
        self._spare = min(self._spare, self.most)

    def spend(self) -> None:
        """Count a call that was made."""
        self._spare -= 1.0


class Allowance(DocumentSubscriber):
    """Changes the pace of an application to what the cluster's document says.

    Parameters
    ----------
    declared : float
        Calls per second where no document says anything.
    paces : Pace
        What is changed.
    """

    def __init__(self, declared: float, *paces: Pace) -> None:
        self.declared, self.paces = declared, paces
        self._ruled: float | None = None

    def apply(self, document: Document) -> None:
        """Let calls pass at the rate that a document says."""
        self._ruled = document.settings.get("max_pulls_per_second")
        self.declare(self.declared)

    def declare(self, rate: float) -> None:
        """Let calls pass at another rate where no document says anything."""
        self.declared = rate
        for pace in self.paces:
            pace.change(rate if self._ruled is None else self._ruled)
