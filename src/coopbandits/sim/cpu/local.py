"""Independent agents: one stage that never ends."""

from __future__ import annotations

import numpy as np

from coopbandits.core.agent import NO_INFORMATION
from coopbandits.core.baselines import IndependentUCB
from coopbandits.sim.cpu.consensus import play_consensus
from coopbandits.sim.cpu.pulls import play_alone
from coopbandits.sim.cpu.runs import Runs, UcbRule
from coopbandits.sim.cpu.world import span
from coopbandits.sim.record import Record, Task, Tick

SPAN_PULLS = 2_000_000
"""Pulls of one run played between two reports of progress; no result depends on other runs."""


def play_independent_ucb(policy: IndependentUCB, task: Task, runs: range, tick: Tick) -> Record:
    """Play some runs of `IndependentUCB`; under faults agents have made unequally many pulls."""
    if task.faults:
        return play_consensus(policy, task, runs, tick)
    state = Runs(task, runs, tick)
    state.play_initial()
    rule = UcbRule(own_pulls=True, weight=1.0, least=NO_INFORMATION)
    scale = policy.constant * task.problem.sigma**2
    most = max(1, SPAN_PULLS // task.network.num_agents)
    while (done := state.done) < task.horizon:
        rounds = min(most, task.horizon - done)
        times = np.maximum(2.0, done + np.arange(rounds))
        play_alone(
            state.world, span(task, done, rounds), state.tally, state.fresh, state.fresh,
            1.0, False, scale * np.log(times), rule,
        )  # fmt: skip
        state.played(rounds)
    return state.finish()
