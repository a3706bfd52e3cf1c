"""One small reproduction for all tests that look at its results or its report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from coopbandits.experiments.paper import Reproduction, reproduce, write_report

from .paper.synthetic import HORIZON, NAMES, RUNS


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reproduction")


@pytest.fixture(scope="session")
def small(folder: Path) -> Reproduction:
    """Two figures, few runs and rounds."""
    oracle = {"cycle-100": {"dducb": (1000.0, 1e6), "bonus 4η": (1000.0, 1e6)}}
    return reproduce(folder, NAMES, RUNS, 5, check=True, horizon=HORIZON, oracle=oracle)


@pytest.fixture(scope="session")
def single(small: Reproduction) -> Reproduction:
    """The same with one figure, which is sooner drawn."""
    return replace(small, played=small.played[:1])


@pytest.fixture(scope="session")
def written(single: Reproduction, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where its report lies."""
    place = tmp_path_factory.mktemp("report")
    write_report(single, place)
    return place
