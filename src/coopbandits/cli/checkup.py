"""What `coopbandits doctor` looks at.

It needs the standard library alone, since the rest may be what is broken.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, metadata, version
from pathlib import Path
from typing import Any, NamedTuple

from coopbandits.finding import BROKEN, NOTE, Finding

PACKAGE, BASE = "coopbandits", "coopbandits-base"
"""What users install, and the distribution that has the files and says what they need."""

ASKED = {PACKAGE: "simulation", "coopbandits-agent": "fleet", "coopbandits-client": ""}
"""Distributions that users ask for, and the extra that each of them must have."""

PATIENCE = 120.0
"""Seconds after which the process that tries things is given up."""

DEVELOPERS = ("dev", "docs")
"""Extras that users do not need."""


class Requirement(NamedTuple):
    """A library, its lowest version, and the extra that asks for it, "" for none."""

    name: str
    least: str
    extra: str


def findings() -> Iterator[Finding]:
    """Look at everything, in the order in which it is best mended."""
    yield python()
    yield package()
    asked, needed = requirements(), needed_extras()
    essential = {need.name: need for need in asked if need.extra in needed}
    tried = probe(list(essential))
    for need in essential.values():
        yield library(need, tried)
    for name in dict.fromkeys(need.extra for need in asked if need.extra not in needed):
        yield extra(name, [need for need in asked if need.extra == name])
    if "simulation" in needed:
        yield engine(tried)
        yield kernel_cache(tried)
        yield figure_cache(tried)
        yield offers(tried)
    yield processors()
    yield graphics()
    yield encoding()


def python() -> Finding:
    """Look at the version of Python."""
    return Finding("Python", f"{sys.version.split()[0]} at {sys.executable}")


def package() -> Finding:
    """Look at the version of this package and where it lies."""
    place = Path(__file__).parents[1]
    try:
        return Finding(PACKAGE, f"{version(BASE)} at {place}")
    except PackageNotFoundError:
        found = f"its files are at {place}, but it is not installed"
        return Finding(PACKAGE, found, BROKEN, f"pip install {PACKAGE}")


def requirements() -> list[Requirement]:
    """Return what the installed package asks for, extras for its developers left out."""
    try:
        lines = metadata(BASE).get_all("Requires-Dist") or []
    except PackageNotFoundError:
        return []
    found = []
    for line in lines:
        name = re.match(r"[\w.-]+", line)
        least = re.search(r">=\s*([\w.]+)", line)
        extra = re.search(r"extra\s*==\s*['\"](\w+)['\"]", line)
        here = not ("sys_platform" in line and "win32" in line and sys.platform == "win32")
        if name and name[0] != BASE and here and not (extra and extra[1] in DEVELOPERS):
            found.append(
                Requirement(name[0], least[1] if least else "0", extra[1] if extra else "")
            )
    return found


def needed_extras() -> set[str]:
    """Return the extras without which what was asked for does not work, "" for the base itself."""
    needed = {""}
    for name, extra in ASKED.items():
        with suppress(PackageNotFoundError):
            version(name)
            needed.add(extra)
    return needed


def shortfall(need: Requirement) -> str:
    """Return what is wrong with the installed version of a library, "" for nothing."""
    try:
        present = version(need.name)
    except PackageNotFoundError:
        return "not installed"
    if numbers(present) < numbers(need.least):
        return f"{present}, but at least {need.least} is needed"
    return ""


def numbers(text: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, to compare it by."""
    leading = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(map(int, leading[0].split("."))) if leading else ()


def library(need: Requirement, tried: dict[str, Any]) -> Finding:
    """Look at a library that everything needs: its version, and whether it can be imported."""
    mend = f"pip install --upgrade '{need.name}>={need.least}'"
    if wrong := shortfall(need):
        return Finding(need.name, wrong, BROKEN, mend)
    if wrong := failure(tried, f"import {need.name}"):
        reinstall = f"pip install --force-reinstall --no-deps '{need.name}>={need.least}'"
        return Finding(need.name, f"cannot be imported: {wrong}", BROKEN, reinstall)
    return Finding(need.name, version(need.name))


def extra(name: str, needs: list[Requirement]) -> Finding:
    """Look at an extra; one that is missing breaks nothing else."""
    wrong = [f"{need.name} {text}" for need in needs if (text := shortfall(need))]
    if not wrong:
        found = ", ".join(f"{need.name} {version(need.name)}" for need in needs)
        return Finding(f"extra [{name}]", found)
    complete = PACKAGE if name == ASKED[PACKAGE] else f"'{PACKAGE}[{name}]'"
    return Finding(f"extra [{name}]", "; ".join(wrong), NOTE, f"pip install {complete}")


