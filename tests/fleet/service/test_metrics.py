"""Metrics: the catalogue, and those per arm with bounded labels."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from coopbandits.fleet.api.metrics import Meter, render
from coopbandits.fleet.service.metrics import (
    CATALOGUE,
    LONGEST_LABEL,
    MOST_LABELS,
    labels,
    measured,
)

from ..bandits import only
from .test_application import BANDIT, path_world, sample, service_in
from .test_state import pulled


def test_names_say_the_kind() -> None:
    for name in CATALOGUE:
        assert name.endswith("_total") == (CATALOGUE[name].kind == "counter")


def test_a_metric_takes_kind_and_help_from_the_catalogue() -> None:
    metric = measured("round", ({}, 7))
    assert (metric.kind, metric.samples) == ("gauge", [({}, 7)])
    assert metric.help == CATALOGUE["round"].help


def test_other_names_and_labels_are_refused() -> None:
    with pytest.raises(KeyError, match="rounds"):
        measured("rounds", ({}, 7))
    with pytest.raises(ValueError, match="link_up"):
        measured("link_up", ({}, 1.0))


def test_every_arm_is_measured() -> None:
    service = service_in(path_world())
    pulled(service, "red", 1.0, -1.0)
    service.bandit("only").choose(["blue"])
    assert sample(service, "arm_choices_total", bandit="only", arm="red") == 2.0
    assert sample(service, "arm_choices_total", bandit="only", arm="blue") == 1.0
    assert sample(service, "arm_rewards_total", bandit="only", arm="red") == 2.0
    assert sample(service, "arm_rewards_total", bandit="only", arm="blue") == 0.0
    assert sample(service, "arm_own_reward", bandit="only", arm="red") == 0.0
    assert sample(service, "arm_mean", bandit="only", arm="red") == pytest.approx(0.0)
    (means,) = (metric for metric in service.metrics() if metric.name == "arm_mean")
    assert [labels["arm"] for labels, _ in means.samples] == ["red"]  # nothing is known of others


def test_labels_are_bounded_and_the_rest_is_added_up() -> None:
    names = tuple(f"arm {k} {'x' * 200}" for k in range(200))
    service = service_in(path_world(only(BANDIT.policy, names, reward_range=(-1.0, 3.0))))
    pulled(service, names[0], 1.0)
    pulled(service, names[150], 1.0, 2.0)
    pulled(service, names[199], 3.0)
    for metric in service.metrics():
        if metric.name.startswith("arm_"):
            assert len(metric.samples) <= MOST_LABELS + 1
            assert all(len(found["arm"]) <= LONGEST_LABEL for found, _ in metric.samples)
    assert sample(service, "arm_rewards_total", bandit="only", arm="(others)") == 3.0
    assert sample(service, "arm_own_reward", bandit="only", arm="(others)") == 6.0
    assert sample(service, "arm_choices_total", bandit="only", arm="(others)") == 3.0


def test_prometheus_reads_names_as_they_are() -> None:
    hostile = ('a"b\\', "two\nlines", "<script>", "\u202eevil")
    service = service_in(path_world(only(BANDIT.policy, hostile, reward_range=(-1.0, 3.0))))
    pulled(service, hostile[1], 2.0)
    text = render(service.metrics(), Meter()).decode()
    (family,) = (
        family
        for family in text_string_to_metric_families(text)
        if family.name == "coopbandits_arm_choices"
    )
    assert {each.labels["arm"]: each.value for each in family.samples} == dict(
        zip(hostile, (0.0, 1.0, 0.0, 0.0), strict=True)
    )


def test_labels_tell_arms_apart() -> None:
    alike = ["x" * 150 + "1", "x" * 150 + "2", "(others) (4)", "(others)", "(others) (5)"]
    found = labels(alike)
    assert len(set(found)) == 5
    assert "(others)" not in found
    assert max(map(len, found)) <= LONGEST_LABEL


def test_the_certificate_is_measured_where_there_is_one() -> None:
    service = service_in(path_world())
    service.certificate_ends = lambda: service.clock() + 1000.0
    assert sample(service, "certificate_expiry_seconds") == pytest.approx(1000.0)
    service.certificate_ends = lambda: service.clock() - 5.0
    assert sample(service, "certificate_expiry_seconds") == pytest.approx(-5.0)
    service.certificate_ends = lambda: None
    (none,) = (each for each in service.metrics() if each.name == "certificate_expiry_seconds")
    assert none.samples == []
