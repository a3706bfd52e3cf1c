"""Agents' ids: names for people and certificates, numbers for messages."""

from __future__ import annotations

import re
from hashlib import blake2b

NODE_ID = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
"""An agent's id, one label of a DNS name: it is the name in the agent's certificate."""


def agent_number(name: str) -> int:
    """Return the number that stands for a name: 48 bits, so it is exact in a float."""
    return int.from_bytes(blake2b(name.encode(), digest_size=6).digest(), "big")
