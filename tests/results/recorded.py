"""What was played for the stored result and the stored sweep in `tests/recorded`."""

from __future__ import annotations

import coopbandits as cb

PROBLEM = cb.GaussianBandit([0.75, 1.0, 0.25])


def simulated() -> cb.Result:
    """Play the stored result."""
    policies = [cb.DDUCB(), cb.FloodTS()]
    return cb.simulate(
        PROBLEM, cb.Network.from_spec("cycle:5"), policies, 100, 2, rounds=20, keep="agents",
        faults="loss=0.3,crash=0.5@20..40", progress=False,
    )  # fmt: skip


def cells() -> list[cb.Cell]:
    """Return the cells of the stored sweep."""
    network, faults = cb.Network.from_spec("star:5"), cb.parse_faults("sleep=0.2")
    return [
        cb.Cell(PROBLEM, network, cb.DDUCB(), 80, 2),
        cb.Cell(PROBLEM, network, cb.TreeTS(), 80, 2, 1, True, faults),
    ]
