"""`coopbandits models`: the other models of the literature, listed and played."""

from __future__ import annotations

from importlib import import_module

import pytest

from coopbandits.literature.models import MODELS

from .calls import Call, refused

SMALL = ("--agents", "3", "--horizon", "60", "--runs", "2")


def test_it_lists_all(call: Call) -> None:
    outcome = call("models")
    assert [line.split()[0] for line in outcome.out.splitlines()] == MODELS.names()
    assert all(line.endswith(").") for line in outcome.out.splitlines())


@pytest.mark.parametrize("name", MODELS.names())
def test_each_is_played_by_one_line(call: Call, name: str) -> None:
    """What was lost or found, and what was sent in messages, values and bits."""
    outcome = call("models", name, *SMALL)
    assert (outcome.status, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0] == name
    assert "regret of all" in lines[2] or "runs that named the best arm" in lines[2]
    said = [line.split("  ")[0] for line in lines[-3:]]
    assert said == ["messages", "values sent", "bits sent"]
    silent = ("rho-rand", "mc-top-m", "tdfs", "rand-top-m", "selfish", "global-feedback")
    assert (lines[-1].split()[-1] == "0") == (name in silent)


def test_settings_are_spelled_as_everywhere(call: Call) -> None:
    silent = call("models", "pull-or-tell:eagerness=0", "--runs", "1", "--horizon", "50")
    assert silent.out.splitlines()[0] == "pull-or-tell:eagerness=0"
    assert silent.out.splitlines()[-1].split() == ["bits", "sent", "0"]
    assert "'tdfs'" in refused(call("models", "tdsf"))
    wrong = refused(call("models", "one-observer:agent=1"))
    assert "model one-observer 'agent'" in wrong


def test_reconstructions_say_so(call: Call) -> None:
    """Where a paper's text was not at hand, the list says that the rule is ours."""
    said = [line.split()[0] for line in call("models").out.splitlines() if "reconstruction" in line]
    assert said == ["ducb4", "de3", "majority-vote", "global-feedback", "collaborate"]
    for name in said:
        module = import_module(MODELS.find(name)[0].__module__)
        assert "Reconstruction, from the abstract" in (module.__doc__ or "")
