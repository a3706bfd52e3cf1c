"""Times an agent-round, simulated and of real agents: ``make bench``, ``python -m benchmarks``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import engine, settings
from benchmarks.fleet import rows, run
from coopbandits.cli.screen import say
from coopbandits.core.errors import InputError
from coopbandits.results.storage import environment
from coopbandits.sim.progress import Progress


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print all numbers as JSON")
    parser.add_argument("--engine", action="store_true", help="simulations only")
    parser.add_argument(
        "--settings", action="store_true", help="what settings cost in simulations only"
    )
    parser.add_argument("--fleet", action="store_true", help="real agents only")
    parser.add_argument(
        "--beside", type=Path, help="checkout or Python of another version, put under load in turn"
    )
    return parser


def main(words: Sequence[str]) -> int:
    """Print tables or JSON; return 2 on bad input."""
    given = make_parser().parse_args(words)
    every = not (given.engine or given.settings or given.fleet)
    try:
        parts = [
            *([_time_engine()] if given.engine or every else []),
            *([_time_settings()] if given.settings or every else []),
            *([_time_fleet(given.beside)] if given.fleet or every else []),
        ]
    except InputError as error:
        return say(f"error: {error}", 2)
    if given.json:
        numbers = {key: value for _, found in parts for key, value in found.items()}
        print(json.dumps(numbers | environment(), indent=2))
    else:
        print("\n\n\n".join(text for text, _ in parts))
    return 0


def _time_engine() -> tuple[str, dict[str, Any]]:
    timings = []
    with Progress(len(engine.CASES) + 1, None, "timing") as bar:
        for timing in engine.run_bench():
            timings.append(timing)
            bar.advance(1)
        speed_up = engine.time_threads()
    return engine.table(timings, speed_up), engine.as_json(timings, speed_up)


def _time_settings() -> tuple[str, dict[str, Any]]:
    costs = []
    with Progress(len(settings.SETTINGS), None, "timing settings") as bar:
        for cost in settings.time_settings():
            costs.append(cost)
            bar.advance(1)
    return settings.table(costs), {"settings": settings.as_json(costs)}


def _time_fleet(beside: Path | None) -> tuple[str, dict[str, Any]]:
    plan, found = replace(run.PLAN, beside=beside), []
    with Progress(plan.parts, None, "timing agents") as bar:
        for each in run.run_bench(plan):
            found += each
            bar.advance(1)
    return run.table(found), {"agents": rows.as_json(found)}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
