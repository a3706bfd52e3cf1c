"""Results as tidy tables: one observation per row, for pandas and polars."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import xarray as xr

from coopbandits.core.errors import InputError, unknown_name

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


class _Table(NamedTuple):
    """The axes that make a row, and the variables in its columns where they were kept."""

    axes: tuple[str, ...]
    variables: tuple[str, ...]


TABLES = {
    "rounds": _Table(
        ("policy", "run", "round"),
        ("regret", "global_regret", "worst_regret", "realized_regret", "values_sent"),
    ),
    "runs": _Table(
        ("policy", "run"),
        ("regret", "global_regret", "worst_regret", "realized_regret", "values_sent",
         "messages_sent", "messages_delivered", "messages_late", "messages_lost"),
    ),
    "arms": _Table(("policy", "run", "agent", "arm"), ("pulls",)),
    "agents": _Table(("policy", "run", "agent", "round"), ("agent_regret",)),
    "stops": _Table(("policy", "run", "agent"), ("stop_round", "stop_arm", "stop_wrong")),
}  # fmt: skip


def to_pandas(dataset: xr.Dataset, table: str) -> pd.DataFrame:
    """Return one of the tables; axes come first, then what is known of agents, then numbers."""
    if table not in TABLES:
        raise unknown_name("table", table, TABLES)
    axes, variables = TABLES[table]
    if table == "runs":
        dataset = dataset.isel(round=-1, drop=True)
    if table == "arms" and "agent_pulls" in dataset:
        dataset = dataset.assign(pulls=dataset["agent_pulls"])
    if table == "agents" and "agent_regret" not in dataset:
        raise InputError('regret of single agents was not kept; simulate with keep="curves"')
    if table == "stops" and "stop_round" not in dataset:
        raise InputError("it was not recorded when to stop; simulate with stop=0.95")
    picked = dataset[[name for name in variables if name in dataset]]
    order = [axis for axis in axes if axis in picked.dims]
    numbers = list(picked.data_vars)
    frame = picked.to_dataframe(dim_order=order).reset_index()
    known = [name for name in frame.columns if name not in (*order, *numbers)]
    return frame[[*order, *known, *numbers]].rename(columns={"agent_regret": "regret"})


def to_polars(frame: pd.DataFrame) -> pl.DataFrame:
    """Return a table for polars, or say how to install that."""
    try:
        import polars as pl
    except ImportError as error:
        raise InputError(
            "polars is not installed; install it with pip install 'coopbandits[polars]', or take "
            "to_dataframe()"
        ) from error
    return pl.DataFrame({str(name): frame[name].to_list() for name in frame.columns})
