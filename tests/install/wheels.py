"""All distributions of the project, built as for a release."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parents[2]
FOLDERS = {
    "coopbandits-base": ROOT,
    **{
        name: ROOT / "packages" / folder
        for name, folder in (
            ("coopbandits", "complete"),
            ("coopbandits-agent", "agent"),
            ("coopbandits-client", "client"),
        )
    },
}
"""Every distribution and the folder of its `pyproject.toml`."""


def build(out: Path) -> dict[str, Path]:
    """Build all wheels, and the sdist of the one that has files; return the wheels by name."""
    for folder in FOLDERS.values():
        targets = ("-t", "wheel") if folder != ROOT else ()
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", *targets, "-d", str(out)],
            cwd=folder, check=True, capture_output=True,
        )  # fmt: skip
    return {name: wheel_of(out, name) for name in FOLDERS}


def wheel_of(folder: Path, name: str) -> Path:
    """Return the wheel of a distribution."""
    (found,) = folder.glob(f"{name.replace('-', '_')}-[0-9]*.whl")
    return found


def sdist_in(folder: Path) -> Path:
    """Return the sdist."""
    (found,) = folder.glob("*.tar.gz")
    return found


def names_in(wheel: Path) -> set[str]:
    """Return the files in a wheel that are installed as they are, without its metadata."""
    with ZipFile(wheel) as file:
        return {name for name in file.namelist() if ".dist-info/" not in name}


def told_by(wheel: Path, file: str) -> str:
    """Return a file of a wheel's metadata, "" if there is none of that name."""
    with ZipFile(wheel) as content:
        found = [name for name in content.namelist() if name.endswith(f".dist-info/{file}")]
        return content.read(found[0]).decode("utf-8") if found else ""
