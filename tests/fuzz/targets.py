"""All targets by name."""

from __future__ import annotations

from .configuration import TOML
from .frames import FRAMES
from .http import HTTP
from .journal import JOURNAL
from .messages import MESSAGES
from .target import Target

TARGETS: dict[str, Target] = {one.name: one for one in (FRAMES, MESSAGES, JOURNAL, TOML, HTTP)}
