"""One self-contained HTML page: figures are inline SVG, nothing is loaded."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from coopbandits.plots.files import svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --paper: #ffffff; --line: #c9c9c9; }
@media (prefers-color-scheme: dark) { :root { --ink: #ececec; --paper: #181a1b; --line: #4a4a4a; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
       max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums;
        font-size: .92rem; }
th, td { padding: .3rem .7rem; border-bottom: 1px solid var(--line); text-align: right;
         white-space: nowrap; }
th.text, td.text { text-align: left; vertical-align: top; white-space: normal; }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
.scroll { overflow-x: auto; }
figure { margin: 1.5rem 0; background: #ffffff; color: #1b1b1b; border-radius: 6px;
         padding: .6rem; }
figure svg { width: 100%; height: auto; }
figure svg.narrow { display: none; }
figure svg.whole { min-width: 44rem; }
@media (max-width: 40rem) {
  h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; }
  figure { padding: .2rem; }
  figure svg.wide { display: none; } figure svg.narrow { display: block; }
  .text:first-child { position: sticky; left: 0; background: var(--paper); }
}
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: .85rem;
      border: 1px solid var(--line); padding: .8rem; }
"""


NARROW = (4.0, 3.8)
"""Inches of a figure on a phone: 384 pixels, of which it shows nine tenths."""


class Table(NamedTuple):
    """Rows of cells, the first of them the header; columns in `left` are left-aligned."""

    rows: Sequence[Sequence[str]]
    caption: str = ""
    left: tuple[int, ...] = (0,)


class Drawing(NamedTuple):
    """A figure that is drawn, for wide pages and for phones, as SVG."""

    wide: str
    narrow: str


class Section(NamedTuple):
    """A section of the page: paragraphs, then figures (drawn or as SVG text), then tables."""

    heading: str
    text: Sequence[str] = ()
    figures: Sequence[tuple[str, Figure | Drawing | str]] = ()
    tables: Sequence[Table] = ()


def html_page(
    title: str, lead: str, sections: Sequence[Section], settings: Mapping[str, Any]
) -> str:
    """Return a page as text."""
    parts = [f"<h1>{escape(title)}</h1>", f"<p>{escape(lead)}</p>"]
    parts += map(_section, sections)
    parts.append(f"<h2>Settings</h2><pre>{escape(_settings(settings))}</pre>")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)}</title>"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head><body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _section(section: Section) -> str:
    parts = [f"<h2>{escape(section.heading)}</h2>"] if section.heading else []
    parts += [f"<p>{escape(text)}</p>" for text in section.text]
    parts += [_figure(caption, figure) for caption, figure in section.figures]
    parts += map(_table, section.tables)
    return "\n".join(parts)


def _figure(caption: str, figure: Figure | Drawing | str) -> str:
    """Draw plain figures a second time for phones; others scroll there, as tables do."""
    if isinstance(figure, str):
        drawings = [_classed(figure, "whole")]
    elif isinstance(figure, Drawing) or len(figure.axes) == 1:
        wide, narrow = figure if isinstance(figure, Drawing) else drawing(figure)
        drawings = [_classed(wide, "wide"), _classed(narrow, "narrow")]
    else:
        drawings = [_classed(svg(figure), "whole")]
    caption = f"<figcaption>{escape(caption)}</figcaption>"
    return f'<figure><div class="scroll">{"".join(drawings)}</div>{caption}</figure>'


def drawing(figure: Figure, wide: bytes | None = None) -> Drawing:
    """Draw a figure for a page; `wide` is its SVG, where that has been drawn already."""
    return Drawing(svg(figure, wide), _narrow(figure))


def _classed(drawing: str, name: str) -> str:
    return drawing.replace("<svg", f'<svg class="{name}"', 1)


def _narrow(figure: Figure) -> str:
    """Return a figure as SVG for a phone, whose width leaves text of ten pixels legible."""
    width, height = figure.get_size_inches()
    ticks = [axes.xaxis.get_major_locator() for axes in figure.axes]
    figure.set_size_inches(*NARROW)
    for axes in figure.axes:
        if axes.get_xscale() == "linear":
            axes.locator_params("x", nbins=4)
    try:
        return svg(figure)
    finally:
        figure.set_size_inches(width, height)
        for axes, before in zip(figure.axes, ticks, strict=True):
            axes.xaxis.set_major_locator(before)


def html_fragment(table: Table) -> str:
    """Return a table for a notebook, whose styles we do not know: it brings along the least."""
    text = _table(table).replace('class="text"', 'style="text-align:left"')
    return text.replace('class="scroll"', 'style="overflow-x:auto"')


def _table(table: Table) -> str:
    head, *body = table.rows
    lines = [f"<caption>{escape(table.caption)}</caption>"] if table.caption else []
    lines += [_row("th", head, table.left), *(_row("td", row, table.left) for row in body)]
    return f'<div class="scroll"><table>{"".join(lines)}</table></div>'


def _row(tag: str, cells: Sequence[str], left: tuple[int, ...]) -> str:
    """Write a row; line breaks in cells are kept."""
    texts = [escape(cell).replace("\n", "<br>") for cell in cells]
    starts = [f'<{tag} class="text">' if i in left else f"<{tag}>" for i in range(len(cells))]
    pairs = zip(starts, texts, strict=True)
    return "<tr>" + "".join(f"{start}{text}</{tag}>" for start, text in pairs) + "</tr>"


def _settings(settings: Mapping[str, Any]) -> str:
    """Write settings as JSON, lists of plain values on one line."""
    text = json.dumps(settings, indent=2, ensure_ascii=False)
    return re.sub(r"\[\n([^][{}]*)\]", _one_line, text)


def _one_line(items: re.Match[str]) -> str:
    return "[" + " ".join(line.strip() for line in items[1].splitlines()).strip() + "]"
