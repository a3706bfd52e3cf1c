"""The page over the demo's agents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from coopbandits.fleet.local.layout import Place


@contextmanager
def page_over(places: Sequence[Place], *, browser: bool) -> Iterator[str]:
    """Serve the page while the block runs; yield its address, or "" where there is none."""
    del places, browser
    yield ""
