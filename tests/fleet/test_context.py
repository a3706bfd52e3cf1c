"""Features in a fleet: learned together, through crashes, and what is refused."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from coopbandits.core.aggregate.claims import Claims
from coopbandits.core.errors import InputError
from coopbandits.fleet.config.features import read_features
from coopbandits.fleet.storage.disk import MemoryDisk
from tests.torture.world import World

from .contexts import ARMS, EXACT, alone, asked, paid, serve, told

MIXED: dict[str, dict[str, Any]] = {
    "running-consensus*lin-ts:disjoint=true": {"num_agents": 4},
    "staged-mixing*lin-ts:disjoint=true": {"num_agents": 4, "lambda_bound": 0.9},
}


def played(policy: str, rounds: int = 60, **more: Any) -> tuple[World, list[list[Any]]]:
    """A path of four agents, of which one dies with open tickets and comes back."""
    world = World(told(policy, **more), nx.path_graph(4))
    services = [serve(world, agent) for agent in range(4)]
    given: list[list[Any]] = []
    waiting: dict[int, Any] = {}
    for number in range(rounds):
        if number == 20:
            before = world.replica(1).agent.export_state()
            world.crash(1)
            world.restart(1)
            if not world.bandit.is_synchronous:  # else the last round is heard of again
                assert world.replica(1).agent.export_state() == before
            services[1] = serve(world, 1)
        for agent in range(4):
            context = asked(number + agent)
            if agent in waiting:  # rewards come a round later
                ticket, arm, then = waiting.pop(agent)
                services[agent].observe(ticket, paid(then, arm))
                given.append([then, arm, paid(then, arm)])
            choice = services[agent].choose(context=context)
            waiting[agent] = choice.ticket, choice.arm, context
        world.step()
    for agent, (ticket, arm, then) in waiting.items():
        services[agent].observe(ticket, paid(then, arm))
        given.append([then, arm, paid(then, arm)])
    for _ in range(40):
        world.step()
    return world, given


def account(given: list[list[Any]]) -> Any:
    """Registers of everything acknowledged, added up by hand."""
    total = np.zeros((2, 4 + 10 + 1))
    encode = told(EXACT[0]).encoder.columns
    for context, arm, reward in given:
        x = encode(context)
        outer = np.outer(x, x)[np.triu_indices(4)]
        total[ARMS.index(arm)] += np.concatenate([reward * x, outer, [1.0]])
    return total


@pytest.mark.parametrize("policy", EXACT)
def test_every_reward_counts_once_with_its_context_and_each_learns_all(policy: str) -> None:
    world, given = played(policy)
    expected = account(given)
    for agent in range(4):
        found = world.replica(agent).agent.estimate()
        have = np.column_stack([found.sums, found.extra.outer, found.counts])
        np.testing.assert_allclose(have, expected, rtol=1e-9, atol=1e-9)
        service = serve(world, agent)
        for country, best in (("PT", "a"), ("ES", "b")):
            arms = service.arms({"country": country, "hour": 12})
            assert max(arms, key=lambda arm: arm.mean or 0.0).arm == best
            for arm in arms:
                assert arm.mean == pytest.approx(paid({"country": country}, arm.arm), abs=0.12)
                if "tree" in policy:  # which certifies no pulls
                    assert arm.confidence is None
                else:
                    low, high = arm.confidence or (1.0, 0.0)
                    assert low <= (arm.mean or 0.0) <= high
        plain = {arm.arm: (arm.mean, arm.pulls) for arm in service.arms()}
        for name, row in zip(ARMS, expected, strict=True):
            assert plain[name] == pytest.approx((row[0] / row[-1], row[-1]))
        assert service.recommendation().lead is None
        assert "depends on the context" in service.recommendation().sentence


@pytest.mark.parametrize("policy", MIXED)
def test_synchronous_rounds_add_up_with_rewards_in_between(policy: str) -> None:
    world, given = played(policy, **MIXED[policy])
    expected = account(given)
    healths = [serve(world, agent).health()["shares"] for agent in range(4)]
    last = max(set.intersection(*map(set, healths)), key=int)
    shares = np.sum([health[last] for health in healths], axis=0)
    np.testing.assert_allclose(shares, [*expected[:, 0], *expected[:, -1]], rtol=1e-9)
    for agent in range(4):
        assert not world.replica(agent).agent.open_pulls.any()
        assert not world.replica(agent).context_agent.open_features.any()


WRONG: list[tuple[Any, str]] = [
    (None, "country.*'PT', 'ES'.*hour.* 0 to 24"),
    ({"hour": 13}, "'country'.*'PT', 'ES'"),
    ({"country": "PT"}, "'hour'.* 0 to 24"),
    ({"hour": 13, "country": "FR"}, "'country'.* 'FR'.*'PT', 'ES'"),
    ({"hour": 13, "country": 1}, r"'country'.* 1\.0.*'PT', 'ES'"),
    ({"hour": 24.1, "country": "PT"}, r"'hour'.* 24\.1.* 0 to 24"),
    ({"hour": "PT", "country": "PT"}, "'hour'.* 'PT'"),
    ({"hour": float("nan"), "country": "PT"}, "'hour'.* nan"),
    ({"hour": True, "country": "PT"}, "'hour'.* True"),
    ({"hour": None, "country": "PT"}, "'hour'.* None"),
    ({"hour": [13], "country": "PT"}, r"'hour'.* \[13\]"),
    ({"hour": 10**400, "country": "PT"}, "'hour'.*finite"),
    ({"hour": 13, "country": "PT", "our": 1}, "'our'.*'hour'"),
    ({1: 2}, r"names.* 1\b"),
    ([1.0, 2.0], r"\[1\.0, 2\.0\]"),
    ("PT", "'PT'"),
]


@pytest.mark.parametrize(("context", "sentence"), WRONG)
def test_a_wrong_context_gets_a_sentence_and_changes_nothing(context: Any, sentence: str) -> None:
    disk = MemoryDisk()
    service = alone(disk)
    before = bytes(disk.data), service.replica.agent.export_state()
    with pytest.raises(InputError, match=sentence) as refused:
        service.choose(context=context)
    assert "\n" not in str(refused.value)
    if context is not None:
        with pytest.raises(InputError, match=sentence):
            service.arms(context)
    assert (bytes(disk.data), service.replica.agent.export_state()) == before
    assert not service.replica.tickets.open


def test_a_context_where_none_is_declared_is_refused() -> None:
    service = alone(MemoryDisk(), None, "flood-ts")
    for ask in (lambda: service.choose(context={"hour": 13}), lambda: service.arms({"hour": 13})):
        with pytest.raises(InputError, match=r"context.*no features"):
            ask()
    assert service.choose().ticket


def test_tickets_keep_their_context_through_a_restart_and_a_snapshot() -> None:
    disk = MemoryDisk()
    context: dict[str, Any] = {"hour": 6, "country": "ES"}
    service = alone(disk)
    service.replica.tickets.limit = 3
    tickets = [service.choose(context=context) for _ in range(5)][2:]  # two are abandoned
    service.replica.journal.flush()
    again = alone(disk)  # replays, and writes a snapshot
    once_more = alone(disk)  # opens that
    assert once_more.replica.tickets.contexts == again.replica.tickets.contexts
    assert len(once_more.replica.tickets.contexts) == 3
    assert once_more.replica.agent.open_pulls.sum() == 3
    for ticket, arm, _ in tickets[:2]:
        once_more.observe(ticket, paid(context, arm))
        assert once_more.observe(ticket, paid(context, arm)).duplicate
    once_more.replica.expire(1e12)
    agent = once_more.replica.context_agent
    x = told(EXACT[0]).encoder.columns(context)
    assert x.tolist() == [1.0, 0.0, 1.0, -0.5]
    assert agent.share().counts.sum() == 2.0
    assert agent.estimate().extra.outer.sum(axis=0)[:4].tolist() == [2.0, 0.0, 2.0, -1.0]
    assert not agent.open_features.any()
    assert not once_more.replica.tickets.contexts


def test_a_journal_belongs_to_its_features() -> None:
    disk = MemoryDisk()
    service = alone(disk)
    service.choose(context=asked(0))
    service.replica.journal.flush()
    others = read_features("features", {"hour": [0, 23], "country": ["PT", "ES"]})
    sentence = r"features is \{.*'hour': \[0\.0, 23\.0\]\}.* \{'country'.*'hour': \[0\.0, 24\.0\]"
    with pytest.raises(InputError, match=sentence):
        alone(disk, others)
    assert alone(disk).replica.tickets.open


def claims(**more: Any) -> Claims:
    return Claims(bounded=True, rate=10.0, epoch=0.0, max_agents=4, largest_feature=1.0, **more)


@pytest.mark.parametrize("policy", EXACT)
def test_what_no_pulls_in_range_can_have_made_is_refused(policy: str) -> None:
    world, _ = played(policy, 20)
    agent = world.replica(0).agent
    honest = world.replica(1).agent.outgoing(0)
    assert honest is not None
    now = 1_790_000_000.0
    agent.check_claims(honest, claims(), now)
    registers = agent.machine.registers  # type: ignore[attr-defined]  # it has that here
    for spoil, phrase in (
        ({4: 50.0}, "squared features"),
        ({0: 500.0}, "rewards times features"),
        ({5: 3.0, 7: -3.0}, "products of features"),
        ({5: float("nan")}, "sums that are not finite"),
    ):
        values = honest_registers(registers)
        for at, value in spoil.items():
            values[at] = value
        with pytest.raises(InputError, match=phrase):
            claims().check_totals(registers, values, 1.0, now)


def honest_registers(registers: Any) -> Any:
    values = registers.zeros()
    for number in range(4):
        context = told(EXACT[0]).encoder.columns(asked(number))
        registers.record(values, 0, 0.5, context)
    claims().check_totals(registers, values, 1.0, 10.0)
    return values
