"""The cells of a sweep as tables and comparisons: cells on the same tapes become one result."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from coopbandits.core.errors import InputError
from coopbandits.results import Result
from coopbandits.results.statistics import MeanSummary, summarise
from coopbandits.sim.ledger import Cell

if TYPE_CHECKING:
    import pandas as pd


OF_POLICIES = ("policy", "policies", "policy_code")
"""The settings in which results that stand side by side differ."""


def compare(results: Sequence[tuple[Cell, Result]]) -> dict[str, Result]:
    """Group cells that differ only in the policy; return one result per group, by name."""
    groups: dict[str, list[tuple[Cell, Result]]] = {}
    for pair in results:
        if not _is_pair(pair):
            raise InputError(
                f"{pair!r} cannot be compared; give pairs of a cell and its result, as the results "
                "of a sweep are"
            )
        cell, result = pair
        groups.setdefault(_key(cell), []).append((cell, result))
    names = _names([members[0][0] for members in groups.values()])
    return {
        name: merge([result for _, result in members])
        for name, members in zip(names, groups.values(), strict=True)
    }


def _is_pair(pair: Any) -> bool:
    is_two = isinstance(pair, tuple | list) and len(pair) == 2
    return is_two and isinstance(pair[0], Cell) and isinstance(pair[1], Result)


def merge(results: Sequence[Result]) -> Result:
    """Merge results of several policies on the same tapes into one."""
    if not results:
        raise InputError("there are no results to put side by side; give at least one")
    for one in results:
        if not isinstance(one, Result):
            raise InputError(f"{one!r} is no result; merge what simulate has returned")
    settings = [_without_policies(result.meta["settings"]) for result in results]
    if any(other != settings[0] for other in settings[1:]):
        raise InputError(
            "results of different settings cannot stand side by side; merge equal ones"
        )
    for axis in ("arm", "agent"):
        names = [one.dataset[axis].values.tolist() for one in results if axis in one.dataset.dims]
        if any(other != names[0] for other in names[1:]):
            raise InputError(f"the results name their {axis}s differently; give all the same names")
    policies = [name for result in results for name in result.meta["settings"]["policies"]]
    for name in policies:
        if policies.count(name) > 1:
            raise InputError(f"policy {name} stands in two results; merge each once")
    codes = [result.meta["settings"].get("policy_code", {}) for result in results]
    code = {name: each for one in codes for name, each in one.items()}
    meta = {
        **results[0].meta,
        "settings": {
            **settings[0],
            "policies": policies,
            **({"policy_code": code} if code else {}),
        },
        "engines": [engine for result in results for engine in result.meta["engines"]],
        "wall_seconds": round(sum(result.meta["wall_seconds"] for result in results), 3),
    }
    return Result(_joined([result.dataset for result in results]), meta)


def _joined(data: list[xr.Dataset]) -> xr.Dataset:
    """Join along policies; what has no such axis follows from the settings, and stands once."""
    shared = [name for name, values in data[0].data_vars.items() if "policy" not in values.dims]
    joined = xr.concat(
        [each.drop_vars(shared) for each in data],
        "policy", data_vars="all", coords="different", compat="equals",
    )  # fmt: skip
    return joined.assign(data[0][shared].data_vars)


def _without_policies(settings: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in settings.items() if key not in OF_POLICIES}


def _key(cell: Cell) -> str:
    return repr(_without_policies(cell.settings))


def _names(cells: list[Cell]) -> list[str]:
    """Name groups by graph, and by problem, seed and faults where groups differ in them.

    Those that are still alike get a few digits that are theirs alone: numbers would be given again
    by another experiment in the same folder, and its figures take the place of these.
    """
    parts = [
        [
            cell.network.description, str(cell.problem), f"seed {cell.seed}",
            f"faults {cell.faults.spelling}",
        ]
        for cell in cells
    ]  # fmt: skip
    telling = [i for i in range(4) if i == 0 or len({part[i] for part in parts}) > 1]
    names = [", ".join(part[i] for i in telling) for part in parts]
    return [
        name if names.count(name) == 1 else f"{name}, {sha256(_key(cell).encode()).hexdigest()[:8]}"
        for name, cell in zip(names, cells, strict=True)
    ]


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
