"""What `make bench-gpu` prints, on cases that take no time."""

from __future__ import annotations

import pytest

from benchmarks import gpu
from benchmarks.gpu import Case


def test_tables(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    small = (Case("stages", "dducb", "cycle:5", 60, 2), Case("rounds", "dec-ts", "cycle:5", 40, 2))
    monkeypatch.setattr(gpu, "EQUAL", small)
    monkeypatch.setattr(gpu, "TIMED", small)
    gpu.main(["equal", "timed", "stages"])
    printed = capsys.readouterr().out
    assert "device: emulated" in printed
    assert "rounds" not in [line.split("  ")[0] for line in printed.splitlines()]
    (row,) = [line for line in printed.splitlines() if line.startswith("stages  ") and "e-" in line]
    assert row.split()[1:3] == ["600", "0"]
    assert "agent-rounds/s" in printed


def test_what_sanitizers_watch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu, "CHECKED", (Case("stages", "dducb", "cycle:5", 30, 2),))
    gpu.main(["checked"])
    assert capsys.readouterr().out == "played 1 families in 2 precisions\n"
