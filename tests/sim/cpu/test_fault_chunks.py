"""Fault schedules as kernels read them."""

from __future__ import annotations

import numpy as np
import pytest

from coopbandits import GaussianBandit, IndependentUCB, Network, parse_faults
from coopbandits.network.faults import PERFECT, directed_links
from coopbandits.sim.cpu.runs import FaultReader, link_table
from coopbandits.sim.record import Task
from coopbandits.sim.setup import Setup

NETWORK = Network.from_spec("grid:2x4")


def task_with(faults: str) -> Task:
    problem, rounds = GaussianBandit([0.0, 1.0]), np.array([40])
    given = PERFECT if faults == "none" else parse_faults(faults)
    return Task(Setup(problem, NETWORK, 40, rounds, seed=3, faults=given), IndependentUCB())


@pytest.mark.parametrize("chunks", [[40], [1, 9, 30]])
def test_every_run_has_the_schedule_of_the_reference_engine(chunks: list[int]) -> None:
    task = task_with("loss=0.3,churn=9..4,crash=0.4@5..20:lost")
    reader = FaultReader(task, range(2, 5))
    read = [reader.read(rounds) for rounds in chunks]
    for row, run in enumerate(range(2, 5)):
        expected = task.faults.schedule(NETWORK, task.seed, run).read(40)
        for name in ("acts", "fresh", "fate"):
            found = np.concatenate([getattr(part, name)[row] for part in read])
            assert np.array_equal(found, getattr(expected, name)), name
            assert found.dtype == getattr(expected, name).dtype
    assert any(part.fresh.any() for part in read)


def test_without_faults_there_are_no_rounds() -> None:
    reader = FaultReader(task_with("none"), range(3))
    assert reader.most == 40
    assert [part.shape for part in reader.read(7)] == [(3, 0, 8), (3, 0, 8), (3, 0, 20)]


def test_as_many_rounds_at_once_as_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coopbandits.sim.cpu.runs.RUN_ENTRIES", 28 * 11)
    monkeypatch.setattr("coopbandits.sim.cpu.runs.ALL_ENTRIES", 28 * 20)
    task = task_with("loss=0.3")
    assert [FaultReader(task, range(runs)).most for runs in (1, 2, 5, 100)] == [11, 10, 4, 1]


def test_links_and_the_ways_back() -> None:
    table, links = link_table(NETWORK), directed_links(NETWORK)
    assert np.array_equal(np.repeat(np.arange(8), np.diff(table.indptr)), links.receivers)
    assert np.array_equal(table.senders, links.senders)
    assert np.array_equal(links.receivers[table.reverse], links.senders)
    assert np.array_equal(links.senders[table.reverse], links.receivers)
