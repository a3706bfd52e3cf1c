"""Makes a schedule that fails as short and as plain as it can be made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.torture.run import Outcome, play
from tests.torture.schedule import Schedule

MOST_TRIALS = 300


def shrink(outcome: Outcome, most: int = MOST_TRIALS) -> Outcome:
    """Return the shortest failing schedule found: fewer troubles, then a calmer network.

    Another violation than the first is as good: whatever fails is worth being looked at.
    """
    trials = 0
    found, better = outcome, True
    while better:
        better = False
        for schedule in shorter(found.schedule):
            if trials >= most:
                return found
            trials += 1
            tried = play(schedule)
            if tried.violation:
                found, better = tried, True
                break
    return found


def shorter(schedule: Schedule) -> Iterator[Schedule]:
    """Yield schedules that are simpler by one step, the boldest first."""
    for make in (_fewer_troubles, _calmer, _plainer):
        yield from make(schedule)


def _fewer_troubles(schedule: Schedule) -> Iterator[Schedule]:
    troubles = schedule.troubles
    size = len(troubles) // 2
    while size:
        for start in range(0, len(troubles), size):
            yield replace(schedule, troubles=troubles[:start] + troubles[start + size :])
        size //= 2


def _calmer(schedule: Schedule) -> Iterator[Schedule]:
    weather = schedule.weather
    if weather != weather.calm:
        yield replace(schedule, weather=weather.calm)
    for field in ("lost", "twice", "swapped", "split", "forgotten"):
        if getattr(weather, field):
            yield replace(schedule, weather=weather._replace(**{field: 0}))


def _plainer(schedule: Schedule) -> Iterator[Schedule]:
    """Yield schedules with one trouble that is shorter, or whose word is smaller."""
    for at, trouble in enumerate(schedule.troubles):
        for plain in (
            trouble._replace(word=trouble.word & 0xFFFF),
            trouble._replace(length=max(1000, trouble.length // 4)),
        ):
            if plain != trouble:
                troubles = (*schedule.troubles[:at], plain, *schedule.troubles[at + 1 :])
                yield replace(schedule, troubles=troubles)
