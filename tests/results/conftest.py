from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import xarray as xr

from coopbandits import DDUCB, GaussianBandit, IndependentUCB, Network, Result, simulate
from coopbandits.core.draws import normals, words
from coopbandits.results.storage import FORMAT, environment

Make = Callable[..., Result]
ENVIRONMENT = environment()


def made(
    policies: tuple[str, ...] = ("dducb", "independent-ucb"), runs: int = 4, seed: int = 0
) -> Result:
    """Make up a result of rising curves: a policy's regret grows with its place in the list."""
    rounds = np.array([1, 2, 5, 10])
    shape = (len(policies), runs, rounds.size)
    noise = normals(words(seed, np.arange(np.prod(shape), dtype=np.uint64))).reshape(shape)
    steps = np.arange(1, len(policies) + 1)[:, None, None] * 10.0 + np.abs(noise)
    curve = ("policy", "run", "round")
    sent = np.broadcast_to(100 * rounds, shape) * np.arange(len(policies))[:, None, None]
    data = {
        "regret": (curve, steps.cumsum(axis=2)),
        "global_regret": (curve, steps.cumsum(axis=2)),
        "worst_regret": (curve, steps.cumsum(axis=2) / 2),
        "realized_regret": (curve, steps.cumsum(axis=2) + noise),
        "values_sent": (curve, sent),
        "messages_sent": (("policy", "run"), sent[:, :, -1] // 2),
        "pulls": (("policy", "run", "arm"), np.full((len(policies), runs, 3), 10)),
    }
    coords = {
        "policy": list(policies),
        "run": np.arange(runs),
        "round": rounds,
        "arm": np.arange(3),
    }
    settings = {"policies": list(policies), "horizon": 10, "runs": runs, "seed": seed}
    meta = {
        "format": FORMAT,
        "settings": settings,
        "engines": ["cpu"] * len(policies),
        "wall_seconds": 0.5,
        **ENVIRONMENT,
    }
    return Result(xr.Dataset(data, coords), meta)


@pytest.fixture
def make() -> Make:
    return made


@pytest.fixture(scope="session")
def simulated() -> dict[str, Result]:
    """The same small simulation for every value of `keep`."""
    problem = GaussianBandit([1.0, 0.5, 0.0])
    network = Network.from_spec("cycle:4")
    policies = [DDUCB(), IndependentUCB()]
    return {
        keep: simulate(problem, network, policies, 30, 2, 7, "reference", keep=keep, progress=False)
        for keep in ("", "agents", "arms")
    }
