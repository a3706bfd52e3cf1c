"""Spelling and parsing are inverse to each other, and mistakes get a sentence."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coopbandits.core import (
    DDUCB,
    POLICIES,
    DelayedCentralUCB,
    FloodTS,
    FloodUCB,
    GossipTS,
    IndependentUCB,
    InputError,
    TreeTS,
    TreeUCB,
    parse_policy,
)
from coopbandits.core.registry import (
    AGGREGATION_REGISTRY,
    EXAMPLES,
    INDEX_REGISTRY,
    REGISTRY,
    Registry,
)
from coopbandits.core.spelling import parse_value
from coopbandits.literature import MPUCB, CoopUCB, CoopUCL, UCBNetwork

from .variants import VARIANTS

REPEATABLE = settings(max_examples=60, deadline=None, derandomize=True, database=None)

positive = st.floats(min_value=1e-300, max_value=1e300)
agents = st.integers(1, 10**6)


@st.composite
def dducb_policies(draw: st.DrawFn) -> DDUCB:
    eta = draw(st.floats(min_value=1.001, max_value=1e6))
    share = draw(st.floats(min_value=0.001, max_value=0.999))
    own_pulls = draw(st.booleans())
    more = draw(st.sampled_from(["nothing", "budget", "neighbors", "remix"]))
    interval = st.tuples(agents, agents).map(lambda pair: (min(pair), max(pair)))
    return DDUCB(
        eta=eta,
        epsilon=share * (eta - 1) / (7 * (eta + 1)),
        bonus_factor=draw(positive),
        accelerated=draw(st.booleans()),
        own_pulls=own_pulls or more == "neighbors",
        neighbor_pulls=more == "neighbors",
        remix=more == "remix",
        values_per_message=draw(st.integers(1, 10**6)) if more == "budget" else None,
        mixing_rounds=draw(st.none() | st.integers(1, 10**6)),
        num_agents=draw(st.none() | agents | interval),
        lambda_bound=draw(st.none() | st.floats(0.0, 1.0, exclude_max=True)),
    )


@REPEATABLE
@given(dducb_policies())
def test_dducb_spelling_parses_back(policy: DDUCB) -> None:
    assert parse_policy(policy.spelling) == policy


@REPEATABLE
@given(positive)
def test_independent_ucb_spelling_parses_back(constant: float) -> None:
    policy = IndependentUCB(constant=constant)
    assert parse_policy(policy.spelling) == policy


def test_every_variant_parses_back() -> None:
    for variant in VARIANTS:
        assert parse_policy(VARIANTS[variant].spelling) == VARIANTS[variant]


# As the design lists them; those that wait for a later day are left out.
DESIGN = {
    "DDUCB": "dducb", "CoopUCB": "coop-ucb", "CoopUCB2": "coop-ucb2", "CoopUCL": "coop-ucl",
    "DecTS": "dec-ts", "CentralUCB": "central-ucb", "CentralBatchedUCB": "central-batched-ucb",
    "CentralTS": "central-ts", "IndependentUCB": "independent-ucb", "GossipTS": "gossip-ts",
    "TreeTS": "tree-ts", "FloodTS": "flood-ts",
}  # fmt: skip


def test_names_are_those_of_the_design() -> None:
    for kind, name in DESIGN.items():
        assert POLICIES[name].__name__ == kind


def test_the_examples_are_one_of_every_policy() -> None:
    assert [text.partition(":")[0] for text in EXAMPLES] == list(POLICIES)
    assert [type(parse_policy(text)) for text in EXAMPLES] == list(POLICIES.values())


def test_every_policy_is_registered_under_its_own_name() -> None:
    assert [kind.name for kind in POLICIES.values()] == list(POLICIES)


def test_every_example_parses_back() -> None:
    for text in EXAMPLES:
        policy = parse_policy(text)
        assert policy.spelling == text
        assert parse_policy(f" {text} ") == policy


def test_every_name_gives_its_defaults() -> None:
    for name in [text for text in EXAMPLES if ":" not in text]:
        assert parse_policy(name) == POLICIES[name]()
        assert parse_policy(f" {name}: ") == POLICIES[name]()
        assert parse_policy(name).spelling == name


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("coop-ucb:gamma=2,epsilon_c=landgren", CoopUCB(2.0, "landgren")),
        ("coop-ucl:gamma=1.5,prior_mean=-1,prior_sigma=0.5", CoopUCL(1.5, -1.0, 0.5)),
        ("coop-ucl:gamma=1.5,prior_sigma=inf", CoopUCL(1.5)),
        ("delayed-central-ucb:delay=3,constant=2", DelayedCentralUCB(3, 2.0)),
        ("ucb-network:constant=2", UCBNetwork(2.0)),
        ("mp-ucb:hop_limit=3,constant=0.5", MPUCB(3, 0.5)),
        ("gossip-ts:sigma=estimate", GossipTS(sigma="estimate")),
        ("tree-ts:family=bernoulli", TreeTS("bernoulli")),
        ("flood-ts:family=bernoulli,sigma=estimate", FloodTS("bernoulli", "estimate")),
        ("tree-ucb:constant=3", TreeUCB(3.0)),
        ("flood-ucb:constant=0.5", FloodUCB(0.5)),
    ],
)
def test_settings_of_the_field(text: str, policy: Any) -> None:
    assert parse_policy(text) == policy
    assert parse_policy(policy.spelling) == policy


@pytest.mark.parametrize("gamma", [np.float64(1.25), np.float32(1.25)])
def test_numbers_out_of_arrays_are_spelled_like_others(gamma: Any) -> None:
    """As in a sweep over np.linspace(1.01, 2, 5)."""
    assert CoopUCB(gamma).spelling == "coop-ucb:gamma=1.25"


@pytest.mark.parametrize("name", ["coop-ucb", "coop-ucb2", "coop-ucl"])
@pytest.mark.parametrize("rest", ["", ":"])
def test_a_setting_without_default_must_be_written(name: str, rest: str) -> None:
    with pytest.raises(InputError, match=f"^policy {name}.*gamma.*{name}:gamma=1.01"):
        parse_policy(name + rest)


def test_every_variant_has_its_own_spelling() -> None:
    assert len({policy.spelling for policy in VARIANTS.values()}) == len(VARIANTS)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True), ("False", False), ("NONE", None), ("3", 3), ("-3", -3), ("0.5", 0.5),
        ("1e-3", 1e-3), ("1/22", 1 / 22), ("90..120", (90, 120)), ("1/0", "1/0"),
        ("closed", "closed"),
    ],
)  # fmt: skip
def test_values(text: str, value: Any) -> None:
    parsed = parse_value(text)
    assert parsed == value
    assert type(parsed) is type(value)


def test_spaces_and_fractions_are_read() -> None:
    policy = parse_policy(" dducb: eta = 3 , epsilon=1/22,own_pulls=False, num_agents=90..120")
    assert policy == DDUCB(eta=3.0, own_pulls=False, num_agents=(90, 120))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ddubc", "'ddubc'.*'dducb'"),
        ("independent", "'independent'.*'independent-t?.*'"),
        ("independent-ubc", "'independent-ubc'.*'independent-ucb'"),
        ("coop-ucb:epsilon_c=closed", r"coop-ucb\b.*gamma="),
        ("coop-ucb:gamma=1", r"gamma.* 1\b"),
        ("coop-ucb:gamma=2,epsilon_c=open", "epsilon_c 'open'"),
        ("delayed-central-ucb", "delayed-central-ucb:delay="),
        ("delayed-central-ucb:delay=0", r"delay.* 0\b"),
        ("mp-ucb", "mp-ucb:hop_limit=2"),
        ("mp-ucb:hop_limit=0", r"hop_limit.* 0\b"),
        ("tree-ts:sigma=estimated", "sigma 'estimated'.*'estimate'"),
        ("dec-ts:family=gausian", "'gausian'.*'gaussian'"),
        ("", "policy ''"),
        ("dducb:etta=3", "dducb 'etta'.*'eta'"),
        ("dducb:own_pull=true", "'own_pull'.*'own_pulls'"),
        ("dducb:eta", "'eta'.*dducb.*name=value"),
        ("dducb:eta=", "'eta='.*dducb.*name=value"),
        ("dducb:eta=1", r"eta.* 1\b"),
        ("dducb:eta=3,eta=4", "eta.*dducb.*twice"),
        ("dducb:name=x", "dducb 'name'"),
    ],
)
def test_mistakes_get_a_sentence(text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        parse_policy(text)


@pytest.mark.parametrize(
    "text",
    [
        "dducb:eta=high", "dducb:own_pulls=no", "dducb:values_per_message=2.5",
        "dducb:mixing_rounds=1.5", "dducb:num_agents=1..2..3", "dducb:num_agents=2.5",
        "dducb:num_agents=many", "dducb:lambda_bound=big", "independent-ucb:constant=big",
        "dducb:eta=none", "dducb:remix=2", "mp-ucb:hop_limit=1.5", "ucb-network:constant=big",
    ],
)  # fmt: skip
def test_values_of_the_wrong_kind_get_a_sentence(text: str) -> None:
    """A wrong word must neither pass for a switch that is on nor end in a TypeError."""
    with pytest.raises(InputError):
        parse_policy(text)


@dataclass(frozen=True)
class Picky(IndependentUCB):
    """Refuses settings in its own way."""

    def __post_init__(self) -> None:
        if self.constant < 0:
            raise ArithmeticError("below\nzero")


def test_errors_of_other_peoples_settings_become_a_sentence() -> None:
    with pytest.raises(InputError, match=f"{__name__}:Picky.*ArithmeticError: below zero"):
        parse_policy(f"{__name__}:Picky:constant=-1")


def test_core_imports_no_paper_until_one_is_named() -> None:
    code = (
        "import sys; from coopbandits.core import LocalView, parse_policy\n"
        "view = LocalView(0, 0.5, {1: 0.5}, 2, num_agents=2, random_word=1)\n"
        "papers = lambda: [name for name in sys.modules if '.literature.' in name]\n"
        "for text in ('tree-ucb', 'coop-ucb2:gamma=1.01'):\n"
        "    print(parse_policy(text).make_agent(view).choose(0), papers())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split("\n")[:2] == ["0 []", "0 ['coopbandits.literature.landgren2016']"]


def test_papers_are_known_by_the_names_that_they_have() -> None:
    registries: list[Registry[Any]] = [REGISTRY, AGGREGATION_REGISTRY, INDEX_REGISTRY]
    for registry in registries:
        for kind in registry.own():
            assert registry.find(kind.name) == (kind, "")
            assert registry.name_of(kind) == kind.name


def test_a_paper_imported_by_itself_has_its_short_name() -> None:
    code = (
        "from coopbandits.literature.dubey2020 import MPUCB\n"
        "import coopbandits.core.registry\n"
        "print(MPUCB(3).spelling)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "mp-ucb:hop_limit=3"
