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

from coopbandits.core.aggregate.aggregation import ROBUST
from coopbandits.core.errors import InputError
from coopbandits.fleet.config import NodeConfig, parse_config, write_config
from coopbandits.fleet.config.bandits import BanditConfig
from coopbandits.fleet.config.read import OF_BANDITS, load
from coopbandits.fleet.identity.files import prepared_file, write_file
from coopbandits.fleet.process.backup import as_written, opened, told
from coopbandits.fleet.process.declare import journal_identity
from coopbandits.fleet.storage.bandits import Bandits
from coopbandits.fleet.storage.disk import DiskError, DoubtError, FileDisk, InUseError, MemoryDisk
from coopbandits.fleet.storage.journal import Journal, read_identity
from coopbandits.fleet.storage.replica import Replica

PLAIN = "plain"
"""What the file and the journal of before are called, behind their names."""

BARE = re.compile(r"[A-Za-z0-9_-]+")


def to_sections(path: Path, name: str, now: float) -> str:
    """Convert the file and the journal of an agent that is stopped; return what became of them.

    What was there stays beside them. The file is written first and only renamed at the end, so that
    what may fail has failed before the journal changes. After a crash half-way, call it again.

    Raises
    ------
    InputError
        The agent runs, or its bandit cannot have a section; nothing has changed.
    """
    tables = load(path)
    before = parse_config(tables, path, now=now, insecure=True)
    if before.declared:
        raise InputError(f"{path} has sections of bandits already; start the agent with it")
    if before.cluster.mode != ROBUST:
        raise InputError(
            f"policy {before.cluster.policy} waits for all neighbours in every round, so that its "
            "arms cannot change while agents run, and it cannot have a section; leave it in "
            "[cluster], as the only bandit, or begin anew with a robust one such as flood-ts"
        )
    changed = with_section(tables, name, before.cluster.policy)
    after = parse_config(changed, path, now=now, insecure=True)
    try:
        disk = FileDisk(before.journal, before.durability)
    except InUseError as error:
        raise InputError(f"{before.id} must be stopped to be converted: {error}") from error
    target = path.resolve()  # a link stays one
    try:
        data = disk.read()
        converted, sentence = _converted(data, before, after, name, now)
        write_file(target.with_name(f"{target.name}.{PLAIN}"), target.read_bytes(), like=target)
        with prepared_file(target, write_config(_listed(changed)).encode()):
            if data is not None and converted:
                disk.keep(PLAIN, data)
                disk.prepare(converted)
                disk.switch(b"")
                disk.settle()
    except DoubtError as error:
        raise InputError(f"{error}; look at the disk, and run this command again") from error
    except DiskError as error:
        raise InputError(f"{error}; nothing was converted") from error
    finally:
        disk.close()
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


def _converted(
    data: bytes | None, before: NodeConfig, after: NodeConfig, name: str, now: float
) -> tuple[bytes, str]:
    """Return the journal with a section, if it has none yet, and what is to be said of it."""
    if data is None:
        return b"", "begins with it"
    if "bandits" in read_identity(data):  # a crash came before the file was renamed
        _require_named(as_written(after, data, now)[0], after.declared[name])
        return b"", f"has it already: {told(after, opened(after, data, now)[0])}"
    replica, _ = opened(before, data, now)
    assert isinstance(replica, Replica)  # noqa: S101  the file has no sections
    converted = section_journal(replica, after.declared[name], after)
    found, _ = opened(after, converted, now)
    if (found.rewards, found.open_tickets) != (replica.rewards, replica.open_tickets):
        raise InputError(f"the journal in {before.journal} cannot be converted; begin a new epoch")
    return converted, f"goes on with it: {told(after, found)}"


def _require_named(kept: Replica | Bandits, bandit: BanditConfig) -> None:
    """Refuse another name than the one under which a journal has what was learned."""
    assert isinstance(kept, Bandits)  # noqa: S101  its journal says so
    if bandit.number not in kept.replicas:
        names = [each.declared.name for each in kept.replicas.values() if each.declared]
        raise InputError(
            f"the journal has sections already, of {', '.join(names)}, and none of {bandit.name}; "
            f"give the name of before: coopbandits fleet to-sections NODE.toml {names[0]}"
        )


def section_journal(replica: Replica, bandit: BanditConfig, config: NodeConfig) -> bytes:
    """Return the journal of an agent with one bandit as one with sections.

    Proofs are of entries without ids of arms; authors sign anew when they are converted, too.
    """
    arms = {arm.number: arm.name for arm in bandit.arms}
    declared = {"name": bandit.name, "shared": bandit.shared, "arms": arms}
    state = replica.export() | {"declared": declared, "active": sorted(arms), "proofs": {}}
    disk = MemoryDisk(durability=config.durability)
    journal = Journal(disk, journal_identity(config), replica.journal.origin)
    journal.adopted = replica.journal.adopted
    journal.compact({"bandits": {bandit.number: state}})
    return bytes(disk.data)
