"""The examples with other libraries run, and show what they say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.plays

EXAMPLES = Path(__file__).parents[2] / "examples"


def printed_by(name: str) -> str:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_team_of_pettingzoo_loses_what_our_policy_loses() -> None:
    team, ours = (line.split(":")[1].split() for line in printed_by("pettingzoo_team").splitlines())
    assert team == ours
    assert len(set(team)) == 3


@pytest.mark.slow
def test_an_agent_of_gymnasium_gains_by_watching_its_neighbours() -> None:
    alone, watching = (
        float(line.split(":")[1]) for line in printed_by("gymnasium_agent").splitlines()
    )
    assert watching < alone


@pytest.mark.slow
def test_learners_of_others_play_beside_ours() -> None:
    text = printed_by("outside_learners")
    for policy in ("dducb", "mabwiser:learner=UCB1,alpha=1", "river:learner=EpsilonGreedy"):
        assert re.search(rf"^.*{re.escape(policy)}.*\d", text, re.MULTILINE), text


@pytest.mark.slow
def test_names_of_igraph_are_names_of_agents() -> None:
    text = printed_by("igraph_network")
    assert text.startswith("('Lyon', 'Turin'")
    assert "country" in text
