"""Features and a half-life together: exact by age, through crashes, false clocks and liars."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbandits.core.aggregate.forgetting import DISCOUNT, SKEW
from coopbandits.core.draws import word_at
from coopbandits.core.errors import InputError
from coopbandits.fleet.config.features import read_features
from coopbandits.fleet.service.bandit import ServedBandit
from coopbandits.fleet.storage.disk import MemoryDisk
from tests.torture.world import World

from .contexts import ARMS, EXACT, asked, paid, told

HOUR, YEAR = 3600.0, 365 * 86400.0
COLUMNS = 4
WIDTH = COLUMNS + COLUMNS * (COLUMNS + 1) // 2 + 1
exact = pytest.mark.parametrize("policy", EXACT)


class Fleet(World):
    """A path of agents that are told of requests and forget half in two hours."""

    def __init__(self, policy: str, size: int = 3) -> None:
        self.ahead = dict.fromkeys(range(size), 0.0)
        self.pulls: list[tuple[int, Any, int, float, int]] = []
        self.waiting: list[tuple[int, str, str, Any, float]] = []
        self.words = (word_at(7, number) for number in count())
        super().__init__(told(policy, half_life=2 * HOUR), nx.path_graph(size))
        self.settle(80)  # trees grow

    def clock_of(self, agent: int) -> Callable[[], float]:
        """Return the clock of an agent's machine."""
        return lambda: self.now + self.ahead[agent]

    def of(self, agent: int) -> ServedBandit:
        return self.served(agent, self.words.__next__)

    def machine(self, agent: int) -> Any:
        return self.replica(agent).agent.machine  # type: ignore[attr-defined]  # has parts

    def play(self, rounds: int = 20, *, switched: bool = False, late: bool = False) -> None:
        """Choose and hand in rewards; those of the last round wait where they are late."""
        for number in range(rounds):
            for agent in self.graph:
                context = asked(number + agent)
                ticket, arm, _ = self.of(agent).choose(context=context)
                reward = 1.1 - paid(context, arm) if switched else paid(context, arm)
                self.waiting.append((agent, ticket, arm, context, reward))
            if not (late and number == rounds - 1):
                self.hand_in()
            self.step()

    def hand_in(self) -> None:
        for agent, ticket, arm, context, reward in self.waiting:
            columns = self.bandit.encoder.columns(context)
            self.pulls.append((agent, columns, ARMS.index(arm), reward, self.tick_of(agent)))
            self.of(agent).observe(ticket, reward)
        self.waiting = []

    def settle(self, rounds: int = 40) -> None:
        for _ in range(rounds):
            self.step()

    def tick_of(self, agent: int) -> int:
        machine = self.machine(agent)
        return int(machine.state.me.clock if hasattr(machine, "state") else machine.clock)

    def direct(self, clock: int, besides: int | None = None) -> Any:
        """Registers of every arm: all pulls, or those of the others, each by its age."""
        total = np.zeros((len(ARMS), WIDTH))
        for agent, x, arm, reward, tick in self.pulls:
            if agent == besides:
                continue
            one = np.concatenate([reward * x, np.outer(x, x)[np.triu_indices(COLUMNS)], [1.0]])
            total[arm] += DISCOUNT ** (clock - tick) * one
        return total

    def known(self, agent: int) -> Any:
        found = self.replica(agent).agent.estimate()
        return np.column_stack([found.sums, found.extra.outer, found.counts])

    def check(self, *agents: int) -> None:
        for agent in agents or self.graph:
            want = self.direct(self.tick_of(agent))
            np.testing.assert_allclose(self.known(agent), want, rtol=1e-9, atol=1e-9)

    def best(self, agent: int, country: str) -> str:
        arms = self.of(agent).arms({"country": country, "hour": 12})
        return max(arms, key=lambda arm: arm.mean or 0.0).arm

    def refusals(self) -> int:
        return sum(self.node(agent).refusals["impossible"] for agent in self.graph)


@exact
def test_sums_are_exact_by_age_through_a_crash_with_open_tickets(policy: str) -> None:
    fleet = Fleet(policy)
    fleet.play(late=True)
    fleet.now += 0.9 * HOUR
    before = fleet.replica(1).agent.export_state()
    fleet.crash(1)
    fleet.restart(1)
    assert fleet.replica(1).agent.export_state() == before, "open pulls and contexts included"
    fleet.settle()
    fleet.hand_in()  # long after the choice, and counts as new
    fleet.play()
    fleet.settle()
    fleet.check()
    assert [fleet.best(agent, "PT") for agent in fleet.graph] == ["a"] * 3
    assert [fleet.best(agent, "ES") for agent in fleet.graph] == ["b"] * 3
    for agent in fleet.graph:
        assert not fleet.replica(agent).context_agent.open_features.any()
    assert fleet.refusals() == 0


@pytest.mark.covering(1)
@exact
def test_what_switched_is_learned_since_the_old_is_forgotten(policy: str) -> None:
    fleet = Fleet(policy)
    fleet.play(30)
    fleet.settle()
    fleet.now += 8 * HOUR
    fleet.settle()
    fleet.play(15, switched=True)
    fleet.settle()
    fleet.check()
    for agent in fleet.graph:
        assert (fleet.best(agent, "PT"), fleet.best(agent, "ES")) == ("b", "a")
    said = fleet.of(0).recommendation()
    assert said.lead is None
    assert "how sure that is cannot be stated, since" in said.sentence


