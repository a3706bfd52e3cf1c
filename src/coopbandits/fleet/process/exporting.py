"""Everything that an agent has learned, in a file: by its journal, or as its API told it."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from coopbandits.core.errors import InputError
from coopbandits.fleet.config import ClusterConfig, NodeConfig
from coopbandits.fleet.config.bandits import BanditConfig, from_journal
from coopbandits.fleet.identity.files import link_target, write_file
from coopbandits.fleet.process.backup import as_written, at_epoch, read
from coopbandits.fleet.process.declare import all_bandits, in_force
from coopbandits.fleet.service.bandit import REMOVED, learned
from coopbandits.fleet.storage.bandits import Bandits
from coopbandits.fleet.storage.journal import read_identity

Told = dict[str, Any]
"""What `GET /export` answers."""

COLUMNS = (
    "agent", "cluster", "bandit", "policy", "round", "arm", "id", "state", "pulls", "mean",
    "own_choices", "own_pulls", "own_reward",
)  # fmt: skip


def of_journal(config: NodeConfig, now: float) -> Told:
    """Return what the journal of an agent holds, whether it runs or not.

    Changes in the agent's file that it has not taken yet are not in it: whoever is about to purge
    an arm can still take out what was learned of it.
    """
    data = read(config.journal / "journal")
    kept, _ = as_written(config, data, now)
    config = at_epoch(config, read_identity(data))
    found = {}
    for bandit in all_bandits(config, kept, in_force(config, kept.journal)):
        if bandit.number in kept.replicas:  # or the agent has yet to be told of it
            name, what = _taken(config.cluster, bandit, kept)
            found[name] = what
    return {"agent": config.id, "cluster": config.cluster.name, "bandits": found}


def _taken(cluster: ClusterConfig, bandit: BanditConfig, kept: Bandits) -> tuple[str, Told]:
    """Return what a bandit is called and what was learned of it, by the declaration in a journal.

    The rest is as declared now, since a journal does not have it: ids of arms, which are frozen,
    and that a bandit is retired, before the next snapshot.
    """
    replica, active = kept.replicas[bandit.number], kept.active[bandit.number]
    told = replica.declared
    arms = tuple(
        replace(arm, name=replica.arms[arm.number] or arm.name)
        for arm in bandit.arms
        if arm.number in active
    )
    known = from_journal(cluster, told.name, bandit.number, told.shared)
    found = learned(replace(known, arms=arms), replica)
    for arm in found["arms"]:
        if bandit.arms and arm["number"] in active and arm["state"] == REMOVED:
            arm["state"] = "active"  # left out by a change that was not taken yet
    return told.name, found


def rows_of(told: Told) -> Iterator[dict[str, Any]]:
    """Yield a row for every arm of every bandit."""
    for name, bandit in told["bandits"].items():
        common = {
            "agent": told["agent"],
            "cluster": told["cluster"],
            "bandit": name,
            "policy": bandit["settings"]["policy"],
            "round": bandit["round"],
        }
        for arm in bandit["arms"]:
            yield {key: (common | arm)[key] for key in COLUMNS}


def require_format(file: Path) -> None:
    """Refuse a file whose ending says no form that there is."""
    if file.suffix not in FORMATS:
        raise InputError(
            f"{file} ends in {file.suffix!r}; an export is written as {', '.join(FORMATS)}: name "
            f"such a file, as in {file.stem or 'learned'}.json"
        )


def write_export(told: Told, file: Path) -> str:
    """Write what was learned, in the form that the file's ending says; return a sentence.

    The file is there as a whole or as it was before.
    """
    require_format(file)
    write_file(link_target(file), FORMATS[file.suffix](told))
    rows = list(rows_of(told))
    pulls = sum(row["own_pulls"] for row in rows)
    bandits = len(told["bandits"])
    return (
        f"exported to {file}: agent {told['agent']}; bandits: {bandits}; arms: {len(rows)}; "
        f"rewards handed in here: {pulls}"
    )


def _as_json(told: Told) -> bytes:
    return (json.dumps(told, indent=2, ensure_ascii=False) + "\n").encode()


def _as_csv(told: Told) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows_of(told))
    return out.getvalue().encode()


def _as_parquet(told: Told) -> bytes:
    try:
        import pyarrow as pa  # optional
        from pyarrow import parquet
    except ImportError:
        raise InputError(
            "an export to .parquet needs pyarrow, which is not installed; run pip install "
            "'coopbandits[parquet]', or write .csv"
        ) from None
    whole_numbers, numbers = ("round", "own_choices", "own_pulls"), ("pulls", "mean", "own_reward")
    kinds = dict.fromkeys(whole_numbers, pa.int64()) | dict.fromkeys(numbers, pa.float64())
    schema = pa.schema([(name, kinds.get(name, pa.string())) for name in COLUMNS])
    out = pa.BufferOutputStream()
    parquet.write_table(pa.Table.from_pylist(list(rows_of(told)), schema=schema), out)
    content: bytes = out.getvalue().to_pybytes()
    return content


FORMATS: dict[str, Callable[[Told], bytes]] = {
    ".json": _as_json,
    ".csv": _as_csv,
    ".parquet": _as_parquet,
}
