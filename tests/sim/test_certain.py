"""Certified pulls: each counted once, whatever goes wrong; so are the claims that rest on them."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import coopbandits as cb
from coopbandits.core.aggregate import AnyAggregation, Machine, ledger_sums, spanning_tree
from coopbandits.core.aggregate.tree_sums import TreeSumsMachine
from coopbandits.core.contract import Estimate, Vector
from coopbandits.core.draws import normals, uniforms, words
from coopbandits.core.recommend import leader, obstacle
from coopbandits.core.registry import AGGREGATIONS, EXAMPLES, parse_policy
from coopbandits.core.statistic import ArmSums
from coopbandits.sim.reference import Mail
from coopbandits.sim.setup import global_knowledge
from coopbandits.sim.tapes import REWARDS, agent_keys, identity_words, tape_words

ROUNDS = 40
GRAPHS = ["cycle:5", "path:4", "star:5", "complete:4", "grid:2x3"]
VARIANTS: list[AnyAggregation] = [
    cb.FloodedTotals(discount=0.9), cb.LedgerSums(discount=0.9), cb.LocalSums(discount=0.9),
    cb.NeighborhoodSums(fair=True), cb.FloodedPulls(hop_limit=3, wait=2),
]  # fmt: skip
CERTIFYING = [kind() for kind in AGGREGATIONS if kind().uncertified == ""] + VARIANTS
REPEATABLE = settings(max_examples=4, deadline=None, derandomize=True, database=None)


@contextmanager
def in_a_hurry() -> Iterator[None]:
    """Let roots come, collect and go within a few rounds.

    Nothing may be compiled meanwhile: kernels would keep these numbers on disk.
    """
    with (
        patch.object(ledger_sums, "YOUNG", 2),
        patch.multiple(spanning_tree, UNDERCUT=-5, STANDING=8),
    ):
        yield


class Chance:
    """Numbers from a tape, one after another."""

    def __init__(self, key: int) -> None:
        self.key, self.used = key, 0

    def uniform(self, low: float = 0.0, high: float = 1.0) -> float:
        self.used += 1
        drawn = uniforms(words(self.key, np.array([1_000_000 + self.used], dtype=np.uint64)))
        return low + (high - low) * float(drawn[0])

    def whole(self, low: int, high: int) -> int:
        return int(self.uniform(low, high))


class Followed:
    """Agents of which every pull is an arm of its own, so that each can be followed for ever."""

    def __init__(self, spec: AnyAggregation, graph: str, key: int, rounds: int = ROUNDS) -> None:
        self.spec, self.network = spec, cb.Network.from_spec(graph)
        size = self.network.num_agents
        known, told = global_knowledge(self.network, spec.needs), identity_words(key, 0, size)
        self.rewards = normals(words(key, np.arange(rounds * size, dtype=np.uint64)))
        self.views = [
            replace(
                self.network.local_view(
                    i,
                    num_arms=rounds * size,
                    sigma=1.0,
                    needs=spec.needs,
                    global_knowledge=known[i],
                ),
                random_word=told[i],
            )
            for i in range(size)
        ]
        self.machines = [self.make(i) for i in range(size)]
        self.last = [np.zeros(rounds * size) for _ in range(size)]
        self.made = 0
        self.most = 0.0  # pulls that the best informed agent has certified

    def make(self, agent: int) -> Machine:
        view = self.views[agent]
        return self.spec.make(view, ArmSums().registers(view.num_arms))

    def forget(self, agent: int, rounds: int) -> None:
        """Replace an agent by one that knows nothing but the round, as `simulate` does."""
        self.machines[agent], self.last[agent] = self.make(agent), 0.0 * self.last[agent]
        for _ in range(rounds):
            self.machines[agent].receive({})

    def pull(self, agent: int) -> None:
        self.machines[agent].observe(self.made, float(self.rewards[self.made]))
        self.made += 1

    def check(self, agent: int) -> None:
        certain = self.machines[agent].estimate().certain
        assert certain is not None
        counts, last = certain.counts, self.last[agent]
        assert counts[self.made :].max(initial=0.0) == 0.0, "a pull that was never made"
        # Mass that decays is handed on as a difference, which may be rounded.
        assert counts.min() >= -1e-12, "less than no pull"
        assert counts.max() <= 1.0 + 1e-12, "a pull that counts more than once"
        np.testing.assert_allclose(certain.sums, counts * self.rewards, atol=1e-12)
        if not self.spec.forgets:
            assert set(counts.tolist()) <= {0.0, 1.0}, "a part of a pull"
            grown = counts.sum() > last.sum()
            assert grown or np.array_equal(counts, last), "another set of no more pulls"
        self.last[agent], self.most = counts, max(self.most, float(counts.sum()))


@in_a_hurry()
def play(spec: AnyAggregation, graph: str, faults: str, key: int) -> Followed:
    """Play rounds under faults, and look at every agent before every pull."""
    world = Followed(spec, graph, key)
    overtaking = range(world.network.num_agents) if spec.overtakes else ()
    mail = Mail(world.network, overtaking=overtaking)
    chunk = cb.parse_faults(faults).schedule(world.network, key, 0).read(ROUNDS)
    for t in range(ROUNDS):
        for agent in np.flatnonzero(chunk.fresh[t]).tolist():
            world.forget(agent, t)
        for agent in np.flatnonzero(chunk.acts[t]).tolist():
            world.check(agent)
            world.pull(agent)
        mail.exchange(world.machines, chunk.fate[t].tolist())  # type: ignore[arg-type]  # machines
        for agent in range(len(world.machines)):
            world.check(agent)
    return world


@in_a_hurry()
def play_on_own_clocks(spec: AnyAggregation, graph: str, key: int) -> Followed:
    """Let agents pull and talk in any order, over links that lose and delay messages."""
    world, chance = Followed(spec, graph, key), Chance(key)
    world.views = [replace(view, common_round=False) for view in world.views]
    size = len(world.views)
    world.machines = [world.make(i) for i in range(size)]
    queue: list[tuple[float, int, int, Vector]] = []
    inboxes: list[dict[int, Vector]] = [{} for _ in range(size)]
    while world.made < len(world.rewards):
        agent, now = chance.whole(0, size), float(world.made)
        if chance.uniform() < 0.5:
            world.pull(agent)
            continue
        while queue and queue[0][0] <= now:
            _, sender, receiver, message = heapq.heappop(queue)
            inboxes[receiver][sender] = message
        for neighbor in world.views[agent].neighbor_weights:
            told = world.machines[agent].outgoing(neighbor)
            if told is not None and chance.uniform() < 0.7:
                heapq.heappush(queue, (now + chance.uniform(0.0, 12.0), agent, neighbor, told))
        world.machines[agent].receive(dict(sorted(inboxes[agent].items())))
        inboxes[agent] = {}
        world.check(agent)
    return world


def random_faults(key: int) -> str:
    """Return one to three kinds of faults, as they are spelled."""
    chance = Chance(key)
    share, early, late = chance.uniform(0.1, 0.7), chance.whole(3, 15), chance.whole(16, 35)
    few, many = chance.whole(1, 10), chance.whole(2, 20)
    kinds = [
        f"loss={share:.2f}", f"bursts={many}..{few}", f"churn={many}..{few}",
        f"redraw={many}:{share:.2f}", f"delay={few}", f"one-way={share:.2f}",
        f"partition={share:.2f}@{early}..{late}", f"sleep={share:.2f}", f"speeds={few}",
        f"join={share:.2f}@{early}", f"crash={share:.2f}@{early}..{late}",
        f"crash={share:.2f}@{early}..{late}:lost", f"crash={share:.2f}@{late}..{late + 1}:lost",
        f"pairs={few}",
    ]  # fmt: skip
    return ",".join({kinds[chance.whole(0, len(kinds))]: None for _ in range(chance.whole(1, 4))})


@pytest.mark.plays
@pytest.mark.parametrize("spec", CERTIFYING, ids=lambda spec: spec.spelling)
@REPEATABLE
@given(st.sampled_from(GRAPHS), st.integers(0, 2**32))
def test_certified_pulls_are_distinct_under_any_faults(
    spec: AnyAggregation, graph: str, key: int
) -> None:
    play(spec, graph, random_faults(key), key)


@pytest.mark.plays
@pytest.mark.parametrize(
    "spec",
    [spec for spec in CERTIFYING if not spec.needs_common_round],
    ids=lambda spec: spec.spelling,
)
def test_certified_pulls_are_distinct_on_own_clocks(spec: AnyAggregation) -> None:
    for key in range(3):
        play_on_own_clocks(spec, GRAPHS[key], key)


@pytest.mark.slow
def test_certified_pulls_are_distinct_in_2000_fault_schedules() -> None:
    """Ledgers in every other one, as they have most to keep apart."""
    others = [spec for spec in CERTIFYING if spec != cb.LedgerSums()]
    known = []
    for key in range(2000):
        spec = cb.LedgerSums() if key % 2 else others[key // 2 % len(others)]
        world = play(spec, GRAPHS[key % len(GRAPHS)], random_faults(key), key)
        known.append(world.most / max(1, world.made))
    print(f"best informed agents certified {100 * np.mean(known):.0f} % of all pulls")


@pytest.mark.plays
def test_certified_pulls_are_most_of_them_where_nothing_goes_wrong() -> None:
    """Otherwise certifying nothing would pass all of the above."""
    for spec in (cb.FloodedTotals(), cb.LedgerSums()):
        world = play(spec, "cycle:5", "none", 1)
        assert world.most > 0.85 * world.made


class Trusting(TreeSumsMachine):
    """A tree that certifies the most that it has ever counted."""

    best: Vector | None = None

    def estimate(self) -> Estimate:
        totals, pulls = (self.state.own + self.state.branches)[:-2], self.registers.version
        if self.best is None or pulls(totals) > pulls(self.best):
            self.best = totals
        return super().estimate()._replace(certain=self.registers.share(self.best))


class TrustingTree(cb.TreeSums):
    machine = Trusting


@pytest.mark.plays
def test_pulls_that_a_tree_counts_twice_are_caught() -> None:
    with pytest.raises(AssertionError, match="more than once"):
        for key in range(20):
            play(TrustingTree(), "grid:2x3", "bursts=10..4", key)


@pytest.mark.plays
def test_sets_that_shrink_are_caught() -> None:
    """The newest ledger and own pulls since are distinct, but may be fewer than before."""
    keep = ledger_sums.keep_ledger

    def newest(s: Any, inbox: Any, lengths: Any) -> None:
        keep(s, inbox, lengths)
        s.certain[:] = s.ledger + s.meanwhile

    with (
        patch.object(ledger_sums, "keep_ledger", newest),
        pytest.raises(AssertionError, match="no more pulls"),
    ):
        for key in range(20):
            play(cb.LedgerSums(), "grid:2x3", "bursts=10..4", key)


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_estimate_certifies_pulls_where_its_policy_says_so(text: str) -> None:
    policy = parse_policy(text)
    parts = policy.parts
    if parts is None or parts.statistic.takes_context:
        return
    if policy.central:
        certain = policy.make_controller(2, 1.0).estimate().certain  # type: ignore[attr-defined]
    else:
        network = cb.Network.from_spec("cycle:3")
        known = global_knowledge(network, policy.needs)
        view = network.local_view(
            0, num_arms=2, sigma=1.0, needs=policy.needs, global_knowledge=known[0]
        )
        agent = policy.make_agent(replace(view, random_word=1))  # type: ignore[attr-defined]
        certain = agent.estimate().certain
    assert (certain is None) == bool(parts.aggregation.uncertified)
    if not obstacle(parts):
        assert certain is not None


CLEAR = cb.GaussianBandit([0.0, 1.0, 0.4], sigma=0.5)
BURSTS = "bursts=100..20"


@pytest.mark.plays
@pytest.mark.parametrize(
    "policy", ["ledger-sums*ucb:constant=40", "flooded-totals*ucb:constant=40"]
)
def test_nobody_claims_before_all_pulls_together_suffice(policy: str) -> None:
    """Links fail 1 % and recover 5 % of the time."""
    network, rounds, seed = cb.Network.from_spec("grid:4x6"), 200, 7
    result = cb.simulate(
        CLEAR, network, parse_policy(policy), rounds, 1, seed, "cpu",
        faults=BURSTS, stop=0.95, keep="arms", progress=False,
    )  # fmt: skip
    stops = result.stops.stop_round.values[0, 0]
    arms = result.arms.values[0, 0]
    tape = normals(tape_words(agent_keys(seed, REWARDS, 0, network.num_agents), 0, rounds))
    paid = CLEAR.means[arms] + 0.5 * tape
    sums, counts, earliest = np.zeros(3), np.zeros(3), rounds
    for t in range(rounds):
        np.add.at(sums, arms[:, t], paid[:, t])
        np.add.at(counts, arms[:, t], 1.0)
        if leader(sums, counts, 0.5, 0.05)[1] > 0.0:
            earliest = t + 1  # the pulls of rounds 0 to t suffice before round t + 1
            break
    assert 0 < earliest < rounds
    assert (stops >= earliest).all()


@pytest.mark.slow
@pytest.mark.parametrize("carrier", ["flooded-totals", "ledger-sums"])
@pytest.mark.parametrize("means", [[0.1, 0.5, 0.9], [0.5, 0.5001]])
def test_claims_are_wrong_in_at_most_5_percent_of_runs_under_faults(
    carrier: str, means: list[float]
) -> None:
    """All agents of a run have to be right; of arms that hardly differ any claim is a guess."""
    policy = parse_policy(f"{carrier}*ucb:constant=60")
    network, problem = cb.Network.from_spec("cycle:10"), cb.BernoulliBandit(means)
    for faults in (
        BURSTS,
        "churn=20..10,crash=0.3@50..80:lost,sleep=0.2",
        "redraw=15:0.6,loss=0.3",
    ):
        result = cb.simulate(
            problem, network, policy, 300, 400, 1,
            faults=faults, shuffle_arms=True, stop=0.95, progress=False,
        )  # fmt: skip
        wrong = int(result.stops.stop_wrong.values[0].any(axis=1).sum())
        claims = int((result.stops.stop_round.values[0] >= 0).any(axis=1).sum())
        print(f"{policy.spelling} {faults} {means}: {wrong} wrong of {claims} with claims, of 400")
        assert wrong <= 0.05 * 400
        assert claims > 300 or len(means) == 2
