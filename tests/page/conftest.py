from __future__ import annotations

from collections.abc import Iterator

import pytest

from .browser import Browser, chromium


@pytest.fixture(scope="module")
def started() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def browser(started: Browser) -> Iterator[Browser]:
    """A browser without tabs, which has not complained yet."""
    yield started
    started.close_tabs()
