"""`coopbandits policies`, `problems`, `graphs`, `faults` …: what there is, one line each.

Names of installed packages are listed with ours: each registry knows both. A package that cannot be
loaded gets its line too, and the sentence says why.
"""

from __future__ import annotations

import re
from dataclasses import is_dataclass
from inspect import Parameter, getdoc, isclass, signature
from typing import Any

import typer

from coopbandits.core.errors import InputError
from coopbandits.core.registry import EXAMPLES, Registry
from coopbandits.core.spelling import Named, parse_named, required
from coopbandits.loading import part

REGISTRIES = {
    "policies": ("core.registry", "REGISTRY"),
    "aggregations": ("core.registry", "AGGREGATION_REGISTRY"),
    "indices": ("core.registry", "INDEX_REGISTRY"),
    "problems": ("problems.kinds", "PROBLEMS"),
    "graphs": ("network.specs", "GRAPHS"),
    "faults": ("network.faults.faults", "FAULT_KINDS"),
    "clocks": ("sim.clocks", "CLOCKS"),
}
"""Command → the module below `coopbandits` and its registry, imported when asked for."""

NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)

app = typer.Typer()


def registry_of(kind: str) -> Registry[Any]:
    """Import the registry of a kind of things."""
    module, name = REGISTRIES[kind]
    found: Registry[Any] = getattr(part(module), name)
    return found


def rows(kind: str) -> list[tuple[str, str, str]]:
    """Return how every thing of a kind is written, its bonus constant, and a sentence on it."""
    return lines_of(registry_of(kind))


def lines_of(registry: Registry[Any]) -> list[tuple[str, str, str]]:
    """Return the same for a registry."""
    return [_row(registry, name) for name in registry.names()]


def _row(registry: Registry[Any], name: str) -> tuple[str, str, str]:
    try:
        thing, _ = registry.find(name)
    except InputError as error:
        return name, "", str(error)
    form = _form(registry, name, thing)
    return form, _constant(registry, form, thing), _sentence(thing)


def _constant(registry: Registry[Any], form: str, thing: Any) -> str:
    """Return the constant of a bonus, which policies differ in; "" for what has none."""
    if not (isclass(thing) and issubclass(thing, Named)):
        return ""
    try:
        constant = parse_named(registry, form).bonus_constant
    except InputError:  # its form has a setting that only the user can choose
        return ""
    return "" if constant is None else f"B={constant:g}"


def _form(registry: Registry[Any], name: str, thing: Any) -> str:
    """Return how a thing is written, with what must be given."""
    form = getattr(thing, "form", "")
    if isclass(thing) and form:  # a fault: loss={probability}
        return f"{name}=" + re.sub(r"\{(\w+)\}", lambda part: part[1].upper(), form)
    if form:
        return str(form)
    examples = [text for text in EXAMPLES if text.startswith(f"{name}:")]
    if examples and registry.kind == "policy":
        return examples[0]
    by_place = registry.kind == "graph"
    needed = ",".join(key.upper() if by_place else f"{key}=…" for key in _needed(thing))
    return f"{name}:{needed}" if needed else name


def _needed(thing: Any) -> tuple[str, ...]:
    """Return what must be given: as a recipe says, by its settings, or by its parameters."""
    if hasattr(thing, "needed"):
        return tuple(thing.needed)
    if is_dataclass(thing) and isclass(thing):
        return required(thing)
    parameters = signature(thing).parameters.values()
    return tuple(p.name for p in parameters if p.default is p.empty and p.kind in NAMED)


def _sentence(thing: Any) -> str:
    """Return the first line of what a thing says about itself."""
    source = getattr(thing, "build", None) or getattr(thing, "maker", None) or thing
    first = (getdoc(source) or "").partition("\n")[0].replace("`", "")
    about = first.removeprefix("Return ")  # of a function, what matters is what it returns
    return first if about == first else about[:1].upper() + about[1:]


def _add(kind: str, explanation: str) -> None:
    @app.command(kind, help=explanation)
    def command() -> None:
        found = rows(kind)
        widths = [max(map(len, column)) for column in list(zip(*found, strict=True))[:2]]
        for *cells, sentence in found:
            shown = [
                f"{cell:{width}}  " for cell, width in zip(cells, widths, strict=True) if width
            ]
            typer.echo(f"{''.join(shown)}{sentence}".rstrip())


for _kind in REGISTRIES:
    _add(_kind, f"List all {_kind} that can be named, one line each.")
