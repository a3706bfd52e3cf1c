"""Journals read from outside the agent: backup, restore, and export of what was learned.

**Backup.** A journal only grows, or is replaced as a whole. So what is read of it at any moment is
a past state of the agent: a backup does not require the agent to stop, or to run. A copy consists
of the bytes read, up to the last complete record. To find out whether it is intact and whose it is,
it is opened with the settings that it was written with: the agent's file may have changed since, in
a way that the agent has rejected or not yet seen.

**Restore.** Going back in time is where rewards get counted twice. Some tickets that were open when
the copy was made have got their rewards since, which neighbours may know of: so restoring closes
all of them. Every start draws a new nonce for tickets and a later incarnation, and what the agent
sent since the copy stays with its neighbours as it is (`protocol.entries`).
"""

from __future__ import annotations

import csv
import io
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace as changed
from pathlib import Path
from secrets import randbits
from typing import Any

from coopbandits.core.aggregate.aggregation import SYNCHRONOUS
from coopbandits.core.errors import InputError
from coopbandits.core.registry import parse_policy
from coopbandits.fleet.config import ClusterConfig, NodeConfig
from coopbandits.fleet.config.bandits import BanditConfig, from_journal
from coopbandits.fleet.config.eligibility import traits_of
from coopbandits.fleet.identity.files import link_target, write_file
from coopbandits.fleet.process.assemble import open_bandits, open_kept
from coopbandits.fleet.process.declarations import adopted_document, all_bandits, in_force
from coopbandits.fleet.service.bandit import REMOVED, learned
from coopbandits.fleet.storage.disk import DiskError, FileDisk, InUseError, MemoryDisk
from coopbandits.fleet.storage.journal import check_identity, read_identity
from coopbandits.fleet.storage.replica import Bandits


def back_up(config: NodeConfig, file: Path, now: float) -> str:
    """Copy an agent's journal, whether it runs or not, to a new file; return a summary."""
    data = read(config.journal / "journal")
    bandits, _ = as_written(config, data, now)
    try:
        _write_new(file, data[: len(data) - bandits.journal.torn])
    except FileExistsError:
        raise InputError(f"{file} exists already; name a file that does not") from None
    except OSError as error:
        raise InputError(
            f"cannot write the backup {file}: {error.strerror}; name a writable folder with enough "
            "space"
        ) from error
    return f"backed up to {file}: {summary(config, bandits)}"


