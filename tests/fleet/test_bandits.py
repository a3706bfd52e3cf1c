"""Several bandits in one agent: exact, exactly once, each for itself, at no cost without news."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import networkx as nx
import pytest

from coopbandits.core.errors import InputError
from coopbandits.fleet.config.bandits import derived_number
from coopbandits.fleet.config.consistency import declaration_problems
from coopbandits.fleet.protocol.node import Node
from coopbandits.fleet.service import (
    ExpiredTicketError,
    RateLimitError,
    UnavailableError,
    UnknownTicketError,
)
from coopbandits.fleet.service.metrics import CATALOGUE
from coopbandits.fleet.storage.disk import DiskError
from coopbandits.page.feed import Feed
from tests.torture.words import words_of

from .bandits import BANNER, BUTTON, CLUSTER, Many, bandit, both


def test_every_bandit_learns_from_all_agents_and_only_its_own_rewards() -> None:
    fleet = Many(nx.cycle_graph(4))
    for step in range(40):
        fleet.play(step % 4, "button", 1.0)
        fleet.play((step + 1) % 4, "banner", 0.25)
        fleet.step()
    fleet.steps(60)
    for agent in range(4):
        assert fleet.learned(agent) == pytest.approx(dict(fleet.counts))
    assert sum(fleet.counts.values()) == 80


@pytest.mark.covering(1)
@pytest.mark.plays
@pytest.mark.parametrize("seed", range(4))
def test_totals_are_exact_through_crashes_cuts_and_other_arms(seed: int) -> None:
    fleet, steps = Many(nx.cycle_graph(4)), words_of(seed)
    wide = both(arms=["red", "green", "blue"])
    menus = [both(), wide, both(arms=["blue", "green"])] if seed % 2 else [both()]
    for at, word in enumerate(islice(steps, 120)):
        kind, agent, rest = word % 16, (word >> 4) % 4, word >> 12
        alive = fleet.nodes[agent] is not None
        if kind == 0:
            fleet.crash(agent, rest % 30 if alive else 0)
        elif kind == 1:
            fleet.cut_link(agent, (agent + 1) % 4)
        elif kind in (2, 3):
            fleet.heal()
        elif alive and kind == 4:
            fleet.take(agent, menus[at * len(menus) // 120])
        elif alive:
            fleet.play(agent, ("button", "banner")[rest % 2], (rest % 8) / 8)
        fleet.step(deliver=10**9 if kind % 2 else rest % 9)
    fleet.heal()
    for agent in range(4):
        fleet.take(agent, menus[-1])
    fleet.steps(80)
    for agent in range(4):
        assert fleet.learned(agent) == pytest.approx(dict(fleet.counts))
        assert "forged" not in fleet.node(agent).refusals
    assert sum(fleet.counts.values()) > 50


def test_a_bandit_without_news_sends_ends_and_writes_nothing() -> None:
    fleet = Many(nx.path_graph(2))
    fleet.play(0, "button", 1.0)
    fleet.steps(80)
    nodes = [fleet.node(agent) for agent in range(2)]
    sizes = [len(disk.data) for disk in fleet.disks]
    rounds = [node.bandits.rounds for node in nodes]
    sent = [dict(next(iter(node.peers.values())).frames) for node in nodes]
    fleet.steps(40)
    assert [len(disk.data) for disk in fleet.disks] == sizes
    assert [node.bandits.rounds for node in nodes] == rounds
    assert [next(iter(node.peers.values())).frames["sent"] for node in nodes] == [
        each["sent"] for each in sent
    ]
    fleet.play(1, "banner", 0.5)
    fleet.steps(5)
    assert fleet.learned(0) == pytest.approx(dict(fleet.counts))
    quiet = fleet.declared[0]["button"].number
    node = nodes[0]
    assert isinstance(node, Node)
    assert node.bandits.replicas[quiet].rounds < node.bandits.rounds


def test_rounds_of_all_bandits_are_one_write_and_told_only_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fleet = Many(nx.path_graph(2))
    fleet.steps(5)
    node, disk = fleet.node(0), fleet.disks[0]
    for agent, name in [(0, "button"), (0, "banner"), (1, "button")]:
        fleet.play(agent, name, 0.5)
    writes: list[bytes] = []

    def full(data: bytes) -> None:
        writes.append(data)
        raise DiskError("no space")

    fleet.now += 1.0
    fleet.queue.clear()
    with monkeypatch.context() as patch:
        patch.setattr(disk, "append", full)
        fleet.shells[0].tick()
    assert len(writes) == 1
    assert node.trouble == "no space"
    assert not fleet.queue, "nothing is sent that is not on disk"
    fleet.crash(0)
    fleet.restart(0)
    fleet.steps(60)
    for agent in range(2):
        assert fleet.learned(agent) == pytest.approx(dict(fleet.counts))


def test_pulls_are_forgotten_by_the_clock_without_news() -> None:
    declared = {"slow": bandit("slow", BANNER | {"half_life": "60s"}), **both()}
    fleet = Many(nx.path_graph(2), declared=declared)
    for _ in range(20):
        fleet.play(0, "slow", 0.5)
        fleet.step()
    fleet.steps(20)
    before = sum(pulls for (name, _), pulls in fleet.learned(1).items() if name == "slow")
    for _ in range(60):
        fleet.step(seconds=1.0)
    after = sum(pulls for (name, _), pulls in fleet.learned(1).items() if name == "slow")
    assert before > 15.0
    assert after == pytest.approx(0.5 * before, rel=0.05)


def test_signed_entries_hold_in_every_order_of_arms(certificates: Path) -> None:
    fleet = Many(nx.path_graph(3), certificates=certificates)
    fleet.declared[2] = both(arms=["green", "red"])
    fleet.crash(2)
    fleet.disks[2] = type(fleet.disks[2])()
    fleet.restart(2)
    for step in range(12):
        fleet.play(step % 3, "button", 1.0)
        fleet.steps(10)
    fleet.steps(60)
    for agent in range(3):
        assert fleet.learned(agent) == pytest.approx(dict(fleet.counts))
        assert "forged" not in fleet.node(agent).refusals


# Arms come and go


def test_an_arm_added_while_agents_run_is_explored_and_one_removed_is_not() -> None:
    fleet = Many(nx.cycle_graph(3))
    for step in range(30):
        fleet.play(step % 3, "button", 1.0)
        fleet.step()
    late = fleet.of(0).bandit("button").choose(["red"])
    for agent in range(3):
        fleet.take(agent, both(arms=["green", "blue"]))
        fleet.steps(3)
    played = {fleet.play(step % 3, "button", 0.5) for step in range(60)}
    assert played == {"green", "blue"}
    fleet.reward(0, "button", late.ticket, 1.0)
    fleet.steps(60)
    for agent in range(3):
        assert fleet.learned(agent) == pytest.approx(dict(fleet.counts))
        assert [arm.arm for arm in fleet.of(agent).bandit("button").arms()] == ["green", "blue"]
    with pytest.raises(InputError, match="'red'"):
        fleet.of(1).bandit("button").choose(["red"])


@pytest.mark.covering(2)
@pytest.mark.parametrize("policy", ["flood-ts", "tree-ts", "ledger-ts", "flood-ts:lazy=0.2"])
def test_half_of_a_fleet_on_new_declarations_keeps_talking(policy: str) -> None:
    old = {"button": bandit("button", BANNER | {"policy": policy})}
    new = {"button": bandit("button", BANNER | {"policy": policy, "arms": ["d", "c", "a"]})}
    fleet = Many(nx.path_graph(4), declared=old)
    fleet.steps(10)
    for agent in (1, 3):  # between them is one that knows nothing of d
        fleet.take(agent, new)
    for step in range(60):
        fleet.play(step % 4, "button", 0.5)
        fleet.step()
    assert fleet.counts["button", "d"] > 0
    fleet.steps(150)
    for agent in range(4):
        found = {key: pulls for key, pulls in fleet.learned(agent).items() if key[1]}
        known = {key: n for key, n in fleet.counts.items() if agent in (1, 3) or key[1] != "d"}
        if "lazy" not in policy:
            assert found == pytest.approx(known), agent
    for agent in (0, 2):
        fleet.take(agent, new)
    fleet.play(0, "button", 0.5)
    fleet.steps(60)
    if "lazy" not in policy:
        assert fleet.learned(0) == pytest.approx(dict(fleet.counts))


def test_a_ticket_of_another_bandit_is_told_whose_it_is() -> None:
    fleet = Many(nx.path_graph(2))
    service = fleet.of(0)
    ticket = service.bandit("banner").choose().ticket
    with pytest.raises(UnknownTicketError, match=r"'banner'.* 'button'.*/bandits/banner/observe"):
        service.bandit("button").observe(ticket, 1.0)
    for other in (fleet.of(1).bandit("banner").choose().ticket, "?"):
        with pytest.raises(UnknownTicketError, match="is no ticket of agent n0"):
            service.bandit("button").observe(other, 1.0)
    fleet.reward(0, "banner", ticket, 1.0)


def test_arms_and_totals_survive_restarts_with_any_declaration() -> None:
    fleet = Many(nx.path_graph(2))
    for step in range(20):
        fleet.play(step % 2, "button", 1.0)
        fleet.play(step % 2, "banner", 1.0)
        fleet.step()
    fleet.steps(20)
    ticket = fleet.of(0).bandit("banner").choose().ticket
    fleet.shells[0].settle()
    fleet.crash(0)
    fleet.declared[0] = {"button": both(arms=["blue", "red"])["button"]}  # banner is no more
    fleet.restart(0)
    assert fleet.learned(0) == pytest.approx(dict(fleet.counts))
    with pytest.raises(InputError, match=r"banner.*retired"):
        fleet.of(0).bandit("banner").choose()
    fleet.reward(0, "banner", ticket, 1.0)
    fleet.steps(20)
    assert fleet.learned(1) == pytest.approx(dict(fleet.counts))
    fleet.crash(0)
    fleet.declared[0] = both()
    fleet.restart(0)
    fleet.play(0, "banner", 1.0)
    fleet.steps(20)
    for agent in range(2):
        assert fleet.learned(agent) == pytest.approx(dict(fleet.counts))


def test_an_arm_added_again_under_its_name_goes_on_and_under_another_id_begins_anew() -> None:
    fleet = Many(nx.path_graph(2))
    for _ in range(10):
        fleet.play(0, "button", 1.0)
    pulls = fleet.counts["button", "red"]
    fleet.take(0, both(arms=["green", "blue"]))
    fleet.take(0, both())
    assert fleet.learned(0)["button", "red"] == pulls
    renamed = both(arms=[{"name": "crimson", "id": "red"}, "green"])
    fleet.take(0, renamed)
    assert fleet.learned(0)["button", "crimson"] == pulls
    fleet.take(0, both(arms=[{"name": "red", "id": "red-2"}, "green"]))
    (red, _) = fleet.of(0).bandit("button").arms()
    assert (red.arm, red.own_pulls) == ("red", 0)


def test_tickets_belong_to_their_bandit() -> None:
    fleet = Many(nx.path_graph(2))
    button, banner = (fleet.of(0).bandit(name) for name in ("button", "banner"))
    ticket = button.choose().ticket
    with pytest.raises(UnknownTicketError):
        banner.observe(ticket, 1.0)
    assert not button.observe(ticket, 1.0).duplicate
    assert button.observe(ticket, 1.0).duplicate
    fleet.now += 4000.0
    late = banner.choose().ticket
    fleet.now += 4000.0
    fleet.shells[0].beat()
    with pytest.raises(ExpiredTicketError):
        banner.observe(late, 1.0)


# Mistakes


def test_bandits_that_are_not_the_same_are_not_mixed_and_both_ends_say_so() -> None:
    def refusal(other: dict[str, object], name: str = "button") -> str:
        fleet = Many(nx.path_graph(2))
        fleet.crash(1)
        fleet.disks[1] = type(fleet.disks[1])()
        fleet.declared[1] = {name: bandit(name, other), "banner": both()["banner"]}
        fleet.restart(1)
        fleet.steps(5)
        fleet.play(1, name, 1.0)
        fleet.play(1, "banner", 1.0)
        fleet.steps(5)
        assert fleet.learned(0) == {
            ("banner", key[1]): 1.0 for key in fleet.counts if key[0] == "banner"
        }
        return " ".join(note.text for note in fleet.node(0).events.since(0))

    told = {"arms": ["red", "green"], "reward_range": [0.0, 1.0]}
    assert "settings of bandit button" in refusal(told | {"reward_range": [0.0, 2.0]})
    assert "one number" in refusal(told | {"number": 7})
    fleet = Many(nx.path_graph(2), declared={"one": bandit("one", told | {"number": 7})})
    fleet.crash(1)
    fleet.disks[1] = type(fleet.disks[1])()
    fleet.declared[1] = {"two": bandit("two", told | {"number": 7})}
    fleet.restart(1)
    fleet.steps(5)
    said = " ".join(note.text for note in fleet.node(0).events.since(0))
    assert "'two', and here it is 'one'" in said


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -1, 0, 1.5, 2**32, 10**400, "7"])
def test_numbers_that_are_none_are_refused(number: Any) -> None:
    with pytest.raises(InputError, match=r"number.* 1 to 65535"):
        bandit("button", BUTTON | {"number": number})


def test_a_large_number_is_the_one_that_the_name_makes() -> None:
    own = {"button": bandit("button", BUTTON | {"number": derived_number("button")})}
    assert not list(declaration_problems(own))
    other = {"button": bandit("button", BUTTON | {"number": derived_number("banner")})}
    (problem,) = declaration_problems(other)
    assert problem.startswith("[bandits.button] number")
    assert "1 to 65535" in problem


def test_declarations_that_contradict_what_was_learned_change_nothing() -> None:
    fleet = Many(nx.path_graph(2))
    fleet.play(0, "button", 1.0)
    wrong = both(reward_range=[0.0, 5.0]) | {"banner": bandit("banner", BANNER | {"number": 5})}
    with pytest.raises(InputError) as caught:
        fleet.take(0, wrong)
    first, second = str(caught.value).splitlines()
    assert re.search(r"\[bandits.button\] reward_range.*\[0\.0, 5\.0\].*\[0\.0, 1\.0\]", first)
    advised = int(second.partition("set number = ")[2].partition(",")[0])
    fleet.take(0, both() | {"banner": bandit("banner", BANNER | {"number": advised})})
    fleet.play(0, "button", 1.0)
    fleet.crash(0)
    fleet.declared[0] = wrong
    with pytest.raises(InputError, match=r"reward_range.*\[0\.0, 5\.0\].*\[0\.0, 1\.0\]"):
        fleet.restart(0)


def test_pinned_frozen_and_minimum_shares() -> None:
    fleet = Many(nx.path_graph(2))
    fleet.take(0, both(pinned="green"))
    assert {fleet.play(0, "button", 0.0) for _ in range(10)} == {"green"}
    fleet.take(0, both(arms=["red", {"name": "green", "frozen": True}]))
    assert {fleet.play(0, "button", 0.0) for _ in range(10)} == {"red"}
    with pytest.raises(InputError, match="green"):
        fleet.of(0).bandit("button").choose(["green"])
    fleet.take(0, both(minimum_share=0.2))
    service = fleet.of(0).bandit("button")
    for _ in range(300):  # red never pays, green always does
        choice = service.choose()
        service.observe(choice.ticket, float(choice.arm == "green"))
    estimates = {arm.arm: arm.own_pulls for arm in service.arms()}
    assert 35 <= estimates["red"] <= 110


def test_an_arm_that_states_a_share_of_nothing_has_none() -> None:
    arms = ["red", {"name": "green", "minimum_share": 0.0}, {"name": "blue", "minimum_share": 0.3}]
    button = both(arms=arms, minimum_share=0.1)["button"]
    assert [arm.minimum_share for arm in button.arms] == [0.1, 0.0, 0.3]


def test_a_page_shows_one_bandit_and_names_all() -> None:
    fleet = Many(nx.path_graph(2))
    first, shown = fleet.of(0).state(), fleet.of(0).bandit("banner").state()
    assert (first.bandits, [arm.arm for arm in first.arms]) == (
        ["button", "banner"],
        ["red", "green"],
    )
    assert (shown.bandits, [arm.arm for arm in shown.arms]) == (
        ["banner", "button"],
        ["a", "b", "c"],
    )
    feed = Feed("agent", fleet.now)
    feed.update(first, fleet.now)
    feed.step(fleet.now)
    fleet.take(0, both(arms=["red", "green", "blue"]))
    feed.update(fleet.of(0).state(), fleet.now + 1)
    feed.step(fleet.now + 1)
    assert feed.scene.arms == ("red", "green", "blue")
    assert feed.scene.bandits == ("button", "banner")


def test_metrics_of_many_bandits_have_few_labels() -> None:
    table = {"arms": ["x", "y"], "reward_range": [0.0, 1.0]}
    fleet = Many(nx.path_graph(2), declared={f"b{at}": bandit(f"b{at}", table) for at in range(60)})
    for at in range(60):
        fleet.play(0, f"b{at}", 1.0)
    metrics = {metric.name: metric.samples for metric in fleet.of(0).metrics()}
    assert list(metrics) == list(CATALOGUE)
    rewards = {labels["bandit"]: value for labels, value in metrics["bandit_rewards_total"]}
    assert (len(rewards), rewards["b0"], rewards["(others)"]) == (51, 1.0, 10.0)
    arms = {tuple(labels.values()): value for labels, value in metrics["arm_rewards_total"]}
    assert len(arms) == 50 * 2 + 1
    assert arms["b0", "x"] + arms["b0", "y"] == 1.0
    assert arms["(others)", "(others)"] == 10.0
    assert sum(arms.values()) == 60.0


def test_another_bandit_renames_no_series() -> None:
    """What one bandit is measured by stays when others come, and many arms of one displace none."""
    one = both(arms=["red", "green"])
    fleet = Many(nx.path_graph(2), declared={"button": one["button"]})
    fleet.play(0, "button", 1.0)

    def series() -> dict[tuple[str, ...], float]:
        samples = {metric.name: metric.samples for metric in fleet.of(0).metrics()}
        return {
            (name, *labels.values()): value
            for name in ("bandit_rewards_total", "arm_choices_total", "arm_own_reward", "arm_mean")
            for labels, value in samples[name]
        }

    before = series()
    assert ("bandit_rewards_total", "button") in before
    wide = bandit("banner", BANNER | {"arms": [f"arm-{k}" for k in range(60)]})
    fleet.take(0, one | {"banner": wide})
    after = series()
    assert before.items() <= after.items()
    assert len([key for key in after if key[:2] == ("arm_choices_total", "banner")]) == 51
    assert ("arm_choices_total", "banner", "(others)") in after


def test_declarations_on_a_full_disk_are_not_acknowledged() -> None:
    """What cannot be written is not acknowledged; all of it is, once it is in a snapshot."""
    fleet = Many(nx.path_graph(2), declared=both(arms=["red", "green", "blue"]))
    fleet.steps(5)
    for agent in range(2):
        fleet.play(agent, "button", 1.0)
    fleet.take(0, both(arms=["red", "green"]))
    many = bandit("banner", BANNER | {"arms": ["a", "b", "c", *(f"arm-{k}" for k in range(400))]})
    changed = both(arms=["red", "green"], purged=["blue"]) | {"banner": many}
    node = fleet.node(0)
    assert isinstance(node, Node)
    disk, append = node.bandits.journal.disk, node.bandits.journal.disk.append

    def fails(data: bytes) -> None:
        if len(data) > 1000:
            raise DiskError("the disk is full")
        append(data)

    disk.append = fails  # type: ignore[method-assign]  # as one that is almost full
    errors: list[UnavailableError | None] = []
    for _ in range(2):
        fleet.take(0, changed)
        fleet.of(0).stored(errors.append)
    assert ["disk is full" in str(error) for error in errors] == [True, True]
    fleet.crash(0)
    disk.append = append  # type: ignore[method-assign]  # there is room again
    fleet.declared[0] = both(arms=["red", "green"])
    fleet.restart(0)
    fleet.steps(25)
    button = fleet.of(0).bandit("button")
    for arm in ("red", "green"):
        assert button.choose([arm]).arm == arm
    assert [arm["arm"] for arm in button.export()["arms"]] == ["red", "green", "blue"]
    fleet.steps(60)
    for agent in range(2):
        assert fleet.learned(agent) == fleet.counts
        assert "arms" not in fleet.node(agent).refusals
    fleet.take(0, changed)
    assert "blue" not in [arm["arm"] for arm in button.export()["arms"]]


def test_neighbours_believe_as_many_pulls_as_the_section_allows() -> None:
    slow = replace(CLUSTER, max_pulls_per_second=0.01)
    fleet = Many(nx.path_graph(2), slow, declared=both(slow, max_pulls_per_second=100.0))
    for _ in range(60):
        fleet.play(0, "button", 1.0)
        fleet.steps(1)
    fleet.steps(40)
    assert fleet.learned(1) == fleet.counts
    assert "impossible" not in fleet.node(1).refusals


def test_another_rate_of_pulls_holds_at_once() -> None:
    fleet = Many(nx.path_graph(2), declared=both(max_pulls_per_second=0.02))
    fleet.steps(5)
    with pytest.raises(RateLimitError, match=r"0\.02 a second"):
        for _ in range(50):
            fleet.play(0, "button", 1.0)
    for agent in range(2):
        fleet.take(agent, both(max_pulls_per_second=1000.0))
    fleet.steps(20)
    for _ in range(50):
        fleet.play(0, "button", 1.0)
        fleet.steps(1)
    fleet.steps(40)
    assert fleet.learned(1) == fleet.counts
    fleet.take(0, both(max_pulls_per_second=0.02))
    with pytest.raises(RateLimitError, match=r"0\.02 a second"):
        for _ in range(50):
            fleet.play(0, "button", 1.0)


def test_tickets_of_a_bandit_that_is_new_while_the_agent_runs_survive_a_kill() -> None:
    fleet = Many(nx.path_graph(1), declared={"button": both()["button"]})
    fleet.take(0, both())
    choices = [fleet.of(0).bandit("banner").choose() for _ in range(2)]
    fleet.of(0).bandit("banner").observe(choices[0].ticket, 1.0)
    fleet.shells[0].settle()
    for _ in range(2):  # the second time by a snapshot
        fleet.crash(0)
        fleet.restart(0)
        again = fleet.of(0).bandit("banner").observe(choices[0].ticket, 1.0)
        assert (again.arm, again.duplicate) == (choices[0].arm, True)
    late = fleet.of(0).bandit("banner").observe(choices[1].ticket, 1.0)
    assert (late.arm, late.duplicate) == (choices[1].arm, False)
    heads = {c.ticket.partition("-")[0] for c in (*choices, fleet.of(0).bandit("banner").choose())}
    assert len(heads) == 2, "every start has a nonce of its own"
