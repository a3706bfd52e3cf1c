from __future__ import annotations

import json
from html import unescape

from matplotlib.figure import Figure

from coopbandits.plots import html_report

NASTY = "</pre></title><b>x</b> & \"y\" 'z'"


def page(settings: dict[str, object] | None = None) -> str:
    figure = Figure()
    figure.subplots().plot([1, 2])
    table = [("name", "mean"), (NASTY, "1")]
    return html_report(NASTY, NASTY, [(NASTY, figure)], [(NASTY, table)], settings or {"a": NASTY})


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
