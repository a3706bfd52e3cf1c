"""The kernels once more with the compiler's checks for undefined behaviour."""

from __future__ import annotations

import numpy as np
import pytest

import coopbandits as cb
from coopbandits.core.registry import parse_policy
from coopbandits.sim.cpu import staged
from coopbandits.sim.gpu import emulated, rounds
from coopbandits.sim.gpu.backend import Launch, backend

pytestmark = pytest.mark.plays

COMPLAINT = "runtime error"


@pytest.fixture(autouse=True)
def _checked(monkeypatch: pytest.MonkeyPatch) -> None:
    checked = (*emulated.OPTIONS, "-fsanitize=undefined")
    monkeypatch.setattr(emulated, "OPTIONS", checked)
    try:
        backend().compile("KERNEL(nothing, 1, 1, (int)) {}")
    except (RuntimeError, OSError) as error:
        pytest.skip(f"the C++ compiler has no undefined-behaviour sanitizer: {error}")


@pytest.mark.covering(2)
@pytest.mark.parametrize(
    ("text", "is_large"),
    [
        ("dducb", False),
        ("dducb", True),
        ("dec-ts", False),
        ("dec-ts", True),
        ("independent-ts", False),
    ],
)
def test_nothing_is_undefined(
    text: str, is_large: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(staged, "is_dense_cheaper", lambda *_: not is_large)
    monkeypatch.setattr(rounds, "MOST_THREADS", 0 if is_large else 1024)
    network = cb.Network.from_spec("regular:3,38,seed=1")
    problem = cb.sites(cb.GaussianBandit([0.5, 1.0, 0.8]), spread=0.3)
    cb.simulate(problem, network, parse_policy(text), 60, 2, engine="gpu", keep="arms")
    assert COMPLAINT not in capfd.readouterr().err


def test_what_is_undefined_is_found(capfd: pytest.CaptureFixture[str]) -> None:
    there = backend()
    kernels = there.compile("KERNEL(overflow, 1, 1, (int* at)) { *at = *at + 2147483647; }")
    kernels.launch("overflow", Launch(1, 1, 1), there.upload(np.ones(1, np.int32)))
    assert COMPLAINT in capfd.readouterr().err
