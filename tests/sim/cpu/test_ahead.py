"""Another process files a choice, but only where this one compiles as well."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from numba.core import event

from coopbandits import UCB, Index
from coopbandits.sim.cpu import ahead


@dataclass(frozen=True)
class Own(UCB):
    """An index of somebody else."""

    name: ClassVar[str] = "own"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    """All processes that were started."""
    found: list[subprocess.Popen[bytes]] = []

    def start(*words: Any, **settings: Any) -> subprocess.Popen[bytes]:
        found.append(real(*words, **settings))
        return found[-1]

    real = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", start)
    yield found
    assert all(process.returncode is not None for process in found), "one is left behind"


def compile_something(index: Index) -> None:
    with ahead.filed_meanwhile(index):
        for _ in range(2):
            with event.trigger_event("numba:compile"):
                pass


def test_a_process_files_the_choice_once(started: list[subprocess.Popen[bytes]]) -> None:
    compile_something(UCB(constant=3.0))
    (process,) = started
    assert process.returncode == 0


def test_nothing_is_started_where_all_is_in_the_cache(
    started: list[subprocess.Popen[bytes]],
) -> None:
    with ahead.filed_meanwhile(UCB()):
        pass
    assert started == []


def test_an_index_that_another_process_may_not_find(started: list[subprocess.Popen[bytes]]) -> None:
    compile_something(Own())
    assert started == []


def test_a_python_that_cannot_be_started(
    started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    compile_something(UCB())
    assert started == []


def test_a_process_that_hangs_is_ended(
    started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ahead, "PROGRAM", "import time; time.sleep(60)")
    monkeypatch.setattr(ahead, "PATIENCE", 0.1)
    compile_something(UCB())
    (process,) = started
    assert process.returncode < 0


def test_a_failure_inside_is_passed_on(started: list[subprocess.Popen[bytes]]) -> None:
    with pytest.raises(ZeroDivisionError), ahead.filed_meanwhile(UCB()):
        raise ZeroDivisionError
    assert started == []
