"""How often 95 % intervals of a mean contain it, for several populations of runs.

Prints coverage in percent, with the median width relative to Student's interval in brackets.
Every case is a sample of 10, 20, 50 or 100 runs, drawn from a known population.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import coopbandits as cb
from coopbandits.core.draws import normals, stream_key, uniforms, words
from coopbandits.results.intervals import mean_intervals

Floats = NDArray[np.float64]
Ends = tuple[Floats, Floats]

CASES, RESAMPLES = 2000, 400


def uniform(key: int, *shape: int) -> Floats:
    counters = np.arange(math.prod(shape), dtype=np.uint64)
    return np.asarray(uniforms(words(stream_key(1, key), counters)).reshape(shape))


def normal(key: int, *shape: int) -> Floats:
    counters = np.arange(math.prod(shape), dtype=np.uint64)
    return np.asarray(normals(words(stream_key(2, key), counters)).reshape(shape))


def mixture(*shape: int) -> Floats:
    """Return runs of about 100, of which one in twenty is ten times as bad."""
    bad = uniform(3, *shape) < 0.05
    return np.asarray((100 + 10 * normal(3, *shape)) * np.where(bad, 10, 1))


def drawn(runs: Floats, *shape: int) -> Floats:
    return np.asarray(runs[(uniform(4, *shape) * runs.size).astype(int)])


def populations() -> Iterator[tuple[str, float, Callable[..., Floats]]]:
    """Yield name, mean, and a function that draws samples (case, run)."""
    yield "Gaussian", 100, lambda *shape: 100 + 10 * normal(0, *shape)
    yield "exponential", 1, lambda *shape: -np.log(uniform(1, *shape))
    yield "log-normal", math.exp(0.5), lambda *shape: np.exp(normal(2, *shape))
    yield "1 of 20 is 10 × as bad", 145, mixture
    problem = cb.GaussianBandit([1, 0.9, 0.8, 0.5, 0.5])
    network = cb.Network.from_spec("cycle:20")
    result = cb.simulate(
        problem, network, ["tree-ts", "dec-ts", "dducb"], horizon=1000, runs=4000, seed=0
    )
    tree, dec, dducb = result.regret.isel(round=-1).values
    rows = {"tree-ts": tree, "dec-ts": dec, "dducb": dducb, "tree-ts − dec-ts": tree - dec}
    for name, row in rows.items():
        yield name, row.mean(), partial(drawn, row)


def student(samples: Floats) -> Ends:
    runs, error = samples.shape[1], stats.sem(samples, axis=1)
    half = stats.t.ppf(0.975, runs - 1) * error
    return samples.mean(1) - half, samples.mean(1) + half


def hall(samples: Floats) -> Ends:
    """Return Hall's interval alone: H(T) of the package's docstring within Student's quantiles."""
    runs, quantile = samples.shape[1], stats.t.ppf(0.975, samples.shape[1] - 1)
    a = stats.skew(samples, axis=1, bias=False) / math.sqrt(runs)
    low, high = (
        samples.mean(1)
        - stats.sem(samples, axis=1) * 3 * (np.cbrt(1 + a * (value - a / 6)) - 1) / a
        for value in (quantile, -quantile)
    )
    return low, high


def bootstraps(samples: Floats) -> tuple[Ends, Ends]:
    """Return the percentile and the bootstrap-t interval of the same resamples."""
    runs = samples.shape[1]
    picks = (uniform(5, RESAMPLES, runs) * runs).astype(int)
    found = []
    for sample in samples:
        resamples = sample[picks]
        means, errors = resamples.mean(1), np.maximum(stats.sem(resamples, axis=1), 1e-12)
        t = np.quantile((means - sample.mean()) / errors, [0.975, 0.025])
        found.append(
            [*np.quantile(means, [0.025, 0.975]), *(sample.mean() - t * stats.sem(sample))]
        )
    columns = np.array(found).T
    return (columns[0], columns[1]), (columns[2], columns[3])


def main() -> None:
    names = ("Student", "percentile", "bootstrap-t", "Hall", "coopbandits")
    print("".join([f"{'population':24}{'runs':>4}", *(f"{name:>14}" for name in names)]))
    for population, mean, draw in populations():
        for runs in (10, 20, 50, 100):
            samples = draw(CASES, runs)
            found = [student(samples), *bootstraps(samples), hall(samples), mean_intervals(samples)]
            width = np.median(found[0][1] - found[0][0])
            cells = [
                f"{100 * np.mean((low <= mean) & (mean <= high)):.1f}"
                f" ({np.median(high - low) / width:.2f})"
                for low, high in found
            ]
            line = "".join([f"{population:24}{runs:4}", *(f"{cell:>14}" for cell in cells)])
            print(line, flush=True)


if __name__ == "__main__":
    main()
