"""Plays many seeds of torture, or one: ``make torture``, ``python -m tests.torture --help``."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager

from coopbandits.cli.screen import say
from coopbandits.core.checks import require_count
from coopbandits.core.errors import InputError
from coopbandits.fleet.config.values import read_duration
from coopbandits.sim.progress import Progress
from tests.torture import report, run, schedule
from tests.torture.run import Outcome
from tests.torture.schedule import Schedule, Setting
from tests.torture.shrinking import shrink
from tests.torture.spelling import changed

SEEDS = 100
MOST_TOLD = 5
"""Number of violations to shorten and print; the table counts all."""


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tests.torture", description=__doc__)
    parser.add_argument("--seeds", type=int, help=f"number of seeds, from --first on; {SEEDS}")
    parser.add_argument("--first", type=int, default=0, help="the first of --seeds")
    parser.add_argument("--seed", type=int, help="this seed alone")
    parser.add_argument("--trace", action="store_true", help="print the events of --seed")
    parser.add_argument("--policy", default="flood-ts", help="one that can run in a fleet")
    parser.add_argument("--agents", type=int, default=8, help="number of agents")
    parser.add_argument("--rounds", type=int, default=200, help="rounds in which things go wrong")
    parser.add_argument("--half-life", help="agents forget half in this time, such as 1h")
    either = argparse.BooleanOptionalAction
    parser.add_argument("--bandits", action=either, help="two bandits, and arms that come and go")
    parser.add_argument("--auto", action=either, help="agents find their neighbours")
    parser.add_argument("--forward", action=either, help="rewards and units at any agent")
    parser.add_argument("--eras", action=either, help="the policy changes")
    parser.add_argument("--trouble", action="append", help="replaces the seed's own; or none")
    parser.add_argument("--weather", help="replaces the seed's own")
    parser.add_argument("--workers", type=int, help="local processes for --seeds; one per core")
    return parser


def main(words: Sequence[str]) -> int:
    """Play what is asked for; return 1 if a promise was broken, 2 on bad input."""
    given = make_parser().parse_args(words)
    try:
        return _play(given)
    except InputError as error:
        return say(f"error: {error}", 2)


def _play(given: argparse.Namespace) -> int:
    if given.seed is not None and given.seeds is not None:
        raise InputError(
            f"--seed {given.seed} and --seeds {given.seeds} are both given; give one of them"
        )
    if given.seed is None and (given.trace or given.trouble or given.weather):
        raise InputError("--trace, --trouble and --weather go with one seed; add --seed NUMBER")
    seeds = SEEDS if given.seeds is None else given.seeds
    require_count("--seeds", seeds)
    require_count("--first", given.first, least=0)
    require_count("--workers", 1 if given.workers is None else given.workers)
    forgets = None if given.half_life is None else read_duration("--half-life", given.half_life)
    worlds = given.bandits, given.auto, given.forward, given.eras
    setting = Setting(given.policy, given.agents, given.rounds, forgets, *worlds)
    setting.check()
    if given.seed is None:
        return _play_many(setting, range(given.first, given.first + seeds), given.workers)
    made = schedule.make_schedule(given.seed, setting)
    return _play_one(changed(made, given.trouble or (), given.weather), trace=given.trace)


@contextmanager
def _quiet() -> Iterator[None]:
    """Do something without the log: agents in trouble write a lot of it."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def _play_one(planned: Schedule, *, trace: bool) -> int:
    started = time.monotonic()
    with _quiet():
        outcome = run.play(planned, keep=trace)
    elapsed = time.monotonic() - started
    for line in (*outcome.lines, *planned.troubles):
        print(line)
    print(report.table(planned.setting, [outcome], elapsed))
    print(f"trace {outcome.digest}")
    return say(outcome.violation, 1) if outcome.violation else 0


def _play_many(setting: Setting, seeds: range, workers: int | None) -> int:
    started, status = time.monotonic(), 0
    outcomes: list[Outcome] = []
    try:
        with _quiet(), Progress(len(seeds), None, "torturing") as bar:
            for outcome in run.play_seeds(setting, seeds, workers=workers):
                outcomes.append(outcome)
                bar.advance(1)
    except KeyboardInterrupt:
        status = 130
    except BrokenExecutor as error:
        raise InputError(
            f"a worker process died in one of the seeds from {seeds[len(outcomes)]} on: {error}; "
            "--workers 1 plays them in this process"
        ) from error
    elapsed = time.monotonic() - started
    failed = [outcome for outcome in outcomes if outcome.violation]
    print(report.table(setting, outcomes, elapsed))
    print(f"traces {report.digest(outcomes)}", flush=True)
    for outcome in failed[:MOST_TOLD]:  # each takes minutes, so they come last
        with _quiet():
            shortest = shrink(outcome)
        print(report.told(outcome, shortest), flush=True)
    return 1 if failed else status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
