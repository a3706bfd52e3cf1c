"""The result of a run, as a table and as JSON."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np

from coopbandits.fleet.local.audit import Verdict
from coopbandits.fleet.local.layout import arm_names
from coopbandits.fleet.local.screen import trouble_parts
from coopbandits.fleet.local.stage import Stage
from coopbandits.results.statistics import columns
from coopbandits.version import __version__


def as_text(stage: Stage, verdict: Verdict, seconds: float) -> str:
    """Return the summary; `seconds` is how long applications chose."""
    settings = stage.settings
    head = (
        f"{settings.network.description}, {settings.policy}, {seconds:.1f} s, seed {settings.seed}"
    )
    lines = [*columns(_arm_rows(verdict)), "", *columns(_rows(stage, verdict), left=(0, 1))]
    return "\n".join([head, "", *(line.rstrip() for line in lines)])


def _arm_rows(verdict: Verdict) -> list[tuple[str, ...]]:
    """Return what was acknowledged and what is held, by arm, for the account farthest off."""
    differences = verdict.differences.reshape(2, -1).max(axis=0)
    rows: list[tuple[str, ...]] = [
        ("", "acknowledged:", "", "held by agents:", "", "largest"),
        ("arm", "pulls", "reward", "pulls", "reward", "difference"),
    ]
    for arm, name in enumerate(arm_names(differences.size)):
        rows.append(
            (
                name,
                *_pair(verdict.acknowledged, arm),
                *_pair(verdict.accounts[verdict.farthest], arm),
                f"{differences[arm]:.2g}",
            )
        )
    return rows


def _pair(account: Any, arm: int) -> tuple[str, str]:
    reward, pulls = account.reshape(2, -1)[:, arm]
    return f"{pulls:.10g}", f"{reward:.10g}"


def _rows(stage: Stage, verdict: Verdict) -> list[tuple[str, ...]]:
    share, pulls = stage.best_share(stage.players), stage.pulls.sum()
    rows: list[tuple[str, ...]] = [
        ("conservation", conservation(verdict)),
        ("best arm found by", f"{verdict.best_found} of {len(stage.players)} agents"),
        ("regret", f"{stage.regret:,.1f}; {share:.0%} of {pulls:,} pulls were best"),
    ]
    trouble = trouble_parts(stage)
    if trouble:
        rows.append(("trouble", ", ".join(trouble)))
        rows.append(("calls made again", f"{sum(each.retries for each in stage.players):,}"))
        rows.append(("answers lost", f"{_duplicates(stage):,}"))
    restarts = [seconds for member in stage.members.all for seconds in member.readiness[1:]]
    if restarts:
        rows.append(("longest restart", f"{max(restarts):.2f} s until ready"))
    return rows


def _duplicates(stage: Stage) -> int:
    return sum(each.duplicate for player in stage.players for each in player.rewards)


def conservation(verdict: Verdict) -> str:
    """Return one sentence on whether all rewards were conserved."""
    total = int(verdict.acknowledged.reshape(2, -1)[1].sum())
    if verdict.problem:
        return f"not shown: {verdict.problem}"
    if not verdict.holds:
        error = float((verdict.differences / verdict.scale).max())
        return f"broken: {verdict.farthest} differ by {error:.2g} from what was acknowledged"
    if not verdict.held:
        return f"holds: {total:,} rewards counted once; estimates conserve on average"
    return f"holds: {total:,} rewards acknowledged, each counted exactly once"


def as_json(stage: Stage, verdict: Verdict, seconds: float) -> dict[str, Any]:
    """Return the summary as plain data."""
    return {
        "versions": {
            "coopbandits": __version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
        "settings": stage.settings.describe(),
        "seconds": seconds,
        "arms": arm_names(stage.settings.problem.num_arms),
        "acknowledged": verdict.acknowledged.tolist(),
        "own": verdict.own.tolist(),
        "held": {who: account.tolist() for who, account in verdict.held.items()},
        "conservation": conservation(verdict),
        "holds": verdict.holds,
        "best_found": verdict.best_found,
        "answering": verdict.answering,
        "regret": stage.regret,
        "partitions": stage.cuts.count,
        "agents": {
            member.place.id: {
                "pulls": len(player.rewards),
                "retries": player.retries,
                "kills": member.kills,
                "pauses": member.pauses,
                "seconds_until_ready": member.readiness,
            }
            for member, player in zip(stage.members.all, stage.players, strict=True)
        },
    }
