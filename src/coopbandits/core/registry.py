"""Names: ours, those of installed packages, and ``module:Name`` for what lies in a user's own file.

Used by the command line, experiment files, the documentation and the contract tests. Of our own,
those of papers are in `coopbandits.literature`, which is above `core`: here they stand as texts,
and are imported when somebody asks for one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import is_dataclass
from difflib import get_close_matches
from functools import lru_cache
from importlib import import_module
from inspect import isabstract, isclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from coopbandits.core import aggregate, index, policies
from coopbandits.core.aggregate import AnyAggregation, CentralAggregation
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.core.index import LINEAR_INDICES, Index
from coopbandits.core.policy import AnyPolicy, CentralPolicy, Policy, combine
from coopbandits.core.population import parse_population
from coopbandits.core.sourced import at_source
from coopbandits.core.sources import SOURCES, Source
from coopbandits.core.spelling import one_line, parse_named

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")

MAIN = ("__main__", "__mp_main__")
"""What the user's script is called, in its own process and in a worker's."""


class Registry(Generic[T]):
    """The names of one kind of thing, such as policies.

    A text that begins with no known name is looked up among the entry points of installed packages,
    and then read as ``module:Name``. Both import the module, and that runs its code: read such
    texts only from people whose programs you would run.

    Parameters
    ----------
    kind : str
        What the things are called in sentences.
    group : str
        The group of entry points in which packages offer more of them.
    known : mapping
        Our own, by name. A text is where one is in `coopbandits.literature`.
    accepts : callable, optional
        Tells whether a thing is of this kind; anything is unless given.
    expected : str
        What is accepted, in words, to be read after "it must be".
    """

    def __init__(
        self,
        kind: str,
        group: str,
        known: Mapping[str, T | str],
        accepts: Callable[[Any], bool] = lambda thing: True,  # noqa: ARG005  of this form
        expected: str = "",
    ) -> None:
        self.kind, self.group = kind, group
        self.accepts, self.expected = accepts, expected
        self._things = {name: each for name, each in known.items() if not isinstance(each, str)}
        self._of_papers = {name: each for name, each in known.items() if isinstance(each, str)}
        self._own = tuple(known)
        self._names: dict[Any, str] = {thing: name for name, thing in self._things.items()}

    def register(self, name: str, thing: T) -> T:
        """Give a thing a name in this process; return the thing.

        Call it where the thing is defined, so that worker processes know the name too.
        """
        if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z][\w.-]*", name):
            raise InputError(
                f"{self.kind} name {name!r} cannot be read back; give letters, digits and - . _, "
                "beginning with a letter"
            )
        taken = self._known(name)
        # A module that is loaded again, or a notebook's cell, may replace what it defined before.
        if taken is not None and (name in self._own or _place(taken) != _place(thing)):
            if taken is thing:
                return thing
            raise InputError(f"{self.kind} name {name!r} is taken; choose another")
        self._things[name] = self._accepted(thing, f"{self.kind} {name!r}")
        if self._names.get(thing) not in self._things:  # a second name does not change spellings
            self._names[thing] = name
        return thing

    def names(self) -> list[str]:
        """Return all names: ours first, then registered ones, then those of entry points."""
        return list(dict.fromkeys([*self._own, *self._things, *self.offered()]))

    def own(self) -> tuple[T, ...]:
        return tuple(thing for name in self._own if (thing := self._known(name)) is not None)

    def has(self, name: str) -> bool:
        """Return whether a name is known; entry points are read only where it is not ours."""
        return name in self._own or name in self._things or name in self.offered()

    def _known(self, name: str) -> T | None:
        """Return the thing of ours, or a registered one; papers are imported on first use."""
        if name in self._of_papers and name not in self._things:
            module, _, attribute = f"coopbandits.literature.{self._of_papers[name]}".rpartition(".")
            thing = getattr(import_module(module), attribute)
            self._things[name], self._names[thing] = thing, name
        return self._things.get(name)

    def offered(self) -> list[str]:
        """Return the names that installed packages offer."""
        return list(_offers(self.group, tuple(sys.path)))

    def find(self, text: str) -> tuple[T, str]:
        """Return what a text names, and the rest of the text: its settings."""
        name, _, rest = (part.strip() for part in text.partition(":"))
        if (known := self._known(name)) is not None:
            return known, rest
        if offers := _offers(self.group, tuple(sys.path)).get(name):
            return self._load(offers), rest
        attribute, _, settings = (part.strip() for part in rest.partition(":"))
        if _is_path(name) and _is_path(attribute):
            return self._import(name, attribute), settings
        raise unknown_name(self.kind, name, self.names())

    def name_of(self, thing: T) -> str:
        """Return the text by which `find` finds a thing again.

        Things of ``__main__``, and those made inside a function, cannot be found; their own `name`
        stands for them.
        """
        if thing not in self._names and self._known(getattr(thing, "name", "")) is not thing:
            module, name = _place(thing)
            if module in MAIN or "<" in name:
                own: str = vars(thing).get("name", name)
                return own
            self._names[thing] = self._offered_as(thing, module) or f"{module}:{name}"
        return self._names[thing]

    def _offered_as(self, thing: T, module: str) -> str | None:
        """Return the name of the entry point that a thing's own package has for it, if any."""
        package = module.partition(".")[0]
        for name, offers in _offers(self.group, tuple(sys.path)).items():
            home = re.split("[.:]", offers[0].value.strip())[0]
            if name not in self._things and home == package:
                with suppress(InputError):
                    if self._load(offers) is thing:
                        return name
        return None

    def _load(self, offers: list[EntryPoint]) -> T:
        name = offers[0].name
        packages = [entry.dist.name if entry.dist else "?" for entry in offers]
        if len({entry.value for entry in offers}) > 1:
            raise InputError(
                f"{self.kind} {name!r} is offered by several packages ({', '.join(packages)}); "
                f"write the one you want as {offers[0].value}"
            )
        where = f"{self.kind} {name!r} of package {packages[0]}"
        try:
            thing = offers[0].load()
        except (Exception, SystemExit) as error:
            raise InputError(
                f"{where} cannot be loaded: {one_line(error)}; repair or uninstall the package"
            ) from error
        return self._accepted(thing, where)

    def _import(self, module: str, attribute: str) -> T:
        where = f"{module}:{attribute}"
        try:
            thing = import_module(module)
        except (Exception, SystemExit) as error:
            missing = error.name if isinstance(error, ModuleNotFoundError) else None
            if missing is not None and f"{module}.".startswith(f"{missing}."):
                raise self._no_module(missing, where) from None
            raise InputError(
                f"module {module} of {self.kind} {where} raises {one_line(error)} when it is "
                "imported; repair it"
            ) from error
        return self._accepted(self._attribute(thing, attribute, module), where)

    def _no_module(self, missing: str, where: str) -> InputError:
        close = get_close_matches(missing, self.names(), n=1)
        return InputError(
            f"there is no module {missing} for {self.kind} {where}; its file must lie in the "
            "current folder or on PYTHONPATH, or its package be installed"
            + (f"; or did you mean {close[0]!r}?" if close else "")
        )

    def _attribute(self, thing: Any, attribute: str, path: str) -> Any:
        for name in attribute.split("."):
            if not hasattr(thing, name):
                near = [key for key in dir(thing) if self.accepts(getattr(thing, key, None))]
                near = near or [key for key in dir(thing) if not key.startswith("_")]
                if near:
                    raise unknown_name(f"{self.kind} in {path}", name, near)
                raise InputError(f"{path} has no {name}, nor anything else; write it there")
            thing, path = getattr(thing, name), f"{path}.{name}"
        return thing

    def _accepted(self, thing: Any, where: str) -> T:
        if not self.accepts(thing):
            text = repr(thing)
            shown = text if len(text) <= 60 else text[:57] + "..."
            raise InputError(f"{where} is {shown}; it must be {self.expected}")
        accepted: T = thing
        return accepted


