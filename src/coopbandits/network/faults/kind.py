"""What a kind of fault is: settings with a spelling, and their effect round by round."""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

from numpy.typing import NDArray

from coopbandits.core.checks import require_count, require_number
from coopbandits.core.errors import InputError
from coopbandits.core.spelling import Named, make, parse_value, settings_of, spell
from coopbandits.network.faults.links import Links, Rounds

Effect = Callable[[Rounds], NDArray[Any]]
"""A function of rounds, asked for in order, that returns one row per round; see `Kind.touches`."""

TOUCHED = ("agents", "links", "messages", "delay")

NUMBER = r"-?\d*\.?\d+(?:[eE][+-]?\d+)?(?:/\d+)?"


class Kind(Named, ABC):
    """One kind of fault; as a frozen dataclass its fields are its settings.

    A user-defined kind sets the attributes below and writes `begin`, and `longest_delay` if it
    makes messages late.

    Attributes
    ----------
    name : str
        Its name in a spelling.
    form : str
        How its settings are spelt, such as ``{share}@{start}[..{stop}]``: fields in braces,
        optional parts in brackets.
    touches : {"agents", "links", "messages", "delay"}
        What its effect returns: for every agent the bits `AWAY` and `FRESH`; for every directed
        link whether it is down; whether its message is lost; or by how many rounds it is late.
    """

    form: ClassVar[str]
    touches: ClassVar[str]

    @property
    def longest_delay(self) -> int:
        """The most rounds by which it delays a message."""
        return 0

    @property
    def loss_without_rounds(self) -> float | None:
        """The loss probability of every message, if that is all it does; None where rounds matter.

        With clocks there are no rounds, so only kinds with such a probability can be played.
        """
        return None

    @abstractmethod
    def begin(self, links: Links, key: int) -> Effect:
        """Return the effect in one run; `key` is its only source of randomness."""

    @property
    def spelling(self) -> str:
        """The kind as text; optional settings at their default are left out."""
        default = {field.name: field.default for field in settings_of(type(self))}
        values = {name: getattr(self, name) for name in default}

        def keep(part: re.Match[str]) -> str:
            told = fields_in(part[1])
            return "" if all(values[name] == default[name] for name in told) else part[1]

        form = self.form
        while (shorter := re.sub(r"\[([^][]*)\]", keep, form)) != form:  # inner brackets first
            form = shorter
        return f"{self.full_name()}=" + form.format(**{key: spell(v) for key, v in values.items()})

    @classmethod
    def parse(cls, text: str) -> Kind:
        """Read the text after ``name=``."""
        form = cls.form.replace(".", r"\.").replace("[", "(?:").replace("]", ")?")
        pattern = re.sub(r"\{(\w+)\}", lambda part: f"(?P<{part[1]}>{NUMBER}|[a-z]+)", form)
        found = re.fullmatch(pattern, text)
        if found is None:
            given = f"{cls.full_name()}={text}"
            raise InputError(f"fault {given!r} is malformed; write {cls.usage()}")
        settings = {key: parse_value(value) for key, value in found.groupdict().items() if value}
        return make(f"fault {cls.full_name()}", cls, **settings)

    @classmethod
    def usage(cls) -> str:
        """Return the form for error messages, such as ``crash=SHARE@START[..STOP]``."""
        return f"{cls.full_name()}=" + re.sub(r"\{(\w+)\}", lambda part: part[1].upper(), cls.form)


def fields_in(form: str) -> list[str]:
    """Return the names in braces."""
    return re.findall(r"\{(\w+)\}", form)


def require_form(kind: Kind) -> None:
    """Refuse a form that does not tell every setting: two faults would have one spelling."""
    if type(kind).spelling is not Kind.spelling:
        return  # it has a spelling of its own
    told, settings = fields_in(kind.form), [field.name for field in settings_of(type(kind))]
    owner = f"form of fault {kind.full_name()} is {kind.form!r}"
    for name in settings:
        if name not in told:
            raise InputError(
                f"{owner}, which does not tell the setting {name}; put {{{name}}} into it, in "
                f"brackets where it may be left out: '{kind.form}[:{{{name}}}]'"
            )
    for name in told:
        if name not in settings:
            known = ", ".join(settings) or "none"
            raise InputError(f"{owner}, but {name} is no setting; its settings are {known}")


def require_share(kind: Kind, field: str) -> None:
    """Refuse anything but a number from 0 to 1."""
    low, high = -math.ulp(0.0), math.nextafter(1.0, 2.0)
    _require(kind, field, "a number from 0 to 1", low, high)


def require_mean_rounds(kind: Kind, field: str) -> None:
    """Refuse anything but a finite number of at least 1."""
    low = math.nextafter(1.0, 0.0)
    _require(kind, field, "a finite number of rounds, at least 1", low, math.inf)


def _require(kind: Kind, field: str, accepted: str, low: float, high: float) -> None:
    require_number(f"{field} of {kind.name}", getattr(kind, field), accepted, low, high)


def require_window(kind: Kind, start: int, stop: int | None) -> None:
    """Refuse anything but rounds from 1 on, the second after the first."""
    require_count(f"start of {kind.name}", start)
    if stop is not None:
        require_count(f"stop of {kind.name}", stop, least=start + 1)
