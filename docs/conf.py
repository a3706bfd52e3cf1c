"""Sphinx settings; `make docs` builds the pages and treats every warning as an error."""

import re

from docutils import nodes

from coopbandits.version import __version__

project = "coopbandits"
author = "The coopbandits developers"
copyright = "2026, The coopbandits developers"
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "_static"]
default_role = "code"
smartquotes = False  # keep="agents" in a docstring is code
highlight_language = "text"

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints = "none"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

html_theme = "furo"
html_title = "coopbandits"
html_static_path = ["_static"]
html_css_files = ["site.css"]
# Kept beside the pages, so that formulas are drawn without a network too.
mathjax_path = "mathjax/tex-svg.js"


def prepare_docstring(*event):
    """Spare docstrings the readings of reST and napoleon that they do not mean."""
    what, lines = event[1], event[-1]
    text = "\n".join(lines)
    # |x| is an absolute value, not a substitution.
    text = re.sub(r"\|(\S+?)\|", r"\\|\1\\|", text)
    # "K." is a sentence, not the first item of a list.
    text = re.sub(r"^( +)([A-Z]\.)$", r"\1\\\2", text, flags=re.MULTILINE)
    # A colon in the first line of a property or constant does not end a type.
    if what in ("attribute", "data", "property"):
        text = text.replace(": ", " – ", 1)
    # "a, b : int" among attributes names two of them; Sphinx would take the first for a type.
    head, section, attributes = text.partition("Attributes\n----------\n")
    attributes = re.sub(
        r"^\w+(, \w+)+(?= : )", lambda m: m[0].replace(", ", ","), attributes, flags=re.MULTILINE
    )
    lines[:] = (head + section + attributes).split("\n")


def keep_figures_together(_, doctree):
    """Let no line of a page end within 12 562 ± 2067 or 95 %."""
    verbatim = nodes.literal, nodes.literal_block, nodes.math, nodes.math_block, nodes.raw
    for text in list(doctree.findall(nodes.Text)):
        if not isinstance(text.parent, verbatim):
            whole = re.sub(r"(?<=[\d.]) (?=±|%|\d{3}\b)|(?<=±) ", "\N{NO-BREAK SPACE}", text)
            if whole != text:
                text.parent.replace(text, nodes.Text(whole))


def setup(app):
    app.connect("autodoc-process-docstring", prepare_docstring, priority=400)
    app.connect("doctree-read", keep_figures_together)
