"""check_policy holds the two forms of an aggregation together."""

from __future__ import annotations

import pytest

from coopbandits.core import UCB, CentredDraw, Index, Policy, combine
from coopbandits.testing import PolicyCheckError, check_policy
from coopbandits.testing.checks.forms import array_form
from coopbandits.testing.world import Trial

from .broken_rows import SAID, Mixed


@pytest.mark.parametrize("index", [UCB(), CentredDraw("estimate")], ids=lambda one: one.spelling)
def test_equal_forms_keep_the_contract(index: Index) -> None:
    check_policy(combine(Mixed(), index), rounds=12)


@pytest.mark.parametrize("policy", SAID, ids=lambda policy: policy.aggregation.spelling)
def test_what_differs_is_told_in_one_sentence(policy: Policy) -> None:
    with pytest.raises(PolicyCheckError, match=SAID[policy]) as caught:
        array_form(Trial(policy, 3, 12, 0))
    assert "\n" not in str(caught.value)
