"""A configuration that is right, to be spoiled."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import Any

from coopbandits.fleet.config import NodeConfig, parse_config
from coopbandits.fleet.config.bandits import BanditConfig

NOW = datetime(2026, 6, 1, tzinfo=UTC).timestamp()

GOOD: dict[str, Any] = {
    "cluster": {
        "name": "shop",
        "epoch": datetime(2026, 1, 31, 12, tzinfo=UTC),
    },
    "bandits": {"button": {"arms": ["red", "green", "blue"], "reward_range": [0.0, 1.0]}},
    "node": {"id": "shop-1", "listen": "10.0.0.1:7400", "journal": "memory/shop-1"},
    "tls": {"ca": "ca.pem", "certificate": "shop-1.pem", "key": "shop-1-key.pem"},
    "neighbors": [
        {"id": "shop-2", "address": "10.0.0.2:7400"},
        {"id": "shop-3", "address": "[fd00::3]:7401"},
    ],
}

REMOVED = object()


def spoiled(*changes: tuple[str, Any]) -> dict[str, Any]:
    """Return the good tables with some values set (``node.id``), or `REMOVED`."""
    data = copy.deepcopy(GOOD)
    for place, value in changes:
        *path, key = place.split(".")
        table: Any = data
        for name in path:
            table = table[int(name)] if isinstance(table, list) else table.setdefault(name, {})
        if value is REMOVED:
            del table[key]
        else:
            table[key] = value
    return data


def made(*changes: tuple[str, Any], insecure: bool = False) -> NodeConfig:
    return parse_config(spoiled(*changes), "here/node.toml", now=NOW, insecure=insecure)


def made_bandit(*changes: tuple[str, Any]) -> BanditConfig:
    """Return the bandit of a configuration with some of its own settings changed."""
    return made(*((f"bandits.button.{key}", value) for key, value in changes)).bandits["button"]
