"""Store a result and a sweep, for `tests/results/test_recorded.py`; run by hand.

::

    python tests/recorded/record_results.py 0.1

makes `result-0.1` and `sweep-0.1`. Folders of an older version can only be made by that version.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from coopbandits import sweep

HERE = Path(__file__).parent


def main(version: str) -> None:
    """Play and store, into folders that are not there yet."""
    if (HERE / f"result-{version}").exists():
        sys.exit(f"result-{version} is recorded already; give another version")
    sys.path.insert(0, str(HERE.parents[1]))
    from tests.results.recorded import cells, simulated

    simulated().save(HERE / f"result-{version}")
    with ThreadPoolExecutor(1) as executor:
        sweep(cells(), HERE / f"sweep-{version}", executor, progress=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
