"""Copies of a journal that are safe to go back to.

A journal only grows, or is replaced whole, so what is read of it at any moment is an agent as it
was: a backup needs no agent to stop, and not even one that runs. A copy is what was read, up to its
last whole record. It is opened to tell whether it is whole and whose it is, by the settings that it
was written with: the agent's file may say something else by now, which the agent has refused, or
has yet to be told.

Going back is where things get counted twice. Of the tickets that were open when the copy was made,
some have got their rewards since, which neighbours may know of: restoring closes them all. Every
start draws a new nonce for tickets and a later incarnation, and what the agent told since the copy
stays with its neighbours as it is (`protocol.entries`).
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace as changed
from pathlib import Path
from secrets import randbits
from typing import Any

from coopbandits.core.aggregate.aggregation import SYNCHRONOUS
from coopbandits.core.errors import InputError
from coopbandits.core.registry import parse_policy
from coopbandits.fleet.config import NodeConfig
from coopbandits.fleet.config.eligibility import traits_of
from coopbandits.fleet.process.declare import open_bandits, open_kept
from coopbandits.fleet.storage.bandits import Bandits
from coopbandits.fleet.storage.disk import DiskError, FileDisk, InUseError, MemoryDisk
from coopbandits.fleet.storage.journal import check_identity, read_identity, require_present_form


def back_up(config: NodeConfig, file: Path, now: float) -> str:
    """Copy an agent's journal, whether it runs or not, to a new file; return what is in it."""
    data = read(config.journal / "journal")
    bandits, _ = as_written(config, data, now)
    try:
        _write_new(file, data[: len(data) - bandits.journal.torn])
    except FileExistsError:
        raise InputError(f"{file} exists already; name a file that does not") from None
    except OSError as error:
        raise InputError(
            f"the backup {file} cannot be written: {error.strerror}; name a folder with room that "
            "this user may write to"
        ) from error
    return f"backed up to {file}: {told(config, bandits)}"


def _write_new(file: Path, data: bytes) -> None:
    """Write a file that must not exist; whatever ends this early, there is none of that name."""
    if os.path.lexists(file):
        raise FileExistsError(file)
    made, name = tempfile.mkstemp(prefix=".backup-", dir=file.parent)  # for its owner alone
    with _removed_on_failure(Path(name)), os.fdopen(made, "wb") as out:
        out.write(data)
        out.flush()
        os.fsync(out.fileno())
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))  # now it is ours
        with _removed_on_failure(file):
            Path(name).replace(file)


@contextmanager
def _removed_on_failure(file: Path) -> Iterator[None]:
    try:
        yield
    except BaseException:  # an interrupt from the keyboard too
        with suppress(OSError):
            file.unlink()
        raise


def restore(config: NodeConfig, file: Path, now: float, *, replace: bool = False) -> str:
    """Put a backup in the place of an agent's journal; return what was restored.

    `replace` allows it where there is a journal, which is kept beside it.
    """
    data = read(file)
    opened(config, data, now)  # refuses what the agent would not start with
    bandits, copy = as_written(config, data, now)
    for each in bandits.replicas.values():
        policy = each.declared.shared["policy"]
        if traits_of(parse_policy(policy)).mode == SYNCHRONOUS:
            raise InputError(
                f"bandit {each.declared.name} has policy {policy}, which is synchronous: an agent "
                "that goes back has another share than its neighbours count on; begin a new epoch "
                "instead"
            )
    if torn := bandits.journal.torn:
        raise InputError(
            f"{file} ends in the middle of a record, {torn} bytes behind the last whole one, and a "
            "backup never does: it was cut off while it was copied; nothing was restored: copy it "
            "again, or name another backup"
        )
    held = told(config, bandits)
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
                f"{config.journal} holds a journal already; start the agent with it, or give "
                "--replace: rewards since the backup that no neighbour knows of are lost then"
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
    """Return what a failure has left: the folder may fail to sync once the backup is in place."""
    again = "look at the disk, and run this command again with --replace"
    try:
        there = disk.read()
    except InputError:
        return f"whether the backup is in its place cannot be told; {again}"
    if there == restored:
        return f"the backup is in its place, but a loss of power may undo that; {again}"
    return "nothing was restored"


def opened(config: NodeConfig, data: bytes, now: float) -> Bandits:
    """Return the agent in a journal as it would start."""
    disk = MemoryDisk(data, config.durability)
    return open_bandits(config, disk, lambda: now, lambda: randbits(64), stepwise=True)


def as_written(config: NodeConfig, data: bytes, now: float) -> tuple[Bandits, MemoryDisk]:
    """Return the agent in a journal by the settings there, and its journal; refuse another's."""
    found = read_identity(data)
    whose = {"node": config.id, "cluster": config.cluster.name}
    require_present_form(found)
    check_identity({key: found.get(key) for key in whose}, whose)
    disk = MemoryDisk(data, config.durability)
    then = at_epoch(config, found)
    return open_kept(then, disk, lambda: now, lambda: randbits(64)), disk


def at_epoch(config: NodeConfig, identity: Mapping[str, Any]) -> NodeConfig:
    """Return a configuration with the epoch that a journal was written in."""
    return changed(config, cluster=changed(config.cluster, epoch=identity["epoch"]))


def told(config: NodeConfig, bandits: Bandits) -> str:
    """Return in words what a journal holds."""
    return (
        f"agent {config.id} in round {bandits.rounds}; rewards: {bandits.rewards}; "
        f"open tickets: {bandits.open_tickets}"
    )


def read(file: Path) -> bytes:
    """Return what is in a file."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}; is it the right file?") from error
    if not data:
        raise InputError(f"{file} is empty; take another backup")
    return data
