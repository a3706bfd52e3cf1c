"""Tests of the agents, which are to cover every line of `coopbandits.core`."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses among them
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark those whose lines are counted; where much is played, counting takes minutes."""
    for item in items:
        if HERE in item.path.parents and not item.get_closest_marker("plays"):
            item.add_marker("counted")
