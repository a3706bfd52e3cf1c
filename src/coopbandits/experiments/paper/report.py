"""The report: one HTML page, and its figures as files beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coopbandits.experiments.paper import oracles, tables
from coopbandits.experiments.paper.figures import draw_all
from coopbandits.experiments.paper.oracles import Agreement
from coopbandits.experiments.paper.play import Played
from coopbandits.experiments.paper.verdicts import Claim
from coopbandits.plots import Section, Table, figure_bytes, html_page
from coopbandits.plots.writing import write_files
from coopbandits.results.statistics import plural
from coopbandits.results.storage import environment

if TYPE_CHECKING:
    from coopbandits.experiments.audit import Finding

TITLE = "Decentralized Cooperative Stochastic Bandits, reproduced"
CAPTIONS = {
    "paper": "The curves of the paper's figures: means over runs with 95 % bands.",
    "extended": (
        "The same graphs with the policies that the paper left out, the Lai–Robbins line and the "
        "bound of Theorem 1 where it says anything; both axes logarithmic."
    ),
    "communication": (
        "Regret against values sent. The central and the independent policies send nothing and "
        "are not in it."
    ),
}

BONUSES = (
    "Every policy has the settings it is commonly used with, and some explore more than others: "
    "regrets compare algorithms as they are set, not their ways of communicating alone."
)


@dataclass(frozen=True)
class Reproduction:
    """Everything that was played, and the conclusions.

    Attributes
    ----------
    settings : mapping
        Everything that the numbers are a function of.
    played : sequence of Played
        Results, one per figure.
    claims : sequence of Claim
        The paper's claims with their verdicts.
    agreements : sequence of Agreement
        The comparison with known numbers; empty unless requested.
    audit : sequence of Finding
        The audit's findings; empty unless requested.
    """

    settings: Mapping[str, Any]
    played: Sequence[Played]
    claims: Sequence[Claim]
    agreements: Sequence[Agreement] = ()
    audit: Sequence[Finding] = ()

    @property
    def headline(self) -> str:
        """The settings, in one line."""
        rounds = plural(self.settings["horizon"], "round")
        runs = plural(self.settings["runs"], "run")
        return f"regret of the network after {rounds}, {runs}, 95 % intervals"

    @property
    def agrees(self) -> bool:
        """Whether all numbers that were checked agree."""
        return all(row.agrees for row in self.agreements)


def write_report(found: Reproduction, folder: Path) -> list[str]:
    """Write page and figures; return the names of the files."""
    figures = draw_all(found.played)
    drawings = {name: figure_bytes(figure, "svg") for name, figure in figures.items()}
    pictures = {f"{name}.png": figure_bytes(figure, "png") for name, figure in figures.items()}
    files = {
        "report.html": make_page(found, drawings).encode("utf-8"),
        **{f"{name}.svg": drawing for name, drawing in drawings.items()},
        **pictures,
    }
    write_files({folder / name: content for name, content in files.items()})
    return list(files)


def make_page(found: Reproduction, drawings: Mapping[str, bytes]) -> str:
    """Return the page; it has no timestamps, so the same numbers give the same page."""
    shown = {name: _element(drawing) for name, drawing in drawings.items()}
    sections = [
        Section("The paper's figures", figures=[(CAPTIONS["paper"], shown["paper"])]),
        _claims(found),
        Section(
            "What the paper left out",
            [BONUSES],
            figures=[(CAPTIONS[name], shown[name]) for name in ("extended", "communication")],
        ),
        _numbers(found),
        _graphs(found),
    ]
    sections += [_check(found)] if found.agreements else []
    sections += [_audit(found)] if found.audit else []
    settings = {**found.settings, **environment()}
    return html_page(TITLE, _lead(found), sections, settings)


def _element(drawing: bytes) -> str:
    """Return an SVG file as an element of a page."""
    text = drawing.decode("utf-8")
    return text[text.index("<svg") :]


def _lead(found: Reproduction) -> str:
    return (
        "The experiments of Martínez-Rubio, Kanade and Rebeschini (NeurIPS 2019): one Gaussian arm "
        "of mean 1, sixteen of mean 0.8, σ = 1. All policies of a graph meet the same random "
        f"rewards. Numbers are the {found.headline}; the seed is {found.settings['seed']}."
    )


def _claims(found: Reproduction) -> Section:
    text = (
        "A claim holds if it is confirmed on every graph, does not hold if it is contradicted on "
        "every graph, and depends otherwise. Differences are taken run by run; intervals and "
        "p-values are adjusted for the number of comparisons of the claim, and what chance could "
        "explain at 5 % is open. Where several lines are meant, the worst for the claim is shown."
    )
    table = Table(tables.claim_rows(found.claims), left=(0, 1, 2))
    return Section("The paper's claims", [text], tables=[table])


def _numbers(found: Reproduction) -> Section:
    details = [
        Table(tables.detail_rows(one), f"{one.figure.title}: intervals, quantiles, values sent")
        for one in found.played
    ]
    return Section(
        "Final regrets",
        tables=[
            Table(tables.regret_rows(found.played), "Mean and its 95 % interval"),
            Table(
                tables.difference_rows(found.played),
                "More than DDUCB, on the same rewards; adjusted for the comparisons in this table",
            ),
            *details,
        ],
    )


def _graphs(found: Reproduction) -> Section:
    text = (
        "A star marks a vacuous bound: always playing a wrong arm has no more regret. Theorem 1 is "
        "proven for “DDUCB as analysed”, without own pulls and with the bonus 4η, and so are its "
        "curves."
    )
    return Section("Graphs and bounds", [text], tables=[Table(tables.graph_rows(found.played))])


def _check(found: Reproduction) -> Section:
    rows = [oracles.HEADER, *map(oracles.agreement_row, found.agreements)]
    text = f"{oracles.summary(found.agreements)}."
    return Section("Check", [text], tables=[Table(rows, left=(0, 1, 5))])


def _audit(found: Reproduction) -> Section:
    from coopbandits.experiments.audit import audit_table

    rows = audit_table(found.audit)
    return Section("Audit", tables=[Table(rows, left=tuple(range(len(rows[0]))))])
