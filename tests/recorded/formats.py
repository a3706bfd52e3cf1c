"""What agents write to disk and send, as it was recorded: the formats that releases share.

`python -m tests.recorded.formats` adds what is new, and never changes what was recorded: an agent
must read the journals and messages of every earlier release.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from msgspec import to_builtins
from msgspec.msgpack import encode

from coopbandits.fleet.overlay.messages import (
    Contact,
    ForwardJoin,
    Goodbye,
    Refused,
    Sample,
    Shuffle,
)
from coopbandits.fleet.process.assemble import open_bandits
from coopbandits.fleet.protocol import frames
from coopbandits.fleet.protocol.calls import Answer, Call
from coopbandits.fleet.protocol.frames import Fields, Greeting, Hello, Stamp
from coopbandits.fleet.protocol.routes import Announcement, News
from coopbandits.fleet.storage import records
from coopbandits.fleet.storage.disk import MemoryDisk
from tests.fleet.bandits import only
from tests.torture.process import number
from tests.torture.world import World

FILE = Path(__file__).parent / "formats.json"

STAMP = Stamp(2, 1_800_000_000, 7, 3, 1234)
LINK = Stamp(0, 1_800_000_000, 7, 3)
CONTACTS = [Contact("shop-3", "10.0.0.3:7400"), Contact("shop-4", "[::1]:7400")]
ROUTES = News([Announcement("shop-1", 9, True, False, b"proof")], b"pem", bytes(16), bytes(8))

FRAMES: dict[str, Callable[[], bytes]] = {
    "hello": lambda: frames.encode_hello(
        LINK,
        Hello(
            "shop-1", "shop", "c0ffee", 8400, True, 3, bytes(range(32)), "join", "shop-1.net:7400"
        ),
    ),
    "vector": lambda: frames.encode_data(STAMP, np.array([3.0, 0.5, 2.0, -1.25])),
    "vector with proofs": lambda: frames.encode_data(
        STAMP, np.array([1.0]), Fields(b"proof", b"certificate", [b"", b"rest"])
    ),
    "vector in parts": lambda: frames.encode_data(STAMP, np.arange(8200.0))[-40 - 64 :],
    "no vector": lambda: frames.encode_data(STAMP, None),
    "keepalive": lambda: frames.encode_beat(LINK),
    "goodbye": lambda: frames.encode_bye(LINK, "another cluster"),
    "document": lambda: frames.encode_document(LINK, b"\x81\xa7version\x03"),
    "greeting": lambda: frames.encode_greeting(
        STAMP, Greeting("button", "ab" * 32, bytes(range(16)), 5, (6, 7, 8), 2, ask=True)
    ),
    "routes": lambda: frames.encode_routes(LINK, encode(ROUTES)),
    "call": lambda: frames.encode_call(LINK, encode(Call("shop-1", "shop-2", 7, b"sealed"))),
    "answer": lambda: frames.encode_answer(
        LINK, encode(Answer("shop-2", "shop-1", 7, b"tag", "", b"sealed"))
    ),
    "members: forward": lambda: frames.encode_members(LINK, ForwardJoin(CONTACTS[0], 5)),
    "members: shuffle": lambda: frames.encode_members(LINK, Shuffle(9, 4, CONTACTS)),
    "members: sample": lambda: frames.encode_members(LINK, Sample(9, CONTACTS)),
    "members: refused": lambda: frames.encode_members(LINK, Refused(CONTACTS)),
    "members: goodbye": lambda: frames.encode_members(LINK, Goodbye(leaving=True)),
}

EVENTS: dict[str, records.Event] = {
    "chose": records.Chose(1, 1_800_000_001.5),
    "chose in context": records.Chose(0, 1_800_000_001.5, bytes(8)),
    "chose at the limit of open tickets": records.Chose(1, 1_800_000_001.5, abandoned=1),
    "observed": records.Observed(4, 0.75),
    "expired": records.Expired([1, 2]),
    "chose for a unit": records.Chose(1, 1.8e9, b"", 0, b"unit", b"call"),
    "met": records.Met({65537: 2, 131073: 1}),
    "spoke": records.Spoke(),
    "ended": records.Ended({65537: bytes(16)}),
    "ended with proofs": records.Ended({65537: bytes(16)}, {131073: b"proof"}, [b"pem"], 12),
    "declared": records.Declared("button", {"policy": "flood-ts"}, {11: "red", 12: "green"}, 99),
    "relinked": records.Relinked([65537]),
    "purged": records.Purged([12]),
    "replaced": records.Replaced({13: 14}),
    "adopted": records.Adopted(b"document"),
}

POLICIES = ("flood-ts", "ledger-ts", "tree-ts", "gossip-ts", "dducb")


def played(policy: str) -> World:
    """Two agents that learn, one of which restarts."""
    more: dict[str, Any] = {"num_agents": 2, "lambda_bound": 0.9} if policy == "dducb" else {}
    world = World(only(policy, **more), nx.path_graph(2))
    world.connect()
    for step in range(12):
        for agent in range(2):
            world.pull(agent, 77 * step + agent, 0.25 * (step % 4))
        world.step()
    world.crash(0)
    world.restart(0)
    world.connect()
    for step in range(3):
        world.pull(0, step, 0.5)
        world.step()
    return world


def opened(policy: str, journal: bytes) -> Any:
    """Return all that an agent knows that starts with a journal."""
    world = World(played(policy).bandit, nx.path_graph(2))
    words = count(1)
    bandits = open_bandits(
        world.config(0), MemoryDisk(journal), lambda: world.now, words.__next__, number
    )
    exported = bandits.export()
    for each in exported["bandits"].values():
        each.pop("tickets")["starts"] = None  # this start draws a nonce of its own
    return json.loads(json.dumps(to_builtins(exported, str_keys=True)))


def record() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text()) if FILE.exists() else {}
    messages, events = found.setdefault("frames", {}), found.setdefault("events", {})
    journals = found.setdefault("journals", {})
    for name, make in FRAMES.items():
        messages.setdefault(name, make().hex())
    for name, event in EVENTS.items():
        events.setdefault(name, [records.KINDS[type(event)], records.encode_event(event).hex()])
    for policy in POLICIES:
        if policy not in journals:
            journal = bytes(played(policy).disks[0].data)
            journals[policy] = {
                "journal": b64encode(journal).decode(), "knows": opened(policy, journal),
            }  # fmt: skip
    return found


def journal_of(found: dict[str, Any], policy: str) -> bytes:
    return b64decode(found["journals"][policy]["journal"])


if __name__ == "__main__":
    FILE.write_text(json.dumps(record(), indent=1) + "\n")
