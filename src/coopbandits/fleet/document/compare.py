"""What changes between two documents, a line each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from coopbandits.fleet.document.content import Document
from coopbandits.fleet.identity.operators import key_text


def differences(old: Document | None, new: Document) -> list[str]:
    """Return a line for everything that a new document adds, removes or changes."""
    before, after = _facts(old) if old else {}, _facts(new)
    return list(_lines(before, after))


def _facts(document: Document) -> dict[str, str]:
    """Return all that a document says, as values by place."""
    found = {"[cluster] name": document.name, "[cluster] version": str(document.version)}
    found |= {f"operator {key_text(key)}": "" for key in document.operators}
    found |= {f"revoked {name}": "" for name in document.revoked}
    found |= {f"[settings] {key}": f"{value:g}" for key, value in document.settings.items()}
    found |= {f"member {name}": str(place) for name, place in document.members.items()}
    for name, table in document.bandits.items():
        found |= dict(_bandit(name, table))
    return found


def _bandit(name: str, table: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield f"bandit {name}", ""
    for key, value in table.items():
        yield f"[bandits.{name}] {key}", json.dumps(value, default=str, ensure_ascii=False)


def _lines(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for place in sorted(before.keys() | after.keys()):
        old, new = before.get(place), after.get(place)
        if old is None:
            yield f"+ {place}{' = ' if new else ''}{new}"
        elif new is None:
            yield f"- {place}{' = ' if old else ''}{old}"
        elif old != new:
            yield f"~ {place}: {old} -> {new}"
