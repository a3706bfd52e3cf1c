"""`coopbandits demo` as it is typed; the agents themselves are in tests/demo."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from coopbandits.demo import play as demo
from coopbandits.demo.story import Story
from coopbandits.fleet.local.agents import FleetError
from coopbandits.fleet.local.applications import Verdict
from coopbandits.fleet.local.run import Beside

from .calls import Call, refused


def verdict(own: float) -> Verdict:
    """Return the verdict on one reward of 1, of which agents have so much."""
    account = np.array([1.0, 1.0])
    return Verdict(account, own * account, {}, np.ones(2), "", 1, 1)


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[BaseException | demo.Outcome]:
    """Let demos end at once, in the way that is put here."""
    ways: list[BaseException | demo.Outcome] = []

    def play(seconds: float, tell: demo.Print, beside: Beside | None) -> demo.Outcome:
        tell(f"{seconds:g} s, {'with' if beside else 'without'} a page")
        way = ways.pop()
        if isinstance(way, BaseException):
            raise way
        return way

    monkeypatch.setattr(demo, "play", play)
    return ways


def test_it_says_what_it_found_and_what_it_wrote(
    call: Call, tmp_path: Path, ended: list[BaseException | demo.Outcome]
) -> None:
    ended.append(demo.Outcome(Story(), verdict(1.0), False))
    outcome = call("demo", "--seconds", "1.5min", "--out", str(tmp_path / "new"), "--no-browser")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.startswith("90 s, with a page\n")
    assert "Conservation holds: 1 rewards counted once" in outcome.out
    assert outcome.out.endswith(f"written: {tmp_path / 'new' / 'measurements.csv'}\n")


@pytest.mark.parametrize(
    ("way", "status"),
    [
        (demo.Outcome(Story(), verdict(0.5), False), 1),
        (demo.Outcome(Story(), verdict(1.0), True), 130),
        (FleetError("agent a00 ended with status 1"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_its_status_tells_how_it_ended(
    call: Call,
    tmp_path: Path,
    ended: list[BaseException | demo.Outcome],
    way: BaseException | demo.Outcome,
    status: int,
) -> None:
    ended.append(way)
    outcome = call("demo", "--out", str(tmp_path))
    assert outcome.status == status
    assert "Traceback" not in outcome.err


@pytest.mark.parametrize("seconds", ["3s", "2000s"])
def test_bad_durations(call: Call, seconds: str) -> None:
    assert "15 to 600 seconds" in refused(call("demo", "--seconds", seconds))


def test_no_duration(call: Call) -> None:
    assert "got 'soon'" in refused(call("demo", "--seconds", "soon"))
