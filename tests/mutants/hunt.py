"""Puts each mutant into a copy of the source and lets torture look for it: ``make mutants``.

A seed counts as a find if it fails with the mutant and not without.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from coopbandits.results.statistics import columns

from .bugs import MUTANTS, Mutant

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
LIMIT = 200
"""Seeds in which a mutant has to be found."""

CHILD = """
import json, logging, sys
logging.disable(logging.CRITICAL)
from tests.torture import Setting, make_schedule, play
first, limit, policies, bandits, eras = json.loads(sys.argv[1])
for seed in range(first, limit):
    worlds = {"bandits": bandits, "auto": False, "forward": False, "eras": eras}
    setting = Setting(policies[seed % len(policies)], **worlds)
    outcome = play(make_schedule(seed, setting))
    if outcome.violation:
        print(json.dumps([seed, outcome.violation]))
        break
else:
    print(json.dumps([limit, ""]))
"""


class Find(NamedTuple):
    """The seed by which a mutant was found, or None, and what torture said."""

    seed: int | None
    violation: str
    seconds: float


class MismatchError(Exception):
    """A mutant that does not fit the source: its text, or what becomes of it."""


def mutated(mutant: Mutant) -> str:
    """Return the source of the mutant's file with the bug in.

    Torture trips over a file that does not compile, whatever the bug: that would be no find.
    """
    source = (SOURCE / "coopbandits" / mutant.file).read_text()
    if source.count(mutant.text) != 1:
        raise MismatchError(
            f"{mutant.name}: {source.count(mutant.text)} places in {mutant.file} match; correct "
            "the text in tests/mutants/bugs.py"
        )
    changed = source.replace(mutant.text, mutant.replacement)
    if changed == source:
        raise MismatchError(
            f"{mutant.name}: the replacement equals the text; change it in tests/mutants/bugs.py"
        )
    try:
        compile(changed, mutant.file, "exec")
    except (SyntaxError, ValueError) as error:
        raise MismatchError(
            f"{mutant.name}: {mutant.file} does not compile with it ({error}); correct the "
            "replacement in tests/mutants/bugs.py"
        ) from error
    return changed


def mutate(mutant: Mutant, folder: Path) -> None:
    """Copy the source to a folder and put the bug in."""
    changed = mutated(mutant)
    shutil.copytree(
        SOURCE / "coopbandits",
        folder / "coopbandits",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    (folder / "coopbandits" / mutant.file).write_text(changed)


def torture(source: Path, mutant: Mutant, first: int, limit: int) -> tuple[int, str]:
    """Return the first failing seed and why, or the limit; in a process of its own."""
    given = json.dumps([first, limit, mutant.policies, mutant.bandits, mutant.eras])
    done = subprocess.run(
        [sys.executable, "-c", CHILD, given],
        env=os.environ | {"PYTHONPATH": f"{source}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:  # a bug that torture itself trips over is found, too
        return first, done.stderr.strip().splitlines()[-1]
    seed, violation = json.loads(done.stdout)
    return int(seed), str(violation)


def hunt(mutant: Mutant, limit: int = LIMIT) -> Find:
    """Look for a mutant."""
    started, first = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as name:
        mutate(mutant, Path(name))
        while first < limit:
            seed, violation = torture(Path(name), mutant, first, limit)
            if violation and not torture(SOURCE, mutant, seed, seed + 1)[1]:
                return Find(seed, violation, time.monotonic() - started)
            first = seed + 1
    return Find(None, "", time.monotonic() - started)


def main(names: Sequence[str]) -> int:
    """Hunt all mutants, or those whose name contains one of the words; print a table."""
    chosen = [each for each in MUTANTS if not names or any(word in each.name for word in names)]
    for mutant in chosen:  # before the first hunt, of which one takes minutes
        try:
            mutated(mutant)
        except MismatchError as error:
            print(error, file=sys.stderr)
            return 2
    rows: list[tuple[str, ...]] = [("mutant", "found by seed", "after seeds", "seconds")]
    escaped = 0
    for mutant in chosen:
        find = hunt(mutant)
        escaped += find.seed is None
        told = ("never", f"{LIMIT}") if find.seed is None else (f"{find.seed}", f"{find.seed + 1}")
        rows.append((mutant.name, *told, f"{find.seconds:.1f}"))
        said = find.violation[:150] or "not found"
        print(f"{' | '.join(rows[-1])} | {said}", file=sys.stderr, flush=True)
    print("\n".join(columns(rows, left=(0,))))
    return 1 if escaped else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
