from __future__ import annotations

import re
from functools import partial
from pathlib import Path

import pytest

from coopbandits import Result
from coopbandits.experiments import paper

from .calls import Call, refused


@pytest.fixture
def tiny_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the paper's experiment have few rounds and an oracle of its own."""
    oracle = {"cycle-100": {"dducb": (650.0, 1e6)}, "grid-100": {"dducb": (1.0, 0.1)}}
    tiny = partial(paper.reproduce, horizon=40, oracle=oracle)
    monkeypatch.setattr(paper, "reproduce", tiny)
    # Drawing is tested elsewhere and takes longer than all the rest.
    monkeypatch.setattr(paper, "write_report", lambda found, out: ["report.html", "paper.svg"])


def test_reproduce(call: Call, tmp_path: Path, tiny_paper: None) -> None:
    command = ("reproduce", "--figure", "cycle-100", "--runs", "2", "--out", str(tmp_path))
    outcome = call(*command, "--check", "--seed", "3", "--threads", "1")
    assert outcome.status == 0, outcome.err
    assert "regret of the network after 40 rounds, 2 runs, 95 % intervals" in outcome.out
    assert "1 of 1 final regrets agree" in outcome.out
    assert outcome.out.endswith(f"written to {tmp_path}: report.html, paper.svg\n")
    assert "other settings" in refused(call(*command))


def test_reproduce_says_when_numbers_differ(call: Call, tmp_path: Path, tiny_paper: None) -> None:
    settings = ("--figure", "grid-100", "--runs", "2", "--out", str(tmp_path))
    outcome = call("reproduce", *settings, "--check")
    assert outcome.status == 1
    assert "0 of 1 final regrets agree" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--figure", "cylce-100"), "'cylce-100'.*'cycle-100'"),
        (("--runs", "0"), "runs is 0"),
        (("--figure", "grid-225", "--check"), "grid-225"),
    ],
)
def test_bad_reproductions(
    call: Call, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    out = tmp_path / "out"
    assert re.search(message, refused(call("reproduce", *arguments, "--out", str(out))))
    assert not out.exists()


def test_reproduce_interrupted(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_paper: None
) -> None:
    def stop(*arguments: object, **keywords: object) -> Result:
        raise KeyboardInterrupt

    monkeypatch.setattr("coopbandits.experiments.paper.play.simulate", stop)
    outcome = call("reproduce", "--figure", "cycle-100", "--out", str(tmp_path))
    assert (outcome.status, outcome.out) == (130, "")
    assert f"0 of 12 cells are in {tmp_path}" in outcome.err
    monkeypatch.setattr(paper, "reproduce", stop)  # while something else is done than playing
    outcome = call("reproduce", "--out", str(tmp_path))
    assert outcome.status == 130
    assert str(tmp_path) in outcome.err
