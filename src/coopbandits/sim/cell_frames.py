"""The cells of a sweep as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from coopbandits.results import Result
from coopbandits.results.statistics import MeanSummary, summarise
from coopbandits.sim.ledger import Cell

if TYPE_CHECKING:
    import pandas as pd

Cells = Sequence[tuple[Cell, Result]]


def cells_frame(results: Cells, table: str) -> pd.DataFrame:
    """Return the tables of all cells below one another, their settings in the first columns."""
    import pandas as pd

    frames = []
    for cell, result in results:
        frame = result.to_dataframe(table)
        frame.insert(1, "seed", cell.seed)
        for place, (name, value) in enumerate(_settings(cell).items()):
            frame.insert(place, name, value)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def summary_frame(results: Cells, *, pool_seeds: bool) -> pd.DataFrame:
    """Return one row per cell, or per group of cells that differ only in their seed."""
    import pandas as pd

    groups: dict[tuple[Any, ...], list[tuple[Cell, Result]]] = {}
    for cell, result in results:
        settings = {key: value for key, value in cell.settings.items() if key != "seed"}
        key = (repr(settings), None if pool_seeds else cell.seed)
        groups.setdefault(key, []).append((cell, result))
    return pd.DataFrame([_row(group, pool_seeds) for group in groups.values()])


def _row(group: Cells, pool_seeds: bool) -> dict[str, Any]:
    cell = group[0][0]
    regret = np.concatenate([result.regret.isel(policy=0, round=-1).values for _, result in group])
    overall = [result.global_regret.isel(policy=0, round=-1).values for _, result in group]
    sent = np.concatenate([result.values_sent.isel(policy=0).values for _, result in group])
    messages = [result.dataset["messages_sent"].isel(policy=0).values for _, result in group]
    worst = [result.final_worst[0] for _, result in group]
    summary = summarise(
        [cell.policy.spelling], regret[None], sent.mean(keepdims=True), cell.horizon,
        worst=np.concatenate(worst).mean(keepdims=True),
        against_mean=np.concatenate(overall).mean(keepdims=True),
    )  # fmt: skip
    seeds = {"seeds": len(group)} if pool_seeds else {"seed": cell.seed}
    row = {**_settings(cell), "policy": cell.policy.spelling, **seeds, "runs": regret.size}
    told = {"messages_sent": np.concatenate(messages).mean(), "bits_sent": 64 * sent.mean()}
    return row | _numbers(summary.policies[0]) | told


def _numbers(mean: MeanSummary) -> dict[str, float]:
    names = ("low", "high", "q05", "q50", "q95")
    values = (*mean.interval, *mean.quantiles)
    found = dict(zip(names, values, strict=True))
    others = {"global_regret": mean.global_regret, "worst_regret": mean.worst_agent}
    return {"regret": mean.mean, **found, **others, "values_sent": mean.values_sent}


def _settings(cell: Cell) -> dict[str, Any]:
    return {
        "problem": str(cell.problem),
        "graph": cell.network.description,
        "weights": cell.network.weights,
        "faults": cell.faults.spelling if cell.faults else "none",
        "clocks": cell.clocks.spelling if cell.clocks else "none",
        "horizon": cell.horizon,
    }
