"""Size: a million agents fit into 4 GB, and messages do not grow with the number of agents.

What an agent-round costs among how many is a benchmark: see `benchmarks.engine`.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import coopbandits as cb

pytestmark = pytest.mark.slow

AGENTS, ARMS, HORIZON = 1_000_000, 17, 50

# λ of a random 8-regular graph with max-degree weights is about 0.70; a bound spares its search.
MILLION = f"""
import json, time
import coopbandits as cb
from benchmarks.engine import peak_megabytes

started = time.perf_counter()
network = cb.Network.from_spec("regular:8,{AGENTS}")
built = time.perf_counter()
problem = cb.GaussianBandit([1.0] + [0.8] * {ARMS - 1})
result = cb.simulate(problem, network, cb.DDUCB(lambda_bound=0.75), {HORIZON}, progress=False)
played = time.perf_counter()
print(json.dumps({{
    "agents": network.num_agents,
    "pulls": int(result.dataset["pulls"].sum()),
    "engines": result.meta["engines"],
    "network_seconds": built - started,
    "simulation_seconds": played - built,
    "peak_megabytes": peak_megabytes(),
}}))
"""


def test_a_million_agents_in_four_gigabytes() -> None:
    # In a process of its own, since the largest size of a process never shrinks again.
    done = subprocess.run([sys.executable, "-c", MILLION], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    print(
        f"\n{AGENTS} agents, {ARMS} arms, {HORIZON} rounds: "
        f"network {figures['network_seconds']:.1f} s, "
        f"simulation {figures['simulation_seconds']:.1f} s, "
        f"peak memory {figures['peak_megabytes']:.0f} MB"
    )
    assert figures["engines"] == ["cpu"]
    assert figures["agents"] == AGENTS
    assert figures["pulls"] == AGENTS * HORIZON
    assert figures["peak_megabytes"] <= 4000


def test_a_ledger_sends_five_thousand_agents_what_it_does_a_hundred() -> None:
    sent = {}
    for agents in (100, 5_000):
        graph = cb.Network.from_spec(f"regular:4,{agents},seed=1")
        problem = cb.GaussianBandit([1.0] + [0.8] * (ARMS - 1))
        result = cb.simulate(problem, graph, cb.LedgerTS(), 500, progress=False)
        assert result.meta["engines"] == ["cpu"]
        sent[agents] = float(result.values_sent.sum()) / (agents * 500)
    print(f"values per agent-round, by number of agents: {sent}")
    assert sent[5_000] <= 4 * (6 * ARMS + 46)
    assert sent[5_000] <= 1.05 * sent[100]
