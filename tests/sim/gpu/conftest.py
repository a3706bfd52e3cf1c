"""All tests here play on the emulated build, and say so where there is no compiler for it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from coopbandits.sim.gpu.backend import VARIABLE, backend


@pytest.fixture(autouse=True)
def _emulated(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if shutil.which("c++") is None and shutil.which("g++") is None:
        pytest.skip("there is no C++ compiler to build kernels with")
    monkeypatch.setenv(VARIABLE, "emulated")
    backend.cache_clear()
    yield
    backend.cache_clear()