@lru_cache(maxsize=32)
def _offers(group: str, path: tuple[str, ...]) -> dict[str, list[EntryPoint]]:
    """Return the entry points of a group by name; `path` is where packages are searched for."""
    del path  # part of what the answer depends on
    from importlib.metadata import entry_points  # takes longer than all else here

    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=group):
        found.setdefault(entry.name, []).append(entry)
    return found


def _is_path(text: str) -> bool:
    return all(part.isidentifier() for part in text.split("."))


def _place(thing: Any) -> tuple[str, str]:
    return getattr(thing, "__module__", ""), getattr(thing, "__qualname__", repr(thing))


def concrete(*bases: type) -> Callable[[Any], bool]:
    """Return what accepts classes that can be spelled: derived from one of these, finished."""

    def accepts(thing: Any) -> bool:
        if not isclass(thing) or not issubclass(thing, bases) or isabstract(thing):
            return False
        return not is_dataclass(thing) or bool(thing.__dataclass_params__.frozen)  # type: ignore[attr-defined]  # a dataclass has them

    return accepts


def _named(*classes: type[T]) -> dict[str, type[T]]:
    """Return classes by the names that they have in spellings."""
    return {vars(cls)["name"]: cls for cls in classes}


SHIPPED_POLICIES: Mapping[str, type[AnyPolicy] | str] = {
    **_named(policies.DDUCB),
    "coop-ucb": "CoopUCB",
    "coop-ucb2": "CoopUCB2",
    "coop-ucl": "CoopUCL",
    "dec-ts": "DecTS",
    "dec-bayes-ucb": "DecBayesUCB",
    "ucb-network": "UCBNetwork",
    "mp-ucb": "MPUCB",
    "dpe2": "DPE2",
    "gosine": "GosInE",
    "dec-ucb": "DecUCB",
    "dec-kl-ucb": "DecKLUCB",
    "coop-se": "CoopSE",
    "exp3-coop": "Exp3Coop",
    "resilient-ucb": "ResilientUCB",
    "liar": "Liar",
    "gossip-ucb": "GossipUCB",
    "fed-ucb": "FedUCB",
    "gse": "GSE",
    **_named(
        policies.GossipTS, policies.TreeTS, policies.FloodTS, policies.TreeUCB, policies.FloodUCB,
        policies.LedgerTS, policies.LedgerUCB, policies.IndependentUCB, policies.IndependentTS,
        policies.CentralUCB, policies.CentralBatchedUCB, policies.DelayedCentralUCB,
        policies.CentralTS,
    ),
}  # fmt: skip
SHIPPED_AGGREGATIONS: Mapping[str, type[AnyAggregation | CentralAggregation] | str] = {
    **_named(
        aggregate.LocalSums, aggregate.StagedMixing, aggregate.RunningConsensus,
        aggregate.PullMixing, aggregate.RunningSums, aggregate.TreeSums, aggregate.FloodedTotals,
        aggregate.NeighborhoodSums, aggregate.FloodedPulls, aggregate.LedgerSums,
    ),
    "tracked-means": "TrackedMeans",
    "trimmed-means": "TrimmedMeans",
    **_named(aggregate.CentralTotals),
    "server-totals": "ServerTotals",
    "permuted-buffers": "PermutedBuffers",
}  # fmt: skip
SHIPPED_INDICES: Mapping[str, type[Index] | str] = {
    **_named(index.UCB),
    "inflated-ucb": "InflatedUCB",
    "ucl": "UCL",
    **_named(
        index.BayesUCB, index.KLUCB, index.MOSS, index.NormalDraw, index.CentredDraw,
        index.BetaDraw, index.TopTwo, index.EpsilonGreedy, index.Elimination, index.RobustUCB,
        *LINEAR_INDICES,
    ),
}  # fmt: skip

