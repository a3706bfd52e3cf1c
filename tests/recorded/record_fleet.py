"""Keep one side of conversations, for `tests/fleet/test_rolling_upgrade.py`; run by hand.

::

    python tests/recorded/record_fleet.py 2

makes `fleet-2`, a file per fleet: what one of two agents that speak version 2 of the protocol said
in every step, the journals of both at the end, and what each had counted itself. What an older
version said can only be recorded by that version, so record before a format changes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from coopbandits.fleet.protocol.frames import VERSIONS

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))


def record(name: str) -> dict[str, Any]:
    """Let the agents of a fleet talk, and return what is kept."""
    from fleet.conversing import FLEETS, OTHER, RECORDED, Seat, Speaking, converse

    fleet = FLEETS[name]
    first, second = Speaking(fleet, RECORDED), Seat(fleet, OTHER)
    converse(first, second, restart=not fleet.auto)
    trouble = [*first.wire.dropped, *second.wire.dropped, *second.process.node.refusals]
    if trouble:
        raise SystemExit(f"{name}: {trouble}")
    return {
        "linked": first.linked,
        "said": first.said,
        "journals": [first.journal(), second.journal()],
        "own": [first.own(), second.own()],
        "known": first.process.known().tolist(),
    }


def main() -> None:
    """Record all fleets."""
    from fleet.conversing import FLEETS

    version = int(sys.argv[1])
    if version != VERSIONS[1]:
        raise SystemExit(f"this tree speaks version {VERSIONS[1]} of the protocol, not {version}")
    folder = HERE / f"fleet-{version}"
    folder.mkdir(exist_ok=True)
    for name in FLEETS:
        (folder / f"{name}.json").write_text(json.dumps(record(name), indent=0) + "\n")
    git = ["git", "-C", str(HERE), "rev-parse", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=True).stdout
    (folder / "commit").write_text(commit)


if __name__ == "__main__":
    main()
