"""What the distributions in this folder take from the project: its version, and its extras.

None of them holds a file of the package. Each requires ``coopbandits-base`` in its own version
with the extra that its ``[tool.coopbandits]`` names, so any of them can be installed together.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

BASE = "coopbandits-base"
ROOT = Path(__file__).parents[1]

SAME = ("requires-python", "license", "authors", "keywords", "classifiers")
"""What is taken over as it stands."""

NOT_OFFERED = ("simulation", "docs", "dev")
"""Extras that are always there, or for those who work on the project."""


class SameVersion(MetadataHookInterface):
    """Fills in what `pyproject.toml` calls dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Change the metadata in place."""
        source = (ROOT / "src/coopbandits/version.py").read_text(encoding="utf-8")
        (version,) = re.findall(r'^__version__ = "(.*)"$', source, re.MULTILINE)
        own, base = (_read(folder) for folder in (Path(self.root), ROOT))
        extras = base["project"]["optional-dependencies"].keys() - NOT_OFFERED
        offered = sorted(extras) if own["tool"]["coopbandits"]["offers_extras"] else ()
        metadata["version"] = version
        metadata["dependencies"] = [_base(own["tool"]["coopbandits"]["requires"], version)]
        metadata["optional-dependencies"] = {extra: [_base(extra, version)] for extra in offered}
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": readme}
        metadata.update({key: base["project"][key] for key in SAME})


def _read(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))


def _base(extra: str, version: str) -> str:
    return f"{BASE}[{extra}]=={version}" if extra else f"{BASE}=={version}"
