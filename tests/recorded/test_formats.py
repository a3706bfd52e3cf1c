"""Agents read what earlier releases wrote and sent; see `formats.py`."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from coopbandits.fleet.protocol import frames
from coopbandits.fleet.protocol.frames import (
    AnswerFrame,
    BanditFrame,
    BeatFrame,
    ByeFrame,
    CallFrame,
    DataFrame,
    Decoder,
    DocumentFrame,
    Fields,
    Frame,
    HelloFrame,
    Kind,
    MembersFrame,
    RoutesFrame,
)
from coopbandits.fleet.storage import records
from coopbandits.fleet.storage.records import Record

from .formats import EVENTS, FILE, FRAMES, POLICIES, journal_of, opened

RECORDED: dict[str, Any] = json.loads(FILE.read_text())


def kind_of(frame: str) -> int:
    return bytes.fromhex(frame)[3]


def written(frame: Frame) -> bytes:
    """Return the bytes of a frame that was read."""
    match frame:
        case HelloFrame(stamp, hello):
            return frames.encode_hello(stamp, hello)
        case DataFrame(stamp, values, fields):
            return frames.encode_data(stamp, values, None if fields == Fields() else fields)
        case ByeFrame(stamp, reason):
            return frames.encode_bye(stamp, reason)
        case DocumentFrame(stamp, body):
            return frames.encode_document(stamp, body)
        case BanditFrame(stamp, greeting):
            return frames.encode_greeting(stamp, greeting)
        case MembersFrame(stamp, message):
            return frames.encode_members(stamp, message)
        case RoutesFrame(stamp, body):
            return frames.encode_routes(stamp, body)
        case CallFrame(stamp, body):
            return frames.encode_call(stamp, body)
        case AnswerFrame(stamp, body):
            return frames.encode_answer(stamp, body)
        case BeatFrame(stamp):
            return frames.encode_beat(stamp)


def test_every_kind_is_recorded() -> None:
    assert {kind_of(frame) for frame in RECORDED["frames"].values()} == set(map(int, Kind))
    assert {kind for kind, _ in RECORDED["events"].values()} == set(records.KINDS.values())
    assert set(records.KINDS) == set(get_args(records.Event))
    assert set(RECORDED["frames"]) == set(FRAMES)
    assert set(RECORDED["events"]) == set(EVENTS)
    assert set(RECORDED["journals"]) == set(POLICIES)


@pytest.mark.parametrize("name", FRAMES)
def test_a_recorded_message_is_sent_and_read_as_before(name: str) -> None:
    data = bytes.fromhex(RECORDED["frames"][name])
    assert FRAMES[name]() == data
    if name != "vector in parts":  # of which the last part alone is recorded
        (frame,) = Decoder(1 << 20).feed(data)
        assert written(frame) == data


@pytest.mark.parametrize("name", EVENTS)
def test_a_recorded_event_is_written_and_read_as_before(name: str) -> None:
    kind, body = RECORDED["events"][name]
    assert (records.KINDS[type(EVENTS[name])], records.encode_event(EVENTS[name]).hex()) == (
        kind, body,
    )  # fmt: skip
    assert records.decode_event(Record(0, kind, bytes.fromhex(body))) == EVENTS[name]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_recorded_journal_opens_to_what_its_agent_knew(policy: str) -> None:
    assert opened(policy, journal_of(RECORDED, policy)) == RECORDED["journals"][policy]["knows"]
