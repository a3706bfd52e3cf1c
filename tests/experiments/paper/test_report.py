from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from coopbandits.experiments.audit import Finding, Measurement
from coopbandits.experiments.paper import Reproduction, screen_text, write_report
from coopbandits.experiments.paper.report import make_page
from coopbandits.experiments.paper.settings import LINES

NAMES = ("paper", "extended", "communication")
DRAWINGS = dict.fromkeys(NAMES, b"<svg></svg>")
FINDING = Finding(
    "printed-loop", "Algorithm 1", "t ≤ T", "t < T", "One pull too many.",
    (Measurement.exact("pulls", 11, 10),),
)  # fmt: skip


def text_of(page: str) -> str:
    return unescape(re.sub(r"<[^>]+>", " ", page))


def test_files(written: Path) -> None:
    for name in NAMES:
        assert (written / f"{name}.svg").read_bytes().startswith(b"<?xml")
        assert (written / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert (written / "report.html").read_text().count("<svg") == 3


@pytest.mark.slow
def test_the_same_numbers_give_the_same_files(
    single: Reproduction, written: Path, tmp_path: Path
) -> None:
    names = write_report(single, tmp_path)
    assert len(names) == 7
    for name in names:
        assert (tmp_path / name).read_bytes() == (written / name).read_bytes()


def test_the_page_has_everything(small: Reproduction) -> None:
    page = make_page(small, DRAWINGS)
    text = text_of(page)
    assert all(text.count(line.label) >= 4 for line in LINES)  # two overviews, two figures
    assert all(claim.text in text and claim.outcomes[0].evidence in text for claim in small.claims)
    for heading in ("The paper's figures", "Final regrets", "Graphs and bounds", "Check"):
        assert f"<h2>{heading}</h2>".replace("'", "&#x27;") in page
    assert "353796" not in text  # the bound is that of this horizon, not one typed in
    assert '"horizon": 60' in text
    assert '"versions"' in text


def test_nothing_is_loaded_from_elsewhere(written: Path) -> None:
    page = (written / "report.html").read_text()
    assert re.findall(r'(?:src|href)="(?!#)([^"]*)"', page) == []
    assert re.findall(r"@import|url\((?!#)", page) == []


def test_the_audit_is_a_section_and_a_paragraph(small: Reproduction) -> None:
    assert "<h2>Audit</h2>" not in make_page(small, DRAWINGS)
    found = replace(small, audit=[FINDING])
    text = text_of(make_page(found, DRAWINGS))
    assert "One pull too many." in text
    assert str(FINDING.measured[0]) in text
    assert f"printed-loop: One pull too many. {FINDING.measured[0]}" in screen_text(found)


def test_the_screen_fits_a_hundred_columns(small: Reproduction) -> None:
    text = screen_text(replace(small, audit=[FINDING]))
    assert max(map(len, text.splitlines())) <= 100
    assert all(line.label in text for line in LINES)
    assert all(claim.text.split()[0] in text for claim in small.claims)
    assert "2 of 2 final regrets agree" in text
    without = screen_text(replace(small, agreements=()))
    assert "final regrets agree" not in without
