"""What an agent tells of the cluster's document, and how it is handed a new one."""

from __future__ import annotations

from typing import Any

import msgspec

from coopbandits.fleet.document.seal import from_json
from coopbandits.fleet.identity.operators import key_text
from coopbandits.fleet.protocol.node import Node
from coopbandits.fleet.service import Metric, UnavailableError
from coopbandits.fleet.service.catalogue import measured
from coopbandits.fleet.storage.disk import DiskError


def state_of(node: Node) -> dict[str, Any]:
    """Return which document an agent has, and what is wrong with it."""
    keeper = node.settings.keeper
    return {"version": keeper.version, "digest": keeper.digest.hex(), "alarm": keeper.alarm}


def document_metrics(node: Node) -> list[Metric]:
    """Return the same as metrics."""
    keeper = node.settings.keeper
    return [
        measured("document_version", ({}, keeper.version)),
        measured("document_alarm", ({}, float(bool(keeper.alarm)))),
    ]


def ruling(node: Node) -> dict[str, Any]:
    """Return the document, whom the agent believes, and the versions of its neighbours."""
    keeper = node.settings.keeper
    signed = keeper.kept.signed if keeper.kept else None
    return {
        "id": node.settings.node,
        "cluster": keeper.cluster,
        **state_of(node),
        "operators": [key_text(key) for key in keeper.keys],
        "neighbors": {
            name: reader.version if (reader := node.spread.readers.get(name)) else None
            for name in node.peers
        },
        "content": signed.content.decode() if signed else None,
        "signed": msgspec.to_builtins(signed) if signed else None,
    }


def adopt(node: Node, signed: bytes | bytearray, failure: str, now: float) -> dict[str, Any]:
    """Take a document, signed and as JSON; return what `ruling` does."""
    if failure:
        raise UnavailableError(failure)
    try:
        node.adopt(from_json(signed), now)
    except DiskError as error:
        raise UnavailableError(f"{error}; the document is not taken") from error
    return ruling(node)
