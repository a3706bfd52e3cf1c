"""The audit: where paper, pseudocode and the authors' published code disagree, and what it costs.

Deviations live only here; the package itself implements the resolved version.
"""

from coopbandits.experiments.audit.finding import Finding, Measured, Measurement, audit_table
from coopbandits.experiments.audit.run import run_audit

__all__ = ["Finding", "Measured", "Measurement", "audit_table", "run_audit"]
