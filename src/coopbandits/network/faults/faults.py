"""`Faults`: several kinds of faults together, spelt ``loss=0.3,sleep=0.1``."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

from coopbandits.core.checks import require_count
from coopbandits.core.draws import stream_key
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.core.registry import Registry, concrete
from coopbandits.network.faults.absence import Crash, Join, Sleep, Speeds
from coopbandits.network.faults.kind import TOUCHED, Kind, require_form
from coopbandits.network.faults.links import directed_links
from coopbandits.network.faults.messages import Bursts, Delay, Loss
from coopbandits.network.faults.outages import Churn, Graphs, OneWay, Pairs, Partition, Redraw
from coopbandits.network.faults.schedule import Schedule
from coopbandits.network.network import Network

FAULTS = 3
"""The stream of random words that faults are drawn from."""

KINDS: dict[str, type[Kind]] = {
    kind.name: kind
    for kind in (
        Loss, Bursts, Delay, Churn, OneWay, Partition, Redraw, Graphs, Sleep, Speeds, Crash,
        Join, Pairs,
    )
}  # fmt: skip
"""Name → kind. A kind's place here keys its random words, so add new ones last."""


def _finished(thing: Any) -> bool:
    declared = ("name", "form", "touches")
    return concrete(Kind)(thing) and all(hasattr(thing, name) for name in declared)


FAULT_KINDS: Registry[type[Kind]] = Registry(
    "fault",
    "coopbandits.faults",
    KINDS,
    _finished,
    "a frozen dataclass derived from coopbandits.network.faults.Kind that sets name, form and "
    "touches and writes begin",
)
Kind.registry = FAULT_KINDS

register_fault = FAULT_KINDS.register

_PLACES = {kind: place for place, kind in enumerate(KINDS.values())}


def _place(kind: Kind) -> int:
    """Return the key of a kind's random words; for user-defined kinds a hash of the name."""
    if type(kind) in _PLACES:
        return _PLACES[type(kind)]
    digest = hashlib.sha256(kind.full_name().encode()).digest()
    return 1000 + int.from_bytes(digest[:6], "big")


@dataclass(frozen=True, init=False)
class Faults:
    """What goes wrong between agents, as data; with a network and a seed it yields a schedule.

    Kinds are independent: what each draws does not depend on the others, nor on the order in which
    they are given.

    Parameters
    ----------
    *kinds : Kind
        What goes wrong; nothing for a perfect network. A kind may be given several times.

    Examples
    --------
    >>> faults = parse_faults("sleep=0.1,loss=0.3")
    >>> faults.spelling
    'loss=0.3,sleep=0.1'
    >>> faults.schedule(Network([(0, 1), (1, 2)]), seed=0, run=0).read(5).fate.shape
    (5, 4)
    """

    kinds: tuple[Kind, ...]

    def __init__(self, *kinds: Kind) -> None:
        for kind in kinds:
            _require_kind(kind)
        object.__setattr__(self, "kinds", tuple(sorted(kinds, key=_place)))

    def __bool__(self) -> bool:
        """Return whether anything goes wrong."""
        return bool(self.kinds)

    @property
    def spelling(self) -> str:
        """The faults as `parse_faults` reads them; ``none`` if there are none."""
        return ",".join(kind.spelling for kind in self.kinds) or "none"

    def schedule(self, network: Network, seed: int, run: int) -> Schedule:
        """Return the faults of one run, a pure function of the arguments: no horizon enters."""
        links = directed_links(network)
        effects = []
        for i, kind in enumerate(self.kinds):
            same = sum(type(other) is type(kind) for other in self.kinds[:i])
            key = stream_key(seed, FAULTS, run, _place(kind), same)
            effects.append((kind, kind.begin(links, key)))
        longest = sum(kind.longest_delay for kind in self.kinds)
        return Schedule(links, effects, longest)


PERFECT = Faults()
"""Nothing goes wrong."""


def _require_kind(kind: Kind) -> None:
    if not isinstance(kind, Kind):
        raise InputError(f"{kind!r} is no kind of fault; give some such as Faults(Loss(0.3))")
    if not FAULT_KINDS.accepts(type(kind)):
        raise InputError(
            f"{type(kind).__name__} is no fault yet; it must be {FAULT_KINDS.expected}"
        )
    if kind.touches not in TOUCHED:
        raise unknown_name(f"touches of fault {kind.full_name()}", str(kind.touches), TOUCHED)
    require_form(kind)
    require_count(f"longest_delay of fault {kind.full_name()}", kind.longest_delay, least=0)


def parse_faults(text: str) -> Faults:
    """Read a spelling such as ``loss=0.3``, ``churn=200..50,crash=0.5@1000..1500`` or ``none``.

    User-defined kinds are written ``my_module:MyKind=0.3``.
    """
    if text.strip() == "none":
        return PERFECT
    # Commas inside a graph's spelling do not separate kinds, nor does its ``seed=``.
    parts = re.split(r",(?!\s*seed=)(?=\s*[\w.:-]+\s*=|\s*$)", text)
    return Faults(*(_kind(part) for part in parts))


def _kind(text: str) -> Kind:
    name, equals, value = (part.strip() for part in text.partition("="))
    if not equals:
        raise InputError(
            f"fault {text!r} has no value; write name=value, such as loss=0.3, or none for none"
        )
    kind, rest = FAULT_KINDS.find(name)
    if rest:
        raise InputError(f"fault {text.strip()!r} is malformed; write {kind.usage()}")
    return kind.parse(value)
