"""Own sums, no communication."""

from __future__ import annotations

import numpy as np
import pytest

from coopbandits.core import InputError
from coopbandits.core.aggregate import LocalSums

from ..fleet import machine, one_view


def test_totals_are_the_own_ones() -> None:
    local = machine(LocalSums(), one_view(num_arms=3))
    assert local.estimate().time == 2.0
    for arm, reward in ((0, 1.5), (2, -1.0), (0, 0.5)):
        local.observe(arm, reward)
    sums, counts, time, num_agents, *_ = local.estimate()
    assert sums.tolist() == [2.0, 0.0, -1.0]
    assert counts.tolist() == [2.0, 0.0, 1.0]
    assert (time, num_agents) == (3.0, 1.0)


def test_silence() -> None:
    local = machine(LocalSums(), one_view())
    assert local.outgoing(1) is None
    local.receive({})
    with pytest.raises(InputError, match=r"\[1\]"):
        local.receive({1: np.zeros(4)})
