from __future__ import annotations

import pytest

from coopbandits.fleet.service.catalogue import CATALOGUE, measured


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
