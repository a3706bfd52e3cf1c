from __future__ import annotations

import sys

import pytest

from coopbandits.cli import main

from .calls import Call, Outcome, plain_terminal


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Run the command line in this process, on a wide terminal without colours."""
    plain_terminal(monkeypatch)

    def run(*arguments: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["coopbandits", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        assert isinstance(stop.value.code, int | None)
        captured = capsys.readouterr()
        return Outcome(stop.value.code or 0, captured.out, captured.err)

    return run
