"""The driver knows how much memory a run takes, so that batches of runs fit."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import coopbandits as cb
from coopbandits.sim.cpu import ENGINE, parts_of
from coopbandits.sim.driver import Driver
from coopbandits.sim.record import Task
from coopbandits.sim.setup import Setup, read_conditions

from .push_sum import PushSum
from .test_driver import PROBLEM

LINEAR = cb.LinearBandit([0.5, -0.25, 1.0], num_arms=4)


def size(thing: Any) -> int:
    """Return the bytes of all arrays in something."""
    if isinstance(thing, np.ndarray):
        return int(thing.nbytes)
    return sum(map(size, thing)) if isinstance(thing, tuple | list) else 0


@pytest.mark.parametrize(
    ("policy", "more"),
    [
        (cb.combine(cb.RunningSums(), cb.NormalDraw()), {}),
        (cb.combine(PushSum(), cb.UCB()), {"keep": "agents"}),
        (cb.combine(PushSum(), cb.UCB()), {"faults": "delay=9"}),
        (cb.combine(cb.RunningSums(), cb.UCB()), {"clocks": "poisson:latency=9"}),
        (cb.combine(PushSum(), cb.LinTS(disjoint=True)), {}),
    ],
    ids=["running sums", "kept pulls", "delays", "clocks", "models"],
)
def test_memory_of_a_run(policy: Any, more: dict[str, str]) -> None:
    problem = LINEAR if policy.takes_context else PROBLEM
    faults, clocks = read_conditions(more.get("faults"), more.get("clocks"))
    network = cb.Network.from_spec("grid:10x20")
    setup = Setup(
        problem, network, 50, np.array([50]), 3, keep=more.get("keep", ""), faults=faults,
        clocks=clocks,
    )  # fmt: skip
    task = Task(setup, policy)
    driver = Driver(parts_of(task), task, range(3), lambda pulls: None)
    with ThreadPoolExecutor(1) as pool:  # letters under way take more room as it is needed
        driver.play_span(pool)
    there = size([agents.memory for agents in driver.agents]) + size(list(driver.fresh))
    there += size(driver.state.memory)
    there += size([list(late) for late in driver.late]) if clocks is None else size(driver.events)
    told = 3 * ENGINE.run_bytes(task)  # type: ignore[operator]  # this engine has such a number
    assert 0.9 * there < told < 2.0 * there


def test_links_take_memory() -> None:
    policy = cb.combine(cb.RunningSums(), cb.UCB())
    few, many = (
        ENGINE.run_bytes(
            Task(Setup(PROBLEM, cb.Network.from_spec(graph), 5, np.array([5])), policy)
        )
        for graph in ("cycle:50", "complete:50")
    )
    assert many > 10 * few  # type: ignore[operator]  # this engine has such numbers
