"""`coopbandits torture`."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from coopbandits.cli.options import whole
from coopbandits.cli.screen import say
from coopbandits.core.checks import require_count
from coopbandits.core.errors import InputError
from coopbandits.loading import part
from coopbandits.sim.progress import Progress

app = typer.Typer()

SEEDS = 100
MOST_TOLD = 5
"""So many violations are shortened and printed; the table counts all."""


@app.command("torture")
def torture_command(
    seeds: Annotated[int | None, whole(f"how many seeds, from --first on; {SEEDS}")] = None,
    first: Annotated[int, whole("the first of --seeds")] = 0,
    seed: Annotated[int | None, whole("this seed alone")] = None,
    trace: Annotated[bool, typer.Option("--trace", help="print the events of --seed")] = False,
    policy: Annotated[str, typer.Option(help="one that can run in a fleet")] = "flood-ts",
    agents: Annotated[int, whole("how many agents")] = 8,
    rounds: Annotated[int, whole("rounds of gossip in which things go wrong")] = 200,
    half_life: Annotated[str | None, typer.Option(help="agents forget half in so long: 1h")] = None,
    bandits: Annotated[
        bool | None,
        typer.Option("--bandits/--no-bandits", help="two bandits, and arms that come and go"),
    ] = None,
    auto: Annotated[
        bool | None, typer.Option("--auto/--no-auto", help="agents find their neighbours")
    ] = None,
    trouble: Annotated[
        list[str] | None, typer.Option(help="these instead of the seed's own; or none")
    ] = None,
    weather: Annotated[str | None, typer.Option(help="this instead of the seed's own")] = None,
    workers: Annotated[int | None, whole("local processes for --seeds; one per core")] = None,
) -> None:
    """Torture a virtual fleet, and check its promises after every event."""
    if seed is not None and seeds is not None:
        raise InputError(f"--seed {seed} and --seeds {seeds} are both given; give one of them")
    if seed is None and (trace or trouble or weather):
        raise InputError("--trace, --trouble and --weather go with one seed; add --seed NUMBER")
    require_count("--seeds", 1 if seeds is None else seeds)
    require_count("--first", first, least=0)
    require_count("--workers", 1 if workers is None else workers)
    schedules = part("testing.torture.schedule")
    read = part("fleet.config.durations").duration
    forgets = None if half_life is None else read("--half-life", half_life)
    setting = schedules.Setting(policy, agents, rounds, forgets, bandits, auto)
    setting.check()
    if seed is None:
        last = first + (SEEDS if seeds is None else seeds)
        raise typer.Exit(_play_many(setting, range(first, last), workers))
    made = schedules.make_schedule(seed, setting)
    made = part("testing.torture.spelling").changed(made, trouble or (), weather)
    raise typer.Exit(_play_one(made, trace=trace))


@contextmanager
def _quiet() -> Iterator[None]:
    """Do something without the log: agents in trouble write a lot of it."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


def _play_one(schedule: Any, *, trace: bool) -> int:
    started = time.monotonic()
    with _quiet():
        outcome = part("testing.torture.run").play(schedule, keep=trace)
    for line in outcome.lines:
        typer.echo(line)
    for planned in schedule.troubles:
        typer.echo(str(planned))
    elapsed = time.monotonic() - started
    typer.echo(part("testing.torture.report").table(schedule.setting, [outcome], elapsed))
    typer.echo(f"trace {outcome.digest}")
    return say(outcome.violation, 1) if outcome.violation else 0


def _play_many(setting: Any, seeds: range, workers: int | None) -> int:
    started, outcomes, status = time.monotonic(), [], 0
    play_seeds = part("testing.torture.run").play_seeds
    try:
        with _quiet(), Progress(len(seeds), None, "torturing") as bar:
            for outcome in play_seeds(setting, seeds, workers=workers):
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
    for outcome in failed[:MOST_TOLD]:
        _tell(outcome)
    typer.echo(part("testing.torture.report").table(setting, outcomes, elapsed))
    typer.echo(f"traces {part('testing.torture.report').digest(outcomes)}")
    return 1 if failed else status


def _tell(outcome: Any) -> None:
    with _quiet():
        shortest = part("testing.torture.shrinking").shrink(outcome)
    typer.echo(part("testing.torture.report").told(outcome, shortest))
