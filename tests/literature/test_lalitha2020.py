"""Dec-TS and Dec-BayesUCB: settings, what must be told, and the first draw."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from coopbandits.core import InputError, Policy
from coopbandits.literature import DecBayesUCB, DecTS

from ..core.fleet import decision_words, drive, make_agents, one_view, rewards_tape


@pytest.mark.parametrize("kind", [DecTS, DecBayesUCB])
def test_unknown_families_get_the_nearest(kind: Any) -> None:
    with pytest.raises(InputError, match=r"'gausian'.*'gaussian'"):
        kind("gausian")


@pytest.mark.parametrize("policy", [DecTS(), DecTS("bernoulli"), DecBayesUCB()])
def test_the_number_of_agents_must_be_told(policy: Policy) -> None:
    assert policy.needs == {"num_agents"}
    with pytest.raises(InputError, match=r"running-consensus.*number of agents"):
        policy.make_agent(one_view(num_agents=None))


def test_the_first_draw_is_from_the_prior() -> None:
    """No initial rounds: with many agents every arm is played in the first round."""
    matrix = np.full((60, 60), 1 / 60)
    run = drive(
        make_agents(DecTS(), matrix, 3), rewards_tape(60, 1, 3), 0, 1, decision_words(60, 1)
    )
    counts = np.bincount(run.arms[0], minlength=3)
    assert (counts >= 10).all()
