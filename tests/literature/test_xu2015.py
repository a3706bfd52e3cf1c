"""One reward for the joint action: agents in step, phases by hand, and the abstract's claims."""

from __future__ import annotations

import math

import numpy as np
import pytest

from coopbandits import InputError
from coopbandits.literature import global_feedback
from coopbandits.literature.models import Dice, Played, parse_model
from coopbandits.literature.xu2015 import shared_reward

ADDED = shared_reward([0.9, 0.5, 0.2], 2)
TRAP = [[0.6, 0.1], [0.1, 0.9]]
"""Action 0 is better for each as long as the other plays 0."""
APART = [[0.2, 0.9], [0.6, 0.3]]
"""Parts of the best and of the second best joint action are the worst one, or nearly."""


def test_without_errors_agents_play_one_ucb1() -> None:
    """A single agent that knows all joint actions, in a plain loop on the same rewards."""
    flat = np.array(TRAP).ravel().tolist()
    dice, sums, counts, regret = Dice(3, 0), [0.0] * 4, [0] * 4, 0.0
    for t in range(300):
        index = [
            sums[k] / counts[k] + math.sqrt(2 * math.log(t + 1) / counts[k])
            if counts[k]
            else math.inf
            for k in range(4)
        ]
        arm = index.index(max(index))
        sums[arm] += dice.uniform() < flat[arm]
        dice.uniforms(2)  # errors of both, times 0
        counts[arm] += 1
        regret += 0.9 - flat[arm]
    result = global_feedback(TRAP, 300, rule="ucb", seed=3)
    assert result.regret[0] == pytest.approx(regret)
    assert result.messages.tolist() == [0]
    assert result.agent_regret[0].tolist() == [result.regret[0] / 2] * 2


@pytest.mark.parametrize(("rule", "rounds"), [("joint", 9), ("own", 6)])
def test_phases_are_of_all_joint_actions_or_of_all_actions(rule: str, rounds: int) -> None:
    """Arms that pay for certain, so that exploitation loses nothing once a phase is over."""
    table = np.zeros((3, 3))
    table[0, 0] = 1.0  # where the own rule begins: all else is lost
    lost = rounds - (1 if rule == "joint" else 2)
    phases = [1 + math.floor(2 * math.log(t)) for t in (rounds, 400)]
    first, many = (
        global_feedback(table, horizon, rule=rule, exploration=2.0).regret[0]
        for horizon in (rounds, 400)
    )
    assert first == lost
    assert many / lost in (phases[1] - 1, phases[1])


@pytest.mark.plays
def test_errors_break_ucb1_and_not_disco() -> None:
    """Regret of UCB1 with errors grows on; DisCo's agents only have to agree on the best."""
    regret = {
        (rule, error): global_feedback(APART, 2500, rule=rule, error=error, runs=2).regret.mean()
        for rule in ("ucb", "joint")
        for error in (0.0, 0.5)
    }
    print(regret)
    assert regret["ucb", 0.5] > 3 * regret["ucb", 0.0]
    assert regret["joint", 0.5] < 1.1 * regret["joint", 0.0]
    assert regret["joint", 0.5] < regret["ucb", 0.5]


@pytest.mark.plays
def test_own_actions_suffice_only_if_the_reward_is_informative() -> None:
    added = [
        global_feedback(ADDED, 3000, rule=rule, error=0.2, exploration=20.0).regret[0]
        for rule in ("own", "joint")
    ]
    assert added[0] < 0.6 * added[1]  # 6 rounds in a phase instead of 9
    stuck = global_feedback(TRAP, 3000, rule="own").regret[0]
    assert stuck > 3000 * 0.25  # 0.9 − 0.6 in every round
    assert global_feedback(TRAP, 3000, rule="joint").regret[0] < 3000 * 0.1


@pytest.mark.slow
def test_regret_is_logarithmic_and_linear_in_the_number_of_actions() -> None:
    """Each unit of ln t costs as much; with the own rule agents add actions, not joint ones."""
    times = [1000, 8000, 64_000]
    regret = [global_feedback(ADDED, t, "own", 0.2, 15.0, runs=6).regret.mean() for t in times]
    steps = np.diff(regret)
    print(f"regret {regret}")
    assert steps[1] == pytest.approx(steps[0], rel=0.25)
    sizes = {}
    for rule in ("own", "joint"):
        sizes[rule] = [
            global_feedback(shared_reward([0.9, 0.1, 0.1], agents), 20_000, rule, 0.0, 20.0).regret
            for agents in (2, 4)
        ]
    grown = {rule: float(many[0] / few[0]) for rule, (few, many) in sizes.items()}
    print(f"from 2 to 4 agents regret grows {grown}")
    assert grown["own"] < 3  # 12 actions for 6
    assert grown["joint"] > 5  # 81 joint actions for 9


def test_bad_input_and_seeds() -> None:
    with pytest.raises(InputError, match=r"\(2, 3\)"):
        global_feedback([[0.1, 0.2, 0.3]] * 2, 10)
    with pytest.raises(InputError, match="rule 'both'"):
        global_feedback(TRAP, 10, rule="both")
    with pytest.raises(InputError, match=r"error.* -1\b"):
        global_feedback(TRAP, 10, error=-1)
    with pytest.raises(InputError, match=r"exploration.* 0\b"):
        global_feedback(TRAP, 10, exploration=0)
    with pytest.raises(InputError, match=r"30 agents.* 1073741824\b"):
        parse_model("global-feedback").play(Played([0.5, 0.4], 30, 10, 1, 0))
    one, two, other = (
        global_feedback([[0.5, 0.45], [0.4, 0.4]], 300, error=0.5, seed=s).regret for s in (1, 1, 2)
    )
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)
