"""Configurations: what somebody typed into an agent's file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from coopbandits.core import InputError
from coopbandits.fleet.config import NodeConfig, parse_config
from coopbandits.fleet.config.check import explain
from coopbandits.fleet.config.read import ConfigError, load
from coopbandits.fleet.process.assemble import make_agent

from .target import SCRATCH, Check, Target

NOW = 1_790_000_100.0

WHOLE = """\
[cluster]
name = "shop"
epoch = 2026-01-31T12:00:00Z
rounds_per_second = 20
max_pulls_per_second = 100.0
max_agents = 50
signatures_per_second = 5

[bandits.button]
number = 7
arms = ["red", { name = "green", id = "lime", minimum_share = 0.1 }]
policy = "POLICY"
reward_range = [0.0, 1.0]
sigma = 0.5
TOLD
max_pulls_per_second = 50.0
pinned = "red"

[node]
id = "shop-1"
listen = "127.0.0.1:7400"
journal = "memory"
durability = "power"
api = "unix:api.sock"
token_file = "token"
ticket_lifetime = 60
max_open_tickets = 1000
silence = 5
uvloop = true
revoked = "revoked.txt"

[api_limits]
max_connections = 10
max_header_bytes = 4096
max_body_bytes = 4096
header_timeout = 5
body_timeout = 5
idle_timeout = 5
hosts = ["shop-1.example.net", "::1"]
origins = ["https://shop.example.net"]

[tls]
ca = "ca.pem"
certificate = "shop-1.pem"
key = "shop-1-key.pem"

[[neighbors]]
id = "shop-2"
address = "[::1]:7401"
"""


def seeds() -> list[bytes]:
    both = "num_agents = 5\nlambda_bound = 0.9"
    policies = {"flood-ts": "", "dducb": both, "tree-sums*kl-ucb": "", "gossip-ts": ""}
    found = [
        WHOLE.replace("POLICY", policy).replace("TOLD", told).encode()
        for policy, told in policies.items()
    ]
    small = (
        "[cluster]\nname='a'\nepoch=2026-01-31T12:00:00Z\n[bandits.b]\narms=['a','b']\nsigma=1.0\n"
    )
    return [*found, f"{small}[node]\nid='a'\nlisten='127.0.0.1:0'\njournal='j'".encode()]


class Reading:
    """Reads inputs as a file in a folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "node.toml"

    def __call__(self, data: bytes) -> None:
        self.path.write_bytes(data)
        try:
            config = parse_config(load(self.path), self.path, now=NOW, insecure=True)
        except ConfigError as error:
            assert error.problems
            for problem in error.problems:
                assert problem.count("\n") == 0, f"{problem!r} is more than one line"
        except InputError as error:
            assert str(error).count("\n") == 0, f"{str(error)!r} is more than one line"
        else:
            require_useful(config)


def require_useful(config: NodeConfig) -> None:
    """Ask all that an agent asks before it starts."""
    assert config.cluster.hash
    assert explain(replace(config, tls=None), NOW)
    for bandit in config.bandits.values():
        assert bandit.mode in ("robust", "synchronous")
        make_agent(bandit, {"word": 1, "number": 1}, [], {}, len(bandit.arms))


@contextmanager
def opened() -> Iterator[Check]:
    with tempfile.TemporaryDirectory(prefix="cb-fuzz-", dir=SCRATCH) as folder:
        yield Reading(Path(folder))


TOML = Target(
    "toml",
    "one sentence per problem, on one line each, or a configuration that an agent can use",
    seeds,
    opened,
)
