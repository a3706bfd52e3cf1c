"""Messages that are overtaken: none undoes what a newer one of the same sender has told."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

import coopbandits as cb
from coopbandits.core import AnyAggregation
from coopbandits.core.aggregate.tree_sums import TreeSumsMachine


class Watched(TreeSumsMachine):
    """Fails when a neighbour that is told of more and more rounds is told of fewer."""

    overwritten = 0

    def receive(self, messages: Mapping[int, cb.Vector]) -> None:
        """Compare beats: those of one root only grow, so a smaller one is older."""
        at = self.registers.size + 2
        for j, message in messages.items():
            root, beat = self.state.controls[self.places[j]][:2]
            Watched.overwritten += bool(message[at] == root and message[at + 1] < beat)
        super().receive(messages)


class WatchedTrees(cb.TreeSums):
    """Tree sums whose machines look at what arrives."""

    machine = Watched


class AsEver(WatchedTrees):
    """The same, delivered as to everybody else."""

    overtakes = False


def play(aggregation: AnyAggregation, faults: str | None, clocks: str | None) -> int:
    Watched.overwritten = 0
    cb.simulate(
        cb.BernoulliBandit([0.3, 0.7]),
        cb.Network.from_spec("cycle:5"),
        cb.combine(aggregation, cb.UCB()),
        80,
        runs=1,
        engine="reference",
        progress=False,
        faults=faults,
        clocks=clocks,
    )
    return Watched.overwritten


@pytest.mark.parametrize(
    ("faults", "clocks"), [("delay=5", None), (None, "poisson:latency=3")], ids=["rounds", "clocks"]
)
def test_a_late_payload_never_overwrites_a_newer_one(
    faults: str | None, clocks: str | None
) -> None:
    assert play(WatchedTrees(), faults, clocks) == 0
    assert play(AsEver(), faults, clocks) > 0  # so it would have happened


@pytest.mark.covering(1)
@pytest.mark.parametrize("policy", [cb.TreeUCB(), cb.LedgerUCB()], ids=lambda each: each.name)
@pytest.mark.parametrize(
    ("faults", "clocks"),
    [("delay=4", None), (None, "poisson:ratio=3,latency=2")],
    ids=["rounds", "clocks"],
)
def test_a_population_of_one_policy_gets_what_the_policy_gets(
    policy: cb.Policy, faults: str | None, clocks: str | None
) -> None:
    alone, together = (
        cb.simulate(
            cb.BernoulliBandit([0.6, 0.4, 0.3]), cb.Network.from_spec("cycle:8"), each, 100, 2,
            keep="agents", progress=False, faults=faults, clocks=clocks,
        )
        for each in (policy, cb.populate(policy, {policy: [0]}))
    )  # fmt: skip
    assert alone.pulls.values.tolist() == together.pulls.values.tolist()
    assert alone.deliveries["lost"].sum() == together.deliveries["lost"].sum()


def test_in_a_population_it_depends_on_who_sends() -> None:
    mixed = cb.populate(cb.TreeUCB(), {cb.FloodUCB(): [1]})
    assert [mixed.overtakes_from(agent) for agent in range(3)] == [True, False, True]
    assert not mixed.overtakes
    assert cb.populate(cb.TreeUCB(), {cb.TreeTS(): [1]}).overtakes
