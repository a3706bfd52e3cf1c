"""Compile every kernel into the cache before tests are counted and timed, in two processes."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor

from coopbandits import GaussianBandit, Network, simulate
from coopbandits.core.registry import EXAMPLES, parse_policy
from coopbandits.sim.cpu import KERNELS

VARIANTS = ("dducb:own_pulls=false", "dducb:neighbor_pulls=true", "dducb:remix=true")


def play(texts: list[str]) -> None:
    """Play some policies for some rounds, by runs and by agents."""
    network, problem = Network.from_spec("cycle:8"), GaussianBandit([1.0, 0.5, 0.2])
    for text in texts:
        for runs in (1, 2):
            simulate(problem, network, parse_policy(text), 40, runs, progress=False)


def by_kernel() -> list[list[str]]:
    """Return all policies, those of one kernel together, so that no two compile the same."""
    groups: dict[object, list[str]] = {kernel: [] for kernel in KERNELS.values()}
    for text in (*EXAMPLES, *VARIANTS):
        groups[KERNELS[type(parse_policy(text))]].append(text)
    return list(groups.values())


if __name__ == "__main__":
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        list(pool.map(play, by_kernel()))