EXAMPLES = tuple(
    {
        "coop-ucb": "coop-ucb:gamma=1.01",
        "coop-ucb2": "coop-ucb2:gamma=1.01",
        "coop-ucl": "coop-ucl:gamma=1.01",
        "mp-ucb": "mp-ucb:hop_limit=2",
        "fed-ucb": "fed-ucb:epsilon=1,horizon=20000",
        "gse": "gse:horizon=20000",
        "delayed-central-ucb": "delayed-central-ucb:delay=10",
    }.get(name, name)
    for name in SHIPPED_POLICIES
)
"""One spelling of every policy, with the settings that have no default."""

DATACLASS = "with its settings, if it has any, as fields of a frozen dataclass"

REGISTRY: Registry[type[AnyPolicy]] = Registry(
    "policy",
    "coopbandits.policies",
    SHIPPED_POLICIES,
    concrete(Policy, CentralPolicy),
    f"a class derived from coopbandits.Policy that returns its parts, {DATACLASS}",
)
AGGREGATION_REGISTRY: Registry[type[AnyAggregation | CentralAggregation]] = Registry(
    "aggregation",
    "coopbandits.aggregations",
    SHIPPED_AGGREGATIONS,
    concrete(AnyAggregation, CentralAggregation),
    f"a class derived from coopbandits.Aggregation, {DATACLASS}",
)
INDEX_REGISTRY: Registry[type[Index]] = Registry(
    "index",
    "coopbandits.indices",
    SHIPPED_INDICES,
    concrete(Index),
    f"a class derived from coopbandits.Index that writes value, {DATACLASS}",
)
SOURCE_REGISTRY: Registry[type[Source]] = Registry(
    "source",
    "coopbandits.sources",
    {cls.name: cls for cls in SOURCES},
    concrete(Source),
    f"a class derived from coopbandits.Source that writes make, {DATACLASS}",
)
Policy.registry = CentralPolicy.registry = REGISTRY
AnyAggregation.registry = CentralAggregation.registry = AGGREGATION_REGISTRY
Index.registry = INDEX_REGISTRY
Source.registry = SOURCE_REGISTRY