def probe(modules: list[str]) -> dict[str, Any]:
    """Import libraries and compile something in another process; return what it told, by step."""
    call = [sys.executable, "-m", "coopbandits.cli.probe", *modules]
    told: dict[str, Any] = {}
    with tempfile.TemporaryFile("w+") as out:
        try:
            subprocess.run(  # noqa: S603  own code
                call, stdout=out, stderr=subprocess.DEVNULL, timeout=PATIENCE, check=False
            )
            ended = "the process that tried it crashed"
        except subprocess.TimeoutExpired:
            ended = f"no answer within {PATIENCE:g} s"
        out.seek(0)
        for line in out:
            if line.startswith("{"):
                step = json.loads(line)
                told[step["step"]] = step if step.get("done") else {"error": ended}
    return told


def failure(tried: dict[str, Any], step: str) -> str:
    """Return why a step failed, "" if it did not."""
    error: str = tried.get(step, {"error": "it could not be tried"}).get("error", "")
    return error


def engine(tried: dict[str, Any]) -> Finding:
    """Look at whether numba compiles."""
    if not (wrong := failure(tried, "engine")):
        return Finding("compiled engine", "compiles")
    if "cannot cache" in wrong:
        return Finding(
            "compiled engine",
            f"has no folder that it can write to: {wrong}",
            BROKEN,
            CACHE_ELSEWHERE,
        )
    return Finding("compiled engine", wrong, BROKEN, "pip install --force-reinstall numba llvmlite")


CACHE_ELSEWHERE = 'export NUMBA_CACHE_DIR="$HOME/.cache/coopbandits"'


def kernel_cache(tried: dict[str, Any]) -> Finding:
    """Look at where compiled kernels are kept, how large that is, and whether it can be written."""
    what, wanted = "cache of kernels", os.environ.get("NUMBA_CACHE_DIR")
    if failure(tried, "engine"):
        return Finding(what, "unknown while the compiled engine does not work", NOTE)
    folder, size = Path(tried["engine"]["folder"]), tried["engine"]["bytes"]
    found = f"{size / 1e6:.1f} MB at {folder}"
    if not writable(folder):
        found += ", which cannot be written: kernels are compiled anew in every process"
        return Finding(what, found, BROKEN, CACHE_ELSEWHERE)
    if wanted and Path(wanted).resolve() not in folder.resolve().parents:
        found += f"; NUMBA_CACHE_DIR asks for {wanted}, which cannot be written"
        return Finding(what, found, NOTE, CACHE_ELSEWHERE)
    return Finding(what, found)


def figure_cache(tried: dict[str, Any]) -> Finding:
    """Look at where matplotlib keeps its list of fonts, which takes seconds to make."""
    what = "cache of figures"
    if wrong := failure(tried, "figures"):
        return Finding(what, wrong, BROKEN, "pip install --force-reinstall matplotlib")
    folder = Path(tried["figures"]["folder"])
    if folder.name.startswith("matplotlib-") and folder.parent == Path(tempfile.gettempdir()):
        found = (
            "a new folder in every process, since its own cannot be written, which takes seconds"
        )
        return Finding(what, found, NOTE, 'export MPLCONFIGDIR="$HOME/.cache/matplotlib"')
    return Finding(what, str(folder))


def offers(tried: dict[str, Any]) -> Finding:
    """Look at policies, problems and so on that other packages offer."""
    what = "parts of other packages"
    if wrong := failure(tried, "offers"):
        return Finding(what, wrong, NOTE)
    told = tried["offers"]
    if told["failed"]:
        return Finding(what, "; ".join(told["failed"]), NOTE, "repair or uninstall that package")
    return Finding(what, f"{told['loaded']} found" if told["loaded"] else "none")


def processors() -> Finding:
    """Count the threads that simulations may use."""
    most = os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else most
    limit = os.environ.get("NUMBA_NUM_THREADS")
    said = f", NUMBA_NUM_THREADS is {limit}" if limit else ""
    return Finding("CPU threads", f"{usable} of {most}{said}")


def graphics() -> Finding:
    """Ask the driver for graphics cards."""
    asked = shutil.which("nvidia-smi")
    if asked is None:
        return Finding("GPU", "none (no nvidia-smi)")
    try:
        call = [asked, "--query-gpu=name", "--format=csv,noheader"]
        done = subprocess.run(  # noqa: S603  own code
            call, capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return Finding("GPU", "nvidia-smi does not answer", NOTE, "nvidia-smi")
    names = ", ".join(done.stdout.split("\n")).strip(", ")
    if done.returncode or not names:
        return Finding("GPU", "nvidia-smi finds none", NOTE, "nvidia-smi")
    return Finding("GPU", names)


def encoding() -> Finding:
    """Look at whether σ and λ can be printed."""
    found = (sys.stdout.encoding or "unknown").lower()
    if found.replace("-", "").startswith("utf8"):
        return Finding("output", found)
    return Finding(
        "output", f"{found}, in which σ and λ cannot be printed", NOTE, "export PYTHONUTF8=1"
    )


def writable(folder: Path) -> bool:
    """Try to write a file: permissions alone do not tell."""
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True
