"""Compile every kernel into the cache before tests are counted and timed, in two processes."""

from __future__ import annotations

import subprocess
import sys

from coopbandits import GaussianBandit, Network, simulate
from coopbandits.core.registry import EXAMPLES, parse_policy
from coopbandits.sim.cpu import KERNELS

VARIANTS = ("dducb:own_pulls=false", "dducb:neighbor_pulls=true", "dducb:remix=true")


def play(part: int) -> None:
    """Play the policies of every second kernel for some rounds, by runs and by agents."""
    network, problem = Network.from_spec("cycle:8"), GaussianBandit([1.0, 0.5, 0.2])
    kernels = list(dict.fromkeys(KERNELS.values()))
    for policy in map(parse_policy, (*EXAMPLES, *VARIANTS)):
        if kernels.index(KERNELS[type(policy)]) % 2 == part:
            for runs in (1, 2):
                simulate(problem, network, policy, 40, runs, progress=False)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        play(int(sys.argv[1]))
    else:
        halves = [subprocess.Popen([sys.executable, __file__, half]) for half in "01"]
        sys.exit(max(half.wait() for half in halves))
