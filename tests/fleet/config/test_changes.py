"""What a reload logs of two configurations, and that no difference is missed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from coopbandits.fleet.address import Address
from coopbandits.fleet.config import NodeConfig, TlsFiles
from coopbandits.fleet.config.bandits import Arm
from coopbandits.fleet.config.changes import LONGEST, changes_of, facts
from coopbandits.fleet.config.features import Feature

from .sample import made

KEYS = tuple(bytes([k]) * 32 for k in range(9))
HOSTS = tuple(f"host-{k}.example.net" for k in range(50))
PLACE, PATH = Address("127.0.0.1", 9), Path("/elsewhere")

OTHER: dict[str, Any] = {
    "id": "shop-9", "journal": PATH, "neighbors": {"shop-9": PLACE}, "listen": PLACE,
    "durability": "power", "api": PATH, "default_bandit": "none", "token_file": PATH,
    "ticket_lifetime": 3600.0000001, "max_open_tickets": 10_001, "silence": 5.0000001,
    "max_forwarded_calls": 1001, "forward_seconds": 1.5000001,
    "uvloop": True, "revoked": PATH, "log_level": "debug", "log_format": "json",
    "drain_seconds": 1e-9, "ready_neighbors": 1, "tls": TlsFiles(PATH, PATH, PATH),
    "api_tls": TlsFiles(PATH, PATH, PATH), "auto": True, "degree": 6, "seeds": (PLACE,),
    "advertise": PLACE,
}  # fmt: skip
"""Another value of every setting, as close as it may be."""

TABLES: dict[str, dict[str, Any]] = {
    "cluster": {
        "name": "mill", "epoch": 1, "rounds_per_second": 20.000001, "max_agents": 9,
        "max_pulls_per_second": 1000.0001, "signatures_per_second": 1.000001,
    },
    "api_limits": {
        "max_connections": 257, "max_streams": 17, "max_header_bytes": 1, "max_body_bytes": 1,
        "header_timeout": 1.0, "body_timeout": 1.0, "idle_timeout": 1.0, "hosts": HOSTS,
        "origins": ("https://a.example.net",),
    },
    "api_tokens": {
        "choose_token_file": PATH, "metrics_token_file": PATH, "admin_token_file": PATH,
    },
    "document": {"operators": KEYS, "file": PATH},
}  # fmt: skip

BANDIT: dict[str, Any] = {
    "number": 7, "arms": (Arm("red, green", "red"), Arm("blue", "blue")), "policy": "tree-ts",
    "era": 1, "reward_range": (0.0, 1.0000001), "sigma": 1.0, "num_agents": "estimate",
    "lambda_bound": 0.5, "half_life": 7200.0, "features": (Feature("age", (0.0, 1.0)),),
    "max_pulls_per_second": 3.0, "pinned": "red", "token_file": PATH, "purged": ("grey",),
    "sticky_seconds": 1e-9,
}  # fmt: skip


def lines(before: NodeConfig, after: NodeConfig) -> list[str]:
    return [str(change) for change in changes_of(facts(before), facts(after))]


@pytest.mark.parametrize("key", sorted(field.name for field in fields(NodeConfig)))
def test_every_setting_of_a_node_is_compared(key: str) -> None:
    """A difference that is missed would be neither applied nor rejected."""
    config = made()
    assert lines(config, config) == []
    if key == "bandits":
        return
    if key in TABLES:
        assert TABLES[key].keys() == {field.name for field in fields(getattr(config, key))}
    for inner, value in TABLES.get(key, {}).items():
        table = replace(getattr(config, key), **{inner: value})
        assert lines(config, replace(config, **{key: table})), inner
    if key not in TABLES:
        assert lines(config, replace(config, **{key: OTHER[key]}))


def test_every_setting_of_a_bandit_is_compared() -> None:
    config = made(("bandits.button.policy", "flood-ts"))
    (bandit,) = config.bandits.values()
    kept = {"name", "cluster", "is_implied"}  # the name is its section
    assert BANDIT.keys() == {field.name for field in fields(bandit)} - kept
    for key, value in BANDIT.items():
        changed = replace(config, bandits={bandit.name: replace(bandit, **{key: value})})
        (line,) = lines(config, changed)
        assert line.startswith(f"~ [bandits.button] {key}: ")


def test_a_policy_that_is_left_out_is_none() -> None:
    """It is the journal's, whatever a new bandit would have."""
    config = made()
    (bandit,) = config.bandits.values()
    stated, left_out = (
        replace(config, bandits={bandit.name: replace(bandit, is_implied=implied)})
        for implied in (False, True)
    )
    assert lines(left_out, stated) == [f"~ [bandits.button] policy: none -> {bandit.policy}"]
    other = replace(bandit, is_implied=True, policy="ledger-ts")
    assert lines(left_out, replace(config, bandits={bandit.name: other})) == []


@pytest.mark.parametrize("change", [lambda names: names[:-1], lambda names: (*names, "more")])
def test_long_values_are_compared_whole_and_shown_in_part(
    change: Callable[[tuple[str, ...]], tuple[str, ...]],
) -> None:
    config = made()

    def with_hosts(hosts: tuple[str, ...]) -> NodeConfig:
        return replace(config, api_limits=replace(config.api_limits, hosts=hosts))

    (line,) = lines(with_hosts(HOSTS), with_hosts(change(HOSTS)))
    assert len(line) < 2 * LONGEST + 100


def test_names_with_commas_are_not_two_names() -> None:
    config = made()
    (bandit,) = config.bandits.values()

    def with_arms(*names: str) -> NodeConfig:
        arms = tuple(Arm(name, name) for name in names)
        return replace(config, bandits={bandit.name: replace(bandit, arms=arms)})

    (line,) = lines(with_arms("a", "b"), with_arms("a, b"))
    assert line == "~ [bandits.button] arms: [a, b] -> ['a, b']"


def test_a_bandit_that_comes_is_one_line() -> None:
    config = made()
    (bandit,) = config.bandits.values()
    more = replace(config, bandits={"button": bandit, "page": replace(bandit, name="page")})
    assert lines(config, more) == ["+ [bandits.page]"]
    assert lines(more, config) == ["- [bandits.page]"]
