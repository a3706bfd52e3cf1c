"""Results on disk: NetCDF-4 for the numbers, `meta.json` for where they come from.

Both files are written whole or not at all: to a temporary name first, then renamed.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import xarray as xr

from coopbandits.core.errors import InputError

FORMAT = 1
DATA_FILE = "result.nc"
META_FILE = "meta.json"
LIBRARIES = ("coopbandits", "numpy", "scipy", "networkx", "numba", "xarray", "h5netcdf", "h5py")


def environment() -> dict[str, Any]:
    """Return versions and platform, to be kept with every result."""
    return {"versions": {name: _version(name) for name in LIBRARIES}, "platform": _platform()}


def save(folder: Path, dataset: xr.Dataset, meta: dict[str, Any]) -> None:
    """Write a result into a folder, unless the folder holds a result of other settings."""
    existing = folder / META_FILE
    if existing.exists() and read_meta(folder).get("settings") != meta["settings"]:
        raise InputError(
            f"{folder} holds a result of other settings; choose another folder or remove that one"
        )
    write_whole(folder / DATA_FILE, lambda path: write_netcdf(dataset, path))
    write_text(existing, json.dumps(meta, indent=2) + "\n")


def load(folder: Path) -> tuple[xr.Dataset, dict[str, Any]]:
    """Read a result back."""
    meta = read_meta(folder)
    return read_netcdf(folder / DATA_FILE), meta


def read_meta(folder: Path) -> dict[str, Any]:
    """Read and check `meta.json`."""
    path = folder / META_FILE
    try:
        meta: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError as error:
        raise InputError(f"{folder} holds no result ({META_FILE} is missing)") from error
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read ({error}); the result is damaged, run it again"
        ) from error
    if meta.get("format") != FORMAT:
        raise InputError(
            f"{path} has format {meta.get('format')!r}, but this version of coopbandits reads "
            f"format {FORMAT}; use the version that wrote it: "
            f"{meta.get('versions', {}).get('coopbandits', 'unknown')}"
        )
    return meta


def write_netcdf(dataset: xr.Dataset, path: Path) -> None:
    """Write a dataset as NetCDF-4."""
    dataset.to_netcdf(path, engine="h5netcdf")


def read_netcdf(path: Path) -> xr.Dataset:
    """Read a NetCDF-4 file into memory, or say that it is damaged."""
    if not path.exists():
        raise InputError(f"{path} is missing; the result is incomplete, run it again")
    try:
        with xr.open_dataset(path, engine="h5netcdf") as dataset:
            return dataset.load()
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        raise InputError(
            f"{path} cannot be read; the file is damaged or cut short, run it again"
        ) from error


def write_text(path: Path, text: str) -> None:
    """Write a text file whole."""
    write_whole(path, lambda part: part.write_text(text, encoding="utf-8"))


def write_whole(path: Path, write: Callable[[Path], Any]) -> None:
    """Let `write` make a temporary file beside `path`, then rename it; leave nothing on failure."""
    temporary = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(temporary)
        temporary.replace(path)
    except (OSError, RuntimeError) as error:  # h5py reports a full disk as either
        raise InputError(
            f"cannot write {path}: {getattr(error, 'strerror', None) or error}; "
            "make room there or choose another place"
        ) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


def _platform() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
    }
