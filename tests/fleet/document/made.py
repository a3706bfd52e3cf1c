"""Documents and keys for tests."""

from __future__ import annotations

from typing import Any

import networkx as nx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from coopbandits.fleet.config import DocumentConfig
from coopbandits.fleet.config.read import write_config
from coopbandits.fleet.document.content import read_document
from coopbandits.fleet.document.seal import Signed, make_head, sign
from coopbandits.fleet.document.store import DocumentStore
from coopbandits.fleet.identity.operators import key_text, public_bytes
from coopbandits.fleet.storage.disk import MemoryDisk
from coopbandits.fleet.storage.journal import Journal
from tests.torture.world import World

from ..bandits import only

NAME = "shop"


def key(number: int) -> Ed25519PrivateKey:
    """Return one of 256 operators' keys."""
    return Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)


def public(number: int) -> bytes:
    return public_bytes(key(number))


def text(number: int) -> str:
    return key_text(public(number))


def signed(
    version: int,
    *signers: int,
    operators: tuple[int, ...] = (),
    cluster: str = NAME,
    **tables: Any,
) -> Signed:
    """Return a document signed by some keys, the first unless told."""
    head: dict[str, Any] = {"name": cluster, "version": version}
    above = {"retired": tables.pop("retired")} if "retired" in tables else {}
    if operators:
        head["operators"] = [text(each) for each in operators]
    if "revoked" in tables:
        head["revoked"] = tables.pop("revoked")
    document = read_document(write_config({**above, "cluster": head, **tables}).encode())
    made = make_head(document.name, document.version, document.content, document.operators)
    return Signed(sign(made, map(key, signers or (1,))), document.content)


def journal(disk: MemoryDisk) -> Journal:
    found = Journal(disk, {"node": "n0"}, {"word": 1, "number": 7})
    found.compact({})
    return found


def store(disk: MemoryDisk | None = None, roots: tuple[int, ...] = (1,)) -> DocumentStore:
    """Return the document store of an agent that trusts some keys."""
    return DocumentStore(NAME, map(public, roots), journal(disk or MemoryDisk()))


def world(graph: nx.Graph[int], roots: tuple[int, ...] = (1,), **settings: Any) -> World:
    """Return a fleet whose agents trust some keys."""
    config = DocumentConfig(tuple(map(public, roots)))
    return World(only(arms=("a", "b"), **settings), graph, document=config)


def versions(fleet: World) -> list[int]:
    """Return the versions of all agents that run."""
    return [node.settings.documents.version for node in fleet.nodes if node is not None]


def pass_seconds(fleet: World, seconds: float) -> None:
    for _ in range(round(seconds / 0.25)):
        fleet.step(0.25)
