"""`coopbandits evaluate`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from coopbandits.cli.options import real, whole
from coopbandits.cli.screen import names_for
from coopbandits.core.errors import InputError
from coopbandits.core.policy import AnyPolicy
from coopbandits.core.registry import parse_policy
from coopbandits.core.spelling import parse_value
from coopbandits.evaluate import DecisionLog, Value, doubly_robust, ips, learned, replay
from coopbandits.results.statistics import columns

app = typer.Typer()

MOST = 10_000
"""Default number of decisions: about ten seconds for every policy."""

NOTES = """\
replay: one agent that learns, over the rounds in which it plays what was logged
ips, doubly robust: the policy learns from the first half of the log, and is fixed in the second
rests on: the effective number of decisions behind the value"""


@app.command("evaluate")
def evaluate_command(
    log: Annotated[Path, typer.Argument(help="decisions: .jsonl, .parquet or .csv")],
    policy: Annotated[
        list[str],
        typer.Option(
            help="local-sums*lin-ts:disjoint=true, independent-ts, …; repeat",
            autocompletion=names_for("policies"),
        ),
    ],
    context: Annotated[
        str | None, typer.Option(help="columns of a table that are features: hour,country")
    ] = None,
    arm: Annotated[str, typer.Option(help="its column of arms")] = "arm",
    reward: Annotated[str, typer.Option(help="its column of rewards")] = "reward",
    propensity: Annotated[
        str, typer.Option(help="its column of propensities, or one probability such as 1/3")
    ] = "propensity",
    sigma: Annotated[
        float | None, real("σ of rewards; by default their standard deviation in the log")
    ] = None,
    draws: Annotated[
        int, whole("random words per decision if probabilities have to be counted")
    ] = 20,
    most: Annotated[int, whole("number of decisions to use, from the end of the log")] = MOST,
    seed: Annotated[int, whole("seed of the policies' choices")] = 0,
) -> None:
    """Estimate from a log of decisions what other policies would be paid."""
    policies = [parse_policy(text) for text in policy]
    whole_log = _read(log, context, arm, reward, propensity)
    part = whole_log.last(most)
    if sigma is None and not np.ptp(part.rewards) > 0.0:
        raise InputError(
            f"all {len(part)} rewards of {str(log)!r} are {part.rewards[0]:g}, so they cannot tell "
            "policies apart; take a log whose rewards differ, or give --sigma"
        )
    spread = float(np.std(part.rewards)) if sigma is None else sigma
    rows: list[tuple[str, ...]] = [("policy", "estimate", "value", "95 % interval", "rests on", "")]
    for one in policies:
        rows += _rows(one, part, spread, draws, seed)
    typer.echo(_lead(log, whole_log, part))
    typer.echo("\n".join(line.rstrip() for line in columns(rows, left=(0, 1, 5))))
    typer.echo(f"\n{NOTES}")


def _read(file: Path, context: str | None, arm: str, reward: str, propensity: str) -> DecisionLog:
    """Read what `DecisionLog.save` has written, or a table where its columns are told."""
    plain = context is None and (arm, reward, propensity) == ("arm", "reward", "propensity")
    if plain and file.suffix != ".csv":
        return DecisionLog.load(file)
    names = [name.strip() for name in context.split(",")] if context else []
    chance = parse_value(propensity)
    return DecisionLog.from_table(
        file, names, arm=arm, reward=reward,
        propensity=float(chance) if isinstance(chance, int | float) else propensity,
    )  # fmt: skip


def _lead(file: Path, log: DecisionLog, part: DecisionLog) -> str:
    last = f"the last {len(part)} of " if len(part) < len(log) else ""
    more = "; --most uses more" if last else ""
    return (
        f"{file}: {last}{len(log)} decisions among {log.num_arms} arms with {log.num_features} "
        f"features, which paid {part.rewards.mean():.4g} on average{more}\n"
    )


def _rows(
    policy: AnyPolicy, log: DecisionLog, sigma: float, draws: int, seed: int
) -> Iterator[tuple[str, ...]]:
    """Yield a line per estimate; what the log cannot carry is a sentence at its end."""
    estimates: dict[str, Callable[[], Value]] = {
        "replay": lambda: replay(log, policy, sigma=sigma, seed=seed)
    }
    if not policy.central:  # a controller has no agent that could act after it has learned
        rest, chances = learned(log, policy, draws=draws, sigma=sigma, seed=seed)
        estimates["ips"] = lambda: ips(rest, chances)
        estimates["doubly robust"] = lambda: doubly_robust(rest, chances)
    for at, (name, estimate) in enumerate(estimates.items()):
        shown = policy.spelling if at == 0 else ""
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                value = estimate()
        except InputError as error:
            yield (shown, name, "–", "–", "–", str(error))
            continue
        yield (
            shown, name, f"{value.mean:.4g}", f"{value.low:.4g} to {value.high:.4g}",
            f"{value.effective:.0f}", "; ".join(str(each.message) for each in caught),
        )  # fmt: skip
