"""Record the baseline again after an intended change of what policies play.

::

    python -m tests.recorded.record

Plays everything in `worlds.py`, checks that compiled engines and the reference engine agree, writes
`plays.json` and prints every play that changed, with its first difference. The text of a play that
did not change stays as it is.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import redirect_stderr
from io import StringIO

from .plays import (
    FILE,
    KNOWN,
    Facts,
    Recording,
    Written,
    differences,
    play,
    read,
    written,
)
from .worlds import World, worlds


def both(world: World, text: str) -> tuple[Facts, list[str]]:
    """Play on the fastest engine and on the reference engine; say where they differ."""
    with redirect_stderr(StringIO()):  # notes about what is not compiled
        engine, fast = play(world, text)
        if engine != "cpu":
            return fast, []
        _, facts = play(world, text, "reference")
    lacking = {name: values for name, values in facts.items() if name in KNOWN}
    return facts, [
        f"{engine} engine: {line}" for line in differences(written(facts), fast | lacking)
    ]


def compared(before: Written | None, facts: Facts) -> tuple[Written, str]:
    """Return what to write, and what changed."""
    if before is None:
        return written(facts), "new"
    changes = differences(before, facts)
    return (written(facts), changes[0]) if changes else (before, "")


def main() -> None:
    """Play, compare, and write unless engines differ."""
    old: Recording = read() if FILE.exists() else {}
    new: Recording = {}
    failures = 0
    for name, (world, texts) in worlds().items():
        started, changed = time.process_time(), 0
        before = old.get(name, {}).get("plays", {})
        new[name] = {**world, "plays": {}}
        for text in texts:
            facts, failed = both(world, text)
            new[name]["plays"][text], change = compared(before.get(text), facts)
            changed += bool(change)
            failures += bool(failed)
            if change and old:
                print(f"  {name}: {text}: {change}")
            for line in failed:
                print(f"  {name}: {text}: {line}")
        for text in before.keys() - set(texts):
            print(f"  {name}: {text}: dropped")
        seconds = time.process_time() - started
        print(f"{name}: {len(texts)} plays, {changed} changed, {seconds:.1f} s", flush=True)
    for name in old.keys() - new.keys():
        print(f"{name}: dropped")
    if failures:
        sys.exit(f"engines differ in {failures} plays; {FILE.name} is left as it was")
    FILE.write_text(as_text(new), encoding="utf-8")
    plays = sum(len(texts) for _, texts in worlds().values())
    print(f"{plays} plays, {FILE.stat().st_size / 1000:.0f} kB, {time.process_time():.0f} s")


def as_text(recording: Recording) -> str:
    """Return JSON with one line per play."""
    worlds = []
    for name, world in recording.items():
        head = {key: value for key, value in world.items() if key != "plays"}
        plays = [
            f"{json.dumps(text)}: {json.dumps(play, separators=(',', ':'))}"
            for text, play in world["plays"].items()
        ]
        begin = f'{json.dumps(name)}: {json.dumps(head)[:-1]}, "plays": {{\n'
        worlds.append(begin + ",\n".join(plays) + "\n}}")
    return "{\n" + ",\n".join(worlds) + "\n}\n"


if __name__ == "__main__":
    main()
