"""What pulls pay and cost, entered into registers and into the tally."""

from __future__ import annotations

from typing import Any

import numpy as np

from coopbandits.problems.tables import BEST, NETWORK_GAP, OWN_GAP
from coopbandits.sim.cpu.compiling import inner
from coopbandits.sim.cpu.leaves import (
    reward_from_variate,
    segment_of,
    square_place,
    variate,
    word_at,
)


@inner
def book(
    counts: Any, rewards: Any, arms: Any, fresh: Any, agent: int, num_arms: int, slot: int,
    arm: int, start: int, end: int, gained: float,
) -> None:  # fmt: skip
    """Enter a stretch of one agent's pulls of one arm, pull numbers `start` … `end − 1`."""
    fresh[agent, arm] += gained
    fresh[agent, num_arms + arm] += end - start
    enter(counts, rewards, arms, agent, slot, arm, start, end, gained)


@inner
def enter(
    counts: Any, rewards: Any, arms: Any, agent: int, slot: int, arm: int, start: int, end: int,
    gained: float,
) -> None:  # fmt: skip
    """Do the same without own pulls since."""
    counts[slot, arm] += end - start
    rewards[slot] += gained
    if arms.shape[1] > 0:
        for pull in range(start, end):
            arms[agent, pull] = arm


@inner(forceinline=True)
def charge(
    prices: Any, num_arms: int, row: int, pulls: int, regrets: Any, agent: int, costs: Any,
    slot: int,
) -> None:  # fmt: skip
    """Enter what some pulls of one row cost an agent; the network's share where tables differ."""
    regrets[agent] += pulls * prices[row, OWN_GAP]
    if prices.shape[0] > num_arms:
        for which in range(3):
            costs[slot, which] += pulls * prices[row, which]


@inner(forceinline=True)
def keep_worst(worst: Any, slot: int, regret: float) -> None:
    """Enter an agent's regret at the end of a recorded round."""
    worst[slot] = max(worst[slot], regret)


@inner
def pull_rows(
    world: Any, tally: Any, fresh: Any, own: Any, lasts: Any, squares: int, slot: int, done: int,
    start: int, end: int, is_recorded: bool,
) -> None:  # fmt: skip
    """Let some agents of one run pull the arms they chose, and add the pulls to rows.

    Of `world` and `tally` this run's are given.
    """
    is_plain = world.prices.shape[0] == world.num_arms and squares == 0
    if is_plain and fresh.shape[0] == 0 and tally.arms.shape[1] == 0:
        _pull_plain_rows(world, tally, own, lasts, slot, done, start, end, is_recorded)
        return
    kind, table, prices, num_arms = world.form_kind, world.tables, world.prices, world.num_arms
    is_normal, cubics, rewards_from = world.is_normal, world.cubics, world.reward_keys
    places, block = world.places, world.block
    shift = segment_of(world.starts, world.period, done) * num_arms
    counts, rewards, arms, regrets = tally.counts, tally.rewards, tally.arms, tally.regrets
    counted, at_slot = np.uintp(num_arms), np.uintp(slot)  # unsigned as in `averaging`
    for first in range(start, end, block):
        at, paid = np.uintp(first // block), 0.0
        stop = min(first + block, end)
        for agent in range(np.uintp(first), np.uintp(stop)):
            arm = np.uintp(lasts[agent])
            z = variate(is_normal, word_at(rewards_from[agent], done), cubics)
            u = reward_from_variate(kind, table, np.uintp(places[agent] + shift) + arm, z)
            own[agent, arm] += u
            own[agent, counted + arm] += 1.0
            if squares > 0:
                square = np.uintp(square_place(num_arms, squares, np.int64(arm)))
                own[agent, square] += u * u
            counts[at, at_slot, arm] += 1
            paid += u
            if fresh.shape[0] > 0:
                fresh[agent, counted + arm] += 1.0
            if arms.shape[1] > 0:
                arms[agent, done] = arm
        rewards[at, at_slot] += paid
        _charge_rows(
            prices, num_arms, places, shift, lasts, regrets, tally.costs[at], tally.worst[at], slot,
            first, stop, is_recorded,
        )  # fmt: skip


@inner(forceinline=True)
def _pull_plain_rows(
    world: Any, tally: Any, own: Any, lasts: Any, slot: int, done: int, start: int, end: int,
    is_recorded: bool,
) -> None:  # fmt: skip
    """Do the same where there is one table and nothing else is kept: most often so."""
    counted, at_slot = np.uintp(world.num_arms), np.uintp(slot)
    regrets = tally.regrets
    for first in range(start, end, world.block):
        at, paid = np.uintp(first // world.block), 0.0
        stop = min(first + world.block, end)
        for agent in range(np.uintp(first), np.uintp(stop)):
            arm = np.uintp(lasts[agent])
            z = variate(world.is_normal, word_at(world.reward_keys[agent], done), world.cubics)
            u = reward_from_variate(world.form_kind, world.tables, arm, z)
            own[agent, arm] += u
            own[agent, counted + arm] += 1.0
            tally.counts[at, at_slot, arm] += 1
            paid += u
            regrets[agent] += world.prices[arm, OWN_GAP]
        tally.rewards[at, at_slot] += paid
        if is_recorded:
            for agent in range(first, stop):
                keep_worst(tally.worst[at], slot, regrets[agent])


@inner(forceinline=True)
def _charge_rows(
    prices: Any, num_arms: int, places: Any, shift: int, lasts: Any, regrets: Any, costs: Any,
    worst: Any, slot: int, first: int, stop: int, is_recorded: bool,
) -> None:  # fmt: skip
    """Enter what one pull of each of some agents costs, in a loop of its own: that is quicker."""
    for agent in range(np.uintp(first), np.uintp(stop)):
        row = np.uintp(places[agent] + shift + lasts[agent])
        regrets[agent] += prices[row, OWN_GAP]
        if prices.shape[0] > num_arms:
            costs[slot, OWN_GAP] += prices[row, OWN_GAP]
            costs[slot, NETWORK_GAP] += prices[row, NETWORK_GAP]
            costs[slot, BEST] += prices[row, BEST]
    if is_recorded:
        for agent in range(first, stop):
            keep_worst(worst, slot, regrets[agent])
