"""Record the baseline again after an intended change of what policies play.

::

    python tests/recorded/record.py

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
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from recorded.plays import (
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
from recorded.worlds import World, worlds


<<<<<<< HEAD
def record(world: World, policies: Iterable[str]) -> dict[str, Any]:
    """Play some policies in a world, by both engines."""
    from tests.sim.recorded import facts, play

    plays = {}
    for spelling in policies:
        if "clocks" in world and getattr(parse_policy(spelling), "needs_common_round", False):
            continue
        plays[spelling] = facts(play(world, spelling))
        if facts(play(world, spelling, "reference")) != plays[spelling]:
            sys.exit(f"the engines differ about {spelling} in {world}")
    return plays
=======
def both(world: World, text: str) -> tuple[Facts, list[str]]:
    """Play on the fastest engine and on the reference engine; say where they differ."""
    with redirect_stderr(StringIO()):  # notes about what is not compiled
        engine, fast = play(world, text)
        if engine not in ("cpu", "array"):
            return fast, []
        _, facts = play(world, text, "reference")
    lacking = {name: values for name, values in facts.items() if name in KNOWN}
    return facts, [
        f"{engine} engine: {line}" for line in differences(written(facts), fast | lacking)
    ]
>>>>>>> 6e07e71de3d41e9ad3cfbbc75666ed7d6e2af5ff


def compared(before: Written | None, facts: Facts) -> tuple[Written, str]:
    """Return what to write, and what changed."""
    if before is None:
        return written(facts), "new"
    changes = differences(before, facts)
    return (written(facts), changes[0]) if changes else (before, "")


def main() -> None:
<<<<<<< HEAD
    """Play, compare with what is recorded, and write."""
    sys.path.insert(0, str(HERE.parents[1]))
    recorded = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    for name, (settings, policies) in WORLDS.items():
        world = {**settings, "runs": 2, "seed": 0}
        plays = record(world, policies)
        before = recorded.get(name, {**world, "plays": {}})
        changed = [text for text, old in before["plays"].items() if plays.get(text, old) != old]
        if changed or before != {**world, "plays": before["plays"]}:
            sys.exit(
                f"{name} was recorded and is now another world, or played otherwise: {changed}"
            )
        recorded[name] = {**world, "plays": {**before["plays"], **plays}}
        print(f"{name}: {len(plays)} policies")
    FILE.write_text(written(recorded), encoding="utf-8")
=======
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
>>>>>>> 6e07e71de3d41e9ad3cfbbc75666ed7d6e2af5ff


if __name__ == "__main__":
    main()
