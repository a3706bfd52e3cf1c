from __future__ import annotations

from dataclasses import replace

import pytest

from coopbandits.core import DDUCB, IndependentUCB, InputError, Policy
from coopbandits.core.aggregate.staged_mixing import StagedMixingMachine
from coopbandits.core.cooperative import CooperativeAgent
from coopbandits.network import Network
from coopbandits.problems import GaussianBandit
from coopbandits.theory import as_analysed, stage_rounds
from coopbandits.theory.assumptions import require_mixed, require_plain

CYCLE = Network.from_spec("cycle:10")
PROBLEM = GaussianBandit([1.0, 0.5, 0.25])
PLAIN = as_analysed(DDUCB())
LAMBDA = CYCLE.lambda2
C = CYCLE.mixing_rounds()


def test_as_analysed_keeps_what_the_theorem_leaves_free() -> None:
    policy = DDUCB(eta=3.0, epsilon=0.01, neighbor_pulls=True, mixing_rounds=99)
    assert as_analysed(policy) == DDUCB(
        eta=3.0, epsilon=0.01, bonus_factor=4.0, own_pulls=False, mixing_rounds=99
    )
    assert as_analysed(DDUCB(remix=True)) == PLAIN


@pytest.mark.parametrize(
    "policy",
    [
        PLAIN,
        replace(PLAIN, accelerated=False),
        replace(PLAIN, mixing_rounds=C + 5),
        replace(PLAIN, values_per_message=1),
        replace(PLAIN, values_per_message=4),
        replace(PLAIN, values_per_message=6),
        replace(PLAIN, values_per_message=100),
        replace(PLAIN, lambda_bound=0.999),
    ],
    ids=lambda policy: policy.spelling,
)
def test_stages_are_as_long_as_the_agents_make_them(policy: DDUCB) -> None:
    view = CYCLE.local_view(0, num_arms=3, sigma=1.0, needs=policy.needs)
    agent = policy.make_agent(view)
    assert isinstance(agent, CooperativeAgent)
    assert isinstance(agent.machine, StagedMixingMachine)
    assert stage_rounds(PROBLEM, CYCLE, policy) == agent.machine.state.me.stage_rounds


def test_agents_that_find_out_are_not_covered() -> None:
    sentence = "know N and a bound on λ"
    for policy in (replace(PLAIN, num_agents="estimate"), replace(PLAIN, lambda_bound="heuristic")):
        with pytest.raises(InputError, match=sentence):
            require_plain("bound", policy, CYCLE)


def test_a_stage_under_a_budget() -> None:
    assert stage_rounds(PROBLEM, CYCLE, replace(PLAIN, values_per_message=4)) == -(-6 * C // 4)


@pytest.mark.parametrize(
    "policy",
    [
        PLAIN,
        replace(PLAIN, accelerated=False),
        replace(PLAIN, eta=3.0, epsilon=1 / 15),
        replace(PLAIN, mixing_rounds=C),
        replace(PLAIN, values_per_message=2),
        replace(PLAIN, num_agents=10),
        replace(PLAIN, num_agents=(10, 10)),
        replace(PLAIN, lambda_bound=LAMBDA),
        replace(PLAIN, lambda_bound=0.99),
        # Plain mixing for a given number of steps uses no bound on λ.
        replace(PLAIN, accelerated=False, mixing_rounds=1000, lambda_bound=0.5),
    ],
    ids=lambda policy: policy.spelling,
)
def test_covered(policy: DDUCB) -> None:
    assert require_plain("bound", policy, CYCLE) is policy
    assert require_mixed("bound", policy, CYCLE) is policy


@pytest.mark.parametrize(
    ("policy", "sentence"),
    [
        (
            IndependentUCB(),
            "independent-ucb",
        ),
        (
            replace(PLAIN, bonus_factor=2.0),
            r"bonus_factor=4.* 2\b.*as_analysed",
        ),
        (
            replace(PLAIN, remix=True),
            "remix=False.*remix=True.*as_analysed",
        ),
        (
            replace(PLAIN, discount=0.999),
            r"discount=1.* 0\.999.*as_analysed",
        ),
        (
            replace(PLAIN, num_agents=(8, 12)),
            r"8\.\.12.* 10\b.*num_agents",
        ),
        (
            replace(PLAIN, num_agents=11),
            r"11\b.* 10\b.*num_agents",
        ),
        (
            replace(PLAIN, lambda_bound=0.5),
            f"lambda_bound=0.5.*{LAMBDA!r}",
        ),
        (
            replace(PLAIN, mixing_rounds=C - 1),
            f"C = {C}\\b.* {C - 1}\\b.*mixing_rounds",
        ),
        (
            replace(PLAIN, accelerated=False, mixing_rounds=C),
            rf"C = {CYCLE.mixing_rounds(accelerated=False)}\b.* {C}\b.*mixing_rounds",
        ),
    ],
)
def test_refused(policy: Policy, sentence: str) -> None:
    for check in (require_plain, require_mixed):
        with pytest.raises(InputError, match=sentence):
            check("bound", policy, CYCLE)


def test_a_loose_bound_on_lambda_asks_for_more_steps() -> None:
    """The recursion runs with the bound, so C steps for the true λ do not mix enough."""
    assert require_plain("bound", replace(PLAIN, mixing_rounds=C), CYCLE)
    with pytest.raises(InputError, match=r"C = \d+"):
        require_plain("bound", replace(PLAIN, mixing_rounds=C, lambda_bound=0.99), CYCLE)


@pytest.mark.parametrize("setting", ["own_pulls", "neighbor_pulls"])
def test_pulls_read_at_once_are_covered_by_shapes_only(setting: str) -> None:
    policy = DDUCB(bonus_factor=4.0, neighbor_pulls=setting == "neighbor_pulls")
    assert require_mixed("shape", policy, CYCLE) is policy
    with pytest.raises(InputError, match=r"own_pulls=False.*own_pulls=True.*as_analysed"):
        require_plain("bound", policy, CYCLE)


def test_epsilon_and_eta_outside_the_theorem_make_no_policy() -> None:
    limit = (2 - 1) / (7 * (2 + 1))
    with pytest.raises(InputError, match="epsilon"):
        DDUCB(epsilon=limit)
    with pytest.raises(InputError, match="eta"):
        DDUCB(eta=1.0)
