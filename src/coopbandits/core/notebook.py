"""How notebooks show a value: small tables without colours, so that any theme suits them."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

LEFT = 'style="text-align:left"'


def html_facts(title: str, facts: Sequence[tuple[str, object]]) -> str:
    """Return a table of names and values."""
    rows = "".join(
        f"<tr><th {LEFT}>{escape(name)}</th><td {LEFT}>{escape(str(value))}</td></tr>"
        for name, value in facts
    )
    return f"<div><strong>{escape(title)}</strong><table>{rows}</table></div>"
