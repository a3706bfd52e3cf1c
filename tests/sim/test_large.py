"""Size: a million agents fit into 4 GB, and an agent-round does not grow dearer with their number.

Needs minutes, and a machine that does little else for those that time.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import coopbandits as cb
from benchmarks.engine import Case, time_case

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


def test_the_cost_of_an_agent_round_does_not_grow_with_their_number() -> None:
    sizes = (1_000, 10_000, 100_000)
    costs = {}
    for agents in sizes:
        case = Case("agents", "dducb", f"regular:3,{agents}", horizon=500, runs=1)
        timing = time_case(case, repeats=3)
        costs[agents] = timing.draws
        print(
            f"\nregular:3,{agents}: {timing.nanoseconds:.1f} ns per agent-round, "
            f"{timing.draws:.2f} draws"
        )
    ratio = costs[100_000] / costs[1_000]
    print(f"100 000 agents over 1 000: {ratio:.2f}")
    assert ratio <= 3


def test_a_ledger_sends_and_costs_five_thousand_agents_what_it_does_a_hundred() -> None:
    costs, sent = {}, {}
    for agents, runs in ((100, 50), (5_000, 1)):
        graph = f"regular:4,{agents},seed=1"
        case = Case("agents", "ledger-ts", graph, ARMS, horizon=500, runs=runs)
        costs[agents] = time_case(case, repeats=3).draws
        result = cb.simulate(
            cb.GaussianBandit([1.0] + [0.8] * (ARMS - 1)), cb.Network.from_spec(graph),
            cb.LedgerTS(), 500, progress=False,
        )  # fmt: skip
        assert result.meta["engines"] == ["cpu"]
        sent[agents] = float(result.values_sent.sum()) / (agents * 500)
        print(f"\nregular:4,{agents}: {sent[agents]:.1f} values, {costs[agents]:.1f} draws")
    ratio = costs[5_000] / costs[100]
    print(f"5000 agents over 100: {ratio:.2f}")
    assert sent[5_000] <= 4 * (6 * ARMS + 46)
    assert sent[5_000] <= 1.05 * sent[100]
    assert ratio <= 2
