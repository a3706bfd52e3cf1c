"""Many stages of whole runs in one kernel, for bonuses: every thread takes a run.

The steps and their order are those of playing and mixing stage by stage for all runs together, so
results are the same bit for bit. But a run's data stays in the core's cache, and there is no
overhead between stages. Used for many runs of networks small enough for dense mixing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from coopbandits.sim.cpu.compiling import for_threads
from coopbandits.sim.cpu.launch import launch
from coopbandits.sim.cpu.leaves import count_up_to
from coopbandits.sim.cpu.pulls import play_bonus_block
from coopbandits.sim.cpu.stage_mixing import add_run
from coopbandits.sim.cpu.world import Span


class StagePlan(NamedTuple):
    """What all stages share: their length E, the horizon, the least N, and K."""

    stage_rounds: int
    horizon: int
    fewest_agents: int
    num_arms: int


def play_stages(
    world: Any, plan: Any, tally: Any, recorded: Any, in_flight: Any, fresh: Any, accumulated: Any,
    operator: Any, explorations: Any, rule: Any, done: int, stages: int,
) -> None:  # fmt: skip
    """Play some stages of every run, from round `done` on; see `Stages` for the arrays.

    After an odd number of mixed stages, `in_flight` and `fresh` have swapped roles.
    """
    given = (
        world, plan, tally, recorded, in_flight, fresh, accumulated, operator, explorations, rule,
        done, stages,
    )  # fmt: skip
    launch(_play_run, in_flight.shape[0], given)


@for_threads(allocates=True)
def _play_run(
    run: int, world: Any, plan: Any, tally: Any, recorded: Any, all_in_flight: Any, all_fresh: Any,
    all_accumulated: Any, operator: Any, explorations: Any, rule: Any, done: int, stages: int,
) -> None:  # fmt: skip
    in_flight, fresh, accumulated = all_in_flight[run], all_fresh[run], all_accumulated[run]
    num_arms = plan.num_arms
    for _ in range(stages):
        rounds = min(plan.stage_rounds, plan.horizon - done)
        first = done == num_arms
        slot = count_up_to(recorded, done)
        last = count_up_to(recorded, done + rounds - 1)
        span = Span(done, rounds, recorded[slot : last + 1] - done, int(slot))
        read = in_flight if first else accumulated
        factor = rule.weight if first else float(plan.fewest_agents)
        for block in range(world.num_blocks):
            play_bonus_block(
                world, span, tally, run, block, read, fresh, factor, True,
                explorations[done:], rule,
            )  # fmt: skip
        done += rounds
        if rounds == plan.stage_rounds and done < plan.horizon:
            add_run(operator, in_flight, num_arms, accumulated)
            in_flight, fresh = fresh, in_flight
