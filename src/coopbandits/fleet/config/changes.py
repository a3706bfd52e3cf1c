"""What changed between two configurations of one agent, for its log.

A change is a line: `+ [bandits.page]`, `- [[neighbors]] shop-3 = 10.0.0.3:7400`, or
`~ [node] drain_seconds: 0 -> 60`. Contents of files with secrets are compared by their hash, and
never shown.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields
from datetime import UTC, datetime
from hashlib import sha256
from typing import NamedTuple

from coopbandits.fleet.config.bandits import Arm, BanditConfig, ClusterConfig
from coopbandits.fleet.config.features import Feature
from coopbandits.fleet.config.model import ApiLimits, ApiTokens, DocumentConfig, NodeConfig
from coopbandits.fleet.identity.operators import key_text

LONGEST = 200
"""Characters of a value that a line shows; all of them are compared."""

PLAIN = re.compile(r"[\w.:/@*= -]+")
"""Texts that need no quotes in a list."""

CONTENTS = "contents"


class Change(NamedTuple):
    """One setting that differs; `old` is None for what was added, `new` for what was removed."""

    place: str
    old: str | None
    new: str | None

    def __str__(self) -> str:
        if self.old is None or self.new is None:
            sign, value = ("+", self.new) if self.old is None else ("-", self.old)
            return f"{sign} {self.place}" + (f" = {_clipped(value)}" if value else "")
        if self.place.endswith(CONTENTS):
            return f"~ {self.place}"
        return f"~ {self.place}: {_clipped(self.old)} -> {_clipped(self.new)}"


def _clipped(text: str | None) -> str:
    text = text or ""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def compare_facts(before: Mapping[str, str], after: Mapping[str, str]) -> list[Change]:
    """Return what differs between two tables of facts by place."""
    return [
        Change(place, before.get(place), after.get(place))
        for place in sorted(before.keys() | after.keys())
        if before.get(place) != after.get(place)
    ]


def changes_of(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Change]:
    """Yield what differs; of a bandit or a file that came or went, nothing but that."""
    whole: str | None = None
    for change in compare_facts(before, after):
        if None in change and (
            change.place.endswith(CONTENTS) or (whole and change.place.startswith(whole))
        ):
            continue
        if None in change and change.place.startswith("[bandits."):
            whole = f"{change.place} "
        yield change


def facts(config: NodeConfig) -> dict[str, str]:
    """Return all settings of an agent as text, by place in its file."""
    found = dict(_fields("[cluster]", config.cluster))
    for field in fields(NodeConfig):
        value = getattr(config, field.name)
        match field.name:
            case "cluster" | "bandits" | "neighbors":
                continue
            case "auto":
                found["[node] neighbors"] = "auto" if value else "listed"
            case "api_limits" | "document":
                found |= _fields(f"[{field.name}]", value)
            case "api_tokens":
                found |= _fields("[api]", value)
            case "tls" | "api_tls":
                for key, path in value._asdict().items() if value else ():
                    found[f"[{field.name}] {key}"] = _text(key, path)
            case _:
                found[f"[node] {field.name}"] = _text(field.name, value)
    found |= {f"[[neighbors]] {name}": str(place) for name, place in config.neighbors.items()}
    for bandit in config.bandits.values():
        found[bandit.where] = ""
        found |= _fields(bandit.where, bandit, but=("name", "cluster", "is_implied"))
        if bandit.is_implied:  # the journal may have another one, which counts
            found[f"{bandit.where} policy"] = _text("policy", None)
    return found


def contents(config: NodeConfig) -> dict[str, str]:
    """Return a hash of every file that is read at the start and on SIGHUP alone, by place."""
    files = {"[node] token_file": config.token_file}
    files |= {f"{each.where} token_file": each.token_file for each in config.bandits.values()}
    files |= {
        f"[api] {scope}_token_file": path for scope, path in config.api_tokens.by_scope().items()
    }
    if config.api_tls is not None:
        files |= {f"[api_tls] {key}": path for key, path in config.api_tls._asdict().items()}
    found = {}
    for place, path in files.items():
        with suppress(OSError):
            if path is not None:
                found[f"{place} {CONTENTS}"] = sha256(path.read_bytes()).hexdigest()
    return found


def _fields(
    where: str,
    table: ClusterConfig | BanditConfig | ApiLimits | ApiTokens | DocumentConfig,
    but: Collection[str] = (),
) -> dict[str, str]:
    return {
        f"{where} {field.name}": _text(field.name, getattr(table, field.name))
        for field in fields(table)
        if field.name not in but
    }


def _text(key: str, value: object) -> str:
    """Return a value as text; other values have other texts."""
    if value is None:
        return "none"
    if isinstance(value, str):
        return value if PLAIN.fullmatch(value) and value != "none" else repr(value)
    if isinstance(value, bool):
        return str(value).lower()
    if key == "epoch" and isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC).isoformat()
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, bytes):
        return key_text(value)
    if isinstance(value, Arm):
        return _arm(value)
    if isinstance(value, Feature):
        return f"{_text('', value.name)}: {value.wanted}"
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return f"[{', '.join(_text('', each) for each in value)}]"
    return str(value)


def _arm(arm: Arm) -> str:
    facts = (
        f"id {_text('', arm.id)}" * (arm.id != arm.name),
        "frozen" * arm.frozen,
        f"minimum_share {_number(arm.minimum_share)}" * (arm.minimum_share > 0),
    )
    listed = ", ".join(filter(None, facts))
    name = _text("", arm.name)
    return f"{name} ({listed})" if listed else name


def _number(value: float) -> str:
    return repr(value).removesuffix(".0")
