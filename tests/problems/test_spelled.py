"""Changes as the command line and experiment files write them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import coopbandits as cb
from coopbandits.problems import changed, make_problem

P = cb.BernoulliBandit([0.5, 0.4])

SPELLED: list[tuple[str, Any, cb.Problem]] = [
    ("drift", "switch_every=2e3", cb.drift(P, switch_every=2000)),
    ("drift", {"switch_every": 2000}, cb.drift(P, switch_every=2000)),
    ("drift", "steps=5:0.1,0.2/9:0.3x2", cb.drift(P, {5: [0.1, 0.2], 9: [0.3, 0.3]})),
    ("drift", {"steps": {"5": [0.1, 0.2]}}, cb.drift(P, {5: [0.1, 0.2]})),
    ("drift", "steps=5:0.1,0.2,period=9", cb.drift(P, {5: [0.1, 0.2]}, period=9)),
    ("drift", "ramp=0..1e2:0.1,0.2,pieces=5", cb.drift(P, ramp=(0, 100, [0.1, 0.2]), pieces=5)),
    ("sites", "spread=0.1,seed=3", cb.sites(P, 0.1, seed=3)),
    ("sites", "groups=0.1,0.2/0.2,0.1", cb.sites(P, groups=[[0.1, 0.2], [0.2, 0.1]])),
    ("sites", "groups=0.1,0.2,of=0,0", cb.sites(P, groups=[[0.1, 0.2]], of=[0, 0])),
    ("sites", "groups=0.1,0.2,of=anna:0", cb.sites(P, groups=[[0.1, 0.2]], of={"anna": 0})),
    ("subsets", "0,1/1", cb.subsets(P, [[0, 1], [1]])),
    ("subsets", "allowed=0/1", cb.subsets(P, [[0], [1]])),
    ("subsets", [[0], [1]], cb.subsets(P, [[0], [1]])),
    ("subsets", {"allowed": {"anna": [1]}}, cb.subsets(P, {"anna": [1]})),
]


@pytest.mark.parametrize(("name", "given_as", "world"), SPELLED, ids=[str(s[1]) for s in SPELLED])
def test_what_is_written_is_what_python_makes(name: str, given_as: Any, world: cb.World) -> None:
    assert changed(P, name, given_as) == world


def test_a_table_with_changes_is_a_world() -> None:
    table = {"kind": "bernoulli", "means": [0.5, 0.4], "subsets": "0,1/1",
             "drift": "switch_every=50", "sites": {"spread": 0.1}}  # fmt: skip
    made = make_problem("mine", table)
    assert made == cb.subsets(cb.drift(cb.sites(P, 0.1), switch_every=50), [[0, 1], [1]])


@pytest.mark.parametrize(
    ("name", "given_as", "words"),
    [
        ("drift", "swich_every=5", "'switch_every'"),
        ("drift", "switch_every", "has no value"),
        ("drift", "switch_every=5,switch_every=6", "given twice"),
        ("drift", "steps=5", "has no means"),
        ("drift", "ramp=5:0.1,0.2", "has no two rounds"),
        ("drift", "switch_every=often", "switch_every is 'often'"),
        ("drift", 5, "drift is 5"),
        ("drift", {"speed": 5}, "'speed'"),
        ("sites", "groups=0.1,0.2,of=anna:0,ben", "every agent"),
        ("subsets", "0,9", "arms are 0 to 1"),
        ("subsets", 5, "subsets is 5"),
    ],
)
def test_a_slip_gets_one_sentence(name: str, given_as: Any, words: str) -> None:
    with pytest.raises(cb.InputError, match=words) as refusal:
        changed(P, name, given_as)
    assert "\n" not in str(refusal.value)


@settings(max_examples=40)
@given(st.sampled_from(["drift", "sites", "subsets"]), st.text(max_size=30))
def test_any_text_is_read_or_refused_in_one_sentence(name: str, text: str) -> None:
    try:
        changed(P, name, text)
    except cb.InputError as refusal:
        assert str(refusal)


@given(
    st.lists(st.integers(1, 10_000), min_size=1, max_size=4, unique=True),
    st.lists(st.floats(0, 1), min_size=2, max_size=2),
)
def test_steps_are_read_as_they_are_written(rounds: list[int], means: list[float]) -> None:
    text = "/".join(f"{start}:{means[0]!r},{means[1]!r}" for start in sorted(rounds))
    steps = [(start, means) for start in sorted(rounds)]
    assert changed(P, "drift", f"steps={text}") == cb.drift(P, steps)
