"""Reads journals of version 0.1, which are converted to today's format when they are opened.

Records of ``length u32 | CRC-32 u32 | msgpack payload`` after eight magic bytes. The first
identifies the agent, the second holds a snapshot, the rest are events, as arrays without names.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, NamedTuple

import msgspec

from coopbandits.fleet.storage import events
from coopbandits.fleet.storage.events import Event
from coopbandits.fleet.storage.records import UNREADABLE, Head, damaged, unreadable

MAGIC = b"CBJRNL01"
PREFIX = struct.Struct("<II")


class _Old(msgspec.Struct, array_like=True):
    """An event of format 1, tagged by a letter."""


class _Chose(_Old, tag="c"):
    arm: int
    now: float


class _Observed(_Old, tag="o"):
    number: int
    reward: float


class _Expired(_Old, tag="x"):
    number: int


class _Met(_Old, tag="m"):
    degrees: dict[int, int]


class _Spoke(_Old, tag="s"):
    pass


class _Ended(_Old, tag="r"):
    messages: dict[int, bytes]


_decode = msgspec.msgpack.Decoder(_Chose | _Observed | _Expired | _Met | _Spoke | _Ended).decode
_read_head = msgspec.msgpack.Decoder(tuple[dict[str, Any], dict[str, int]]).decode
_read_snapshot = msgspec.msgpack.Decoder(dict[str, Any] | None, strict=False).decode


class OldContents(NamedTuple):
    """What a journal of format 1 holds, and where its last whole record ends."""

    head: Head
    snapshot: dict[str, Any]
    events: list[Event]
    end: int


def read_version1(data: bytes) -> OldContents:
    """Return what a journal of format 1 holds; refuse a damaged one."""
    payloads, end = _split(data)
    if len(payloads) < 2:
        raise damaged(len(data), len(data))  # both were written at once, so one was lost
    try:
        head = Head(*_read_head(payloads[0]))
        snapshot = _read_snapshot(payloads[1]) or {}
        if snapshot:
            _map_tickets(snapshot["tickets"])
        found = [_event(one) for one in payloads[2:]]
    except (KeyError, *UNREADABLE) as error:
        raise unreadable(len(MAGIC), error) from error
    return OldContents(head, snapshot, found, end)


def _map_tickets(tickets: dict[str, Any]) -> None:
    """Turn lists of tickets, each with its number first, into maps by number."""
    for table in ("open", "settled"):
        tickets[table] = {number: rest for number, *rest in tickets[table]}


def _event(payload: bytes) -> Event:
    match _decode(payload):
        case _Chose(arm, now):
            return events.Chose(arm, now)
        case _Observed(number, reward):
            return events.Observed(number, reward)
        case _Expired(number):
            return events.Expired([number])
        case _Met(degrees):
            return events.Met(degrees)
        case _Ended(messages):
            return events.Ended(messages)
        case _:
            return events.Spoke()


def _split(data: bytes) -> tuple[list[bytes], int]:
    payloads, at = [], len(MAGIC)
    while (payload := _payload_at(data, at)) is not None:
        payloads.append(payload)
        at += PREFIX.size + len(payload)
    if any(_payload_at(data, begin) is not None for begin in range(at + 1, len(data))):
        raise damaged(at, len(data))  # a torn record has nothing behind it
    return payloads, at


def _payload_at(data: bytes, at: int) -> bytes | None:
    """Return the payload of a whole record."""
    if at + PREFIX.size > len(data):
        return None
    length, checksum = PREFIX.unpack_from(data, at)
    end = at + PREFIX.size + length
    if length == 0 or end > len(data):
        return None
    payload = data[at + PREFIX.size : end]
    return payload if zlib.crc32(payload) == checksum else None
