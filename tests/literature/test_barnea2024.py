"""Coop-SE: what is ruled out spreads with the totals, without a word about it."""

from __future__ import annotations

import numpy as np

from coopbandits.core import CooperativeAgent
from coopbandits.literature import CoopSE

from ..core.fleet import (
    GRAPHS,
    decision_words,
    drive,
    gossip_matrix,
    make_agents,
    played_values,
    rewards_tape,
)


def ruled_out(agent: CooperativeAgent) -> set[int]:
    return set(np.flatnonzero(played_values(agent, agent.estimate()) < 0.0).tolist())


def test_what_a_neighbour_ruled_out_is_ruled_out_a_round_later() -> None:
    agents = make_agents(CoopSE(horizon=200), gossip_matrix(GRAPHS["cycle-5"]), 3)
    tape = rewards_tape(5, 200, 3) + np.arange(3.0)
    words = decision_words(5, 200)
    before: list[set[int]] = [set()] * 5
    told = 0
    for t in range(200):
        drive(agents, tape, t, t + 1, words)
        now = [ruled_out(agent) for agent in agents]
        for i, agent in enumerate(agents):
            for j in agent.view.neighbor_weights:
                told += len(before[j])
                assert before[j] <= now[i]
        before = now
    assert told > 3000
    assert before == [{0, 1}] * 5
