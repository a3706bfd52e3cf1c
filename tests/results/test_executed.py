"""Notebooks, executed by a real kernel: what they show, and how often."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

EXAMPLE = Path(__file__).parents[2] / "examples" / "karate_club.ipynb"

pytestmark = pytest.mark.plays


def execute(notebook: Any) -> list[list[Any]]:
    """Return the outputs of all code cells; an error in one of them fails."""
    nbclient.NotebookClient(notebook, timeout=240, kernel_name="python3").execute()
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


def kinds(outputs: list[Any], kind: str) -> list[str]:
    """Return what was shown as a kind of content."""
    return [output.data[kind] for output in outputs if kind in output.get("data", {})]


@pytest.mark.slow
def test_the_example_shows_each_figure_once(tmp_path: Path) -> None:
    shown = execute(nbformat.read(EXAMPLE, as_version=4))
    network, result, regret, agents, both, members, arms = shown
    assert "34" in kinds(network, "text/html")[0]
    assert "regret after 2000 rounds, 5 runs" in kinds(result, "text/html")[-1]
    for name, outputs in (("regret", regret), ("agents", agents), ("both", both)):
        (picture,) = kinds(outputs, "image/png")
        content = base64.b64decode(picture)
        assert content.startswith(b"\x89PNG")
        assert len(content) > 10_000
        (tmp_path / f"{name}.png").write_bytes(content)
    assert "Officer" in kinds(members, "text/html")[0]
    assert "swim" in kinds(arms, "text/html")[0]


SLOW = """
import time
from coopbandits.sim import progress
progress.PATIENCE = {patience}
with progress.Progress(4, {show}, "playing") as bar:
    for _ in range(4):
        bar.advance(1)
        time.sleep(progress.NOTEBOOK_SECONDS)
    middle = bar.bar.html()
    assert type(bar.bar).__name__ == "NotebookBar"
print(middle)
"""


@pytest.mark.covering(1)
@pytest.mark.parametrize(
    ("show", "patience", "drawn"),
    [("True", 900, True), ("None", 0, True), ("None", 900, False), ("False", 0, False)],
)
def test_bars_in_notebooks(show: str, patience: int, drawn: bool) -> None:
    """A bar that was drawn is gone at the end."""
    code = SLOW.format(show=show, patience=patience)
    (outputs,) = execute(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)]))
    assert kinds(outputs, "text/html") == ([""] if drawn else [])
    (text,) = [output.text for output in outputs if output.output_type == "stream"]
    assert text.startswith("playing <progress value='1.0000' max='1'></progress> 100 %")


@pytest.mark.slow
def test_pyplot_does_not_show_a_figure_again() -> None:
    plotted = """
import numpy as np, matplotlib.pyplot as plt
from coopbandits.plots import Curve, regret_figure
regret_figure([Curve("a", np.arange(3.0), np.arange(3.0))])
"""
    (outputs,) = execute(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(plotted)]))
    assert len(kinds(outputs, "image/png")) == 1
