"""From the one bandit in [cluster] to a section [bandits.NAME], with everything learned.

An agent's file and its journal change together, while the agent is stopped. The journal's bandit 0
becomes the named one: its arms get the ids that their names make, tickets stay open, and entries
stay under the numbers of their authors. Agents of both forms do not talk, so that each half of a
fleet learns by itself until all are converted; then all know everything, and nothing twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coopbandits.core.errors import InputError
from coopbandits.fleet.config import NodeConfig, parse_config, write_config
from coopbandits.fleet.config.bandits import BanditConfig
from coopbandits.fleet.config.read import OF_BANDITS, load
from coopbandits.fleet.identity.certs import write_file
from coopbandits.fleet.process.backup import opened, told
from coopbandits.fleet.process.declare import journal_identity
from coopbandits.fleet.storage.disk import DiskError, FileDisk, MemoryDisk
from coopbandits.fleet.storage.journal import Journal
from coopbandits.fleet.storage.replica import Replica

PLAIN = "plain"
"""What the file and the journal of before are called, behind their names."""

BARE = re.compile(r"[A-Za-z0-9_-]+")


def to_sections(path: Path, name: str, now: float) -> str:
    """Convert the file and the journal of an agent that is stopped; return what became of them.

    What was there stays beside them. After a crash half-way, call it again.

    Raises
    ------
    InputError
        The agent runs, or its bandit cannot have a section; nothing has changed.
    """
    tables = load(path)
    before = parse_config(tables, path, now=now, insecure=True)
    if before.declared:
        raise InputError(f"{path} has sections of bandits already; start the agent with it")
    changed = with_section(tables, name, before.cluster.policy)
    after = parse_config(changed, path, now=now, insecure=True)
    try:
        disk = FileDisk(before.journal, before.durability)
    except InputError as error:
        raise InputError(f"{before.id} must be stopped to be converted: {error}") from error
    try:
        sentence = _convert(disk, before, after, name, now)
    except DiskError as error:
        raise InputError(f"{error}; nothing was converted") from error
    finally:
        disk.close()
    write_file(path.with_name(f"{path.name}.{PLAIN}"), path.read_bytes())
    write_file(path, write_config(_listed(changed)).encode())
    return f"{path} has a section [bandits.{name}], and the journal {sentence}"


def with_section(tables: Mapping[str, Any], name: str, policy: str) -> dict[str, Any]:
    """Return the tables of a file whose one bandit has a section; its policy is stated there."""
    cluster = tables["cluster"]
    section = {"policy": policy} | {key: cluster[key] for key in OF_BANDITS if key in cluster}
    rest = {key: value for key, value in cluster.items() if key not in OF_BANDITS}
    others = {key: value for key, value in tables.items() if key != "cluster"}
    return {"cluster": rest, "bandits": {name: section}, **others}


def _listed(tables: Mapping[str, Any]) -> dict[str, Any]:
    """Return tables with each section under a heading of its own."""
    found: dict[str, Any] = {}
    for key, table in tables.items():
        if key != "bandits":
            found[key] = table
            continue
        for name, section in table.items():
            found[f"bandits.{name if BARE.fullmatch(name) else json.dumps(name)}"] = section
    return found


def _convert(disk: FileDisk, before: NodeConfig, after: NodeConfig, name: str, now: float) -> str:
    data = disk.read()
    if data is None:
        return "begins with it"
    try:
        replica, _ = opened(before, data, now)
    except InputError as error:
        try:
            found, _ = opened(after, data, now)
        except InputError:
            raise error from None
        return f"has it already: {told(after, found)}"
    assert isinstance(replica, Replica)  # noqa: S101  the file has no sections
    converted = section_journal(replica, after.declared[name], after)
    found, _ = opened(after, converted, now)
    if (found.rewards, found.open_tickets) != (replica.rewards, replica.open_tickets):
        raise InputError(f"the journal in {before.journal} cannot be converted; begin a new epoch")
    disk.keep(PLAIN, data)
    disk.prepare(converted)
    disk.switch(b"")
    disk.settle()
    return f"goes on with it: {told(after, found)}"


def section_journal(replica: Replica, bandit: BanditConfig, config: NodeConfig) -> bytes:
    """Return the journal of an agent with one bandit as one with sections.

    Proofs are of entries without ids of arms; authors sign anew when they are converted, too.
    """
    arms = {arm.number: arm.name for arm in bandit.arms}
    declared = {"name": bandit.name, "shared": bandit.shared, "arms": arms}
    state = replica.export() | {"declared": declared, "proofs": {}}
    disk = MemoryDisk(durability=config.durability)
    journal = Journal(disk, journal_identity(config), replica.journal.origin)
    journal.adopted = replica.journal.adopted
    journal.compact({"bandits": {bandit.number: state}})
    return bytes(disk.data)