def test_a_memory_that_is_put_back_keeps_contexts_and_ages() -> None:
    fleet = Fleet(EXACT[0])
    fleet.play()
    fleet.settle()
    copy = MemoryDisk()
    copy.data = fleet.disks[2].data
    fleet.now += HOUR
    fleet.play()
    fleet.settle()
    fleet.crash(2)
    fleet.disks[2] = copy
    fleet.now += HOUR
    fleet.restart(2)
    fleet.play()
    fleet.settle(100)
    fleet.check()
    assert fleet.refusals() == 0, "what is left after subtracting is still a sum of squares"


@pytest.mark.covering(2)
@exact
@pytest.mark.parametrize("jump", [-0.2 * YEAR, -5 * HOUR, 24 * HOUR, 40 * YEAR])
def test_a_clock_that_jumps_and_is_set_right_harms_nobody_else(policy: str, jump: float) -> None:
    fleet = Fleet(policy)
    fleet.play()
    fleet.settle()
    fleet.ahead[0] = jump
    for _ in range(5):
        fleet.play(1)
    fleet.settle()
    others = fleet.direct(fleet.tick_of(2), besides=0)
    lost = "others forget an eighth of a half-life too early at most"
    assert (fleet.known(2)[:, -1] >= 0.9 * others[:, -1]).all(), lost
    for agent in fleet.graph:
        assert np.isfinite(fleet.known(agent)).all()
        assert fleet.best(agent, "PT") in ARMS
    fleet.ahead[0] = 0.0
    fleet.crash(0)
    fleet.restart(0)
    fleet.settle()
    fleet.play(30)
    fleet.settle()
    known = [fleet.known(agent) for agent in fleet.graph]
    np.testing.assert_allclose(known[1], known[2], rtol=1e-9)
    ticks = [fleet.tick_of(agent) for agent in fleet.graph]
    assert max(ticks) - min(ticks) <= SKEW
    for agent in fleet.graph:
        assert (fleet.best(agent, "PT"), fleet.best(agent, "ES")) == ("a", "b")


def test_agents_that_declare_other_features_refuse_each_other_until_all_do() -> None:
    fleet = Fleet(EXACT[0], size=2)
    fleet.play()
    fleet.settle()
    known = fleet.known(0)
    fleet.crash(1)
    more = read_features("features", {"hour": [0, 24], "country": ["PT", "ES", "FR"]})
    other = replace(fleet.bandit, features=more)
    fleet.declared[1] = {other.name: other}
    with pytest.raises(InputError, match=r"\[bandits\.only\] features is"):
        fleet.restart(1)
    fleet.disks[1] = MemoryDisk()
    fleet.restart(1)
    fleet.settle()
    (peer,) = fleet.session(0).peers.values()
    assert not peer.met
    said = " ".join(note.text for note in fleet.node(0).events.since(0))
    assert "other settings of bandit only" in said
    np.testing.assert_allclose(fleet.known(0), known, rtol=0.01)
    assert fleet.of(1).choose(context={"hour": 1, "country": "FR"}).arm in ARMS
    fleet.crash(0)
    fleet.declared[0] = fleet.declared[1]
    fleet.disks[0] = MemoryDisk()
    fleet.restart(0)
    fleet.settle()
    assert all(peer.met for peer in fleet.session(0).peers.values())
    choice = fleet.of(0).choose(context={"hour": 1, "country": "FR"})
    fleet.of(0).observe(choice.ticket, 1.0)
    fleet.settle()
    assert sum(arm.pulls for arm in fleet.of(1).arms()) == pytest.approx(1.0, rel=0.01)


EXTREMES = [0.0, -1.0, 1.0, 1e3, -1e3, 1e300, -1e300, 5e-324, float("inf"), float("nan"), 2.0**53]
spoils = st.lists(
    st.tuples(
        st.integers(0, 10**6),
        st.sampled_from(EXTREMES) | st.floats(allow_nan=True, allow_infinity=True),
        st.booleans(),
    ),
    min_size=1,
    max_size=6,
)


@pytest.fixture(scope="module")
def towns() -> dict[str, Fleet]:
    made = {policy: Fleet(policy, size=2) for policy in EXACT}
    for fleet in made.values():
        fleet.play()
        fleet.settle()
        fleet.play(1)  # something new to tell
    return made


@exact
@settings(max_examples=20, deadline=None, derandomize=True, database=None)
@given(spoils=spoils)
def test_whatever_passes_the_guard_leaves_models_that_can_be_played(
    policy: str, spoils: list[tuple[int, float, bool]], towns: dict[str, Fleet]
) -> None:
    """A neighbour that knows the form says anything: it is refused, or it does no more than lie."""
    fleet = towns[policy]
    replica, claims = fleet.replica(0), fleet.session(0).claims
    message = fleet.replica(1).agent.outgoing(0)
    assert message is not None
    message = message.copy()
    for at, value, scaled in spoils:
        place = at % message.size
        message[place] = float(message[place]) * value if scaled else value
    probe = replica._fresh_agent(replica.neighbors)
    probe.restore_state(replica.agent.export_state())
    before, (sender,) = probe.export_state(), replica.neighbors
    try:
        probe.check_claims(message, claims, fleet.now)
        probe.pass_time(claims.ticks(fleet.now))  # type: ignore[attr-defined]  # it has that here
        probe.receive({sender: message})
    except InputError as refused:
        assert "\n" not in str(refused)
        assert probe.export_state() == before
        return
    for country in ("PT", "ES"):
        x = fleet.bandit.encoder.columns({"country": country, "hour": 24})
        means, deviations = probe.outlook(x)  # type: ignore[attr-defined]  # it has that here
        assert (np.isfinite(means) & (abs(means) < 10.0)).all()
        assert (np.isfinite(deviations) & (deviations >= 0.0)).all()
        assert probe.would_choose(3, None, x) in (0, 1)  # type: ignore[call-arg]  # it has features
