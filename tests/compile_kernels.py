"""Compile every kernel into the cache before tests are counted and timed, half of them each in two
processes."""

from __future__ import annotations

import subprocess
import sys

from coopbandits import BernoulliBandit, GaussianBandit, Network, simulate
from coopbandits.core.registry import EXAMPLES, parse_policy

VARIANTS = ("dducb:own_pulls=false", "dducb:neighbor_pulls=true", "dducb:remix=true")


def play(part: int) -> None:
    """Play every second policy for some rounds, by runs and by agents."""
    network, problem = Network.from_spec("cycle:8"), GaussianBandit([1.0, 0.5, 0.2])
    for text in (*EXAMPLES, *VARIANTS)[part::2]:
        for runs in (1, 2):
            simulate(problem, network, parse_policy(text), 40, runs, progress=False)
    simulate(BernoulliBandit([0.5, 0.4]), network, parse_policy("independent-ucb"), 9)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        play(int(sys.argv[1]))
    else:
        halves = [subprocess.Popen([sys.executable, __file__, half]) for half in "01"]
        sys.exit(max(half.wait() for half in halves))
