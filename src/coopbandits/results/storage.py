"""Results on disk: NetCDF-4 for the numbers, `meta.json` for where they come from.

Files are made in memory, written under temporary names and renamed, so a full disk changes nothing.
`result.nc` carries a copy of the metadata and a digest of everything in it, so that damage is
noticed and numbers are never shown with settings that are not theirs.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO
from pathlib import Path
from typing import Any

import h5netcdf
import h5py
import numpy as np
import xarray as xr
from xarray.backends import H5NetCDFStore

from coopbandits.core.errors import InputError
from coopbandits.plots.writing import write_files
from coopbandits.version import __version__

FORMAT = 1
DATA_FILE = "result.nc"
META_FILE = "meta.json"
META_ATTRIBUTE = "coopbandits_meta"
DIGEST_ATTRIBUTE = "coopbandits_sha256"
LIBRARIES = ("numpy", "scipy", "networkx", "numba", "xarray", "h5netcdf", "h5py")


def environment() -> dict[str, Any]:
    """Return versions and platform, stored with every result."""
    versions = {"coopbandits": __version__, **{name: _version(name) for name in LIBRARIES}}
    return {"versions": versions, "platform": _platform()}


def save(folder: Path, dataset: xr.Dataset, meta: Mapping[str, Any]) -> None:
    """Write a result into a folder, unless that holds a result of other settings."""
    meta = {"format": FORMAT, "settings": {}, **meta}
    check_folder(folder, meta["settings"])
    text = json.dumps(meta, indent=2) + "\n"
    write_files(
        {folder / DATA_FILE: _to_netcdf(dataset, text), folder / META_FILE: text.encode("utf-8")}
    )


def check_folder(folder: Path, settings: Mapping[str, Any]) -> None:
    """Refuse a folder that holds a result of other settings, or one that cannot be read."""
    if (folder / META_FILE).exists():
        held = read_meta(folder)["settings"]
    elif (folder / DATA_FILE).exists():  # interrupted between the two renames, or not our file
        held = _from_netcdf(folder / DATA_FILE)[1]["settings"]
    else:
        return
    if _canonical(held) != _canonical(settings):
        raise InputError(
            f"{folder} holds a result of other settings; choose another folder or remove that one"
        )


def load(folder: Path) -> tuple[xr.Dataset, dict[str, Any]]:
    """Read a result back."""
    listed = read_meta(folder)
    dataset, meta = _from_netcdf(folder / DATA_FILE)
    if _canonical(listed["settings"]) != _canonical(meta["settings"]):
        raise InputError(
            f"{folder} holds {META_FILE} and {DATA_FILE} of different results; put back the file "
            "that belongs to the other, or run it again in another folder"
        )
    return dataset, meta


def read_meta(folder: Path) -> dict[str, Any]:
    """Read and check `meta.json`."""
    path = folder / META_FILE
    if folder.is_file():
        raise InputError(f"{folder} is a file; give the folder of the result, {folder.parent}")
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise InputError(f"{folder} holds no result ({META_FILE} is missing)") from error
    except (OSError, UnicodeDecodeError) as error:
        raise _damaged(path) from error
    return _parse_meta(text, path)


def _to_netcdf(dataset: xr.Dataset, meta: str) -> bytes:
    """Return a NetCDF-4 file. In memory, because HDF5 does not survive a full disk cleanly."""
    marks = {META_ATTRIBUTE: meta, DIGEST_ATTRIBUTE: _digest(dataset, meta)}
    buffer = BytesIO()
    with h5netcdf.File(buffer, "w") as file:
        dataset.assign_attrs(marks).dump_to_store(H5NetCDFStore(file))
    return buffer.getvalue()


def _from_netcdf(path: Path) -> tuple[xr.Dataset, dict[str, Any]]:
    """Read a NetCDF-4 file into memory, or say that it is damaged."""
    try:
        content = path.read_bytes()
    except FileNotFoundError as error:
        raise InputError(
            f"{path} is missing; the result is incomplete, remove it and run it again"
        ) from error
    except OSError as error:
        raise _damaged(path) from error
    try:
        with h5py.File(BytesIO(content), "r") as file:
            marks = dict(file.attrs)  # first: h5netcdf only warns where they are unreadable
            # Without it, text outside ASCII comes back as bytes.
            with h5netcdf.File(file, "r", decode_vlen_strings=True) as netcdf:
                dataset = xr.open_dataset(H5NetCDFStore(netcdf)).load()
        meta = str(marks[META_ATTRIBUTE])
        whole = marks[DIGEST_ATTRIBUTE] == _digest(dataset, meta)
        del dataset.attrs[META_ATTRIBUTE], dataset.attrs[DIGEST_ATTRIBUTE]
    except Exception as error:  # on a damaged file h5py may raise anything
        raise _damaged(path) from error
    if not whole:
        raise _damaged(path)
    return dataset, _parse_meta(meta, path)


def _digest(dataset: xr.Dataset, meta: str) -> str:
    """Return a digest of all names, shapes and numbers, and of the metadata."""
    digest = hashlib.sha256(meta.encode("utf-8"))
    for name in sorted(map(str, dataset.variables)):
        variable = dataset.variables[name]
        values = np.ascontiguousarray(variable.values)
        if values.dtype.kind not in "biuf":
            values = np.array([str(value).encode("utf-8") for value in values.flat], dtype=bytes)
        digest.update(f"{name} {variable.dims} {variable.shape} {values.dtype.str}".encode())
        digest.update(values.tobytes())
    return digest.hexdigest()


def _parse_meta(text: str, path: Path) -> dict[str, Any]:
    try:
        meta = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _damaged(path) from error
    if not isinstance(meta, dict) or "format" not in meta:
        raise _damaged(path)
    if meta["format"] != FORMAT:
        versions = meta.get("versions")
        wrote = versions.get("coopbandits") if isinstance(versions, dict) else None
        raise InputError(
            f"{path} has format {meta['format']!r}, but this version of coopbandits reads format "
            f"{FORMAT}; read it with the version that wrote it: {wrote or 'unknown'}"
        )
    if not isinstance(meta.get("settings"), dict):
        raise _damaged(path)
    return meta


def _damaged(path: Path) -> InputError:
    return InputError(
        f"{path} cannot be read: it is damaged, cut short or no result of coopbandits; "
        "remove it and run it again"
    )


def _canonical(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True)


@cache
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
