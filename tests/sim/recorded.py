"""What is kept of a play, to tell later whether it is still the same; see `tests/recorded`."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

import coopbandits as cb

PROBLEMS = {"gaussian": cb.GaussianBandit, "bernoulli": cb.BernoulliBandit}
COUNTERS = ("messages_sent", "messages_delivered", "messages_late", "messages_lost")


def play(world: dict[str, Any], policy: str, engine: str = "auto") -> cb.Result:
    """Play one policy, given by its spelling, in a recorded world."""
    keep = "agents" if "clocks" in world else "arms"  # with clocks single arms cannot be kept
    return cb.simulate(
        PROBLEMS[world["problem"]](world["means"]),
        cb.Network.from_spec(world["graph"]),
        cb.parse_policy(policy),
        world["horizon"],
        world["runs"],
        world["seed"],
        engine,
        keep=keep,
        faults=world.get("faults"),
        clocks=world.get("clocks"),
        progress=False,
    )


def facts(result: cb.Result) -> dict[str, Any]:
    """Return a digest of all arms, and by run: regret to the bit, pulls, and what was sent."""
    data = result.dataset.isel(policy=0)
    arms = data["arms" if "arms" in data else "agent_pulls"].values
    return {
        "arms": hashlib.sha256(np.ascontiguousarray(arms, dtype="<i4").tobytes()).hexdigest(),
        "regret": [float(regret).hex() for regret in data["regret"].values[:, -1]],
        "pulls": data["pulls"].values.tolist(),
        "values_sent": data["values_sent"].values[:, -1].tolist(),
        **{name: data[name].values.tolist() for name in COUNTERS if name in data},
    }
