"""Copies of a journal that are safe to go back to.

A journal only grows, or is replaced whole, so what is read of it at any moment is an agent as it
was: a backup needs no agent to stop, and not even one that runs. A copy is opened as an agent opens
its journal, which tells whether it is whole and whose it is.

Going back is where things get counted twice. Of the tickets that were open when the copy was made,
some have got their rewards since, which neighbours may know of: restoring closes them all. Every
start draws a new nonce for tickets and a later incarnation, and what the agent told since the copy
stays with its neighbours as it is (`protocol.entries`).
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from secrets import randbits

from coopbandits.core.aggregate.aggregation import SYNCHRONOUS
from coopbandits.core.errors import InputError
from coopbandits.fleet.config import NodeConfig
from coopbandits.fleet.process.assemble import open_replica
from coopbandits.fleet.process.declare import open_bandits
from coopbandits.fleet.storage.bandits import Bandits
from coopbandits.fleet.storage.disk import DiskError, FileDisk, MemoryDisk
from coopbandits.fleet.storage.replica import Replica


def back_up(config: NodeConfig, file: Path, now: float) -> str:
    """Copy an agent's journal, whether it runs or not, to a new file; return what is in it."""
    source = config.journal / "journal"
    replica, disk = opened(config, read(source), now)
    try:
        made = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(made, "wb") as out:
            out.write(disk.data)
            out.flush()
            os.fsync(out.fileno())
    except FileExistsError:
        raise InputError(f"{file} exists already; name a file that does not") from None
    except OSError as error:
        file.unlink(missing_ok=True)
        raise InputError(
            f"the backup {file} cannot be written: {error.strerror}; name a folder with room"
        ) from error
    return f"backed up to {file}: {told(config, replica)}"


def restore(config: NodeConfig, file: Path, now: float, *, replace: bool = False) -> str:
    """Put a backup in the place of an agent's journal; return what was restored.

    `replace` allows it where there is a journal, which is kept beside it.
    """
    if config.cluster.mode == SYNCHRONOUS:
        raise InputError(
            f"policy {config.cluster.policy} is synchronous: an agent that goes back has another "
            "share than its neighbours count on; begin a new epoch instead"
        )
    replica, copy = opened(config, read(file), now)
    held = told(config, replica)
    replica.expire(math.inf)
    replica.compact()
    disk = FileDisk(config.journal, config.durability)
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
        raise InputError(f"{error}; nothing was restored") from error
    finally:
        disk.close()
    return f"restored to {config.journal}: {held}, all closed"


def opened(config: NodeConfig, data: bytes, now: float) -> tuple[Replica | Bandits, MemoryDisk]:
    """Return the agent in a journal, and a whole journal of it; refuse another agent's."""
    disk = MemoryDisk(data, config.durability)
    if config.declared:
        return open_bandits(config, disk, lambda: now, lambda: randbits(64)), disk
    return open_replica(config, disk, now, randbits(64) | 1, randbits(64)), disk


def told(config: NodeConfig, replica: Replica | Bandits) -> str:
    """Return in words what a journal holds."""
    return (
        f"agent {config.id} in round {replica.rounds}; rewards: {replica.rewards}; "
        f"open tickets: {replica.open_tickets}"
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
