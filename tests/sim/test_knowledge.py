"""What takes the whole network to know, and reaches only those who ask for it."""

from __future__ import annotations

import numpy as np
import pytest

from coopbandits import GaussianBandit, Network, simulate
from coopbandits.core import InputError, Policy, parse_policy
from coopbandits.core.registry import EXAMPLES
from coopbandits.literature import CoopUCB, DecTS
from coopbandits.sim.knowledge import LOCAL, SOURCES, global_knowledge
from coopbandits.theory.epsilon_c import epsilon_c

PATH = Network.from_spec("path:5")  # all eigenvalues are simple


def test_nothing_is_told_to_those_who_need_nothing() -> None:
    assert global_knowledge(PATH, ()) == [{}] * 5
    assert global_knowledge(PATH, {"num_agents", "lambda_bound"}) == [{}] * 5
    assert global_knowledge(PATH, DecTS().needs) == [{}] * 5


@pytest.mark.parametrize("form", ["closed", "landgren"])
def test_every_agent_is_told_its_own_epsilon_c(form: str) -> None:
    known = global_knowledge(PATH, CoopUCB(2.0, form).needs)
    expected = epsilon_c(PATH, form=form)
    assert [own[f"epsilon_c:{form}"] for own in known] == expected.tolist()
    assert all(len(own) == 1 and type(own[f"epsilon_c:{form}"]) is float for own in known)
    assert np.unique(expected).size > 1


def test_both_forms_at_once() -> None:
    known = global_knowledge(PATH, {"epsilon_c:closed", "epsilon_c:landgren"})
    assert all(own["epsilon_c:closed"] <= own["epsilon_c:landgren"] for own in known)


def test_landgrens_form_warns_where_eigenvalues_repeat() -> None:
    cycle = Network.from_spec("cycle:5")
    with pytest.warns(UserWarning, match="eigen"):
        global_knowledge(cycle, {"epsilon_c:landgren"})
    global_knowledge(cycle, {"epsilon_c:closed"})


def test_unknown_knowledge_gets_the_nearest() -> None:
    with pytest.raises(InputError, match=r"'epsilon_c:close'.*'epsilon_c:closed'"):
        global_knowledge(PATH, {"epsilon_c:close"})


def test_every_need_of_every_policy_can_be_told() -> None:
    for policy in map(parse_policy, EXAMPLES):
        if isinstance(policy, Policy):
            assert policy.needs <= LOCAL | set(SOURCES)


@pytest.mark.parametrize("engine", ["cpu", "reference"])
def test_the_engines_tell_each_agent_its_own(engine: str) -> None:
    """The middle of a star has ε_c = 0 and explores least."""
    network = Network.from_spec("star:6")
    assert epsilon_c(network).argmin() == 0
    policy = CoopUCB(2.0)
    problem = GaussianBandit([1.0, 0.0], sigma=0.3)
    pulls = simulate(
        problem, network, policy, 300, 4, 1, engine, keep="agents"
    ).dataset["agent_pulls"].mean("run")  # fmt: skip
    bad = pulls.isel(policy=0, arm=1).values
    assert bad[0] < bad[1:].min()
