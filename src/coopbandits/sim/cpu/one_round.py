"""One round of choices and pulls of one run, for a driver that does the exchange itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from coopbandits.sim.cpu.booking import pull_rows
from coopbandits.sim.cpu.choice_forms import CONTEXT
from coopbandits.sim.cpu.choices import choose
from coopbandits.sim.cpu.leaves import kernel


@kernel
def play_round(
    world: Any, tally: Any, rule: Any, numbers: Any, totals: Any, contexts: Any, memory: Any,
    scratch: Any, lasts: Any, fresh: Any, pulls: Any, slot: int, done: int, is_recorded: bool,
) -> None:  # fmt: skip
    """Let all agents choose by their totals; add what they pull to `pulls`.

    All that is given is of one run, as `of_first_run` returns it.
    """
    num_agents, size = totals.shape
    choose(
        rule.address, totals, size, contexts, CONTEXT, world.decision_keys, done, numbers,
        rule.numbers_stride, memory, scratch, lasts, 0, num_agents, rule.num_arms, rule.squares,
    )  # fmt: skip
    pull_rows(
        world, tally, fresh, pulls, lasts, np.empty((0, num_agents), dtype=np.uint8), rule.squares,
        slot, done, 0, num_agents, is_recorded, 1.0,
    )  # fmt: skip
