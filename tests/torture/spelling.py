"""Troubles and weather as text, so that a shortened schedule can be played again by a command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from coopbandits.core.errors import InputError
from tests.torture.schedule import Schedule, Trouble, Weather
from tests.torture.troubles import KINDS

NONE = "none"


def spell_trouble(trouble: Trouble) -> str:
    """Return a trouble as ``time:kind:agent:length:word``, times in microseconds."""
    return f"{trouble.at}:{trouble.kind}:{trouble.agent}:{trouble.length}:{trouble.word:#x}"


def read_trouble(text: str) -> Trouble:
    """Return the trouble that `spell_trouble` has spelt."""
    try:
        at, kind, agent, length, word = text.split(":")
        found = Trouble(int(at), kind, int(agent), int(length), int(word, 16))
    except ValueError:
        found = Trouble(-1, text, 0, 0, 0)
    if found.kind not in KINDS or min(found.at, found.agent, found.length, found.word) < 0:
        raise InputError(
            f"--trouble is {text!r}; it must be MICROSECONDS:KIND:AGENT:MICROSECONDS:WORD with a "
            f"kind of {', '.join(KINDS)}, or {NONE}"
        )
    return found


def spell_weather(weather: Weather) -> str:
    """Return the weather as numbers with commas."""
    return ",".join(str(value) for value in weather)


def read_weather(text: str) -> Weather:
    """Return the weather that `spell_weather` has spelt."""
    try:
        found = Weather(*map(int, text.split(",")))
    except (TypeError, ValueError):
        found = Weather(-1, 0, 0, 0, 1, 1, 0)
    if min(found) < 0 or min(found.delay, found.thinking) < 1:
        raise InputError(
            f"--weather is {text!r}; it must be {len(Weather._fields)} whole numbers with commas: "
            f"{', '.join(Weather._fields)}"
        )
    return found


def changed(schedule: Schedule, troubles: Sequence[str], weather: str | None) -> Schedule:
    """Return a schedule with these troubles and this weather, where they are given."""
    if troubles:
        given = tuple(sorted(read_trouble(text) for text in troubles if text != NONE))
        schedule = replace(schedule, troubles=given)
    return replace(schedule, weather=read_weather(weather)) if weather else schedule


def command(schedule: Schedule) -> str:
    """Return the command that plays a schedule again."""
    setting = schedule.setting
    troubles = [spell_trouble(trouble) for trouble in schedule.troubles] or [NONE]
    forgets = "" if setting.half_life is None else f" --half-life {setting.half_life:g}s"
    worlds = {"bandits": schedule.bandits, "auto": schedule.auto, "forward": schedule.forward}
    if schedule.setting.has_eras:
        worlds["eras"] = schedule.eras
    world = " ".join(f"--{'' if is_so else 'no-'}{name}" for name, is_so in worlds.items())
    return (
        f"python -m tests.torture --policy '{setting.policy}' --agents {setting.agents} --rounds "
        f"{setting.rounds}{forgets} {world} --seed {schedule.seed} "
        f"--weather {spell_weather(schedule.weather)} "
        + " ".join(f"--trouble {text}" for text in troubles)
        + " --trace"
    )
