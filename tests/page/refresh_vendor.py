"""Fetches the page's JavaScript libraries anew: `python tests/page/refresh_vendor.py`.

The page has no build step, and its content security policy allows no import map. So the modules lie
beside the page as published, save that ``from 'd3-timer'`` becomes ``from './d3-timer.js'``.
`checksums.json` names each file's package and holds the digests of the tarball, of the original and
of what lies there; a test compares the last.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
import tarfile
import tempfile
from pathlib import Path

VENDOR = Path(__file__).parents[2] / "src/coopbandits/page/static/vendor"

WANTED = {
    "uplot@1.6.32": {
        "dist/uPlot.esm.js": "uplot.js",
        "dist/uPlot.min.css": "uplot.css",
        "LICENSE": "uplot.LICENSE",
    },
    **{
        f"{name}@{version}": {f"dist/{name}.mjs": f"{name}.js", "LICENSE": f"{name}.LICENSE"}
        for name, version in (
            ("d3-force", "3.0.1"),
            ("d3-dispatch", "3.0.2"),
            ("d3-quadtree", "3.0.2"),
            ("d3-timer", "3.0.2"),
        )
    },
}
"""By package: what is taken, and what it is called here."""


def relative_imports(source: str) -> str:
    """Let a module find its neighbours by their files' names."""
    return re.sub(r"from '(d3-[a-z]+)'", r"from './\1.js'", source)


def digest(content: bytes) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(content).hexdigest()


def refresh() -> None:
    """Write all files and their checksums."""
    sums: dict[str, dict[str, str]] = {}
    for package, wanted in WANTED.items():
        tarball = fetch(package)
        with tarfile.open(fileobj=io.BytesIO(tarball)) as packed:
            for place, name in wanted.items():
                member = packed.extractfile(f"package/{place}")
                assert member is not None, place
                original = member.read()
                here = relative_imports(original.decode()).encode()
                (VENDOR / name).write_bytes(here)
                sums[name] = {
                    "package": package, "path": place, "tarball_sha256": digest(tarball),
                    "original_sha256": digest(original), "sha256": digest(here),
                }  # fmt: skip
    (VENDOR / "checksums.json").write_text(json.dumps(sums, indent=2) + "\n")


def fetch(package: str) -> bytes:
    """Return a package as npm's registry holds it."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", "--silent", package]
        done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
        return (Path(folder) / done.stdout.strip()).read_bytes()


if __name__ == "__main__":
    refresh()
