"""Agents sleep, dawdle, crash and join as told."""

from __future__ import annotations

import numpy as np
import pytest

from coopbandits.core.errors import InputError
from coopbandits.network import Network, parse_faults
from coopbandits.network.faults import Chunk

NETWORK = Network.from_spec("cycle:40")


def read(text: str, rounds: int = 2000) -> Chunk:
    return parse_faults(text).schedule(NETWORK, 3, 0).read(rounds)


def test_agents_sleep_independently() -> None:
    acts = read("sleep=0.2").acts
    assert abs(acts.mean() - 0.8) < 5 * np.sqrt(0.16 / acts.size)
    for left, right in ((acts[1:], acts[:-1]), (acts[:, 1:], acts[:, :-1])):
        assert abs(np.corrcoef(left.ravel(), right.ravel())[0, 1]) < 5 / np.sqrt(left.size)


def test_speeds_are_even_and_unequal() -> None:
    acts = read("speeds=10").acts
    speeds = acts.mean(axis=0)
    assert speeds.min() > 0.1 - 1e-3
    assert speeds.max() <= 1.0
    assert speeds.max() / speeds.min() > 5  # of 40 drawn
    logs = -np.log10(speeds)  # uniform on [0, 1]
    assert abs(logs.mean() - 0.5) < 5 / np.sqrt(12 * 40)
    for agent, speed in enumerate(speeds):
        gaps = np.diff(np.flatnonzero(acts[:, agent]))
        assert gaps.max() - gaps.min() <= 1
        assert gaps.min() <= 1 / speed <= gaps.max() + 0.02
    assert read("speeds=1").acts.all()


def test_a_crash_and_the_return() -> None:
    acts = read("crash=0.25@100..150").acts
    assert acts[:99].all()  # rounds 1 to 99
    assert acts[149:].all()  # from round 150 on
    assert (acts[99:149].sum(axis=1) == 30).all()
    assert (acts[99:149] == acts[99]).all()
    for_ever = read("crash=0.25@100").acts
    assert np.array_equal(for_ever[:149], acts[:149])
    assert (for_ever[99:].sum(axis=1) == 30).all()


def test_those_whose_state_is_lost_return_fresh() -> None:
    found = read("crash=0.25@100..150:lost")
    assert np.array_equal(found.acts, read("crash=0.25@100..150").acts)
    assert np.flatnonzero(found.fresh.any(axis=1)).tolist() == [149]
    assert np.array_equal(found.fresh[149], 1 - found.acts[148])
    assert not read("crash=0.25@100..150").fresh.any()
    asleep = read("crash=0.25@100..150:lost,sleep=1")
    assert not asleep.acts.any()
    assert np.array_equal(asleep.fresh, found.fresh)


def test_some_join_late() -> None:
    found = read("join=0.5@20", rounds=60)
    assert (found.acts[:19].sum(axis=1) == 20).all()
    assert found.acts[19:].all()
    assert not found.fresh.any()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("sleep=1.1", r"sleep.* 1\.1\b"),
        ("speeds=0.5", r"speeds.* 0\.5\b"),
        ("crash=0.5", r"'crash=0\.5'.*crash=SHARE@START\[\.\.STOP\]"),
        ("crash=0.5@9..4", r"crash.* 4\b.* 10\b"),
        ("crash=0.5@9..12:gone", "crash 'gone'.*kept, lost"),
        ("crash=0.5@9:lost", "agents that never return"),
        ("join=0.5@0", r"join.* 0\b"),
        ("join=0.5@1.5", r"join.* 1\.5\b"),
    ],
)
def test_bad_settings(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        parse_faults(text)
