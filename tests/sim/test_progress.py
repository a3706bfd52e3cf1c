"""A bar for somebody who waits at a terminal, and a line a minute in a log."""

from __future__ import annotations

import pytest

from coopbandits import GaussianBandit, IndependentUCB, Network, simulate
from coopbandits.sim import progress
from coopbandits.sim.progress import Progress, TerminalBar, duration, note


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard error as pytest makes it is no terminal; nothing may say otherwise."""
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)


def work(show: bool | None) -> bool:
    """Do some work; tell whether a bar was drawn meanwhile."""
    with Progress(10, show) as bar:
        for _ in range(10):
            bar.advance(1)
        started = bar.started
    assert isinstance(bar.bar, TerminalBar)
    assert bar.bar.bar.tasks[0].completed == 10
    assert not bar.bar.bar.live.is_started
    return started


@pytest.mark.usefixtures("terminal", "impatient")
def test_drawn_on_a_terminal_when_it_takes_long(capsys: pytest.CaptureFixture[str]) -> None:
    assert work(None)
    captured = capsys.readouterr()
    assert "simulating" in captured.err
    assert captured.out == ""


@pytest.mark.usefixtures("terminal")
def test_not_drawn_when_it_is_quick(capsys: pytest.CaptureFixture[str]) -> None:
    assert not work(None)
    assert capsys.readouterr().err == ""


def test_a_log_has_a_line_now_and_then(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [100.0]
    monkeypatch.setattr("coopbandits.sim.progress.time.monotonic", lambda: now[0])
    with Progress(10, None, "cells") as bar:
        for _ in range(10):
            now[0] += 25.0
            bar.advance(1)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        "note: cells: 30 %, about 2 min 55 s left",
        "note: cells: 60 %, about 1 min 40 s left",
        "note: cells: 90 %, about 25 s left",
    ]


@pytest.mark.usefixtures("impatient")
def test_a_log_has_nothing_of_what_takes_less_than_a_minute(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Progress(10, None) as bar:
        bar.advance(5)
        assert not bar.started
    assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("terminal", "impatient")
def test_never_when_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert not work(False)
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("terminal")
def test_at_once_when_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert work(True)
    assert "simulating" in capsys.readouterr().err


@pytest.mark.usefixtures("terminal", "impatient")
def test_cleared_when_stopped_by_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), Progress(10, None) as bar:
        bar.advance(1)
        raise KeyboardInterrupt
    assert isinstance(bar.bar, TerminalBar)
    assert not bar.bar.bar.live.is_started
    assert capsys.readouterr().err.endswith("\x1b[2K")  # the line was erased


@pytest.mark.parametrize("show", [None, False])
@pytest.mark.usefixtures("impatient")
def test_simulate_writes_nothing_into_a_file(
    show: bool | None, capsys: pytest.CaptureFixture[str]
) -> None:
    problem, network = GaussianBandit([1.0, 0.0]), Network.from_spec("path:3")
    for engine in ("cpu", "reference"):
        simulate(problem, network, IndependentUCB(), 20, engine=engine, progress=show)
        assert capsys.readouterr() == ("", "")


@pytest.mark.usefixtures("terminal")
def test_simulate_shows_a_bar_when_told_to(capsys: pytest.CaptureFixture[str]) -> None:
    problem, network = GaussianBandit([1.0, 0.0]), Network.from_spec("path:3")
    simulate(problem, network, IndependentUCB(), 20, progress=True)
    assert "simulating" in capsys.readouterr().err


def test_notes_go_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    note("something to know")
    assert capsys.readouterr() == ("", "note: something to know\n")


@pytest.mark.parametrize("text", ["weights [own] and [/own]", "word " * 60 + "end"])
def test_notes_are_printed_as_they_are(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Brackets are no markup, and whoever reads a log finds the sentence on one line."""
    note(text)
    assert capsys.readouterr().err == f"note: {text}\n"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "1 s"), (59.0, "59 s"), (200.0, "3 min 20 s"), (7500.0, "2 h 5 min")],
)
def test_times_to_wait(seconds: float, text: str) -> None:
    assert duration(seconds) == text
