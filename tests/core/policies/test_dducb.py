"""DDUCB's settings, its limiting cases, and how its variants differ."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from coopbandits.core import DDUCB, InputError, parse_policy

from ..fleet import (
    GRAPHS,
    drive,
    gossip_matrix,
    make_agent,
    make_agents,
    one_view,
    rewards_tape,
    staged,
    views,
)
from ..variants import VARIANTS

# Settings.

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "eta 1": ({"eta": 1.0}, r"\beta.* 1\.0"),
    "eta nan": ({"eta": math.nan}, r"\beta.* nan"),
    r"\beta.* inf": ({"eta": math.inf}, "eta is inf"),
    "epsilon at the limit": (
        {"epsilon": 1 / 21},
        r"epsilon.* 0\.0476.*0\.047619.*eta = 2",
    ),
    "epsilon above": ({"epsilon": 0.5}, r"epsilon.* 0\.5\b"),
    "epsilon at the limit of eta": ({"eta": 1.5}, r"epsilon.* 0\.04545.*eta = 1\.5"),
    "epsilon zero": ({"epsilon": 0.0}, r"epsilon.* 0\.0\b"),
    "epsilon nan": ({"epsilon": math.nan}, "epsilon.* nan"),
    "bonus zero": (
        {"bonus_factor": 0.0},
        r"bonus_factor.* 0\.0",
    ),
    "bonus infinite": ({"bonus_factor": math.inf}, "bonus_factor.* inf"),
    "budget": (
        {"values_per_message": 0},
        r"values_per_message.* 0\b",
    ),
    "steps": ({"mixing_rounds": 0}, r"mixing_rounds.* 0\b"),
    "neighbors without own": (
        {"neighbor_pulls": True, "own_pulls": False},
        "neighbor_pulls.*own_pulls=False",
    ),
    "budget and neighbors": (
        {"values_per_message": 4, "neighbor_pulls": True},
        "values_per_message=4.*neighbor_pulls.*remix",
    ),
    "budget and remix": (
        {"values_per_message": 4, "remix": True},
        "values_per_message=4.*neighbor_pulls.*remix",
    ),
    "agents reversed": ({"num_agents": (9, 5)}, r"num_agents.*\(9, 5\)"),
    "agents zero": ({"num_agents": 0}, r"num_agents.* 0\b"),
    "agents from zero": ({"num_agents": (0, 5)}, r"num_agents.* 0\b"),
    "lambda 1": ({"lambda_bound": 1.0}, r"lambda_bound.* 1\.0\b"),
    "lambda negative": ({"lambda_bound": -0.1}, r"lambda_bound.* -0\.1"),
    "agents in words": (
        {"num_agents": "estimat"},
        "num_agents.*'estimat'.*'estimate'",
    ),
    "agents by a heuristic": ({"num_agents": "heuristic"}, "num_agents.*'heuristic'.*estimate"),
    "lambda in words": (
        {"lambda_bound": "guess"},
        "lambda_bound.*'guess'.*estimate, heuristic",
    ),
    "lambda nan": ({"lambda_bound": math.nan}, "lambda_bound.* nan"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_settings(case: str) -> None:
    settings, sentence = REFUSED[case]
    with pytest.raises(InputError, match=sentence):
        DDUCB(**settings)


def test_settings_at_the_edge_are_taken() -> None:
    assert DDUCB(epsilon=1 / 21 - 1e-12).epsilon < 1 / 21
    assert DDUCB(num_agents=(5, 5), lambda_bound=0.0, values_per_message=1, mixing_rounds=1)


def test_bonus_constant() -> None:
    assert DDUCB().bonus_constant == 4.0
    assert DDUCB(bonus_factor=4.0, eta=3.0).bonus_constant == 12.0


# What must be told.


def test_needs() -> None:
    both = {"num_agents", "lambda_bound"}
    assert DDUCB().needs == both
    assert DDUCB(accelerated=False).needs == both
    assert DDUCB(num_agents=5).needs == {"lambda_bound"}
    assert DDUCB(num_agents=(2, 5), lambda_bound=0.5).needs == frozenset()
    # The recursion needs λ even where the number of steps is given; plain mixing does not.
    assert DDUCB(mixing_rounds=3).needs == both
    assert DDUCB(mixing_rounds=3, accelerated=False).needs == {"num_agents"}


def test_estimates_need_a_random_word() -> None:
    assert DDUCB(num_agents="estimate", lambda_bound="estimate").needs == {"random_word"}
    assert DDUCB(num_agents="estimate").needs == {"random_word", "lambda_bound"}
    assert DDUCB(lambda_bound="heuristic").needs == {"random_word", "num_agents"}
    assert not DDUCB(num_agents=5, lambda_bound=0.5).finds_out
    policy = parse_policy("dducb:num_agents=estimate,lambda_bound=heuristic")
    assert policy == DDUCB(num_agents="estimate", lambda_bound="heuristic")
    assert parse_policy(policy.spelling) == policy
    with pytest.raises(InputError, match=r"random_word.*agent 0.* 0\b"):
        DDUCB(num_agents="estimate").make_agent(one_view(random_word=0))


def test_missing_knowledge_gets_a_sentence() -> None:
    with pytest.raises(InputError, match=r"staged-mixing.*num_agents"):
        DDUCB().make_agent(one_view(num_agents=None))
    with pytest.raises(InputError, match=r"staged-mixing.*lambda_bound"):
        DDUCB().make_agent(one_view(lambda_bound=None))
    with pytest.raises(InputError, match=r"staged-mixing.*lambda_bound"):
        DDUCB(mixing_rounds=3).make_agent(one_view(lambda_bound=None))


@pytest.mark.parametrize("steps", [None, 3])
@pytest.mark.parametrize("bound", [1.0, -0.5, math.nan])
def test_a_view_with_an_impossible_lambda_is_refused(bound: float, steps: int | None) -> None:
    with pytest.raises(InputError, match=r"lambda_bound is"):
        DDUCB(mixing_rounds=steps).make_agent(one_view(lambda_bound=bound))


def test_what_is_not_needed_may_be_missing() -> None:
    view = one_view(num_agents=None, lambda_bound=None)
    told = DDUCB(num_agents=3, lambda_bound=0.25)
    assert staged(make_agent(told, view)).stage_rounds == 3
    plain = DDUCB(num_agents=3, mixing_rounds=2, accelerated=False)
    assert staged(make_agent(plain, view)).stage_rounds == 2


def test_settings_override_what_is_told() -> None:
    assert DDUCB().mixing_steps(100, 0.99868449) == 164
    assert DDUCB(num_agents=(100, 200)).mixing_steps(50, 0.99967104) == 355
    assert DDUCB(lambda_bound=0.99868449).mixing_steps(100, 0.5) == 164
    assert DDUCB(accelerated=False).mixing_steps(100, 0.9986844871) == 5847
    assert DDUCB(mixing_rounds=7).mixing_steps(None, None) == 7


# Limiting cases.


def ucb(sums: NDArray[np.float64], counts: NDArray[np.float64], s: float) -> int:
    index = sums / counts + np.sqrt(4.0 * math.log(s) / counts)
    return int(np.flatnonzero(index >= index.max() - 1e-9)[0])


@pytest.mark.parametrize("own_pulls", [True, False])
def test_one_agent_is_ucb_on_statistics_one_round_old(own_pulls: bool) -> None:
    num_arms, horizon = 4, 200
    rewards = rewards_tape(1, horizon, num_arms)
    agents = make_agents(DDUCB(own_pulls=own_pulls), gossip_matrix(GRAPHS["single"]), num_arms)
    assert staged(agents[0]).stage_rounds == 1
    arms = [row[0] for row in drive(agents, rewards, 0, horizon).arms]
    assert arms[:num_arms] == [0, 1, 2, 3]
    for t in range(num_arms, horizon):
        known = max(num_arms, t - 1)  # the first stage still sees all initial pulls
        sums, counts = np.zeros(num_arms), np.zeros(num_arms)
        for pull in range(known):
            sums[arms[pull]] += rewards[0, pull, arms[pull]]
            counts[arms[pull]] += 1
        assert arms[t] == ucb(sums, counts, known)


def test_complete_graph_is_a_central_ucb_one_round_late() -> None:
    num_arms, size, horizon = 3, 6, 120
    rewards = rewards_tape(size, horizon, num_arms)
    policy = DDUCB(own_pulls=False)
    agents = make_agents(policy, np.full((size, size), 1 / size), num_arms)
    assert staged(agents[0]).stage_rounds == 1
    arms = drive(agents, rewards, 0, horizon).arms
    # In the first stage every agent reads its own initial pulls, so that they may differ.
    assert len(set(arms[num_arms])) > 1
    sums, counts = np.zeros(num_arms), np.zeros(num_arms)
    for t in range(horizon):
        if t > num_arms:
            assert arms[t] == [ucb(sums, counts, (t - 1) * size)] * size
        # Round t − 1 was played when round t + 1 chooses: one round of delay.
        pull = t - 1 if t >= num_arms else None
        for i in range(size):
            if t < num_arms:
                sums[arms[t][i]] += rewards[i, t, arms[t][i]]
                counts[arms[t][i]] += 1
            elif pull is not None and pull >= num_arms:
                sums[arms[pull][i]] += rewards[i, pull, arms[pull][i]]
                counts[arms[pull][i]] += 1


# The variants.


@pytest.mark.parametrize("variant", VARIANTS)
def test_exactly_one_pull_per_agent_and_round(variant: str) -> None:
    agents = make_agents(VARIANTS[variant], gossip_matrix(GRAPHS["path-4"]), 3)
    drive(agents, rewards_tape(4, 40, 3), 0, 40)
    parts = [
        part
        for agent in map(staged, agents)
        for part in (agent.accumulated, agent.in_flight, agent.fresh)
    ]
    total = np.sum(parts, axis=0)
    assert total[3:].sum() == pytest.approx(4 * 40, abs=1e-9)


# Three steps are few on a cycle of nine, so that how and what is mixed shows.
DIFFERENT: dict[str, dict[str, Any]] = {
    "default": {},
    "plain": {"own_pulls": False},
    "unaccelerated": {"accelerated": False},
    "neighbors": {"neighbor_pulls": True},
    "remix": {"remix": True},
    "remix-plain": {"remix": True, "own_pulls": False},
    "remix-neighbors": {"remix": True, "neighbor_pulls": True},
    "budget": {"values_per_message": 4},
    "other budget": {"values_per_message": 5},
    "bonus": {"bonus_factor": 4.0},
    "agents between": {"num_agents": (5, 20)},
    "lambda above": {"lambda_bound": 0.99},
    "computed steps": {"mixing_rounds": None},
    "computed steps, unaccelerated": {"mixing_rounds": None, "accelerated": False},
}


def test_each_variant_differs_from_the_others() -> None:
    rewards, matrix = rewards_tape(5, 100, 3), gossip_matrix(GRAPHS["cycle-5"])

    def arms(changes: dict[str, Any]) -> str:
        policy = DDUCB(**({"mixing_rounds": 3} | changes))
        return str(drive(make_agents(policy, matrix, 3), rewards, 0, 100).arms)

    played = {name: arms(changes) for name, changes in DIFFERENT.items()}
    for first, second in itertools.combinations(played, 2):
        # Not `!=` inside the assert: an explained difference of long strings takes a minute.
        differs = played[first] != played[second]
        assert differs, f"{first} plays like {second}"
    # A budget of all values is no budget.
    assert all(arms({"values_per_message": size}) == played["default"] for size in (6, 50))


def test_plain_keeps_one_arm_for_a_stage() -> None:
    agents = make_agents(DDUCB(own_pulls=False), gossip_matrix(GRAPHS["cycle-9"]), 3)
    rounds = staged(agents[0]).stage_rounds
    arms = drive(agents, rewards_tape(9, 3 + 6 * rounds, 3), 0, 3 + 6 * rounds).arms[3:]
    for start in range(0, len(arms), rounds):
        assert len({tuple(row) for row in arms[start : start + rounds]}) == 1
    assert len({tuple(row) for row in arms}) > 1


def test_sigma_scales_the_bonus() -> None:
    """σ = 1/2 with B = 4 is σ = 1 with B = 1."""
    matrix, rewards = gossip_matrix(GRAPHS["cycle-5"]), rewards_tape(5, 80, 3)
    narrow = [make_agent(DDUCB(), view) for view in views(matrix, 3, sigma=0.5)]
    small = [make_agent(DDUCB(bonus_factor=0.5), view) for view in views(matrix, 3)]
    wide = make_agents(DDUCB(), matrix, 3)
    arms = drive(narrow, rewards, 0, 80).arms
    assert arms == drive(small, rewards, 0, 80).arms
    assert arms != drive(wide, rewards, 0, 80).arms


def test_a_bound_on_lambda_is_the_setting_or_what_was_told() -> None:
    assert DDUCB(lambda_bound=0.3).known_lambda(0.5) == 0.3
    assert DDUCB().known_lambda(0.5) == 0.5
    with pytest.raises(InputError, match=r"staged-mixing.*lambda_bound"):
        DDUCB().known_lambda(None)
