"""Writes a configuration as TOML, which the standard library can only read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from coopbandits.core.errors import InputError

_quoted = json.JSONEncoder(ensure_ascii=False).encode  # made once: documents have many texts


def write_config(tables: Mapping[str, Any]) -> str:
    """Return TOML for tables, and lists of tables, of plain values.

    ``{"node": {"id": "a"}, "neighbors": [{"id": "b"}]}`` becomes ``[node]`` and ``[[neighbors]]``.
    """
    parts = []
    for name, table in tables.items():
        head = f"[{name}]" if isinstance(table, Mapping) else f"[[{name}]]"
        for part in [table] if isinstance(table, Mapping) else table:
            lines = [f"{key} = {_value(value)}" for key, value in part.items()]
            parts.append("\n".join([head, *lines]) + "\n")
    return "\n".join(parts)


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
