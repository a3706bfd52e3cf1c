"""How often do the 95 % intervals of off-policy evaluation hold the true value?

Logs with uniformly drawn arms and skewed rewards, whose values are known; with three arms, a third
of the decisions counts for the policy in question. Run it with the number of logs per cell, which
is 2000 unless given:

    python examples/evaluation_coverage.py 2000
"""

import sys
import warnings
from collections.abc import Callable
from functools import cache, partial

import numpy as np

import coopbandits as cb
from coopbandits.evaluate import (
    DecisionLog,
    SupportWarning,
    Value,
    direct,
    doubly_robust,
    ips,
    replay,
)

MEANS = np.array([0.5, 1.0, 1.5])
SIZES = (50, 200, 1000)
LEARNER = cb.IndependentTS()


def drawn(rewards: str, size: int, seed: int) -> DecisionLog:
    """Return a log of uniformly drawn arms; their rewards are the means times skewed noise."""
    source = np.random.default_rng(seed)  # noqa: TID251  not a tape
    arms = source.integers(3, size=size)
    noise = source.exponential(size=size)
    if rewards == "lognormal":
        noise = source.lognormal(-0.5, size=size)
    table = {"arm": arms, "reward": MEANS[arms] * noise}
    return DecisionLog.from_table(table, propensity=1 / 3)


def last_arm(log: DecisionLog) -> np.ndarray:
    return np.tile([0.0, 0.0, 1.0], (len(log), 1))


@cache
def learner_values(horizon: int) -> np.ndarray:
    """Return the learner's mean reward after 1, 2, … rounds with exponential rewards."""
    world = cb.ExponentialBandit(MEANS, sigma=1.0)
    result = cb.simulate(
        world, "complete:1", LEARNER, horizon, runs=20_000, rounds=range(1, horizon + 1), seed=1
    )
    lost = result.regret.mean("run").values.ravel()
    return np.asarray(MEANS.max() - lost / np.arange(1, horizon + 1))


def replayed(rewards: str, size: int, seed: int) -> tuple[Value, float]:
    value = replay(drawn(rewards, size, seed), LEARNER, seed=seed)
    return value, float(learner_values(size)[int(value.effective) - 1])


def estimated(
    estimate: Callable[..., Value], rewards: str, size: int, seed: int
) -> tuple[Value, float]:
    log = drawn(rewards, size, seed)
    return estimate(log, last_arm(log)), float(MEANS[2])


ESTIMATES: dict[str, Callable[[str, int, int], tuple[Value, float]]] = {
    "ips": partial(estimated, ips),
    "ips, normalised": partial(estimated, partial(ips, normalise=True)),
    "doubly_robust": partial(estimated, doubly_robust),
    "direct": partial(estimated, direct),
    "replay": replayed,
}


def coverage(name: str, rewards: str, size: int, logs: int) -> tuple[float, float]:
    """Return the share of intervals that hold the value, and that of ± 1.96 standard errors."""
    held = plain = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SupportWarning)
        for seed in range(logs):
            value, truth = ESTIMATES[name](rewards, size, seed)
            held += value.low <= truth <= value.high
            plain += abs(value.mean - truth) <= 1.96 * value.error
    return held / logs, plain / logs


if __name__ == "__main__":
    logs = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    print("estimate         rewards      decisions  coverage  ± 1.96 errors")
    for name in ESTIMATES:
        for rewards in ("exponential", "lognormal") if name != "replay" else ("exponential",):
            for size in SIZES:
                # A replay of a log costs as much as a thousand of the other estimates.
                number = logs if name != "replay" or size < 1000 else logs // 5
                held, plain = coverage(name, rewards, size, number)
                print(f"{name:<16} {rewards:<12} {size:>9}  {held:8.3f}  {plain:13.3f}", flush=True)
