"""The clock of an agent, and what it says of a torn journal."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from coopbandits.fleet.config import NodeConfig
from coopbandits.fleet.process.runtime import Runtime, SteadyClock
from coopbandits.fleet.storage.disk import MemoryDisk
from coopbandits.fleet.storage.records import encode_mark, read_records
from coopbandits.fleet.transport.memory import MemoryNetwork

from ..bandits import only


def test_a_clock_set_forward_is_followed_and_one_set_back_is_not(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock, real = SteadyClock(), time.time
    for shift, follows in ((3.0, 0.0), (-3600.0, 0.0), (3600.0, 3600.0), (0.0, 3600.0)):
        monkeypatch.setattr(time, "time", lambda shift=shift: real() + shift)
        before = clock()
        clock.follow_system_clock()
        assert clock() >= before
        assert clock() == pytest.approx(real() + follows, abs=2.0)
    assert caplog.text.count("the clock was set forward by 3600 s") == 1


def test_a_torn_record_is_told(caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk()
    bandit = only()
    config = NodeConfig(bandit.cluster, "alpha", Path("unused"), {}, bandits={bandit.name: bandit})

    async def start_and_stop() -> None:
        runtime = Runtime(config, disk, MemoryNetwork().transport("alpha", ()))
        await runtime.start()
        await runtime.stop()

    asyncio.run(start_and_stop())
    assert "torn" not in caplog.text
    torn = encode_mark(read_records(bytes(disk.data)).sequence + 1)[:8]
    disk.data += torn
    asyncio.run(start_and_stop())
    assert "cut off 8 bytes" in caplog.text
    assert disk.kept == {"cut": torn}
