"""Metrics in Prometheus' format: of the agent, its API and the process.

Serving a request only increments integers; metric families are built when scraped.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, ProcessCollector
from prometheus_client import generate_latest as generate
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.registry import Collector

from coopbandits.fleet.service import Metric

CONTENT_TYPE = CONTENT_TYPE_LATEST.encode()
PREFIX = "coopbandits_"

# In seconds. An answer takes tens of microseconds; a slow disk shows in the upper buckets.
BOUNDS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.1, 1.0)

REQUESTS = ("http_requests_total", "Requests by path and status of the answer", ("path", "status"))
CUTS = ("http_cuts_total", "Connections of the API cut by its limits", ("reason",))
DURATIONS = {
    "/choose": ("choose_seconds", "Time that the agent took to choose"),
    "/observe": ("observe_seconds", "Time that the agent took to take in a reward"),
}

Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily


class Meter:
    """Counts the API's answers by path and status, and times those of paths with a histogram."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        self.cuts: Counter[str] = Counter()
        self.durations = {path: [0] * (len(BOUNDS) + 1) for path in DURATIONS}
        self.seconds = dict.fromkeys(DURATIONS, 0.0)

    def time(self, path: str, seconds: float) -> None:
        if path in self.durations:
            self.durations[path][bisect_left(BOUNDS, seconds)] += 1
            self.seconds[path] += seconds


class Snapshot(Collector):
    """The metrics of an agent and its API at one moment."""

    def __init__(self, metrics: Sequence[Metric], meter: Meter) -> None:
        self.metrics, self.meter = metrics, meter

    def collect(self) -> Iterator[Family]:
        """Yield a family per metric."""
        for metric in self.metrics:
            kind = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            labels = list(metric.samples[0][0]) if metric.samples else []
            family = kind(PREFIX + metric.name, metric.help, labels=labels)
            for values, value in metric.samples:
                family.add_metric([values[label] for label in labels], value)
            yield family
        meter = self.meter
        yield _counter(REQUESTS, {(p, str(status)): n for (p, status), n in meter.requests.items()})
        yield _counter(CUTS, {(reason,): count for reason, count in meter.cuts.items()})
        ends = [*map(str, BOUNDS), "+Inf"]
        for path, (name, text) in DURATIONS.items():
            counts = [float(count) for count in accumulate(meter.durations[path])]
            buckets = list(zip(ends, counts, strict=True))
            yield HistogramMetricFamily(PREFIX + name, text, buckets, meter.seconds[path])


def _counter(
    head: tuple[str, str, tuple[str, ...]], counts: Mapping[tuple[str, ...], int]
) -> CounterMetricFamily:
    name, text, labels = head
    family = CounterMetricFamily(PREFIX + name, text, labels=labels)
    for values, count in sorted(counts.items()):
        family.add_metric(values, count)
    return family


def render(metrics: Sequence[Metric], meter: Meter) -> bytes:
    """Return the text that Prometheus scrapes."""
    registry = CollectorRegistry()
    registry.register(Snapshot(metrics, meter))
    ProcessCollector(registry=registry)
    return generate(registry)
