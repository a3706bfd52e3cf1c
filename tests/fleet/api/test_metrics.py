from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse

from coopbandits.fleet.api.metrics import BOUNDS, Meter, render
from coopbandits.fleet.service import Metric

from .running import ask, running
from .stand_in import StandIn

Sample = tuple[str, tuple[tuple[str, str], ...]]


def samples(text: bytes) -> dict[Sample, float]:
    return {
        (sample.name, tuple(sample.labels.items())): sample.value
        for family in parse(text.decode())
        for sample in family.samples
    }


def test_what_the_agent_measures_is_rendered() -> None:
    agent = StandIn()
    agent.choose()
    seen = samples(render(agent.metrics(), Meter()))
    assert seen["coopbandits_choices_total", ()] == 1
    assert seen["coopbandits_open_tickets", ()] == 1
    assert seen["coopbandits_link_up", (("neighbor", "shop-2"),)] == 1
    assert seen["coopbandits_link_up", (("neighbor", "shop-3"),)] == 0
    assert seen["process_resident_memory_bytes", ()] > 0


def test_kinds_and_helps_are_rendered() -> None:
    text = render([Metric("eggs_total", "counter", "Eggs laid", [({}, 2)])], Meter()).decode()
    assert "# HELP coopbandits_eggs_total Eggs laid" in text
    assert "# TYPE coopbandits_eggs_total counter" in text


def test_requests_are_counted_by_path_and_status() -> None:
    with running(StandIn()) as server:
        for path in ("/choose", "/choose", "/arms", "/nowhere", "/elsewhere"):
            ask(server, "POST", path)
        answer = ask(server, "GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=")
    requests = {
        labels: value
        for (name, labels), value in samples(answer.body).items()
        if name == "coopbandits_http_requests_total"
    }
    assert requests == {
        (("path", "/choose"), ("status", "200")): 2,
        (("path", "/arms"), ("status", "405")): 1,
        (("path", "other"), ("status", "404")): 2,
    }


def test_times_fall_into_buckets() -> None:
    meter = Meter()
    for seconds in (0.0, 0.0001, 0.002, 5.0):
        meter.time("/choose", seconds)
    meter.time("/arms", 1.0)
    seen = samples(render([], meter))
    ends = [*map(str, BOUNDS), "+Inf"]
    counts = [seen["coopbandits_choose_seconds_bucket", (("le", end),)] for end in ends]
    assert counts == [2, 2, 2, 3, 3, 3, 3, 4]
    assert seen["coopbandits_choose_seconds_count", ()] == 4
    assert seen["coopbandits_choose_seconds_sum", ()] == pytest.approx(5.0021)
    assert seen["coopbandits_observe_seconds_count", ()] == 0


def test_calls_are_timed_failed_ones_too() -> None:
    with running(StandIn()) as server:
        ask(server, "POST", "/choose")
        ask(server, "POST", "/observe", {"ticket": "x", "reward": 1})
        seen = samples(ask(server, "GET", "/metrics").body)
    assert seen["coopbandits_choose_seconds_count", ()] == 1
    assert seen["coopbandits_observe_seconds_count", ()] == 1
    assert 0 < seen["coopbandits_choose_seconds_sum", ()] < 1
