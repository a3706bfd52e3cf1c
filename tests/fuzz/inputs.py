"""Inputs for hypothesis: any bytes, and good inputs that were spoilt."""

from __future__ import annotations

from hypothesis import strategies as st

from .target import Target

Edit = tuple[int, int, bytes]


def inputs(target: Target) -> st.SearchStrategy[bytes]:
    edits = st.lists(
        st.tuples(st.integers(0, 1 << 30), st.integers(0, 40), st.binary(max_size=20)), max_size=4
    )
    spoilt = st.builds(spoil, st.sampled_from(target.seeds()), edits)
    return st.one_of(spoilt, spoilt, st.binary(max_size=300))


def spoil(data: bytes, edits: list[Edit]) -> bytes:
    """Put other bytes in the place of some."""
    for at, length, piece in edits:
        at %= len(data) + 1
        data = data[:at] + piece + data[at + length :]
    return data
