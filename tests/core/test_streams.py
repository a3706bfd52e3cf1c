"""Keys of many streams at once are those of one after the other."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coopbandits.core.draws import stream_key
from coopbandits.core.streams import stream_keys

SEEDS = (0, 1, 2**32 - 1, 2**32, 2**63, 2**130 + 5, 2**200)
BIG = range(2**32 - 3, 2**32 + 4)


def one_by_one(seed: int, stream: int, places: range) -> list[int]:
    return [stream_key(seed, stream, place) for place in places]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("places", [range(50), range(7, 500, 60), BIG], ids=str)
def test_same_bits_as_numpys_own(seed: int, places: range) -> None:
    for stream in (0, 1, 7, 2**40):
        found = stream_keys(seed, stream, places)
        assert found.dtype == np.uint64
        assert found.tolist() == one_by_one(seed, stream, places)


@given(seed=st.integers(0, 2**140), stream=st.integers(0, 2**70), place=st.integers(0, 2**63))
def test_any_place(seed: int, stream: int, place: int) -> None:
    places = range(place, place + 2)
    assert stream_keys(seed, stream, places).tolist() == one_by_one(seed, stream, places)


def test_no_place_no_key() -> None:
    assert stream_keys(1, 0, range(0)).size == 0
