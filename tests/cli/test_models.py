"""`coopbandits models`: the other models of the literature, listed and played."""

from __future__ import annotations

import pytest

from coopbandits.literature.catalogue import MODELS

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
    talks = name in ("many-exchanges", "one-exchange", "pull-or-tell", "one-observer")
    assert (lines[-1].split()[-1] != "0") == talks


def test_settings_are_spelled_as_everywhere(call: Call) -> None:
    silent = call("models", "pull-or-tell:eagerness=0", "--runs", "1", "--horizon", "50")
    assert silent.out.splitlines()[0] == "pull-or-tell:eagerness=0"
    assert silent.out.splitlines()[-1].split() == ["bits", "sent", "0"]
    assert "did you mean 'tdfs'?" in refused(call("models", "tdsf"))
    wrong = refused(call("models", "one-observer:agent=1"))
    assert wrong.startswith("error: unknown setting of model one-observer 'agent'")
