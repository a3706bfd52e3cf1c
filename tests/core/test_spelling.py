"""Settings that do not fit are one sentence in Python, too."""

from __future__ import annotations

import copy
import pickle  # noqa: TID251  what worker processes are sent by
from dataclasses import dataclass
from inspect import signature
from typing import Any, ClassVar

import pytest

import coopbandits as typed
from coopbandits.core import DDUCB, InputError, Policy
from coopbandits.core.aggregate import TreeSums
from coopbandits.core.contract import LocalView
from coopbandits.core.index import KLUCB
from coopbandits.core.policy import combine
from coopbandits.core.spelling import html_facts
from coopbandits.literature import CoopUCB2

cb: Any = typed  # a type checker would refuse these calls, too


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: cb.CoopUCB2(), r"CoopUCB2\(gamma="),
        (lambda: cb.MPUCB(), r"MPUCB\(hop_limit="),
        (
            lambda: cb.CoopUCB2(gama=2.0),
            "CoopUCB2 'gama'.*discount, gamma.*'gamma'",
        ),
        (
            lambda: cb.UCB(c=2),
            "UCB 'c'.*constant",
        ),
        (
            lambda: cb.CoopUCB2(2.0, 1.0, 3.0),
            "CoopUCB2.* 3 .*gamma, discount",
        ),
        (
            lambda: cb.CoopUCB2(2.0, gamma=2.0),
            "CoopUCB2.* 2 .*gamma, discount",
        ),
        (
            lambda: cb.IndependentUCB(1, 1, None, 4),
            "IndependentUCB.* 4 .*constant",
        ),
    ],
)
def test_settings_that_do_not_fit_are_refused(make: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence) as caught:
        make()
    assert caught.value.__suppress_context__  # Python's own words are not shown beside ours


def test_a_mistake_inside_a_policy_is_not_taken_for_bad_settings() -> None:
    @dataclass(frozen=True)
    class Faulty(Policy):
        name: ClassVar[str] = "faulty"
        step: int

        def __post_init__(self) -> None:
            len(self.step)  # type: ignore[arg-type]  # a wrong value fails here

    with pytest.raises(TypeError, match="has no len"):
        Faulty(3)

    class Own(Policy):
        name = "own"

        def __init__(self, factory: Any) -> None:
            self.factory = factory

    with pytest.raises(TypeError, match="factory"):
        Own()  # type: ignore[call-arg]  # it is refused


def test_policies_are_copied_and_sent_to_other_processes() -> None:
    policy = CoopUCB2(2.0)
    assert copy.copy(policy) == copy.deepcopy(policy) == policy
    assert pickle.loads(pickle.dumps(policy)) == policy  # noqa: S301  our own bytes


def test_notebooks_show_the_settings() -> None:
    assert str(signature(CoopUCB2)) == "(gamma: 'float', discount: 'float' = 1.0)"
    assert "eta: 'float' = 2.0" in str(signature(DDUCB))
    assert str(signature(Policy)) == "()"


class Undecorated(DDUCB):
    eta: float = 5.0


@dataclass(frozen=True)
class Unannotated(DDUCB):
    eta = 5.0


class Below(Undecorated):
    pass


@dataclass(frozen=True)
class Decorated(DDUCB):
    eta: float = 5.0


class BelowDecorated(Decorated):
    name: ClassVar[str] = "below"


@pytest.mark.parametrize("kind", [Undecorated, Unannotated, Below])
def test_a_default_that_would_not_count_is_refused(kind: type[DDUCB]) -> None:
    for _ in range(2):
        with pytest.raises(InputError, match=r"5\.0.*eta: float"):
            kind()


def test_a_default_of_a_dataclass_counts() -> None:
    assert Decorated().eta == BelowDecorated().eta == 5.0


def test_names_and_values_are_escaped() -> None:
    text = html_facts("<a> & b", [("<c>", "<d>"), ("e", 7)])
    assert "<strong>&lt;a&gt; &amp; b</strong>" in text
    assert "&lt;c&gt;</th>" in text
    assert "&lt;d&gt;</td>" in text
    assert ">7</td>" in text
    assert "color" not in text


@pytest.mark.parametrize("policy", [DDUCB(eta=3), combine(TreeSums(), KLUCB())])
def test_settings_and_parts(policy: Policy) -> None:
    text = policy._repr_html_()
    assert policy.parts is not None
    assert f"<strong>Policy {policy.spelling}</strong>" in text
    assert f">{policy.parts.aggregation.spelling}</td>" in text
    assert f">{policy.parts.index.spelling}</td>" in text
    assert text.count(">aggregation<") == 1


def test_a_policy_without_parts() -> None:
    class Own(Policy):
        name = "own"

        def make_agent(self, view: LocalView) -> None:  # type: ignore[override]  # never called
            """Never called."""

    text = Own()._repr_html_()
    assert ">agents are told</th>" in text
    assert ">nothing</td>" in text
    assert "aggregation" not in text
