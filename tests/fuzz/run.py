"""Fuzzes targets one after the other: ``python -m tests.fuzz.run --seconds 60 frames http``.

Guided by coverage where atheris is installed, otherwise by hypothesis. An input that breaks a
promise is kept in ``tests/fuzz/cases`` and fails the tests from then on.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, settings

from .inputs import inputs
from .target import CASES, Target
from .targets import TARGETS

GRACE = 120.0
"""Seconds beyond its time after which a target counts as one that hangs."""


def obstacle() -> str:
    """Return why atheris is not used; "" if it is."""
    if importlib.util.find_spec("atheris") is None:
        version = ".".join(map(str, sys.version_info[:3]))
        return f"atheris is not installed, or has no build for Python {version} on {sys.platform}"
    return ""


def guided(target: Target, seconds: float) -> tuple[bool, str]:
    """Fuzz in a process of its own; return whether the promise held, and what was tried."""
    command = [sys.executable, "-m", "tests.fuzz.guided", target.name, f"{seconds:.0f}"]
    done = subprocess.run(
        command, capture_output=True, text=True, errors="replace", check=False,
        timeout=seconds + GRACE,
    )  # fmt: skip
    runs = re.findall(r"number_of_executed_units: (\d+)", done.stderr)
    covered = re.findall(r"cov: (\d+)", done.stderr)
    if done.returncode:
        print("\n".join(done.stderr.splitlines()[-40:]))
    told = f"{int(runs[-1]) if runs else 0} inputs, {covered[-1] if covered else 0} branches"
    return done.returncode == 0, told


def blind(target: Target, seconds: float) -> tuple[bool, str]:
    """Do the same with hypothesis, in this process."""
    tried, deadline, broken = 0, time.monotonic() + seconds, b""
    with target.opened() as check:

        @settings(
            max_examples=500, deadline=None, database=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(inputs(target))
        def attempt(data: bytes) -> None:
            nonlocal tried, broken
            tried += 1
            try:
                check(data)
            except BaseException:
                broken = data
                raise

        try:
            while time.monotonic() < deadline:
                attempt()
        except BaseException as error:
            kept = CASES / target.name / f"found-{sha256(broken).hexdigest()[:16]}"
            kept.write_bytes(broken)
            print(f"{kept} breaks the promise: {error!r}")
            return False, f"{tried} inputs"
    return True, f"{tried} inputs"


def main() -> int:
    """Fuzz, print a line per target, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *TARGETS], metavar="TARGET")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each target")
    given_by = parser.parse_args()
    reason = obstacle()
    print(f"with hypothesis: {reason}" if reason else "with atheris, guided by coverage")
    kept = {path for path in CASES.rglob("*") if path.is_file()}
    held = True
    for name in given_by.names or TARGETS:
        (CASES / name).mkdir(parents=True, exist_ok=True)
        target = TARGETS[name]
        fine, told = (blind if reason else guided)(target, given_by.seconds)
        held &= fine
        print(f"{name:8} {'held' if fine else 'BROKEN'} in {given_by.seconds:g} s: {told}")
        print(f"{'':8} {target.promise}")
    for path in sorted({path for path in CASES.rglob("*") if path.is_file()} - kept):
        print(f"kept {path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
