"""A bandit that changes its policy keeps all that it learned, and counts each pull once."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice
from typing import Any

import networkx as nx
import pytest

from coopbandits.core.errors import InputError
from coopbandits.fleet.config import ClusterConfig, DocumentConfig
from coopbandits.fleet.config.bandits import BanditConfig
from coopbandits.fleet.document.content import carry_problems, read_document
from coopbandits.fleet.document.seal import Signed
from coopbandits.fleet.storage.records import read_records
from tests.torture.words import words_of

from .bandits import BUTTON, CLUSTER, Many, bandit
from .document.made import public, signed

FLOOD, LEDGER, TREE = "flood-ts", "ledger-ts", "tree-ts"


def button(
    policy: str, era: int, cluster: ClusterConfig = CLUSTER, **more: Any
) -> dict[str, BanditConfig]:
    """Return the one bandit of a fleet, in an era."""
    return {"button": bandit("button", BUTTON | {"policy": policy, "era": era} | more, cluster)}


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
        button(FLOOD, 2, arms=[*left, "white"], purged=["red"]),
        button(LEDGER, 3, arms=left, purged=["red"]),
        button(TREE, 4, arms=left, purged=["red"]),
    ]
    for at, declared in enumerate(steps):
        for agent in range(3):
            fleet.take(agent, declared)
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
    more: dict[str, Any] = {"sigma": 1.0}  # of which estimates need squares
    if "lin-ts" in before:
        more["features"] = {"hour": [0, 24], "country": ["PT", "ES"]}
    changed, same = (Many(nx.path_graph(3), declared=button(before, 0, **more)) for _ in range(2))
    for step in range(30):
        if step == 15:
            for agent in range(3):
                changed.take(agent, button(after, 1, **more))
        for fleet in (changed, same):
            context = (
                {"hour": step % 24, "country": ("PT", "ES")[step % 2]}
                if "features" in more
                else None
            )
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


def document(version: int, policy: str, era: int, **more: Any) -> Signed:
    table = BUTTON | {"policy": policy, "era": era} | more
    return signed(version, bandits={"button": table})


def documented(agents: int, **more: Any) -> Many:
    graph = nx.path_graph(agents)
    fleet = Many(graph, document=DocumentConfig((public(1),)), declared=button(FLOOD, 0), **more)
    for agent in range(agents):
        fleet.of(agent)
    fleet.steps(20)
    return fleet


def boundaries(data: bytes, begin: int) -> list[int]:
    """Return where records end in a journal, from a byte on."""
    found = read_records(data)
    return [record.at for record in found.records if record.at >= begin] + [found.end]


@pytest.mark.parametrize("place", range(6))
def test_a_document_takes_effect_once_wherever_its_agent_dies(place: int) -> None:
    """Killed between the document, the declaration and what follows, on both sides of a write."""
    fleet = documented(2)
    for step in range(8):
        fleet.play(step % 2, "button", 0.5)
    settle(fleet, 2)
    begin = len(fleet.disks[0].data)
    fleet.shells[0].adopt(document(1, LEDGER, 1))
    fleet.shells[0].settle()
    ends = boundaries(bytes(fleet.disks[0].data), begin)
    cut = ends[min(place // 2, len(ends) - 1)] + place % 2 * 7
    fleet.disks[0].data = bytearray(fleet.disks[0].data[:cut])
    fleet.crash(0)
    fleet.restart(0)
    fleet.of(0)
    if fleet.node(0).settings.documents.version == 0:
        fleet.shells[0].adopt(document(1, LEDGER, 1))
    fleet.play(0, "button", 1.0)
    settle(fleet, 2)
    assert [fleet.of(agent).bandits()[0].era for agent in range(2)] == [1, 1]
    assert fleet.of(1).health()["bandits"]["button"]["policy"] == LEDGER


def test_an_agent_that_was_away_during_several_eras_joins_the_latest() -> None:
    fleet = documented(3)
    for step in range(9):
        fleet.play(step % 3, "button", 0.5)
    settle(fleet, 3)
    fleet.play(2, "button", 1.0)  # which nobody else knows of
    fleet.crash(2)
    for version, (policy, era) in enumerate([(LEDGER, 1), (FLOOD, 2), (LEDGER, 4)], start=1):
        fleet.shells[version % 2].adopt(document(version, policy, era))
        for _ in range(40):
            fleet.step()
        fleet.play(version % 2, "button", 0.25)
    fleet.restart(2)
    fleet.of(2)
    settle(fleet, 3)
    assert [fleet.of(agent).bandits()[0].era for agent in range(3)] == [4] * 3


@pytest.mark.parametrize(
    ("policy", "era", "sentence"),
    [
        ("ledger-ts", 0, "has learned with 'flood-ts'; restore that value, or set era = 1"),
        ("gossip-ts", 1, "does not keep each agent's own totals apart"),
        ("flooded-totals*lin-ts:disjoint=true", 1, "adds up arm-sums, and"),
        ("flood-ts:spread=0.1", 1, "counts the pulls of other sites in part"),
    ],
)
def test_what_cannot_be_carried_over_is_refused(policy: str, era: int, sentence: str) -> None:
    fleet = documented(1)
    more = {"features": {"hour": [0, 24]}} if "lin-ts" in policy else {}
    fleet.play(0, "button", 0.5)
    with pytest.raises(InputError, match=re.escape(sentence)):
        fleet.shells[0].adopt(document(1, policy, era, **more))
    old, new = (
        read_document(each.content)
        for each in (document(1, FLOOD, 0), document(2, policy, era, **more))
    )
    (found,) = carry_problems(old, new)
    assert sentence in found
    assert fleet.of(0).bandits()[0].policy == FLOOD
    fleet.play(0, "button", 0.5)


def test_an_era_does_not_go_back() -> None:
    fleet = documented(1)
    fleet.shells[0].adopt(document(1, LEDGER, 2))
    with pytest.raises(InputError, match="era is 1, but the bandit is in era 2"):
        fleet.shells[0].adopt(document(2, LEDGER, 1))


def test_a_policy_that_was_implied_is_kept_when_the_fleet_grows(
    caplog: pytest.LogCaptureFixture,
) -> None:
    grown = replace(CLUSTER, max_agents=1500)
    fleet = Many(nx.path_graph(2), declared={"button": bandit("button", BUTTON)})
    for step in range(6):
        fleet.play(step % 2, "button", 0.5)
    settle(fleet, 2)
    fleet.cluster = grown
    for agent in range(2):
        fleet.crash(agent)
        fleet.declared[agent] = {"button": bandit("button", BUTTON, grown)}
        assert fleet.declared[agent]["button"].policy == LEDGER
    fleet.heal()
    assert fleet.of(0).bandits()[0].policy == FLOOD
    assert "bandit keeps the policy with which it has learned" in caplog.text
    assert "bandit=button policy=flood-ts new=ledger-ts" in caplog.text
    settle(fleet, 2)
    for agent in range(2):
        fleet.take(agent, button(LEDGER, 1, cluster=grown))
    settle(fleet, 2)
    for agent in range(2):  # and a file without a policy keeps that
        fleet.crash(agent)
        fleet.declared[agent] = {"button": bandit("button", BUTTON)}
    fleet.cluster = CLUSTER
    fleet.heal()
    assert [fleet.of(agent).bandits()[0].era for agent in range(2)] == [1, 1]
    settle(fleet, 2)


@pytest.mark.parametrize("rewards", [0, 1])
def test_a_new_agent_of_a_grown_fleet_takes_its_policy(rewards: int) -> None:
    """Its file implies another one; it follows its neighbours unless it has chosen before."""
    grown = replace(CLUSTER, max_agents=1500)
    fleet = Many(nx.path_graph(3), declared=button(FLOOD, 0, cluster=grown))
    for step in range(6):
        fleet.play(step % 2, "button", 0.5)
    settle(fleet, 2)
    fleet.crash(2)
    fleet.disks[2] = type(fleet.disks[2])()
    fleet.declared[2] = {"button": bandit("button", BUTTON, grown)}
    fleet.now += 5.0
    fleet.restart(2)
    assert fleet.of(2).bandits()[0].policy == LEDGER
    for _ in range(rewards):
        fleet.play(2, "button", 0.5)
    if rewards:
        fleet.steps(20)
        assert fleet.node(2).refusals["bandit"]
        assert "'flood-ts' there, 'ledger-ts' here" in str(fleet.node(2).events.notes)
        return
    settle(fleet, 3)
    assert fleet.of(2).bandits()[0].policy == FLOOD
    fleet.play(2, "button", 0.5)
    settle(fleet, 3)
    fleet.crash(2)
    fleet.restart(2)
    settle(fleet, 3)


def test_what_a_revoked_agent_told_leaves_the_base_too() -> None:
    fleet = Many(nx.path_graph(4), declared=button(FLOOD, 0))
    for agent in range(4):
        fleet.play(agent, "button", 0.5)
    settle(fleet, 4)
    for agent in range(4):
        fleet.take(agent, button(LEDGER, 1))
    settle(fleet, 4)
    for agent in (0, 1, 2):
        fleet.node(agent).revoke(frozenset({"n3"}), fleet.now)
    fleet.steps(200)
    for agent in (0, 1, 2):
        assert sum(fleet.learned(agent).values()) == pytest.approx(3.0)
        fleet.crash(agent)
        fleet.restart(agent)
        assert sum(fleet.learned(agent).values()) == pytest.approx(3.0)


def test_agents_with_many_bandits_enter_one_after_the_other_and_refuse_nothing() -> None:
    def many(policy: str, era: int) -> dict[str, BanditConfig]:
        table = BUTTON | {"policy": policy, "era": era}
        return {name: bandit(name, table) for name in map("page-{}".format, range(15))}

    fleet = Many(nx.path_graph(2), declared=many(FLOOD, 0))
    fleet.steps(40)
    for agent in range(2):
        fleet.take(agent, many(LEDGER, 1))
        fleet.steps(40)
        fleet.cut_link(0, 1)
        fleet.heal()
        fleet.steps(40)
    fleet.play(0, "page-7", 1.0)
    settle(fleet, 2)
    assert not fleet.node(0).refusals
    assert not fleet.node(1).refusals


def test_an_agent_that_takes_the_fleets_policy_keeps_nothing_of_another() -> None:
    """What it has heard of a flood is not counted beside the ledger, nor carried on."""
    fleet = Many(nx.path_graph(3), declared=button(FLOOD, 0))
    fleet.crash(1)
    fleet.declared[1] = {"button": bandit("button", BUTTON)}
    fleet.restart(1)
    fleet.play(0, "button", 0.5)
    settle(fleet, 2)
    for agent in (0, 2):
        fleet.crash(agent)
        fleet.disks[agent] = type(fleet.disks[agent])()
        fleet.declared[agent] = button(LEDGER, 0)
    fleet.counts.clear()
    fleet.now += 5.0
    fleet.heal()
    for agent in (0, 2, 2):
        fleet.play(agent, "button", 1.0)
    settle(fleet, 3)
    fleet.crash(1)
    fleet.restart(1)
    settle(fleet, 3)
    (replica,) = fleet.node(1).bandits.replicas.values()
    assert replica.declared.shared["policy"] == LEDGER
    assert replica.base is None
    assert len(fleet.node(1).sessions.by_number) == 1


def test_a_greeting_of_another_era_changes_nothing() -> None:
    """A neighbour alone cannot move an agent: nothing is exchanged, counted or refused."""
    fleet = Many(nx.path_graph(2), declared=button(FLOOD, 0))
    fleet.play(0, "button", 0.5)
    settle(fleet, 2)
    fleet.take(1, button(LEDGER, 7))
    fleet.play(1, "button", 1.0)
    fleet.play(0, "button", 1.0)
    fleet.steps(60)
    assert fleet.of(0).bandits()[0].policy == FLOOD
    assert [fleet.of(agent).bandits()[0].era for agent in range(2)] == [0, 7]
    assert [sum(fleet.learned(agent).values()) for agent in range(2)] == [2, 2]
    assert not fleet.node(0).refusals
    assert not fleet.node(1).refusals
