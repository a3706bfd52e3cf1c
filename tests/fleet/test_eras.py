"""A bandit that changes its policy keeps all that it learned, and counts each pull once."""

from __future__ import annotations

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
    for agent in range(4):
        fleet.take(agent, after)
        fleet.play(agent, "button", 0.5)
        fleet.step()
    settle(fleet, 4)
    assert not any(fleet.node(agent).refusals for agent in range(4))


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


@pytest.mark.parametrize("era", [0, 1], ids=["into the era", "within the era"])
@pytest.mark.parametrize("pulls_before", [0, 3])
def test_what_a_restored_backup_lacks_stays_with_others(era: int, pulls_before: int) -> None:
    """An older journal, put back once its agent has entered a later era and told of it."""
    eras = [button(*each) for each in ((FLOOD, 0), (LEDGER, 1), (LEDGER, 2))]
    fleet = Many(nx.cycle_graph(3), declared=eras[era])
    for step in range(12):
        fleet.play(step % 3, "button", 0.5)
        fleet.step()
    settle(fleet, 3)
    old = bytes(fleet.disks[0].data)
    for _ in range(5):
        fleet.play(0, "button", 1.0)
    settle(fleet, 3)
    for agent in range(3):
        fleet.take(agent, eras[era + 1])
    settle(fleet, 3)
    fleet.crash(0)
    fleet.disks[0].data = bytearray(old)
    fleet.declared[0] = eras[era] if pulls_before else eras[era + 1]
    fleet.now += 5.0
    fleet.restart(0)
    for _ in range(pulls_before):
        fleet.play(0, "button", 0.25)
        fleet.step()
    fleet.take(0, eras[era + 1])
    for _ in range(3):
        fleet.play(0, "button", 0.25)
        fleet.step()
    settle(fleet, 3)


def test_arms_come_go_and_are_purged_between_eras() -> None:
    all_, left = ["red", "green", "blue"], ["blue", "green"]
    fleet = Many(nx.path_graph(3), declared=button(FLOOD, 0, arms=all_))
    for step in range(24):
        fleet.play(step % 3, "button", (step % 5) / 5)
        fleet.step()
    settle(fleet, 3)
    sums = means(fleet, 1)
    steps = [
        button(LEDGER, 1, arms=[*left, "red"]),
        button(LEDGER, 1, arms=left),
        button(LEDGER, 1, arms=left, purged=["red"]),
        button(FLOOD, 2, arms=[*left, "white"], purged=["red"]),
        button(TREE, 3, arms=left, purged=["red"]),
    ]
    for at, step in enumerate(steps):
        for agent in range(3):
            fleet.take(agent, step)
            fleet.step()
        red = fleet.counts.pop(("button", "red"), 0)
        fleet.counts["button", "red" if at < 2 else None] += red  # type: ignore[index]
        settle(fleet, 3)
    for agent in range(3):
        after = means(fleet, agent)
        assert {arm: after[arm] for arm in left} == pytest.approx({arm: sums[arm] for arm in left})
        assert not fleet.node(agent).refusals


