"""The tables of docs/field.md: every policy on one instance, at three bonus constants.

::

    python examples/field.py out/field [--runs 20]

Writes tables.md and field.svg. Everything played is kept in the folder, from which a re-run
resumes. A policy with a bonus sqrt(B σ² ln t / n) is played with its own B, with B = 2, and with
the B of a grid that has the lowest mean regret on two other instances and another seed.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from concurrent.futures import Executor
from pathlib import Path
from typing import NamedTuple

import coopbandits as cb
from coopbandits.core.policy import AnyPolicy
from coopbandits.plots import Point, traffic_figure
from coopbandits.results.intervals import mean_interval

COMMON = 2.0
GRID = tuple(2.0**power for power in range(-5, 4))
POLICIES = (
    "dducb", "coop-ucb:gamma=1.01", "coop-ucb2:gamma=1.01", "coop-ucl:gamma=1.01", "dec-ts",
    "dec-bayes-ucb", "ucb-network", "mp-ucb:hop_limit=2", "dpe2", "gosine", "dec-ucb", "dec-kl-ucb",
    "coop-se:horizon={horizon}", "exp3-coop", "resilient-ucb", "gossip-ucb",
    "gse:horizon={horizon}", "gossip-ts", "tree-ts", "flood-ts", "tree-ucb", "flood-ucb",
    "ledger-ts", "ledger-ucb", "independent-ucb", "independent-ts",
)  # fmt: skip


class Instance(NamedTuple):
    """Where policies are compared; `runs` is a share of those asked for."""

    name: str
    problem: str
    graph: str
    horizon: int
    policies: tuple[str, ...] = POLICIES
    faults: str = "none"
    runs: float = 1.0


FIELD = Instance("The field", "bernoulli:0.9,0.8x4", "cycle:20", 3000)
TUNING = (
    Instance("tuning", "bernoulli:0.7,0.6x4", "cycle:20", 3000, runs=0.5),
    Instance("tuning", "bernoulli:0.4,0.2x4", "cycle:20", 3000, runs=0.5),
)
BASELINES = ("flood-ucb", "independent-ucb", "flood-ts")
PRECONDITIONS = (
    Instance(
        "At least 3f + 1 = 4 neighbours each", "bernoulli:0.9,0.8x4", "regular:6,20,seed=1", 3000,
        ("resilient-ucb", *BASELINES),
    ),
    Instance(
        "Random pairs of neighbours talk", "bernoulli:0.9,0.8x4", "complete:10", 3000,
        ("gossip-ucb", *BASELINES), "pairs=1", 0.25,
    ),
    Instance(
        "Long horizon, half of the links up", "bernoulli:0.9,0.8x4", "complete:5", 20_000,
        ("gse:horizon={horizon},up=0.5", *BASELINES), "redraw=1:0.5", 0.25,
    ),
    Instance(
        "Many more arms than agents", "bernoulli:0.9,0.5x199", "complete:20", 10_000,
        ("gosine", *BASELINES), "none", 0.25,
    ),
)  # fmt: skip


def named(instance: Instance) -> list[AnyPolicy]:
    return [cb.parse_policy(text.format(horizon=instance.horizon)) for text in instance.policies]


def at(policy: AnyPolicy, constant: float) -> AnyPolicy | None:
    """Return a policy with another bonus constant, where it has one and may have that."""
    try:
        return None if policy.bonus_constant is None else policy.with_constant(constant)
    except cb.InputError:  # coop-UCB asks for B > 2
        return None


def candidates(policy: AnyPolicy) -> list[AnyPolicy]:
    """Return what tuning chooses from: a policy as it is, and at the constants that it may have."""
    tried = [at(policy, constant) for constant in GRID if constant != policy.bonus_constant]
    return [policy, *(each for each in tried if each is not None)]


class Field:
    """All results, played where the folder does not hold them yet."""

    def __init__(self, folder: Path, runs: int, scale: float, executor: Executor | None) -> None:
        self.folder, self.runs, self.scale, self.executor = folder, runs, scale, executor
        self.found: dict[str, cb.Result] = {}

    def cell(self, instance: Instance, policy: AnyPolicy, seed: int) -> cb.Cell:
        runs = max(2, round(self.runs * instance.runs))
        return cb.Cell(
            cb.parse_problem(instance.problem), cb.Network.from_spec(instance.graph), policy,
            max(1, round(instance.horizon * self.scale)), runs, seed,
            faults=cb.parse_faults(instance.faults),
        )  # fmt: skip

    def play(self, instance: Instance, policies: Iterable[AnyPolicy | None], seed: int) -> None:
        cells = [self.cell(instance, policy, seed) for policy in policies if policy is not None]
        done = cb.sweep(cells, self.folder, self.executor)
        for cell, why in done.failed:
            raise SystemExit(f"{cell} was set aside: {why}")
        self.found |= {cell.id: result for cell, result in done.results}

    def result(self, instance: Instance, policy: AnyPolicy, seed: int = 0) -> cb.Result:
        return self.found[self.cell(instance, policy, seed).id]

    def regret(self, instance: Instance, policy: AnyPolicy, seed: int = 0) -> tuple[float, float]:
        """Return the mean regret of all agents, and its standard error."""
        final = self.result(instance, policy, seed).regret.values[0, :, -1]
        return final.mean(), final.std(ddof=1) / len(final) ** 0.5

    def tuned(self, policy: AnyPolicy) -> AnyPolicy:
        """Return a policy with the constant that was best on the tuning instances."""

        def total(other: AnyPolicy) -> float:
            return sum(self.regret(instance, other, seed=1)[0] for instance in TUNING)

        return min(candidates(policy), key=total)

    def row(self, instance: Instance, policy: AnyPolicy, *, is_tuned: bool) -> str:
        """Return a line of a table: at the policy's own constant, at the common one, tuned."""
        common = at(policy, COMMON) or (policy if policy.bonus_constant else None)
        best = self.tuned(policy) if is_tuned and policy.bonus_constant else None
        worst = float(self.result(instance, policy).final_worst.mean())
        own = policy.bonus_constant
        cells = [
            f"`{policy.spelling}`",
            "–" if own is None else f"{own:g}",
            f"{self.told(instance, policy)}, {worst:.0f}",
            "–" if common is None else self.told(instance, common),
        ]
        if is_tuned:
            shown = best and f"{self.told(instance, best)} ($B = {best.bonus_constant:g}$)"
            cells.append(shown or "–")
        return "| " + " | ".join(cells) + " |"

    def told(self, instance: Instance, policy: AnyPolicy) -> str:
        mean, error = self.regret(instance, policy)
        return f"{mean:.0f} ± {error:.0f}"


