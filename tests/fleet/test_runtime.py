"""The clock of an agent, and agents that run by it."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from coopbandits.core.errors import InputError
from coopbandits.fleet.address import Address
from coopbandits.fleet.config import ClusterConfig, NodeConfig
from coopbandits.fleet.disk import FileDisk
from coopbandits.fleet.local import LocalAgent
from coopbandits.fleet.runtime import SteadyClock

from .transport.nodes import places

CLUSTER = ClusterConfig("test", 1_790_000_000, ("a", "b"), "flood-ts", sigma=1.0)


def config(folder: Path, listen: Address) -> NodeConfig:
    return NodeConfig(CLUSTER, "alpha", folder / "alpha", {}, listen)


def test_a_clock_set_forward_is_followed_and_one_set_back_is_not(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock, real = SteadyClock(), time.time
    for shift, follows in ((3.0, 0.0), (-3600.0, 0.0), (3600.0, 3600.0), (0.0, 3600.0)):
        monkeypatch.setattr(time, "time", lambda shift=shift: real() + shift)
        before = clock()
        clock.compare()
        assert clock() >= before
        assert clock() == pytest.approx(real() + follows, abs=2.0)
    assert caplog.text.count("the clock was set forward by 3600 s") == 1


def test_an_agent_in_a_program_remembers_its_rewards(tmp_path: Path) -> None:
    with places("alpha") as at:
        for begun in (0, 1):
            with LocalAgent(config(tmp_path, at["alpha"])) as agent:
                assert agent.health()["rewards"] == begun
                choice = agent.choose(["b"])
                assert agent.observe(choice.ticket, 0.5).arm == "b"
                assert agent.ready() is None
                assert [arm.own_pulls for arm in agent.arms()] == [0, begun + 1]
                assert {metric.name for metric in agent.metrics()} >= {"round", "choices_total"}
                with pytest.raises(InputError, match="is running already"):
                    agent.start()
            with pytest.raises(InputError, match="is not running; start it first"):
                agent.choose()


def test_an_agent_that_cannot_listen_says_so_and_lets_go_of_its_journal(tmp_path: Path) -> None:
    with places("alpha") as at, LocalAgent(config(tmp_path / "one", at["alpha"])):
        made = config(tmp_path / "two", at["alpha"])
        with pytest.raises(InputError, match="cannot listen on 127"):
            LocalAgent(made).start()
        FileDisk(made.journal).close()


def test_a_journal_has_one_agent(tmp_path: Path) -> None:
    with places("alpha") as at, LocalAgent(config(tmp_path, at["alpha"])):
        other = replace(config(tmp_path, at["alpha"]), listen=Address("127.0.0.1", 0))
        with pytest.raises(InputError, match="in use by another process"):
            LocalAgent(other).start()
