"""Runs the whole audit."""

from __future__ import annotations

from dataclasses import replace

from coopbandits.core.checks import require_count
from coopbandits.experiments.audit import code, text
from coopbandits.experiments.audit.finding import Finding
from coopbandits.experiments.audit.setup import AuditSetup
from coopbandits.sim.progress import Progress

CLAIMS = (*text.CLAIMS, *code.CLAIMS)


def run_audit(
    runs: int = 10,
    seed: int = 0,
    horizon: int = 10_000,
    progress: bool | None = None,
    *,
    cycle: str = "cycle:100",
    grid: str = "grid:10x10",
) -> list[Finding]:
    """Measure every finding.

    Parameters
    ----------
    runs, seed, horizon : int
        Repetitions, their seed, and rounds T of every simulation.
    progress : bool or None
        As in `simulate`.
    cycle, grid : str
        The graphs to play on.
    """
    require_count("runs", runs)
    require_count("seed", seed, least=0)
    require_count("horizon", horizon)
    setup = AuditSetup(cycle, grid, horizon, runs, seed)
    findings = []
    with Progress(len(CLAIMS), progress, "audit") as bar:
        for finding, measure in CLAIMS:
            findings.append(replace(finding, measured=measure(setup)))
            bar.advance(1)
    return findings