if TYPE_CHECKING:
    POLICIES: dict[str, type[AnyPolicy]]
    """Every policy that ships, by its name."""

    AGGREGATIONS: tuple[type[AnyAggregation], ...]
    """Every aggregation that ships, but for those with one controller."""

    CENTRAL_AGGREGATIONS: tuple[type[CentralAggregation], ...]

    INDICES: tuple[type[Index], ...]
    """Every index that ships, but for those that look at features: `LINEAR_INDICES`."""


def __getattr__(name: str) -> Any:
    if name == "POLICIES":
        return {kind.name: kind for kind in REGISTRY.own()}
    if name == "INDICES":
        return tuple(kind for kind in INDEX_REGISTRY.own() if kind not in LINEAR_INDICES)
    if name in ("AGGREGATIONS", "CENTRAL_AGGREGATIONS"):
        wanted = AnyAggregation if name == "AGGREGATIONS" else CentralAggregation
        return tuple(kind for kind in AGGREGATION_REGISTRY.own() if issubclass(kind, wanted))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


register_policy = REGISTRY.register
register_aggregation = AGGREGATION_REGISTRY.register
register_index = INDEX_REGISTRY.register
register_source = SOURCE_REGISTRY.register


def parse_policy(text: str) -> AnyPolicy:
    """Read a spelling of a policy.

    ``dducb:eta=3,own_pulls=false``, ``tree-sums*kl-ucb`` for an aggregation × an index,
    ``private:epsilon=1,horizon=1000*flood-ucb`` with what happens to rewards at their source,
    ``resilient-ucb+liar@0,5`` for a population, or with ``module:Name`` in the place of a name,
    ``my_module:MyPolicy:step=2``.
    """
    population = parse_population(text, parse_policy)
    if population is not None:
        return population
    first, star, rest = text.partition("*")
    name = first.partition(":")[0].strip()
    if star and not AGGREGATION_REGISTRY.has(name) and SOURCE_REGISTRY.has(name):
        return at_source(parse_source(first), parse_policy(rest))
    if star:
        return combine(parse_aggregation(first), parse_index(rest))
    return parse_named(REGISTRY, text, EXAMPLES)


def parse_aggregation(text: str) -> AnyAggregation | CentralAggregation:
    """Read a spelling such as ``tree-sums`` or ``staged-mixing:own_pulls=false``."""
    return parse_named(AGGREGATION_REGISTRY, text)


def parse_source(text: str) -> Source:
    """Read a spelling such as ``private:epsilon=1,horizon=1000``."""
    return parse_named(SOURCE_REGISTRY, text)


def parse_index(text: str) -> Index:
    """Read a spelling such as ``ucb:constant=2`` or ``my_module:MyIndex``."""
    return parse_named(INDEX_REGISTRY, text)
