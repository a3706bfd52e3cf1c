"""A schedule is a function of seed and run alone, and puts its kinds together."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbandits.network import Network, parse_faults
from coopbandits.network.faults import DOWN, LOST, PERFECT, Chunk, directed_links

NETWORK = Network.from_spec("grid:3x4")
EVERYTHING = (
    "loss=0.1,bursts=20..5:0.8,delay=3,churn=30..5,one-way=0.2,partition=0.4@20..35,redraw=7:0.8,"
    "graphs=9:grid:3x4|path:12,sleep=0.1,speeds=2,crash=0.3@10..30:lost,join=0.2@15"
)
NETWORKS = {"graphs": Network.from_spec("grid:3x4|path:12")}


def read(text: str, seed: int, run: int, *cuts: int) -> Chunk:
    network = NETWORKS["graphs"] if "graphs" in text else NETWORK
    schedule = parse_faults(text).schedule(network, seed, run)
    chunks = [schedule.read(rounds) for rounds in cuts]
    return Chunk(*(np.concatenate(parts) for parts in zip(*chunks, strict=True)))


def same(left: Chunk, right: Chunk) -> bool:
    return all(np.array_equal(getattr(left, x), getattr(right, x)) for x in Chunk._fields)


@pytest.mark.parametrize("text", [*EVERYTHING.split(",")[:7], EVERYTHING, "none"])
def test_chunks_and_horizons_change_nothing(text: str) -> None:
    whole = read(text, 5, 2, 50)
    for cuts in ((1,) * 50, (7, 3, 40), (49, 1)):
        assert same(whole, read(text, 5, 2, *cuts))
    longer = read(text, 5, 2, 200)
    assert same(whole, Chunk(longer.acts[:50], longer.fresh[:50], longer.fate[:50]))


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**200), run=st.integers(0, 2**40), cut=st.integers(1, 29))
def test_any_seed_run_and_cut(seed: int, run: int, cut: int) -> None:
    assert same(read(EVERYTHING, seed, run, 30), read(EVERYTHING, seed, run, cut, 30 - cut))


def test_seeds_and_runs_are_unrelated() -> None:
    fates = [read("loss=0.5", seed, run, 30).fate for seed in (0, 1) for run in (0, 1)]
    for i, left in enumerate(fates):
        for right in fates[:i]:
            assert 0.4 < (left == right).mean() < 0.6


def test_types_and_shapes() -> None:
    chunk = read(EVERYTHING, 0, 0, 11)
    links = NETWORKS["graphs"].adjacency.nnz
    assert [chunk.acts.dtype, chunk.fresh.dtype, chunk.fate.dtype] == ["u1", "u1", "i2"]
    assert (chunk.acts.shape, chunk.fresh.shape, chunk.fate.shape) == (
        (11, 12), (11, 12), (11, links),
    )  # fmt: skip


def test_a_perfect_network() -> None:
    chunk = PERFECT.schedule(NETWORK, 0, 0).read(5)
    assert chunk.acts.all()
    assert not chunk.fresh.any()
    assert not chunk.fate.any()


def test_fates_know_who_acts() -> None:
    """Nothing is sent by one who does not act; what reaches such a one is lost, late or not."""
    faults, rounds = "delay=3,sleep=0.3", 400
    chunk, late = read(faults, 8, 0, rounds), read("delay=3", 8, 0, rounds).fate
    acts = read("sleep=0.3", 8, 0, rounds + 3).acts.astype(bool)
    assert np.array_equal(chunk.acts, acts[:rounds])
    links = directed_links(NETWORK)
    sends = acts[:rounds][:, links.senders]
    hears = acts[np.arange(rounds)[:, None] + late, links.receivers]
    assert np.array_equal(chunk.fate, np.where(~sends, DOWN, np.where(~hears, LOST, late)))


def test_one_agent_has_no_links() -> None:
    schedule = parse_faults("loss=0.5,churn=5..5,one-way=1,partition=0.5@2").schedule(
        Network.from_spec("path:1"), 0, 0
    )
    assert schedule.read(4).fate.shape == (4, 0)