def means(fleet: Many, agent: int) -> dict[str, float]:
    """Return the mean rewards of arms, as an agent sees them."""
    arms = fleet.of(agent).export()["bandits"]["button"]["arms"]
    return {arm["arm"]: arm["mean"] for arm in arms if arm["mean"] is not None}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("flooded-totals*lin-ts:disjoint=true", "ledger-sums*lin-ts:disjoint=true"),
        ("tree-sums*lin-ts:disjoint=true", "flooded-totals*lin-ts:disjoint=true"),
        ("flood-ts:sigma=estimate", "ledger-ts:sigma=estimate"),
        ("tree-ts:sigma=estimate", "flood-ts:sigma=estimate"),
        ("flood-ts:lazy=0.3", "ledger-ts"),
        ("ledger-ts", "flood-ts:lazy=0.3"),
    ],
)
def test_everything_that_is_added_up_is_carried(before: str, after: str) -> None:
    """All registers of both eras together are those of a fleet that never changed its policy."""
    more: dict[str, Any] = {}
    if "lin-ts" in before:
        more["features"] = {"hour": [0, 24], "country": ["PT", "ES"]}
    changed, same = (Many(nx.path_graph(3), declared=button(before, 0, **more)) for _ in range(2))
    for step in range(30):
        if step == 15:
            for agent in range(3):
                changed.take(agent, button(after, 1, **more))
        for fleet in (changed, same):
            context = {"hour": step % 24, "country": ("PT", "ES")[step % 2]} if more else None
            pull(fleet, step % 3, step % 2, (step % 7) / 7, context)
            fleet.step()
    changed.steps(300)
    same.steps(300)
    for agent in range(3):
        if "lazy" in before + after:  # up to three in ten pulls of a flood are not told yet
            assert 0.7 * 30 <= sum(changed.learned(agent).values()) <= 30
            assert own_pulls(changed, agent) == 10
        else:
            found, wanted = (told(fleet, agent) for fleet in (changed, same))
            assert found == pytest.approx(wanted, rel=1e-9)


def pull(fleet: Many, agent: int, arm: int, reward: float, context: Any) -> None:
    """Let an application pull a certain arm."""
    served = fleet.of(agent).bandit("button")
    choice = served.choose([served.names[arm]], context=context)
    fleet.shells[agent].settle()
    fleet.reward(agent, "button", choice.ticket, reward)


def told(fleet: Many, agent: int) -> list[float]:
    """Return all that an agent's estimate has."""
    replica = fleet.node(agent).bandits.replicas[fleet.declared[agent]["button"].number]
    found = replica.agent.estimate()
    outer = found.extra.outer.ravel().tolist() if len(found.extra) else []
    return [*found.sums.ravel().tolist(), *found.counts.tolist(), *found.squares, *outer]


@pytest.mark.parametrize("policies", [(FLOOD, TREE), (TREE, FLOOD), (TREE, TREE)], ids="-".join)
def test_pulls_of_earlier_eras_go_on_to_age(policies: tuple[str, str]) -> None:
    """What was pulled in any era counts as much as in a fleet that never changed its policy."""
    eras = [button(policy, era, half_life="60s") for era, policy in enumerate(policies)]
    changed = Many(nx.path_graph(3), declared=eras[0])
    same = Many(nx.path_graph(3), declared=button(FLOOD, 0, half_life="60s"))
    for fleet in (changed, same):
        fleet.step()
    for step in range(30):
        if step == 15:
            for agent in range(3):
                changed.take(agent, eras[1])
        for fleet in (changed, same):
            pull(fleet, step % 3, step % 2, (step % 7) / 7, None)
            for _ in range(4):
                fleet.step(seconds=0.5)
    for fleet in (changed, same):
        fleet.steps(200)
    for agent in range(3):
        assert told(changed, agent) == pytest.approx(told(same, agent), rel=0.005)


def test_an_agent_without_its_disk_keeps_what_it_had_told() -> None:
    eras = [button(*each) for each in ((FLOOD, 0), (LEDGER, 1), (FLOOD, 2))]
    fleet = Many(nx.path_graph(3), declared=eras[0])
    for step in range(12):
        fleet.play(step % 3, "button", 0.5)
        fleet.step()
    settle(fleet, 3)
    for agent in range(3):
        fleet.take(agent, eras[1])
    settle(fleet, 3)
    fleet.crash(0)
    fleet.disks[0] = type(fleet.disks[0])()
    fleet.identity_words[0] = 77 << 20
    fleet.now += 5.0
    fleet.declared[0] = eras[1]
    fleet.restart(0)
    settle(fleet, 3)
    for agent in range(3):
        fleet.play(agent, "button", 0.5)
        fleet.take(agent, eras[2])
    settle(fleet, 3)
