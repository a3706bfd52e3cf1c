"""Writes a configuration as TOML, which the standard library can only read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from coopbandits.core.errors import InputError

BARE = re.compile(r"[A-Za-z0-9_-]+")

_quoted = json.JSONEncoder(ensure_ascii=False).encode  # made once: documents have many texts


def write_config(tables: Mapping[str, Any]) -> str:
    """Return TOML for tables, and lists of tables, of plain values.

    ``{"node": {"id": "a"}, "neighbors": [{"id": "b"}]}`` becomes ``[node]`` and ``[[neighbors]]``,
    and a table of tables ``{"bandits": {"a": {…}}}`` becomes ``[bandits.a]``.
    """
    parts = []
    flat: dict[str, Any] = {}
    for name, table in tables.items():
        if isinstance(table, Mapping) and table and all(map(_is_table, table.values())):
            flat |= {f"{name}.{_key(key)}": each for key, each in table.items()}
        else:
            flat[name] = table
    for name, table in flat.items():
        head = f"[{name}]" if isinstance(table, Mapping) else f"[[{name}]]"
        for part in [table] if isinstance(table, Mapping) else table:
            lines = [f"{key} = {_value(value)}" for key, value in part.items()]
            parts.append("\n".join([head, *lines]) + "\n")
    return "\n".join(parts)


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _key(name: str) -> str:
    return name if BARE.fullmatch(name) else _value(name)


def _value(value: Any) -> str:
    if isinstance(value, str | Path):
        # TOML's escapes are those of JSON, but it also requires one for DEL.
        return _quoted(str(value)).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        pairs = [f"{_value(str(key))} = {_value(each)}" for key, each in value.items()]
        return f"{{{', '.join(pairs)}}}"
    raise InputError(
        f"{value!r} cannot be written as TOML; give texts, numbers, dates, lists and tables"
    )
