"""Faults as data: their spelling, both ways."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coopbandits.core.errors import InputError
from coopbandits.network.faults import (
    KINDS,
    PERFECT,
    Bursts,
    Churn,
    Crash,
    Delay,
    Faults,
    Graphs,
    Join,
    Kind,
    Loss,
    OneWay,
    Pairs,
    Partition,
    Redraw,
    Sleep,
    Speeds,
    parse_faults,
)

SHARE = st.floats(0.0, 1.0)
SPELL = st.floats(1.0, 1e20)
ROUND = st.integers(1, 10**9)
GRAPHS = st.sampled_from(["cycle:9", "cycle:9|grid:3x3", "erdos-renyi:9,0.9,seed=2|regular:2,9"])


def windowed(kind: type[Any], **more: st.SearchStrategy[Any]) -> st.SearchStrategy[Kind]:
    def make(share: float, start: int, length: int | None, **settings: Any) -> Kind:
        made: Kind = kind(share, start, length and start + length, **(settings if length else {}))
        return made

    return st.builds(make, SHARE, ROUND, st.none() | st.integers(1, 10**6), **more)


ANY_KIND = st.one_of(
    st.builds(Loss, SHARE),
    st.builds(Bursts, SPELL, SPELL, SHARE),
    st.builds(Delay, st.integers(0, 1000)),
    st.builds(Churn, SPELL, SPELL),
    st.builds(OneWay, SHARE),
    windowed(Partition),
    st.builds(Redraw, ROUND, SHARE),
    st.builds(Pairs, ROUND),
    st.builds(Graphs, ROUND, GRAPHS),
    st.builds(Sleep, SHARE),
    st.builds(Speeds, st.floats(1.0, 1e6)),
    windowed(Crash, state=st.sampled_from(["kept", "lost"])),
    st.builds(Join, SHARE, ROUND),
)


@given(st.lists(ANY_KIND, max_size=5))
def test_a_spelling_is_read_back(kinds: list[Kind]) -> None:
    faults = Faults(*kinds)
    assert parse_faults(faults.spelling) == faults
    assert parse_faults(faults.spelling).spelling == faults.spelling


@pytest.mark.parametrize(
    ("text", "faults", "spelling"),
    [
        ("none", PERFECT, "none"),
        ("loss=0.3", Faults(Loss(0.3)), "loss=0.3"),
        (" sleep = 1/4 , loss=.5 ", Faults(Loss(0.5), Sleep(0.25)), "loss=0.5,sleep=0.25"),
        (
            "loss=0.3,sleep=0.1,churn=200..50,crash=0.5@1000..1500",
            Faults(Loss(0.3), Sleep(0.1), Churn(200, 50), Crash(0.5, 1000, 1500)),
            "loss=0.3,churn=200..50,sleep=0.1,crash=0.5@1000..1500",
        ),
        ("crash=1@5..9:lost", Faults(Crash(1.0, 5, 9, "lost")), "crash=1@5..9:lost"),
        ("crash=1@5..9:kept", Faults(Crash(1.0, 5, 9)), "crash=1@5..9"),
        ("bursts=20..5.5:1", Faults(Bursts(20.0, 5.5)), "bursts=20..5.5"),
        (
            "graphs=5:erdos-renyi:9,0.9,seed=3,loss=1",
            Faults(Graphs(5, "erdos-renyi:9,0.9,seed=3"), Loss(1.0)),
            "loss=1,graphs=5:erdos-renyi:9,0.9,seed=3",
        ),
    ],
)
def test_spellings(text: str, faults: Faults, spelling: str) -> None:
    assert parse_faults(text) == faults
    assert faults.spelling == spelling


def test_the_order_does_not_matter_and_repetition_does() -> None:
    assert Faults(Sleep(0.1), Loss(0.2)) == Faults(Loss(0.2), Sleep(0.1))
    assert Faults(Loss(0.2), Loss(0.2)) != Faults(Loss(0.2))
    assert bool(Faults(Loss(0.0)))
    assert not PERFECT


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", r"''.*loss=0\.3.*none"),
        ("loss", "'loss'"),
        ("loss=0.3,", "''"),
        ("los=0.3", "'los'.*bursts.*'loss'"),
        ("loss=", "'loss='.*loss=PROBABILITY"),
        ("loss=0.3,sleep", r"'loss=0\.3,sleep'.*loss=PROBABILITY"),
        ("loss=0.3;sleep=0.1", r"'loss=0\.3;sleep=0\.1'"),
    ],
)
def test_bad_spellings(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        parse_faults(text)


def test_only_kinds_of_faults() -> None:
    for kinds in ((0.3,), ("loss=0.3",), (Loss,), ([Loss(0.3)],)):
        with pytest.raises(InputError, match=r"Faults\("):
            Faults(*kinds)


def test_every_kind_has_a_form_that_it_reads() -> None:
    assert [kind.name for kind in KINDS.values()] == list(KINDS)
    for name, kind in KINDS.items():
        assert kind.usage().startswith(f"{name}=")
