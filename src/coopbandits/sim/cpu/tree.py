"""Tree sums: every agent adds up what its branches tell; `tree_rounds` has the tree."""

from __future__ import annotations

from typing import Any

from coopbandits.sim.cpu.booking import charge, enter, keep_worst
from coopbandits.sim.cpu.inner import inner
from coopbandits.sim.cpu.leaves import (
    reward_from_variate,
    segment_of,
    square_place,
    variate,
    word_at,
)


@inner
def pull(
    world: Any, tally: Any, tree: Any, fresh: Any, lasts: Any, acts: Any, squares: int, slot: int,
    done: int, is_recorded: bool, weight: float, behind: float,
) -> None:  # fmt: skip
    """Let all agents that act pull."""
    own, totals, unborn, num_arms = tree.own, tree.totals, tree.unborn, world.num_arms
    arms, regrets, last = tally.arms, tally.regrets, own.shape[1] - 1
    shift = segment_of(world.starts, world.period, done) * num_arms
    for agent in range(own.shape[0]):
        if acts.shape[0] > 0 and acts[0, agent] == 0:
            if arms.shape[1] > 0:
                arms[agent, done] = -1
            continue
        arm, block = lasts[agent], agent // world.block
        row = world.places[agent] + shift + arm
        z = variate(world.is_normal, word_at(world.reward_keys[agent], done), world.cubics)
        u = reward_from_variate(world.form_kind, world.tables, row, z)
        if own[agent, last] == 0.0:
            unborn[agent] = behind - weight
        elapsed = behind - unborn[agent] - own[agent, last]
        own[agent, arm] += weight * u
        totals[agent, arm] += weight * u
        own[agent, num_arms + arm] += weight
        totals[agent, num_arms + arm] += weight
        if squares > 0:
            square = square_place(num_arms, squares, arm)
            own[agent, square] += weight * u * u
            totals[agent, square] += weight * u * u
        own[agent, last] += elapsed
        totals[agent, last] += elapsed
        fresh[agent, num_arms + arm] += 1.0
        enter(tally.counts[block], tally.rewards[block], arms, agent, slot, arm, done, done + 1, u)
        charge(world.prices, num_arms, row, 1, regrets, agent, tally.costs[block], slot)
    if is_recorded:
        for agent in range(own.shape[0]):
            keep_worst(tally.worst[agent // world.block], slot, regrets[agent])
