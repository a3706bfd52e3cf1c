"""Compile every kernel and choice into the cache before tests are counted and timed."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from coopbandits import GaussianBandit, LinearBandit, Network, combine, parse_policy, simulate
from coopbandits.core.aggregate import CentralTotals, FloodedTotals, LedgerSums, TreeSums
from coopbandits.core.index import KLUCB
from coopbandits.core.registry import AGGREGATIONS, INDICES
from coopbandits.sim.cpu.choices import compiled_choice

VARIANTS = (
    "dducb", "dducb:own_pulls=false", "dducb:neighbor_pulls=true", "dducb:remix=true",
    "benchmarks.parts:OwnPushSum*kl-ucb",
)  # fmt: skip

TREES = (TreeSums, LedgerSums, FloodedTotals)


def play(text: str) -> None:
    """Play a policy for some rounds, by runs and by agents."""
    network, problem = Network.from_spec("cycle:8"), GaussianBandit([1.0, 0.5, 0.2])
    for runs in (1, 2):
        simulate(problem, network, parse_policy(text), 40, runs, progress=False)


def play_linear(aggregation: str) -> None:
    """Play linear models for some rounds."""
    network = Network.from_spec("cycle:8")
    for theta, setting in (([1, 0], "false"), ([[1, 0], [0, 1]], "true")):
        for index in ("lin-ts", "lin-ucb"):
            policy = parse_policy(f"{aggregation}*{index}:disjoint={setting}")
            simulate(LinearBandit(theta), network, policy, 40, progress=False)


def play_trees() -> None:
    """Play linear models, and trees and floods, whose kernels share parts with them."""
    for aggregation in (FloodedTotals(), TreeSums()):
        play_linear(aggregation.spelling)
    for kind in TREES:
        play(combine(kind(), KLUCB()).spelling)


def play_others() -> None:
    """Play on all other aggregations, and variants."""
    kinds: list[type[Any]] = [*AGGREGATIONS, CentralTotals]
    pairs = [combine(kind(), KLUCB()).spelling for kind in kinds if kind not in TREES]
    for text in (*pairs, *VARIANTS):
        play(text)


def choices(first: int) -> None:
    """Compile the choices of every second index."""
    for index in (*(kind() for kind in INDICES), KLUCB("bernoulli"))[first::2]:
        compiled_choice(index)


if __name__ == "__main__":
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        done = [pool.submit(play_trees), pool.submit(play_others)]
        done += [pool.submit(choices, first) for first in range(2)]
        for future in done:
            future.result()
