"""What all tests share."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("any machine", deadline=None)  # a busy one is no fault of the code
settings.load_profile("any machine")
