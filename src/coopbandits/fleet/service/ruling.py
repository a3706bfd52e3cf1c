"""What an agent tells of the cluster's document."""

from __future__ import annotations

from typing import Any

import msgspec

from coopbandits.fleet.document.keeper import Keeper
from coopbandits.fleet.identity.operators import key_text
from coopbandits.fleet.protocol.node import Node


def state_of(keeper: Keeper) -> dict[str, Any]:
    """Return which document an agent has, and what is wrong with it."""
    return {"version": keeper.version, "digest": keeper.digest.hex(), "alarm": keeper.alarm}


def ruling(node: Node) -> dict[str, Any]:
    """Return the document, whom the agent believes, and the versions of its neighbours."""
    keeper = node.settings.keeper
    signed = keeper.kept.signed if keeper.kept else None
    return {
        "cluster": keeper.cluster,
        **state_of(keeper),
        "operators": [key_text(key) for key in keeper.keys],
        "neighbors": {
            name: reader.version if (reader := node.spread.readers.get(name)) else None
            for name in node.peers
        },
        "content": signed.content.decode() if signed else None,
        "signed": msgspec.to_builtins(signed) if signed else None,
    }
