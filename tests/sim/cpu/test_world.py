"""What kernels are told: spans between recorded rounds, blocks, and how totals come together."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbandits import DDUCB, BernoulliBandit, GaussianBandit, Network, Problem
from coopbandits.sim.cpu.world import make_tally, make_world, span, write_record
from coopbandits.sim.record import Record, Task
from coopbandits.sim.setup import Setup
from coopbandits.sim.tapes import DECISIONS, REWARDS, agent_keys


def task(
    rounds: list[int],
    agents: int = 4,
    keep: str = "",
    problem: Problem = GaussianBandit([1.0, 0.0, 0.5]),  # noqa: B008  problems do not change
) -> Task:
    network = Network.from_spec(f"cycle:{agents}")
    setup = Setup(problem, network, rounds[-1], np.array(rounds), seed=3, keep=keep)
    return Task(setup, DDUCB())


@settings(deadline=None)
@given(
    rounds=st.sets(st.integers(1, 60), max_size=20), cuts=st.sets(st.integers(1, 59), max_size=10)
)
def test_spans_put_every_round_before_its_own_record(rounds: set[int], cuts: set[int]) -> None:
    """Walk as a kernel does: round t belongs to the first recorded round at or after it."""
    recorded = sorted(rounds | {60})
    played = task(recorded)
    slots = []
    edges = [0, *sorted(cuts), 60]
    for first, last in pairwise(edges):
        part = span(played, first, last - first)
        assert (part.first, part.rounds) == (first, last - first)
        assert part.stops[-1] >= part.rounds
        at = 0
        for r in range(1, part.rounds + 1):
            slots.append(part.slot + at)
            if r == part.stops[at]:
                at += 1
    assert slots == np.searchsorted(recorded, np.arange(1, 61)).tolist()


@pytest.mark.parametrize(
    ("agents", "block", "blocks"), [(3, 32, 1), (32, 32, 1), (33, 32, 2), (20_000, 40, 500)]
)
def test_blocks_cover_all_agents(agents: int, block: int, blocks: int) -> None:
    world = make_world(task([1], agents), range(1))
    assert (world.block, world.num_blocks) == (block, blocks)
    assert block * (blocks - 1) < agents <= block * blocks


def test_keys_are_those_of_the_runs() -> None:
    world = make_world(task([5]), range(2, 5))
    for row, run in enumerate(range(2, 5)):
        assert np.array_equal(world.reward_keys[row], agent_keys(3, REWARDS, run, 4))
        assert np.array_equal(world.decision_keys[row], agent_keys(3, DECISIONS, run, 4))


def test_the_problem_tells_its_variate() -> None:
    assert make_world(task([5]), range(1)).is_normal
    bernoulli = task([5], problem=BernoulliBandit([0.5, 0.1]))
    assert not make_world(bernoulli, range(1)).is_normal


@pytest.mark.parametrize(("keep", "pulls"), [("", 0), ("agents", 0), ("arms", 9)])
def test_totals_add_up_over_blocks_and_rounds(keep: str, pulls: int) -> None:
    played = task([2, 5, 9], agents=70, keep=keep)
    tally = make_tally(played, make_world(played, range(2)))
    assert tally.counts.shape == (2, 3, 3, 3)
    assert tally.arms.shape == (2, 70, pulls)
    tally.counts[:] = np.arange(54).reshape(tally.counts.shape)
    tally.rewards[:] = np.arange(18).reshape(tally.rewards.shape)
    tally.arms[:] = 2
    record = Record.empty(played, 2)
    write_record(tally, record)
    for run in range(2):
        for at in range(3):
            kept = slice(0, at + 1)
            expected = tally.counts[run, :, kept].sum(axis=(0, 1))
            assert record.arm_counts[run, at].tolist() == expected.tolist()
            assert record.rewards[run, at] == tally.rewards[run, :, kept].sum()
    assert record.arms.shape == (2, 70, pulls)
    assert (record.arms == 2).all()
