"""One self-contained HTML page: figures as SVG inside it, nothing loaded from anywhere."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from coopbandits.plots.files import svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --paper: #ffffff; --line: #c9c9c9; }
@media (prefers-color-scheme: dark) { :root { --ink: #ececec; --paper: #181a1b; --line: #4a4a4a; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
       max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: right; }
th:first-child, td:first-child { text-align: left; }
.scroll { overflow-x: auto; }
figure { margin: 1.5rem 0; background: #ffffff; color: #1b1b1b; border-radius: 6px;
         padding: .6rem; }
figure svg { width: 100%; height: auto; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: .85rem;
      border: 1px solid var(--line); padding: .8rem; }
"""


def html_report(
    title: str,
    lead: str,
    figures: Sequence[tuple[str, Figure]],
    tables: Sequence[tuple[str, Sequence[Sequence[str]]]],
    settings: Mapping[str, Any],
) -> str:
    """Return the page as text."""
    parts = [f"<h1>{escape(title)}</h1>", f"<p>{escape(lead)}</p>"]
    parts += [_figure(caption, figure) for caption, figure in figures]
    parts += [_table(caption, rows) for caption, rows in tables]
    parts.append(f"<h2>Settings</h2><pre>{escape(_settings(settings))}</pre>")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title>"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head><body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _figure(caption: str, figure: Figure) -> str:
    return f"<figure>{svg(figure)}<figcaption>{escape(caption)}</figcaption></figure>"


def _table(caption: str, rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    lines = ["<tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in head) + "</tr>"]
    lines += [
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in body
    ]
    return f'<h2>{escape(caption)}</h2><div class="scroll"><table>{"".join(lines)}</table></div>'


def _settings(settings: Mapping[str, Any]) -> str:
    """Write settings as JSON, lists of plain values on one line."""
    text = json.dumps(settings, indent=2, ensure_ascii=False)
    return re.sub(r"\[\n([^][{}]*)\]", _one_line, text)


def _one_line(items: re.Match[str]) -> str:
    return "[" + " ".join(line.strip() for line in items[1].splitlines()).strip() + "]"
