from __future__ import annotations

from collections.abc import Iterator

import pytest

from .browser import Browser, chromium


@pytest.fixture(scope="module")
def started() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def browser(started: Browser) -> Browser:
    """A browser that has not complained yet."""
    started.complaints.clear()
    return started
