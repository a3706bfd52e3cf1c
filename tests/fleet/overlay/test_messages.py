"""What agents tell each other of members, as bytes."""

from __future__ import annotations

import msgspec
import pytest

from coopbandits.fleet.overlay.messages import (
    MOST_CONTACTS,
    WALK,
    Contact,
    ForwardJoin,
    Goodbye,
    Message,
    Refused,
    Sample,
    Shuffle,
    decode,
    encode,
)

FRIEND = Contact("shop-2", "10.0.0.2:7400")


@pytest.mark.parametrize(
    "message",
    [
        ForwardJoin(FRIEND, WALK),
        Shuffle(2**62 - 1, 1, [FRIEND] * MOST_CONTACTS),
        Sample(0, []),
        Refused([FRIEND]),
        Goodbye(leaving=True),
    ],
)
def test_messages_read_back(message: Message) -> None:
    assert decode(encode(message)) == message


@pytest.mark.parametrize(
    "message",
    [
        ForwardJoin(FRIEND, WALK + 1),
        ForwardJoin(FRIEND, -1),
        ForwardJoin(Contact("Shop 2\n", "x"), 1),
        ForwardJoin(Contact("x" * 64, "x"), 1),
        ForwardJoin(Contact("x", "x" * 260), 1),
        Shuffle(-1, 1, []),
        Sample(0, [FRIEND] * (MOST_CONTACTS + 1)),
    ],
)
def test_what_nobody_honest_sends_is_refused(message: Message) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(encode(message))
