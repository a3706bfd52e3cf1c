"""One round of choices and pulls of one run, for a driver that does the exchange itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from coopbandits.sim.cpu.booking import pull_rows
from coopbandits.sim.cpu.choice_forms import CONTEXT
from coopbandits.sim.cpu.choices import choose
from coopbandits.sim.cpu.leaves import kernel, segment_of


@kernel
def play_round(
    world: Any, tally: Any, rule: Any, numbers: Any, totals: Any, contexts: Any, memory: Any,
    scratch: Any, lasts: Any, fresh: Any, pulls: Any, slot: int, done: int, is_recorded: bool,
) -> None:  # fmt: skip
    """Let all agents of the single run choose by their totals; add what they pull to `pulls`."""
    num_agents, size = totals.shape
    choose(
        rule.address, totals, size, contexts, CONTEXT, world.decision_keys[0], done, numbers,
        rule.numbers_stride, memory[0], scratch, lasts, 0, num_agents, rule.num_arms, rule.squares,
    )  # fmt: skip
    pull_rows(
        world.form_kind, world.tables[0], world.is_normal, world.cubics, world.reward_keys[0],
        tally.counts[0], tally.rewards[0], tally.arms[0], fresh[0], pulls, lasts,
        np.empty((0, num_agents), dtype=np.uint8), world.block, rule.squares, slot, done, 0,
        num_agents, world.prices[0], world.places,
        segment_of(world.starts, world.period, done) * world.num_arms, world.num_arms,
        tally.costs[0], tally.regrets[0], tally.worst[0], is_recorded, 1.0,
    )  # fmt: skip
