"""Purged arms: the number of their pulls remains, and nothing else.

The version of an entry is the number of its pulls, so no pull may vanish from it: the entry of an
agent that forgot some would lose against those of agents that did not. So the registers of all
purged arms are added up under one id, `PURGED`, which no declared arm has and which is never
chosen. Agents that have not purged them yet, or never will, treat it as one more arm known from
neighbours alone.

An author signs the arms that it has pulled, one by one. Until it signs again without the purged
ones, which it may never do, its proof is followed by their registers: the *remainder*. An agent
that knows an arm and has not purged it recovers its registers from there, so no agent can hide what
others have pulled by purging it in their name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

import msgspec
import numpy as np

from coopbandits.core.aggregate.entries import HEADER
from coopbandits.core.contract import Vector
from coopbandits.core.statistic import Registers
from coopbandits.fleet.config.bandits import MAX_ARMS
from coopbandits.fleet.identity.notary import PROOF

PURGED = int.from_bytes(sha256(b"").digest()[:8], "big")
"""The id of all purged arms together; declared arms' ids are hashes of non-empty texts."""

Columns = dict[int, bytes]
"""Registers by the ids of arms."""

_decode = msgspec.msgpack.Decoder(Columns).decode

IDS = range(1 << 64)


def read_columns(data: bytes) -> Columns | None:
    """Return the columns of a remainder; None if a neighbour sent something else."""
    try:
        found = _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return found if all(arm in IDS for arm in found) else None


class Folded(NamedTuple):
    """The remaining arms, names by id, and the places there of the previous ones."""

    arms: dict[int, str]
    places: list[int]


def fold(arms: Mapping[int, str], gone: Collection[int]) -> Folded:
    """Remove arms; their registers move to `PURGED`.

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
    """Return the registers of an entry's arms that are not empty.

    A negative zero counts as not empty: no author has one, so whoever passed it on has forged it.
    """
    columns = registers.by_arm(row[HEADER:])
    found = {arm: columns[:, at].tobytes() for at, arm in enumerate(arms)}
    return {arm: column for arm, column in found.items() if any(column)}


def remainder(
    registers: Registers, arms: Sequence[int], gone: Collection[int], row: Vector, before: bytes
) -> bytes:
    """Return the remainder behind the proof of an entry once arms are purged from it.

    `row` is the entry before that, over `arms`, and `before` its previous remainder.
    """
    pulled = pulled_columns(registers, arms, row)
    found = {arm: column for arm, column in pulled.items() if arm in gone}
    if not found:
        return before
    if not before and PURGED in pulled:  # as the author signed it
        found[PURGED] = pulled[PURGED]
    elif before:
        known = read_columns(before)
        if known is None:
            return before  # which proves nothing
        found |= known
    return _encoded(found)


def proofs_without(
    gone: Collection[int],
    registers: Registers,
    entry: Callable[[float], Vector | None],
    arms: Sequence[int],
    proofs: Mapping[int, bytes],
) -> dict[int, bytes]:
    """Return proofs of an agent's entries that stay valid once arms are purged from them."""
    found = dict(proofs)
    for number, proof in proofs.items():
        row = entry(number)
        if row is not None:
            left = remainder(registers, arms, gone, row, proof[PROOF:])
            found[number] = proof[:PROOF] + left
    return found


def _encoded(columns: Columns) -> bytes:
    return msgspec.msgpack.encode(dict(sorted(columns.items()))) if columns else b""


def take_back(
    registers: Registers, arms: Sequence[int], row: Vector, rest: bytes
) -> tuple[Vector, bytes]:
    """Return an entry with all arms that are known here, and the rest of its remainder."""
    left = read_columns(rest) or {}
    known = left.keys() & set(arms) - {PURGED}
    found = row.copy()
    columns = registers.by_arm(found[HEADER:])
    size = columns[:, 0].nbytes
    if not known or PURGED not in arms or any(len(each) != size for each in left.values()):
        return row, rest
    for arm in known:
        columns[:, arms.index(arm)] += np.frombuffer(left.pop(arm))
    columns[:, arms.index(PURGED)] = sum(map(np.frombuffer, left.values()))
    return found, _encoded(left) if left.keys() - {PURGED} else b""


def signed_columns(
    registers: Registers, arms: Sequence[int], row: Vector, rest: bytes
) -> Columns | None:
    """Return the registers that an author has signed, of an entry with a remainder.

    None if the remainder does not add up to the entry's `PURGED`, to the last pull.
    """
    left = read_columns(rest)
    if left is None or len(left) > MAX_ARMS or not all(map(any, left.values())):
        return None  # no author has more arms, or signs arms without pulls
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
    # Sums of rewards depend on the order of addition; pulls are integers and do not.
    same = registers.version(exact[HEADER:]) == registers.version(row[HEADER:])
    if not same or not np.allclose(lump, total, rtol=1e-9, atol=1e-9):
        return None
    return left | pulled
