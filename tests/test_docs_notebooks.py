"""The pages of the notebooks are those notebooks, executed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = ROOT / "docs" / "notebooks"
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))

nbformat = pytest.importorskip("nbformat")


def pictures(page: Path) -> list[Path]:
    return [PAGES / name for name in re.findall(r"^```\{image\} (\S+)", page.read_text(), re.M)]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_page_has_all_cells_of_its_notebook_and_its_pictures(path: Path) -> None:
    page = PAGES / f"{path.stem}.md"
    text = page.read_text()
    at = 0
    for cell in nbformat.read(path, as_version=4).cells:
        wanted = cell.source if cell.cell_type == "markdown" else f"```python\n{cell.source}\n```"
        at = text.find(wanted, at)
        assert at >= 0, f"make notebooks: {page.name} lacks\n{cell.source}"
    assert pictures(page)
    for picture in pictures(page):
        assert picture.read_bytes().startswith(b"\x89PNG")
    assert set(PAGES.glob(f"{path.stem}-*.png")) == set(pictures(page))


@pytest.mark.slow
def test_the_notebook_on_click_rates_draws_what_its_page_shows() -> None:
    nbclient = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(ROOT / "examples" / "click_rates.ipynb", as_version=4)
    nbclient.NotebookClient(notebook, timeout=240, kernel_name="python3").execute()
    outputs = [out for cell in notebook.cells for out in cell.get("outputs", [])]
    drawn = [out for out in outputs if "image/png" in out.get("data", {})]
    assert len(drawn) == len(pictures(PAGES / "click_rates.md"))
    assert "paired differences" in "".join(out.get("text", "") for out in outputs)
