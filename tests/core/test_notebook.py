"""What notebooks show of policies."""

from __future__ import annotations

import pytest

from coopbandits.core.aggregate import TreeSums
from coopbandits.core.contract import LocalView
from coopbandits.core.index import KLUCB
from coopbandits.core.notebook import html_facts
from coopbandits.core.policies import DDUCB
from coopbandits.core.policy import Policy, combine


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
