"""Rewards that change with time: segments of rounds, each with means or a problem of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coopbandits.core.checks import require_count
from coopbandits.core.errors import InputError
from coopbandits.problems.forms import UNCHANGED, Form, as_form, formed, plain, read_form
from coopbandits.problems.logged import LoggedBandit
from coopbandits.problems.problem import Problem

PIECES = 20
"""Segments into which a ramp or a log is cut, unless told."""


@dataclass(frozen=True)
class Drift:
    """Segments that begin after `starts` rounds, each under a form; see `drift`."""

    starts: tuple[int, ...]
    forms: tuple[Form, ...]
    period: int = 0

    def over(self, block: Problem, base: Problem) -> list[Problem]:
        """Return a block in every segment."""
        return [formed(form, block, base) for form in self.forms]

    @property
    def has_problems(self) -> bool:
        """Whether a segment has a problem of its own."""
        return any(isinstance(form, Problem) for form in self.forms)

    def describe(self) -> dict[str, Any]:
        """Return all settings as plain data."""
        repeated = {"period": self.period} if self.period else {}
        return {"starts": list(self.starts), "forms": [*map(plain, self.forms)], **repeated}

    def __repr__(self) -> str:
        again = f", again every {self.period} rounds" if self.period else ""
        return f"{len(self.starts)} segments{again}"


def make_drift(base: Problem, settings: Mapping[str, Any]) -> Drift:
    """Return the drift that the settings of `drift` ask for."""
    kinds = {"steps": _steps, "ramp": _ramp, "switch_every": _switching, "replay": _replay}
    given = [name for name in kinds if settings[name] is not None]
    if len(given) != 1:
        what = " and ".join(given) or "nothing"
        raise InputError(f"a drift was given {what}; give one of {', '.join(kinds)}")
    kind, pieces, period = given[0], settings["pieces"], settings["period"]
    if pieces is not None and kind not in ("ramp", "replay"):
        raise InputError(f"pieces go with ramp or replay, not with {kind}; leave them out")
    require_count("pieces", PIECES if pieces is None else pieces)
    if period is not None and kind not in ("steps", "ramp"):
        raise InputError(f"period goes with steps or ramp, not with {kind}; leave it out")
    found = kinds[kind](base, settings[kind], PIECES if pieces is None else int(pieces))
    return found if period is None else _repeated(found, period)


def _repeated(once: Drift, period: Any) -> Drift:
    require_count("period", period)
    if period <= once.starts[-1]:
        raise InputError(
            f"period is {period}, but the last segment begins after {once.starts[-1]} rounds; "
            "give a longer period"
        )
    return Drift(once.starts, once.forms, int(period))


def _steps(base: Problem, steps: Any, pieces: int) -> Drift:
    del pieces
    pairs = list(steps.items()) if isinstance(steps, Mapping) else _pairs(steps)
    if not pairs:
        raise InputError("steps are empty; give at least one, such as {1000: [0.2, 0.9]}")
    starts: list[int] = [0]
    for start, _ in pairs:
        require_count("a step's round", start)
        if start <= starts[-1]:
            raise InputError(
                f"a segment begins after {start} rounds, and the one before it after {starts[-1]}; "
                "list them in order"
            )
        starts.append(int(start))
    forms = [read_form(f"the segment after {start} rounds", form, base) for start, form in pairs]
    return Drift(tuple(starts), (UNCHANGED, *forms))


def _pairs(steps: Any) -> list[tuple[Any, Any]]:
    is_list = isinstance(steps, Sequence) and not isinstance(steps, str)
    if not is_list or any(not isinstance(each, Sequence) or len(each) != 2 for each in steps):
        raise InputError(
            f"steps are {steps!r}; give rounds and means, such as {{1000: [0.2, 0.9]}}"
        )
    return [tuple(each) for each in steps]


def _ramp(base: Problem, ramp: Any, pieces: int) -> Drift:
    """Cut a straight line into pieces, each with the means of its middle."""
    if not isinstance(ramp, Sequence) or isinstance(ramp, str) or len(ramp) != 3:
        raise InputError(
            f"ramp is {ramp!r}; give (begin, end, means), such as (0, 1000, [0.2, 0.9])"
        )
    begin, end, last = ramp
    require_count("begin of a ramp", begin, least=0)
    require_count("end of a ramp", end)
    if end - begin < pieces:
        raise InputError(
            f"a ramp goes from round {begin} to {end} in {pieces} pieces; each needs a round, so "
            "take fewer pieces or a longer ramp"
        )
    target = read_form("the end of a ramp", last, base)
    if not isinstance(target, tuple):
        raise InputError("a ramp ends in a problem; give means, between which there is a line")
    change = np.array(target) - base.levels
    edges = [begin + (end - begin) * piece // pieces for piece in range(pieces + 1)]
    forms: list[Form] = [
        as_form(base.levels + change * (piece + 0.5) / pieces) for piece in range(pieces)
    ]
    before: list[Form] = [UNCHANGED] if begin > 0 else []
    return Drift((*([0] if begin > 0 else []), *map(int, edges)), (*before, *forms, target))


def _switching(base: Problem, every: Any, pieces: int) -> Drift:
    """Let every arm pay what the arm before it paid, again and again."""
    del pieces
    require_count("switch_every", every)
    places = range(base.num_arms)
    base.turned(np.arange(base.num_arms))  # refuses problems whose arms have no places
    return Drift(tuple(int(every) * k for k in places), tuple(places), int(every) * base.num_arms)


def _replay(base: Problem, rounds: Any, pieces: int) -> Drift:
    """Stretch the time of a log over some rounds."""
    require_count("replay", rounds)
    if not isinstance(base, LoggedBandit):
        raise InputError(
            f"replay is for logged rewards, and the problem is a {type(base).__name__}; give a "
            "LoggedBandit with time=…"
        )
    if rounds < pieces:
        raise InputError(
            f"a log is replayed over {rounds} rounds in {pieces} pieces; each needs a round, so "
            "take fewer pieces or more rounds"
        )
    starts = tuple(rounds * piece // pieces for piece in range(pieces))
    return Drift(starts, tuple(base.pieces(pieces)))
