"""What happens to a reward where it is made: one source per file."""

from coopbandits.core.sources.private import Private
from coopbandits.core.sources.source import Source, Tap
from coopbandits.core.sources.truncated import Truncated

SOURCES: tuple[type[Source], ...] = (Private, Truncated)
"""Every source that ships."""

__all__ = ["SOURCES", "Private", "Source", "Tap", "Truncated"]
