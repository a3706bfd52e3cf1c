"""Any aggregation × any index: made by `combine`, spelled with a star, and read back."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from coopbandits.core import (
    AGGREGATIONS,
    INDICES,
    KLUCB,
    MOSS,
    UCB,
    ArmSums,
    BetaDraw,
    CentralPolicy,
    CentralTotals,
    CentredDraw,
    EpsilonGreedy,
    Estimate,
    FloodedPulls,
    Index,
    InputError,
    LedgerSums,
    LinUCB,
    LocalSums,
    LocalView,
    Machine,
    NeighborhoodSums,
    Parts,
    Policy,
    Registers,
    RunningConsensus,
    StagedMixing,
    State,
    TopTwo,
    TreeSums,
    Vector,
    combine,
    parse_aggregation,
    parse_index,
    parse_policy,
    register_aggregation,
    register_index,
)
from coopbandits.core.aggregate import AnyAggregation
from coopbandits.core.aggregate.fields import FieldMachine
from coopbandits.core.policy import CentralProduct, Product, fits
from coopbandits.core.registry import AGGREGATION_REGISTRY, EXAMPLES, INDEX_REGISTRY
from coopbandits.literature import InflatedUCB, TrackedMeans

from .fleet import make_agent, one_view
from .statistic.own import FadingSums

KINDS: list[type[Any]] = [*AGGREGATIONS, CentralTotals]
EVERY = [(aggregation(), index()) for aggregation, index in itertools.product(KINDS, INDICES)]
PAIRS = [combine(aggregation, index) for aggregation, index in EVERY if fits(aggregation, index)]


def test_every_index_on_sums_and_counts_fits_every_aggregation() -> None:
    assert len({policy.spelling for policy in PAIRS}) == len(PAIRS)
    assert {type(policy.index) for policy in PAIRS} == set(INDICES)
    for aggregation, index in EVERY:
        if index.statistic == ArmSums() and not index.needs - {"num_agents"}:
            assert fits(aggregation, index), (aggregation.spelling, index.spelling)


def test_what_does_not_fit_is_what_combine_refuses() -> None:
    for aggregation, index in (
        (TrackedMeans(), CentredDraw("estimate")),
        (CentralTotals(), InflatedUCB(epsilon_c="closed")),
        (StagedMixing(neighbor_pulls=True), LinUCB()),
    ):
        assert fits(aggregation, UCB())
        assert not fits(aggregation, index)
        with pytest.raises(InputError, match=aggregation.name):
            combine(aggregation, index)


def test_every_pair_parses_back() -> None:
    for policy in PAIRS:
        assert policy.spelling == f"{policy.aggregation.name}*{policy.index.name}"
        found = parse_policy(policy.spelling)
        assert found == policy
        assert hash(found) == hash(policy)
        assert isinstance(found, CentralPolicy if "central" in policy.spelling else Policy)


def test_every_pair_plays() -> None:
    for policy in PAIRS:
        if isinstance(policy, CentralProduct):
            controller = policy.make_controller(2, 1.0)
            arm = controller.choose(3)
            controller.observe(arm, 0.5)
            controller.end_round()
            assert controller.registers.version(controller.totals) == 1.0
            continue
        agent = make_agent(policy, one_view())
        agent.observe(agent.choose(3), 0.5)
        assert agent.open_pulls.tolist() == [0, 0]
        assert agent.policy == policy.spelling
        with pytest.raises(InputError, match="'another'"):
            agent.restore_state(agent.export_state() | {"policy": "another"})


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("tree-sums*kl-ucb", combine(TreeSums(), KLUCB())),
        (" tree-sums * kl-ucb ", combine(TreeSums(), KLUCB())),
        ("local-sums*ucb:constant=2", combine(LocalSums(), UCB(2.0))),
        (
            "staged-mixing:epsilon=1/50,own_pulls=false*kl-ucb:family=bernoulli,c=3",
            combine(StagedMixing(epsilon=0.02, own_pulls=False), KLUCB("bernoulli", 3)),
        ),
        ("staged-mixing:num_agents=3..9*moss:horizon=900", combine(
            StagedMixing(num_agents=(3, 9)), MOSS(900)
        )),
        ("flooded-pulls:hop_limit=4*beta-draw", combine(FloodedPulls(4), BetaDraw())),
        ("central-totals:delay=none*top-two:beta=0.25", combine(CentralTotals(None), TopTwo(0.25))),
        ("running-consensus*inflated-ucb:epsilon_c=closed", combine(
            RunningConsensus(), InflatedUCB(epsilon_c="closed")
        )),
    ],
)  # fmt: skip
def test_settings_of_both_parts(text: str, policy: Any) -> None:
    assert parse_policy(text) == policy
    assert parse_policy(policy.spelling) == policy


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("tree-sums*", "^unknown index ''"),
        ("*ucb", "^unknown aggregation ''"),
        ("*", r"^unknown aggregation ''"),
        ("tree-sum*ucb", "aggregation 'tree-sum'.*'tree-sums'"),
        ("tree-sums*mos", "index 'mos'.*'moss'"),
        ("tree-sums*ucb*ucb", r"index 'ucb\*ucb'.*'ucb'"),
        ("dducb*ucb", "aggregation 'dducb'"),
        ("tree-sums*tree-ucb", "index 'tree-ucb'"),
        ("running-sums:k=3*ucb", "running-sums.*'k=3'"),
        ("tree-sums*ucb:constnat=2", "ucb 'constnat'.*'constant'"),
        ("tree-sums*ucb:constant=0", r"^constant.* 0\b"),
        ("tree-sums*ucb:constant", "'constant'.*ucb"),
        ("flooded-pulls:hop_limit=0*ucb", r"^hop_limit.* 0\b"),
        ("central-totals:delay=-1*ucb", "^delay.* -1"),
        (
            "central-totals*inflated-ucb:epsilon_c=closed",
            "inflated-ucb:epsilon_c=closed.*central-totals",
        ),
        ("tree-sums", "policy 'tree-sums'"),
    ],
)
def test_mistakes_get_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as caught:
        parse_policy(text)
    assert "\n" not in str(caught.value)


def test_parts_are_read_by_themselves() -> None:
    assert parse_aggregation("flooded-pulls:hop_limit=3") == FloodedPulls(3)
    assert parse_aggregation("central-totals") == CentralTotals()
    assert parse_index("kl-ucb:c=3") == KLUCB(c=3.0)


@pytest.mark.parametrize(
    ("aggregation", "index", "sentence"),
    [
        (TreeSums(), "ucb", r"^index.* 'ucb'.*cb\.UCB\(\)"),
        (TreeSums(), UCB, r"^index.* <class .*cb\.UCB\(\)"),
        ("tree-sums", UCB(), r"^aggregation.* 'tree-sums'.*cb\.TreeSums\(\)"),
        (TreeSums, UCB(), r"^aggregation.* <class .*cb\.TreeSums\(\)"),
        (UCB(), TreeSums(), r"^index.* TreeSums\(.*\).*cb\.UCB\(\)"),
    ],
)
def test_what_is_no_part_is_refused(aggregation: Any, index: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        combine(aggregation, index)


# What a policy says of its parts.


RULED = {"fed-ucb"}
"""Its parts are played on what a source makes of rewards."""

TOGETHER = {"dpe2", "exp3-coop", "gosine", "gse"}
"""Their parts go with each other alone, and cannot be spelled."""


@pytest.mark.parametrize("text", EXAMPLES)
def test_nearly_every_named_policy_has_parts(text: str) -> None:
    policy = parse_policy(text)
    assert (policy.parts is None) == (policy.name in RULED)
    if policy.parts is None:
        return
    again = combine(policy.parts.aggregation, policy.parts.index)
    assert again.parts == policy.parts
    if policy.name in TOGETHER:
        assert not getattr(policy.parts.aggregation, "counts_pulls", True)
        return
    assert parse_policy(again.spelling) == again
    assert again.bonus_constant == policy.bonus_constant
    if isinstance(policy, Policy):
        assert isinstance(again, Product)
        assert again.needs == policy.needs == policy.parts.needs
        assert again.needs_common_round == policy.needs_common_round


def test_parts_tell_what_they_need() -> None:
    parts = Parts(RunningConsensus(), InflatedUCB(2.0, "closed"))
    assert parts.needs == {"num_agents", "epsilon_c:closed"}
    assert parts.statistic == UCB().statistic
    assert (parts.bonus_constant, parts.spelling) == (
        4.0,
        "running-consensus*inflated-ucb:gamma=2,epsilon_c=closed",
    )
    assert Parts(CentralTotals(), EpsilonGreedy()).bonus_constant is None
    assert Parts(CentralTotals(), UCB()).needs == frozenset()
    assert combine(StagedMixing(), UCB()).needs_common_round
    assert not combine(TreeSums(), UCB()).needs_common_round


class Partless(Policy):
    name: ClassVar[str] = "partless"


class PartlessCentral(CentralPolicy):
    name: ClassVar[str] = "partless-central"


class Swapped(Policy):
    """A policy of agents with a controller's parts."""

    name: ClassVar[str] = "swapped"

    @property
    def parts(self) -> Parts:
        return Parts(CentralTotals(), UCB())


