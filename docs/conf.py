"""Sphinx settings; `make docs` builds the pages and treats every warning as an error."""

from importlib.metadata import version as installed_version

project = "coopbandits"
author = "The coopbandits developers"
copyright = "2026, The coopbandits developers"
release = version = installed_version("coopbandits")

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
default_role = "code"
highlight_language = "text"

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "none"
napoleon_google_docstring = False
napoleon_use_ivar = True
napoleon_use_rtype = False

html_theme = "furo"
html_title = "coopbandits"
