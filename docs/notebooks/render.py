"""Executes the notebooks of examples/ and writes them as pages beside this file.

Run as ``python docs/notebooks/render.py`` after a notebook has changed. Pages and pictures are kept
in the repository, so building the documentation takes neither a kernel nor a simulation.
"""

import base64
import re
import sys
from pathlib import Path

import nbclient
import nbformat

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"


def shown(output, picture):
    """Return one output of a cell as Markdown; a picture is written to a file."""
    data = output.get("data", {})
    if output.get("name") == "stderr" or data.get("text/plain", "").startswith("note: "):
        return ""  # what a first run says of compiling
    if "image/png" in data:
        picture.write_bytes(base64.b64decode(data["image/png"]))
        return f"```{{image}} {picture.name}\n:alt: what the cell above draws\n```"
    if "text/html" in data:
        # The site has its own style; a blank line would end the block of HTML.
        body = re.sub(r"<style.*?</style>|\n\s*(?=\n)", "", data["text/html"], flags=re.DOTALL)
        return f'```{{raw}} html\n<div class="output">\n{body.strip()}\n</div>\n```' if body else ""
    text = output.get("text") or data.get("text/plain", "")
    return f"```text\n{text.rstrip()}\n```" if text else ""


def page(notebook, name):
    """Return a notebook that was executed as one Markdown page."""
    parts = []
    for at, cell in enumerate(notebook.cells):
        if cell.cell_type == "markdown":
            parts.append(cell.source)
        else:
            parts.append(f"```python\n{cell.source}\n```")
            picture = HERE / f"{name}-{at}.png"  # a cell draws one picture
            parts += [shown(output, picture) for output in cell.outputs]
    return "\n\n".join(filter(None, parts)) + "\n"


def render(path):
    """Execute a notebook and write its page."""
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=240, kernel_name="python3").execute()
    for old in HERE.glob(f"{path.stem}-*.png"):
        old.unlink()
    note = f"*Executed from `examples/{path.name}`.*\n"
    (HERE / f"{path.stem}.md").write_text(page(notebook, path.stem) + "\n" + note)


if __name__ == "__main__":
    for given in sys.argv[1:] or sorted(EXAMPLES.glob("*.ipynb")):
        render(Path(given))