class SwappedCentral(CentralPolicy):
    name: ClassVar[str] = "swapped-central"

    @property
    def parts(self) -> Parts:
        return Parts(TreeSums(), UCB())


def test_a_policy_without_fitting_parts_says_so() -> None:
    assert Partless().needs == frozenset()
    assert Partless().bonus_constant is None
    assert not Partless().needs_common_round
    for policy in (Partless(), Swapped()):
        with pytest.raises(InputError, match=f"{policy.name}.*aggregation"):
            policy.make_agent(one_view())
    for central in (PartlessCentral(), SwappedCentral()):
        with pytest.raises(InputError, match=f"{central.name}.*CentralTotals"):
            central.make_controller(2, 1.0)


# Own parts.


@dataclass(frozen=True)
class Alone(AnyAggregation):
    """An aggregation of one's own."""

    patience: int = 3
    name: ClassVar[str] = "alone"

    def make(self, view: LocalView, registers: Registers) -> Machine:
        return LocalSums().make(view, registers)


@dataclass(frozen=True)
class Mean(Index):
    """An index of one's own."""

    pull: float = 1.0
    name: ClassVar[str] = "mean"
    random: ClassVar[bool] = False

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return float(estimate.sums[arm] / max(1.0, estimate.counts[arm]))


def test_own_parts_are_spelled_by_module() -> None:
    policy = combine(Alone(5), Mean())
    assert policy.spelling == f"{__name__}:Alone:patience=5*{__name__}:Mean"
    assert parse_policy(policy.spelling) == policy
    assert policy.needs == frozenset()
    agent = make_agent(policy, one_view())
    agent.observe(1, 1.0)
    assert agent.choose(0) == 1


