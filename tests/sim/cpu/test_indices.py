"""Compiled quantiles agree with their source."""

from __future__ import annotations

import pytest

from coopbandits.core.index import quantile
from coopbandits.sim.cpu import indices


@pytest.mark.parametrize("tail", [1.0, 0.5, 0.3, 1e-3, 1e-17, 1e-200, 1e-300])
def test_upper_quantile(tail: float) -> None:
    assert indices.upper_quantile(tail) == pytest.approx(quantile.upper_quantile(tail), rel=1e-14)
