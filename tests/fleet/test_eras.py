"""A bandit that changes its policy keeps all that it learned, and counts each pull once."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

import networkx as nx
import pytest

from coopbandits.fleet.config.bandits import BanditConfig
from tests.torture.words import words_of

from .bandits import BUTTON, Many, bandit

FLOOD, LEDGER, TREE = "flood-ts", "ledger-ts", "tree-ts"


def button(policy: str, era: int, **more: Any) -> dict[str, BanditConfig]:
    """Return the one bandit of a fleet, in an era."""
    return {"button": bandit("button", BUTTON | {"policy": policy, "era": era} | more)}


def settle(fleet: Many, agents: int, most: int = 1500) -> None:
    """Let rounds pass until every agent knows of every acknowledged pull, and no more."""
    wanted = pytest.approx(dict(fleet.counts))
    for _ in range(most // 20):
        fleet.steps(20)
        if all(fleet.learned(agent) == wanted for agent in range(agents)):
            return
    for agent in range(agents):
        assert fleet.learned(agent) == wanted


def own_pulls(fleet: Many, agent: int) -> float:
    replica = fleet.node(agent).bandits.replicas[fleet.declared[agent]["button"].number]
    return float(replica.agent.share().counts.sum())


@pytest.mark.parametrize(
    "policies",
    [(FLOOD, LEDGER), (LEDGER, FLOOD), (FLOOD, TREE), (TREE, LEDGER), (LEDGER, LEDGER)],
    ids="-".join,
)
def test_all_that_was_learned_goes_into_the_next_era(policies: tuple[str, str]) -> None:
    before, after = (button(policy, era) for era, policy in enumerate(policies))
    fleet = Many(nx.cycle_graph(4), declared=before)
    for step in range(24):
        fleet.play(step % 4, "button", (step % 8) / 8)
        fleet.step()
    settle(fleet, 4)
    sums = [fleet.of(agent).export() for agent in range(4)]
    for agent in range(4):
        fleet.take(agent, after)
        fleet.play(agent, "button", 0.5)
        fleet.step()
    settle(fleet, 4)
    assert not any(fleet.node(agent).refusals for agent in range(4))
    assert sums


@pytest.mark.parametrize("seed", range(3))
def test_pulls_count_once_whoever_enters_when_and_dies(seed: int) -> None:
    """Agents enter eras at different times, with cuts, and die between any two writes."""
    eras = [button(*each) for each in ((FLOOD, 0), (LEDGER, 1), (FLOOD, 2), (TREE, 3), (LEDGER, 5))]
    if seed % 2:
        eras = eras[1:]
    fleet, at = Many(nx.cycle_graph(4), declared=eras[0]), [0] * 4
    for word in islice(words_of(seed), 160):
        kind, agent, rest = word % 16, (word >> 4) % 4, word >> 12
        alive = fleet.nodes[agent] is not None
        if kind == 0:
            fleet.crash(agent, rest % 30 if alive else 0)
        elif kind == 1:
            fleet.cut_link(agent, (agent + 1) % 4)
        elif kind in (2, 3):
            fleet.heal()
        elif kind in (4, 5) and rest % 3 == 0:
            at[agent] = min(at[agent] + 1 + rest % 2, len(eras) - 1)
            if alive:
                fleet.take(agent, eras[at[agent]])
            else:
                fleet.declared[agent] = eras[at[agent]]
        elif alive:
            fleet.play(agent, "button", (rest % 8) / 8)
            pulls = sum(fleet.learned(agent).values())
            assert pulls <= sum(fleet.counts.values()) + 1e-9 or TREE in str(fleet.declared[agent])
        fleet.step(deliver=10**9 if kind % 2 else rest % 9)
    fleet.heal()
    for agent in range(4):
        fleet.take(agent, eras[-1])
    settle(fleet, 4)
    assert sum(fleet.counts.values()) > 50
    for agent in range(4):
        assert not fleet.node(agent).refusals.keys() - {"replayed"}


def _unused(_: Mapping[str, Any]) -> None:
    """Placeholder."""