@dataclass(frozen=True)
class Careful(RunningConsensus):
    """Rejects sums below 0, in messages and in states."""

    name: ClassVar[str] = "careful"

    def check_messages(self, agent: FieldMachine, messages: Mapping[int, Vector]) -> None:
        super().check_messages(agent, messages)
        for j, message in messages.items():
            if agent.registers.share(message).sums.min() < 0.0:
                raise InputError(f"message from {j} has a sum below 0; give others")

    def check_state(self, agent: FieldMachine, values: State) -> None:
        if agent.registers.share(values["mixed"]).sums.min() < 0.0:
            raise InputError("state has a sum below 0; give another")


def test_own_aggregations_check_messages_and_states() -> None:
    agent = make_agent(combine(Careful(), UCB()), one_view(num_agents=3))
    agent.observe(0, 1.0)
    before = agent.export_state()
    good = np.array([3.0, 0.0, 3.0, 0.0])
    with pytest.raises(InputError, match="message from 2 has a sum below 0"):
        agent.receive({1: good, 2: -good})
    wrong = agent.export_state()
    wrong["aggregation"]["mixed"][0] = -1.0
    with pytest.raises(InputError, match="state has a sum below 0"):
        agent.restore_state(wrong)
    assert agent.export_state() == before
    agent.receive({1: good, 2: good})
    assert agent.export_state() != before


def test_own_parts_can_be_registered() -> None:
    class Own(Alone):
        pass

    class OwnMean(Mean):
        pass

    try:
        register_aggregation("own-alone", Own)
        register_index("own-mean", OwnMean)
        policy = combine(Own(), OwnMean(2.0))
        assert policy.spelling == "own-alone*own-mean:pull=2"
        assert parse_policy(policy.spelling) == policy
        with pytest.raises(InputError, match="'no-index'"):
            register_index("no-index", Alone)  # type: ignore[arg-type]  # it is refused
    finally:
        for registry in (AGGREGATION_REGISTRY, INDEX_REGISTRY):
            registry._things.pop("own-alone", None)
            registry._things.pop("own-mean", None)


@pytest.mark.parametrize("spec", [*(kind() for kind in AGGREGATIONS)], ids=lambda s: s.name)
def test_message_sizes_are_bounds(spec: AnyAggregation) -> None:
    registers = UCB().statistic.registers(3)
    usual, most, when = spec.message_size(registers, 8)
    assert 0 <= usual <= most
    assert when
    assert Alone().message_size(registers, 8) == (6, 6, "always")


def test_messages_are_longer_while_agents_are_counted() -> None:
    registers = UCB().statistic.registers(2)
    spec = StagedMixing(num_agents="estimate", lambda_bound="estimate")
    assert spec.message_size(registers, 100) == (4, 104, "while agents are being counted")
    assert StagedMixing().message_size(registers, 100) == (4, 5, "after losses")
    assert TreeSums().message_size(registers, 100)[:2] == (10, 43)
    assert LedgerSums().message_size(registers, 100)[:2] == (25, 58)  # 6K + 13, 6K + 46
    assert TreeSums().message_size(FadingSums().registers(2), 100)[:2] == (12, 45)
    assert NeighborhoodSums().message_size(FadingSums().registers(2), 100)[:2] == (6, 6)
