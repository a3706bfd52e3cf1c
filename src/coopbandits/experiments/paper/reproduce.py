"""`reproduce`: settings in, numbers, claims and a report out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coopbandits.core.checks import require_count
from coopbandits.core.errors import unknown_name
from coopbandits.experiments.paper.claims import judge
from coopbandits.experiments.paper.oracles import (
    ORACLE,
    Oracle,
    compare_with_oracle,
    oracle_lines,
    require_oracle,
)
from coopbandits.experiments.paper.play import gather, make_part, play
from coopbandits.experiments.paper.report import Reproduction
from coopbandits.experiments.paper.settings import HORIZON, LINES, PROBLEM, choose_figures
from coopbandits.plots.writing import write_text
from coopbandits.results.storage import FORMAT, META_FILE, check_folder
from coopbandits.sim import cpu
from coopbandits.sim.engine import AUTO, NAMES

if TYPE_CHECKING:
    from coopbandits.experiments.audit import Finding


def reproduce(
    out: str | Path,
    figures: Sequence[str] = (),
    runs: int = 10,
    seed: int = 0,
    *,
    check: bool = False,
    audit: bool = False,
    engine: str = AUTO,
    threads: int | None = None,
    horizon: int = HORIZON,
    oracle: Oracle = ORACLE,
    progress: bool | None = None,
) -> Reproduction:
    """Play what a folder does not hold yet of the paper's figures, and judge its claims.

    Parameters
    ----------
    out : path
        Folder of finished cells; refused if it holds cells of other settings.
    figures : sequence of str
        Names of figures; by default all.
    runs, seed, horizon : int
        Repetitions, their seed, and rounds T; the paper's are 10 and 10 000.
    check : bool
        Play everything that the oracle covers, and compare.
    audit : bool
        Also measure where paper, pseudocode and published code disagree.
    engine, threads, progress
        As in `simulate`.
    oracle : mapping
        Figure → line → mean and standard error.

    Raises
    ------
    SweepInterrupted
        On Ctrl-C while cells are played; call again to resume.
    """
    chosen = choose_figures(figures)
    for name, value, least in (("runs", runs, 1), ("seed", seed, 0), ("horizon", horizon, 1)):
        require_count(name, value, least=least)
    if check:
        require_oracle([figure.name for figure in chosen], runs, oracle)
    if engine not in NAMES:
        raise unknown_name("engine", engine, NAMES)
    with cpu.threads(threads):
        pass  # refuses a bad number of threads before anything is written
    settings = _open_folder(Path(out), horizon, runs, seed)
    scale = (horizon, runs, seed)
    parts = [make_part(figure, line, *scale) for figure in chosen for line in LINES]
    checked = [
        make_part(figure, line, *scale)
        for figure in chosen if check
        for line in oracle_lines(figure.name, oracle)
    ]  # fmt: skip
    results = play([*parts, *checked], Path(out), engine, threads, progress)
    played = gather(parts, results)
    return Reproduction(
        settings={**settings, "figures": [figure.name for figure in chosen]},
        played=played,
        claims=judge(played),
        agreements=compare_with_oracle(gather(checked, results), oracle),
        audit=_audit(runs, seed, horizon, progress) if audit else (),
    )


def _open_folder(folder: Path, horizon: int, runs: int, seed: int) -> dict[str, Any]:
    """Write the settings into a folder, unless it holds other ones."""
    settings = {
        "experiment": "paper",
        "problem": PROBLEM.describe(),
        "horizon": horizon,
        "runs": runs,
        "seed": seed,
    }
    check_folder(folder, settings)
    meta = {"format": FORMAT, "settings": settings}
    write_text(folder / META_FILE, json.dumps(meta, indent=2) + "\n")
    return settings


def _audit(runs: int, seed: int, horizon: int, progress: bool | None) -> Sequence[Finding]:
    from coopbandits.experiments.audit import run_audit

    return run_audit(runs, seed, horizon, progress)
