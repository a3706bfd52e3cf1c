"""The compiled CPU engine: equal to the reference engine on the same tapes, and far faster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba
from numba.core import event

from coopbandits.core.baselines import IndependentUCB
from coopbandits.core.central import CentralBatchedUCB, CentralTS, CentralUCB, DelayedCentralUCB
from coopbandits.core.coop_ucb import CoopUCB, CoopUCB2, CoopUCL
from coopbandits.core.dducb import DDUCB
from coopbandits.core.errors import InputError
from coopbandits.core.registry import AnyPolicy
from coopbandits.core.robust import FloodTS, FloodUCB, GossipTS, TreeTS, TreeUCB
from coopbandits.core.shared_pulls import MPUCB, UCBNetwork
from coopbandits.core.thompson import DecBayesUCB, DecTS, IndependentTS
from coopbandits.network import Faults
from coopbandits.network.faults import PERFECT
from coopbandits.sim.clocks import Clocks
from coopbandits.sim.cpu import flood, stale_cache
from coopbandits.sim.cpu.central import play_central
from coopbandits.sim.cpu.consensus import play_consensus
from coopbandits.sim.cpu.flooding import play_flooding
from coopbandits.sim.cpu.gossip import play_gossip
from coopbandits.sim.cpu.local import play_independent_ucb
from coopbandits.sim.cpu.pulls import play_initial
from coopbandits.sim.cpu.staged import play_dducb
from coopbandits.sim.cpu.tree import play_tree
from coopbandits.sim.progress import note
from coopbandits.sim.record import Record, Task, Tick

stale_cache.remove(Path(play_initial.stats.cache_path))

KERNELS: dict[type[AnyPolicy], Callable[[Any, Task, range, Tick], Record]] = {
    DDUCB: play_dducb,
    IndependentUCB: play_independent_ucb,
    CoopUCB: play_consensus,
    CoopUCB2: play_consensus,
    CoopUCL: play_consensus,
    DecTS: play_consensus,
    DecBayesUCB: play_consensus,
    UCBNetwork: play_flooding,
    MPUCB: play_flooding,
    IndependentTS: play_consensus,
    FloodTS: flood.play_flood,
    FloodUCB: flood.play_flood,
    GossipTS: play_gossip,
    TreeTS: play_tree,
    TreeUCB: play_tree,
    CentralUCB: play_central,
    CentralBatchedUCB: play_central,
    DelayedCentralUCB: play_central,
    CentralTS: play_central,
}


NEEDS_MESSAGES: frozenset[type[AnyPolicy]] = frozenset({DDUCB, UCBNetwork, MPUCB})
"""Policies whose kernel takes all messages to arrive."""


def supports(policy: AnyPolicy, faults: Faults = PERFECT, clocks: Clocks | None = None) -> bool:
    """Tell whether a kernel plays this policy under these conditions; a subclass is another one.

    No kernel keeps messages that are late.
    """
    finds_out = isinstance(policy, DDUCB) and policy.estimates
    late = any(kind.touches == "delay" for kind in faults.kinds)
    takes_faults = not faults or not (late or type(policy) in NEEDS_MESSAGES)
    return type(policy) in KERNELS and not finds_out and takes_faults and clocks is None


def obstacle(task: Task) -> str | None:
    """Return for what there is no kernel, to be read after these words, or None if one plays."""
    if not supports(task.policy, task.faults, task.clocks):
        conditions = f" for faults {task.faults.spelling}" if task.faults else ""
        return conditions + (" on own clocks" if task.clocks else "")
    return flood.excess(task) if isinstance(task.policy, FloodTS | FloodUCB) else None


def play(task: Task, runs: range, tick: Tick) -> Record:
    """Play some runs at once."""
    return KERNELS[type(task.policy)](task.policy, task, runs, tick)


@contextmanager
def threads(number: int | None) -> Iterator[None]:
    """Use so many threads inside; None for all there are."""
    most: int = numba.config.NUMBA_NUM_THREADS
    if number is not None and not (type(number) is int and 1 <= number <= most):
        raise InputError(f"threads is {number!r}; give 1 to {most}, or None for all")
    before = numba.get_num_threads()
    numba.set_num_threads(number or most)
    try:
        with event.install_listener("numba:compile", CompilationNote()):
            yield
    finally:
        numba.set_num_threads(before)


class CompilationNote(event.Listener):
    """Says once that a kernel is being compiled, when one is: later starts find it cached."""

    told = False

    def on_start(self, event: Any) -> None:
        """Tell it the first time."""
        del event
        if not CompilationNote.told:
            CompilationNote.told = True
            note("compiling the CPU engine, which takes about half a minute and is then cached")

    def on_end(self, event: Any) -> None:
        """Stay silent."""
