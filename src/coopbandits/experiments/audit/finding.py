"""Findings of the audit, as data and as rows of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from coopbandits.core.contract import Vector
from coopbandits.results.intervals import Interval, mean_interval, subtract
from coopbandits.results.statistics import with_interval


class Measured(NamedTuple):
    """A mean and its 95 % interval: equal to it if exact, NaN for a single run."""

    mean: float
    interval: Interval

    @classmethod
    def exact(cls, value: float) -> Measured:
        return cls(float(value), (float(value), float(value)))

    @classmethod
    def of(cls, sample: Vector) -> Measured:
        return cls(float(np.mean(sample)), mean_interval(sample))

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.mean:.6g}" if low == high else with_interval(self.mean, self.interval)


@dataclass(frozen=True)
class Measurement:
    """One quantity, as printed and as resolved.

    Attributes
    ----------
    quantity : str
        What was measured, and where.
    printed, resolved : Measured
        Its value with what was printed (or published as code), and with what this package does.
    difference : Measured or None
        Printed minus resolved, run by run on the same tapes; None for plain numbers.
    """

    quantity: str
    printed: Measured
    resolved: Measured
    difference: Measured | None = None

    @classmethod
    def exact(cls, quantity: str, printed: float, resolved: float) -> Measurement:
        """Compare two plain numbers."""
        return cls(quantity, Measured.exact(printed), Measured.exact(resolved))

    @classmethod
    def paired(cls, quantity: str, printed: Vector, resolved: Vector) -> Measurement:
        """Compare two samples, one number per run each, of the same tapes."""
        parts = (Measured.of(sample) for sample in (printed, resolved, subtract(printed, resolved)))
        return cls(quantity, *parts)

    def __str__(self) -> str:
        text = f"{self.quantity}: {self.printed} against {self.resolved}"
        return text if self.difference is None else f"{text}, difference {self.difference}"


@dataclass(frozen=True)
class Finding:
    """One place where the paper's text, its pseudocode and the published code disagree.

    Attributes
    ----------
    key : str
        A short name.
    where : str
        The section, algorithm or file.
    printed, resolved : str
        What it says there, and what this package does instead.
    consequence : str
        What follows from it, in one sentence.
    measured : tuple of Measurement
        The size of the effect, as printed against as resolved.
    """

    key: str
    where: str
    printed: str
    resolved: str
    consequence: str
    measured: tuple[Measurement, ...] = ()


HEADER = ("finding", "where", "printed", "resolved as", "consequence", "measured")


def audit_table(findings: Sequence[Finding]) -> list[tuple[str, ...]]:
    """Return the rows of a table, the header first."""
    return [HEADER, *(_row(finding) for finding in findings)]


def _row(finding: Finding) -> tuple[str, ...]:
    measured = "; ".join(str(measurement) for measurement in finding.measured)
    return (
        finding.key, finding.where, finding.printed, finding.resolved, finding.consequence,
        measured,
    )  # fmt: skip