def main(folder: Path, runs: int = 20, scale: float = 1.0, executor: Executor | None = None) -> str:
    """Play what is missing, and return the tables; `scale` shortens all horizons."""
    field = Field(folder, runs, scale, executor)
    policies = named(FIELD)
    bonuses = [policy for policy in policies if policy.bonus_constant is not None]
    for instance in TUNING:
        field.play(instance, [other for each in bonuses for other in candidates(each)], seed=1)
    field.play(FIELD, policies, seed=0)
    field.play(FIELD, [at(each, COMMON) for each in bonuses], seed=0)
    field.play(FIELD, map(field.tuned, bonuses), seed=0)
    head = "| policy | B | own B, worst agent | $B = 2$ |"
    lines = [f"{head} tuned |", "|---|---|---|---|---|"]
    lines += [field.row(FIELD, policy, is_tuned=True) for policy in policies]
    for instance in PRECONDITIONS:
        players = named(instance)
        field.play(instance, [*players, *(at(each, COMMON) for each in players)], seed=0)
        runs_played = field.cell(instance, players[0], 0).runs
        where = f"{instance.problem}, {instance.graph}, {instance.horizon} rounds"
        faults = "" if instance.faults == "none" else f", {instance.faults}"
        lines += ["", f"**{instance.name}** ({where}{faults}, {runs_played} runs)", ""]
        lines += [head, "|---|---|---|---|"]
        lines += [field.row(instance, policy, is_tuned=False) for policy in players]
    points = [
        Point(
            f"{each.spelling}{'' if shown is each else ', B = 2'}",
            float(kept.values_sent.mean()),
            float(final.mean()),
            *mean_interval(final),
        )
        for each in policies
        for shown in [at(each, COMMON) or each]
        for kept in [field.result(FIELD, shown)]
        for final in [kept.regret.values[0, :, -1]]
    ]
    traffic_figure(points).savefig(folder / "field.svg")
    text = "\n".join(lines) + "\n"
    (folder / "tables.md").write_text(text, encoding="utf-8")
    return text


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--runs", type=int, default=20)
    chosen = parser.parse_args()
    print(main(chosen.folder, chosen.runs))
