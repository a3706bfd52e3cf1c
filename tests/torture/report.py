"""Outcomes as text: a table, and a failing schedule with the command that plays it again."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from coopbandits.results.statistics import columns
from tests.torture.run import Outcome
from tests.torture.schedule import Schedule, Setting
from tests.torture.spelling import command


def table(setting: Setting, outcomes: Sequence[Outcome], elapsed: float) -> str:
    """Return one row about all seeds that were played."""
    virtual = sum(outcome.seconds for outcome in outcomes)
    rows: list[tuple[str, ...]] = [
        ("policy", "agents", "seeds", "events", "virtual s", "real s", "× real time", "violations"),
        (
            setting.policy,
            str(setting.agents),
            str(len(outcomes)),
            str(sum(outcome.events for outcome in outcomes)),
            f"{virtual:.0f}",
            f"{elapsed:.1f}",
            f"{virtual / elapsed:.1f}" if elapsed else "-",
            str(sum(bool(outcome.violation) for outcome in outcomes)),
        ),
    ]
    return "\n".join(line.rstrip() for line in columns(rows, left=(0,)))


def digest(outcomes: Sequence[Outcome]) -> str:
    """Return one hash of all traces; it is the same wherever the same seeds are played."""
    whole = "".join(outcome.digest for outcome in outcomes)
    return blake2b(whole.encode(), digest_size=16).hexdigest()


def told(outcome: Outcome, shortest: Outcome) -> str:
    """Return what went wrong, the shortest schedule that shows it, and how to play it again."""
    schedule = shortest.schedule
    lines = [
        f"seed {schedule.seed}: {outcome.violation}",
        f"  durability {schedule.durability}; {_weather(shortest)}{_world(schedule)}",
        *(f"  {trouble}" for trouble in schedule.troubles),
    ]
    if shortest.violation != outcome.violation:
        lines.append(f"  which gives: {shortest.violation}")
    lines.append(f"  {command(schedule)}")
    return "\n".join(lines)


def _world(schedule: Schedule) -> str:
    two = "; two bandits" if schedule.bandits else ""
    found = two + ("; agents find each other" if schedule.auto else "")
    found += "; rewards and units at any agent" if schedule.forward else ""
    return found + ("; the policy changes" if schedule.eras else "")


def _weather(outcome: Outcome) -> str:
    weather = outcome.schedule.weather
    shares = {
        "lost": weather.lost, "twice": weather.twice, "swapped": weather.swapped,
        "split": weather.split, "no reward": weather.forgotten,
    }  # fmt: skip
    bad = [f"{what} {100 * share / 1024:.0f} %" for what, share in shares.items() if share]
    return f"messages take {weather.delay / 1000:g} ms; {', '.join(bad) or 'none is lost'}"
