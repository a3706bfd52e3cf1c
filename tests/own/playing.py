"""What the tests of own parts share."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import coopbandits as cb

SOURCE = Path(__file__).with_name("things.py").read_text()
Mine = Any
ROUNDS: dict[str, Any] = {"horizon": 12, "runs": 2, "progress": False}
Command = Callable[..., subprocess.CompletedProcess[str]]


def play(problem: Any = None, graph: str = "cycle:5", policy: Any = None, **more: Any) -> cb.Result:
    network = cb.Network.from_spec(graph)
    policy = policy or cb.parse_policy("independent-ucb")
    return cb.simulate(problem or cb.GaussianBandit([1.0, 0.0]), network, policy, **ROUNDS, **more)
