"""Arms that are purged: how many pulls they had stays, and nothing else.

The version of an entry is the number of its pulls, so that no pull may vanish from it: an agent
that forgot some would lose against those who did not. So the registers of all purged arms are added
up under one id, `PURGED`, which is no declared arm's and is never chosen. Agents that have not
purged them yet, or never will, see it as one more arm that only neighbours have.

An author signs the arms that it has pulled, one by one. Until it signs again without those that
were purged, which it may never do, its proof is followed by their registers: the *remainder*. Who
knows an arm and has not purged it takes its registers back from there: nobody can hide what others
have pulled by purging it in their name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec
import numpy as np

from coopbandits.core.aggregate.entries import HEADER
from coopbandits.core.contract import Vector
from coopbandits.core.statistic import Registers
from coopbandits.fleet.config.bandits import MAX_ARMS
from coopbandits.fleet.identity.notary import PROOF

PURGED = int.from_bytes(sha256(b"").digest()[:8], "big")
"""The id of all purged arms together; those of declared ones are made of texts, never empty."""

Columns = dict[int, bytes]
"""Registers by the ids of arms."""

_decode = msgspec.msgpack.Decoder(Columns).decode

IDS = range(1 << 64)


def read_columns(told: bytes) -> Columns | None:
    """Return what a remainder holds; None where a neighbour sent something else."""
    try:
        found = _decode(told)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return found if all(arm in IDS for arm in found) else None


class Folded(NamedTuple):
    """The arms that are left, names by id, and the places there of those that there were."""

    arms: dict[int, str]
    places: list[int]


def fold(arms: Mapping[int, str], gone: Collection[int]) -> Folded:
    """Leave out arms; what is known of them moves to `PURGED`.

    Examples
    --------
    >>> fold({7: "red", 8: "green", 9: "blue"}, {7}).places
    [2, 0, 1]
    """
    left = {arm: name for arm, name in arms.items() if arm not in gone}
    left.setdefault(PURGED, "")
    place = {arm: at for at, arm in enumerate(left)}
    return Folded(left, [place[PURGED if arm in gone else arm] for arm in arms])


def pulled_columns(registers: Registers, arms: Sequence[int], row: Vector) -> Columns:
    """Return the registers of all arms of an entry that has some.

    A zero with a sign counts as something: no author has one, so whoever passes it on put it there.
    """
    columns = registers.by_arm(row[HEADER:])
    found = {arm: columns[:, at].tobytes() for at, arm in enumerate(arms)}
    return {arm: column for arm, column in found.items() if any(column)}


def remainder(
    registers: Registers, arms: Sequence[int], gone: Collection[int], row: Vector, before: bytes
) -> bytes:
    """Return what follows the proof of an entry once arms are purged from it.

    `row` is the entry as it was, about `arms`, and `before` what followed its proof so far.
    """
    pulled = pulled_columns(registers, arms, row)
    found = {arm: column for arm, column in pulled.items() if arm in gone}
    if not found:
        return before
    if not before and PURGED in pulled:  # as the author signed it
        found[PURGED] = pulled[PURGED]
    elif before:
        told = read_columns(before)
        if told is None:
            return before  # which proves nothing
        found |= told
    return _encoded(found)


def proofs_without(
    gone: Collection[int], agent: Any, arms: Sequence[int], proofs: Mapping[int, bytes]
) -> dict[int, bytes]:
    """Return proofs of an agent's entries that hold once arms are purged from them."""
    found = dict(proofs)
    for number, proof in proofs.items():
        row = agent.machine.entry(number)
        if row is not None:
            left = remainder(agent.machine.registers, arms, gone, row, proof[PROOF:])
            found[number] = proof[:PROOF] + left
    return found


def _encoded(columns: Columns) -> bytes:
    return msgspec.msgpack.encode(dict(sorted(columns.items()))) if columns else b""


def take_back(
    registers: Registers, arms: Sequence[int], row: Vector, told: bytes
) -> tuple[Vector, bytes]:
    """Return an entry with all arms that are known here, and what is left of its remainder."""
    left = read_columns(told) or {}
    known = left.keys() & set(arms) - {PURGED}
    found = row.copy()
    columns = registers.by_arm(found[HEADER:])
    size = columns[:, 0].nbytes
    if not known or PURGED not in arms or any(len(each) != size for each in left.values()):
        return row, told
    for arm in known:
        columns[:, arms.index(arm)] += np.frombuffer(left.pop(arm))
    columns[:, arms.index(PURGED)] = sum(map(np.frombuffer, left.values()))
    return found, _encoded(left) if left.keys() - {PURGED} else b""


def signed_columns(
    registers: Registers, arms: Sequence[int], row: Vector, told: bytes
) -> Columns | None:
    """Return the registers that an author has signed, of an entry with a remainder.

    None where the remainder is not what the entry has under `PURGED`, to the last pull.
    """
    left = read_columns(told)
    if left is None or len(left) > MAX_ARMS or not all(map(any, left.values())):
        return None  # no author signs arms without pulls, and it had so many at most
    try:
        values = np.array([np.frombuffer(column) for column in left.values()])
    except ValueError:
        return None
    pulled = pulled_columns(registers, arms, row)
    lump, total = np.frombuffer(pulled.pop(PURGED, b"")), values.sum(axis=0)
    if not lump.size or lump.shape != total.shape or pulled.keys() & left.keys():
        return None
    exact = row.copy()
    registers.by_arm(exact[HEADER:])[:, arms.index(PURGED)] = total
    # Rewards were added up in some order; pulls are whole numbers, and the same in any.
    same = registers.version(exact[HEADER:]) == registers.version(row[HEADER:])
    if not same or not np.allclose(lump, total, rtol=1e-9, atol=1e-9):
        return None
    return left | pulled
