"""A reproduction as text for the terminal, in a hundred columns."""

from __future__ import annotations

import textwrap

from coopbandits.experiments.paper import tables
from coopbandits.experiments.paper.oracles import agreement_table
from coopbandits.experiments.paper.report import Reproduction
from coopbandits.experiments.paper.verdicts import DEPENDS, Claim
from coopbandits.results.statistics import columns

WIDTH = 100


def screen_text(found: Reproduction) -> str:
    """Return final regrets and claims, and the check and the audit if requested."""
    parts = [
        [found.headline, "", *columns(tables.regret_rows(found.played))],
        ["what becomes of the paper's claims", "", *map(_claim, found.claims)],
    ]
    if found.agreements:
        parts.append([agreement_table(found.agreements)])
    if found.audit:
        parts.append(["where paper, pseudocode and published code disagree", "", *_audit(found)])
    return "\n\n".join("\n".join(part) for part in parts)


def _claim(claim: Claim) -> str:
    graphs = [f"{one.figure} {tables.ANSWERS[one.confirmed]}" for one in claim.outcomes]
    where = f" ({', '.join(graphs)})" if claim.verdict == DEPENDS else ""
    return _hang(f"{claim.verdict:13}  {claim.text}{where}", 15)


def _audit(found: Reproduction) -> list[str]:
    return [
        _hang(f"{finding.key}: {finding.consequence} {'; '.join(map(str, finding.measured))}", 2)
        for finding in found.audit
    ]


def _hang(text: str, indent: int) -> str:
    margin = " " * indent
    return textwrap.fill(text, WIDTH, subsequent_indent=margin, break_on_hyphens=False)