def _write_new(file: Path, data: bytes) -> None:
    """Write a file that must not exist; after any interruption it does not exist either."""
    if os.path.lexists(file):
        raise FileExistsError(file)
    made, name = tempfile.mkstemp(prefix=".backup-", dir=file.parent)  # with mode 0600
    with _removed_on_failure(Path(name)), os.fdopen(made, "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
        # Reserves the name: a rename would replace a file that another process makes meanwhile.
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        with _removed_on_failure(file):
            Path(name).replace(file)


@contextmanager
def _removed_on_failure(file: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:  # KeyboardInterrupt as well
        with suppress(OSError):
            file.unlink()
        raise


def restore(config: NodeConfig, file: Path, now: float, *, replace: bool = False) -> str:
    """Replace an agent's journal by a backup; return a summary.

    With `replace`, an existing journal is kept beside it; otherwise it is an error.
    """
    data = read(file)
    opened(config, data, now)  # rejects what the agent would not start with
    bandits, copy = as_written(config, data, now)
    for each in bandits.replicas.values():
        policy = each.declared.shared["policy"]
        if traits_of(parse_policy(policy)).mode == SYNCHRONOUS:
            raise InputError(
                f"bandit {each.declared.name} has the synchronous policy {policy}: after a restore "
                "its share would differ from what its neighbours have; begin a new epoch instead"
            )
    if torn := bandits.journal.torn:
        raise InputError(
            f"{file} ends in the middle of a record, {torn} bytes after the last complete one: it "
            "was cut off while it was copied; nothing was restored: copy it again, or name another "
            "backup"
        )
    held = summary(config, bandits)
    bandits.expire(math.inf)
    bandits.compact()
    try:
        disk = FileDisk(config.journal, config.durability)
    except InUseError as error:
        raise InputError(f"{config.id} must be stopped to be restored: {error}") from error
    try:
        present = disk.read()
        if present is not None and not replace:
            raise InputError(
                f"{config.journal} already contains a journal; start the agent with it, or pass "
                "--replace, which loses rewards since the backup that no neighbour knows"
            )
        if present is not None:
            disk.keep("replaced", present)
        disk.prepare(bytes(copy.data))
        disk.switch(b"")
        disk.settle()
    except DiskError as error:
        raise InputError(f"{error}; {_outcome(disk, bytes(copy.data))}") from error
    finally:
        disk.close()
    return f"restored to {config.journal}: {held}, all closed"


def _outcome(disk: FileDisk, restored: bytes) -> str:
    """Describe the state after a failure: the folder's sync may fail with the backup in place."""
    again = "look at the disk, and run this command again with --replace"
    try:
        there = disk.read()
    except InputError:
        return f"it is unknown whether the backup is in place; {again}"
    if there == restored:
        return f"the backup is in place, but a loss of power may undo that; {again}"
    return "nothing was restored"


def opened(config: NodeConfig, data: bytes, now: float) -> Bandits:
    """Return the bandits that an agent would start with from a journal."""
    disk = MemoryDisk(data, config.durability)
    return open_bandits(config, disk, lambda: now, lambda: randbits(64), stepwise=True)


def as_written(config: NodeConfig, data: bytes, now: float) -> tuple[Bandits, MemoryDisk]:
    """Return the bandits in an agent's journal, under the settings that it was written with.

    The disk holds the journal in memory.
    """
    found = read_identity(data)
    owner = {"node": config.id, "cluster": config.cluster.name}
    check_identity({key: found.get(key) for key in owner}, owner)
    disk = MemoryDisk(data, config.durability)
    then = at_epoch(config, found)
    return open_kept(then, disk, lambda: now, lambda: randbits(64)), disk


def at_epoch(config: NodeConfig, identity: Mapping[str, Any]) -> NodeConfig:
    """Return a configuration with the epoch that a journal was written in."""
    return changed(config, cluster=changed(config.cluster, epoch=identity["epoch"]))


def summary(config: NodeConfig, bandits: Bandits) -> str:
    """Return an agent's progress in a few words."""
    return (
        f"agent {config.id} in round {bandits.rounds}; rewards: {bandits.rewards}; "
        f"open tickets: {bandits.open_tickets}"
    )


def read(file: Path) -> bytes:
    """Return the contents of a file, which must not be empty."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}; is it the right file?") from error
    if not data:
        raise InputError(f"{file} is empty; take another backup")
    return data


# Export

Learned = dict[str, Any]
"""The answer of `GET /export`."""

COLUMNS = (
    "agent", "cluster", "bandit", "policy", "round", "arm", "id", "state", "pulls", "mean",
    "own_choices", "own_pulls", "own_reward",
)  # fmt: skip


def export_journal(config: NodeConfig, now: float) -> Learned:
    """Return what an agent has learned, from its journal, whether it runs or not.

    Changes in its file that it has not applied yet do not count, so an operator who is about to
    purge an arm can still export what was learned of it.
    """
    data = read(config.journal / "journal")
    kept, _ = as_written(config, data, now)
    config = at_epoch(config, read_identity(data))
    found = {}
    declared = in_force(config, adopted_document(config, kept.journal), kept)
    for bandit in all_bandits(config, kept, declared):
        if bandit.number in kept.replicas:  # otherwise the agent does not have it yet
            name, entry = _learned(config.cluster, bandit, kept)
            found[name] = entry
    return {"agent": config.id, "cluster": config.cluster.name, "bandits": found}


def _learned(cluster: ClusterConfig, bandit: BanditConfig, kept: Bandits) -> tuple[str, Learned]:
    """Return a bandit's name and what was learned of it, as declared in the journal.

    What the journal lacks is as declared now: the ids of arms, which cannot change, and whether the
    bandit is retired, until the next snapshot.
    """
    replica, active = kept.replicas[bandit.number], kept.active[bandit.number]
    declared = replica.declared
    arms = tuple(
        changed(arm, name=replica.arms[arm.number] or arm.name)
        for arm in bandit.arms
        if arm.number in active
    )
    known = from_journal(cluster, declared.name, bandit.number, declared.shared)
    found = learned(changed(known, arms=arms), replica)
    for arm in found["arms"]:
        if bandit.arms and arm["number"] in active and arm["state"] == REMOVED:
            arm["state"] = "active"  # removed by a change that was not applied yet
    return declared.name, found


def rows_of(export: Learned) -> Iterator[dict[str, Any]]:
    """Yield a row for every arm of every bandit."""
    for name, bandit in export["bandits"].items():
        common = {
            "agent": export["agent"],
            "cluster": export["cluster"],
            "bandit": name,
            "policy": bandit["settings"]["policy"],
            "round": bandit["round"],
        }
        for arm in bandit["arms"]:
            yield {key: (common | arm)[key] for key in COLUMNS}


def require_format(file: Path) -> None:
    """Reject a file whose suffix is not a known format."""
    if file.suffix not in FORMATS:
        raise InputError(
            f"{file} has the suffix {file.suffix!r}; exports are written as {', '.join(FORMATS)}: "
            f"name such a file, as in {file.stem or 'learned'}.json"
        )


def write_export(export: Learned, file: Path) -> str:
    """Write an export to a file, atomically, in the format of its suffix; return a summary."""
    require_format(file)
    write_file(link_target(file), FORMATS[file.suffix](export))
    rows = list(rows_of(export))
    pulls = sum(row["own_pulls"] for row in rows)
    bandits = len(export["bandits"])
    return (
        f"exported to {file}: agent {export['agent']}; bandits: {bandits}; arms: {len(rows)}; "
        f"rewards handed in here: {pulls}"
    )


def _as_json(export: Learned) -> bytes:
    return (json.dumps(export, indent=2, ensure_ascii=False) + "\n").encode()


def _as_csv(export: Learned) -> bytes:
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows_of(export))
    return out.getvalue().encode()


def _as_parquet(export: Learned) -> bytes:
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
    parquet.write_table(pa.Table.from_pylist(list(rows_of(export)), schema=schema), out)
    content: bytes = out.getvalue().to_pybytes()
    return content


FORMATS: dict[str, Callable[[Learned], bytes]] = {
    ".json": _as_json,
    ".csv": _as_csv,
    ".parquet": _as_parquet,
}
