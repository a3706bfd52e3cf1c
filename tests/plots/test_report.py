from __future__ import annotations

import json
import re
from html import unescape

from matplotlib.figure import Figure

from coopbandits.plots import Section, Table, html_page

NASTY = "</pre></title><b>x</b> & \"y\" 'z'"


def page(settings: dict[str, object] | None = None) -> str:
    figure = Figure()
    figure.subplots().plot([1, 2])
    table = Table([("name", "mean"), (NASTY, "1")])
    section = Section(NASTY, figures=[(NASTY, figure)], tables=[table])
    return html_page(NASTY, NASTY, [section], settings or {"a": NASTY})


def settings_of(text: str) -> str:
    return unescape(text.split("<pre>")[1].split("</pre>")[0])


def test_everything_is_escaped() -> None:
    text = page()
    assert "<b>" not in text
    # Title, heading, lead, caption, table's caption and cell; the settings have it as JSON.
    assert text.count("&lt;b&gt;x&lt;/b&gt; &amp; &quot;y&quot; &#x27;z&#x27;") == 6
    assert text.count("</pre>") == 1
    assert json.loads(settings_of(text)) == {"a": NASTY}


def test_lists_of_numbers_take_one_line() -> None:
    settings: dict[str, object] = {
        "rounds": list(range(300)),
        "nested": [[1, 2], [{"λ": [0.5]}]],
        "words": ["a  b", "[", "]", "{x}"],
        "empty": [],
    }
    text = settings_of(page(settings))
    assert json.loads(text) == settings
    assert len(text.splitlines()) < 35
    assert '"rounds": [0, 1, 2, ' in text
    assert "λ" in text


def test_page_is_for_phones_and_both_colour_schemes() -> None:
    text = page()
    assert text.startswith("<!doctype html>")
    assert 'charset="utf-8"' in text
    assert 'name="viewport"' in text
    assert "prefers-color-scheme: dark" in text


def test_sections_have_paragraphs_figures_and_tables() -> None:
    table = Table([("claim", "verdict", "p"), ("first\nsecond", "<holds>", "0.1")], NASTY, (0, 1))
    section = Section("Claims", ["One.", "Two & a half."], [("drawn", "<svg id='x'/>")], [table])
    text = html_page("title", "lead", [section, Section("Empty")], {})
    assert (
        '<h2>Claims</h2>\n<p>One.</p>\n<p>Two &amp; a half.</p>\n<figure><div class="scroll">'
        in text
    )
    assert "<svg class=\"whole\" id='x'/></div><figcaption>drawn</figcaption></figure>" in text
    assert '<td class="text">first<br>second</td><td class="text">&lt;holds&gt;</td>' in text
    assert "<td>0.1</td>" in text
    assert "<caption>&lt;/pre&gt;" in text
    assert text.index("Claims") < text.index("Empty") < text.index("Settings")


def test_figures_are_drawn_again_for_phones() -> None:
    figure = Figure(figsize=(7.2, 4.6))
    axes = figure.subplots()
    axes.plot([1, 60_000])
    before = axes.xaxis.get_major_locator()
    text = html_page("t", "l", [Section("", figures=[("one", figure)])], {})
    sizes = re.findall(r'<svg class="(\w+)"[^>]* width="([\d.]+)pt"', text)
    assert sizes == [("wide", "518.4"), ("narrow", "288")]
    assert figure.get_size_inches().tolist() == [7.2, 4.6]
    assert axes.xaxis.get_major_locator() is before


def test_figures_of_several_panels_scroll_on_phones() -> None:
    figure = Figure()
    figure.subplots(1, 2)
    text = html_page("t", "l", [Section("", figures=[("two", figure)])], {})
    assert text.count("<svg") == text.count('<div class="scroll"><svg class="whole"') == 1
