"""What an agent remembers, as plain data; `tests/recorded` holds journals with such contents."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coopbandits.fleet.config import NodeConfig, read_config
from coopbandits.fleet.process.main import make_runtime
from coopbandits.fleet.service.application import ApplicationService

WORDS = [number * 0x9E3779B97F4A7C15 % 2**64 for number in range(1, 17)]


def config_in(folder: Path) -> NodeConfig:
    """Read the configuration of an agent without certificates."""
    config = read_config(folder / "node.toml", now=time.time(), insecure=True)
    assert isinstance(config, NodeConfig)
    return config


@contextmanager
def opened(folder: Path) -> Iterator[ApplicationService]:
    """Open an agent's journal without starting to gossip."""
    runtime = make_runtime(config_in(folder))
    try:
        assert isinstance(runtime.service, ApplicationService)
        yield runtime.service
    finally:
        runtime.disk.close()


def contents(service: ApplicationService) -> dict[str, Any]:
    """Return what is exact under "own", and what is rounded under "estimate", arm by arm."""
    arms, health = service.arms(), service.health()
    return {
        "own": {
            "pulls": [arm.own_pulls for arm in arms],
            "rewards": [arm.own_reward for arm in arms],
            "open": [arm.open for arm in arms],
            "round": health["round"],
        },
        "estimate": {
            "mean": [arm.mean for arm in arms],
            "pulls": [arm.pulls for arm in arms],
            "low": [arm.confidence and arm.confidence[0] for arm in arms],
            "high": [arm.confidence and arm.confidence[1] for arm in arms],
            "agents": [health["agents_known"]],
        },
    }


def next_arms(service: ApplicationService) -> list[str]:
    """Let the agent choose some times, with the same random words every time."""
    service.words = iter(WORDS).__next__
    return [service.choose().arm for _ in WORDS]
