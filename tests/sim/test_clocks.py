"""Clocks as data: spelling, rates, gaps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from coopbandits import InputError, parse_clocks
from coopbandits.core.draws import uniforms, words
from coopbandits.sim.clocks import PoissonClocks, RegularClocks, exponential

KEYS = words(7, np.arange(2000, dtype=np.uint64))


@pytest.mark.parametrize(
    ("text", "clocks"),
    [
        ("none", None),
        ("poisson", PoissonClocks()),
        ("poisson:ratio=10", PoissonClocks(ratio=10)),
        ("regular:ratio=5,gossip=0.5,latency=2", RegularClocks(5, None, 0.5, 2)),
        ("regular:rates=1..2.5..10", RegularClocks(rates=(1, 2.5, 10))),
    ],
)
def test_spellings(text: str, clocks: PoissonClocks | RegularClocks | None) -> None:
    assert parse_clocks(text) == clocks
    assert clocks is None or clocks.spelling == text


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("poison", "'poison'.*poisson, regular.*'poisson'"),
        ("poisson:speed=3", "poisson 'speed'"),
        ("poisson:ratio", "'ratio'.*poisson.*name=value"),
        ("poisson:ratio=0.5", r"ratio.* 0\.5.* 1\b"),
        ("poisson:gossip=0", r"gossip.* 0\b"),
        ("poisson:latency=-1", r"latency.* -1\b"),
        ("poisson:rates=3", r"rates.* 3\b.*1\.\.2\.\.2"),
        ("poisson:rates=3..0", r"rates.* 0\b"),
        ("poisson:rates=3..1,ratio=2", "ratio.*rates"),
    ],
)
def test_bad_spellings(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        parse_clocks(text)


def test_rates_that_add_up_to_too_much() -> None:
    rates = PoissonClocks(rates=(1e308, 1.5e308)).pull_rates(KEYS[:2])
    np.testing.assert_allclose(rates, [0.8, 1.2])


@pytest.mark.parametrize(
    "more", [{"rates": (1e-300, 1e308)}, {"gossip": 5e-324, "rates": (1.0, 9.0)}]
)
def test_clocks_that_never_tick_are_refused(more: Any) -> None:
    with pytest.raises(InputError, match=r"clocks.*1e\+308|clocks.*5e-324"):
        PoissonClocks(**more).pull_rates(KEYS[:2])


def test_rates_are_one_on_average_and_as_unequal_as_asked_for() -> None:
    assert np.array_equal(PoissonClocks().pull_rates(KEYS), np.ones(KEYS.size))
    rates = PoissonClocks(ratio=10).pull_rates(KEYS)
    assert rates.mean() == pytest.approx(1.0)
    assert 9.5 < rates.max() / rates.min() <= 10
    logs = np.log10(rates / rates.min())
    assert abs(logs.mean() - 0.5) < 5 / np.sqrt(12 * rates.size)
    assert RegularClocks(rates=(1, 2, 3)).pull_rates(KEYS[:3]).tolist() == [0.5, 1.0, 1.5]
    with pytest.raises(InputError, match=r"rates.* 2 .* 3 agents"):
        RegularClocks(rates=(1, 2)).pull_rates(KEYS[:3])


def test_gaps() -> None:
    drawn = uniforms(KEYS).tolist()
    for first in (True, False):
        gaps = np.array([PoissonClocks().gap(u, first=first) for u in drawn])
        assert abs(gaps.mean() - 1.0) < 5 / np.sqrt(gaps.size)
        assert abs((gaps > 1.0).mean() - np.exp(-1)) < 5 * 0.49 / np.sqrt(gaps.size)
    assert RegularClocks().gap(0.3, first=True) == 0.3
    assert RegularClocks().gap(0.3, first=False) == 1.0
    assert exponential(np.exp(-2.0)) == pytest.approx(2.0)
