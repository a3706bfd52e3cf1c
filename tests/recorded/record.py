"""Record what policies play, for `tests/sim/test_recorded.py`; run by hand.

::

    python tests/recorded/record.py

`arms.json` holds what version 0.1 played, so that later versions can be held to it. This script
only adds to it: a new world or policy below is played and recorded, and where a recorded one now
plays otherwise nothing is written. Every play is made by both engines, which must agree.

Plays of `tree-…` under faults and on own clocks are newer: late messages no longer overwrite
newer ones, rounds without messages do not make a count of agents steady, and loops end sooner.

Gaps between means are sums of powers of two, so that regret does not depend on the order in which
it is added up.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from coopbandits.core.registry import EXAMPLES, parse_policy

HERE = Path(__file__).parent
FILE = HERE / "arms.json"

CYCLE = {"problem": "gaussian", "means": [0.75, 1.0, 0.25], "graph": "cycle:7", "horizon": 200}
GRID = {
    "problem": "gaussian", "means": [0.5, 1.0, 0.75, 0.25, 0.875], "graph": "grid:3x4",
    "horizon": 400,
}  # fmt: skip
STAR = {
    "problem": "bernoulli", "means": [0.25, 0.625, 0.75, 0.5], "graph": "star:6", "horizon": 250,
}  # fmt: skip
PATH = {**CYCLE, "graph": "path:5"}

TROUBLE = {
    "loss": {"faults": "loss=0.3"},
    "sleep": {"faults": "sleep=0.2,churn=20..10"},
    "crash": {"faults": "crash=0.5@40..80"},
    "delay": {"faults": "delay=2,loss=0.1"},
    "clocks": {"clocks": "poisson:ratio=10"},
}

CONSTANT_4 = (
    "ucb-network", "independent-ucb", "central-ucb", "central-batched-ucb", "delayed-central-ucb",
)  # fmt: skip


def as_recorded(text: str) -> str:
    """Spell out what was the default when plays were recorded: B = 4, and Gaussian rewards."""
    policy: Any = parse_policy(text)
    if policy.name in CONSTANT_4:
        policy = replace(policy, constant=4.0)
    spelling: str = policy.suited("gaussian").spelling
    return spelling


ANYWHERE = (
    *map(as_recorded, EXAMPLES),
    "dducb:own_pulls=false",
    "dducb:neighbor_pulls=true",
    "dducb:remix=true",
    "dducb:remix=true,own_pulls=false",
    "dducb:values_per_message=5",
    "dducb:accelerated=false",
    "dducb:bonus_factor=4",
    "coop-ucl:gamma=1.01,prior_mean=0.5,prior_sigma=0.5",
    "mp-ucb:hop_limit=1",
    "mp-ucb:hop_limit=5",
    "gossip-ts:family=gaussian,sigma=estimate",
    "tree-ts:family=gaussian,sigma=estimate",
    "flood-ts:family=gaussian,sigma=estimate",
    "delayed-central-ucb:delay=3,constant=4",
)
ESTIMATING = ("dducb:num_agents=estimate,lambda_bound=estimate", "dducb:lambda_bound=heuristic")
"""Only where all messages arrive at once."""
BERNOULLI = tuple(
    f"{name}:family=bernoulli"
    for name in ("dec-ts", "independent-ts", "gossip-ts", "tree-ts", "flood-ts", "central-ts")
)
"""Only for rewards in [0, 1]."""
LANDGREN = ("coop-ucb:gamma=1.01,epsilon_c=landgren",)
"""Only where no eigenvalue of P repeats: its arms would depend on the choice of eigenvectors."""

World = dict[str, Any]
WORLDS: dict[str, tuple[World, tuple[str, ...]]] = {
    "cycle": (CYCLE, (*ANYWHERE, *ESTIMATING)),
    "grid": (GRID, (*ANYWHERE, *ESTIMATING)),
    "star": (STAR, (*ANYWHERE, *ESTIMATING, *BERNOULLI)),
    "path": (PATH, LANDGREN),
    **{f"cycle, {name}": ({**CYCLE, "horizon": 150, **t}, ANYWHERE) for name, t in TROUBLE.items()},
    **{f"star, {name}": ({**STAR, "horizon": 150, **t}, BERNOULLI) for name, t in TROUBLE.items()},
    "path, loss": ({**PATH, "horizon": 150, **TROUBLE["loss"]}, LANDGREN),
}


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


def written(recorded: dict[str, World]) -> str:
    """Return JSON with one line per play."""
    worlds = []
    for name, world in recorded.items():
        settings = {key: value for key, value in world.items() if key != "plays"}
        plays = ",\n".join(
            f"  {json.dumps(spelling)}: {json.dumps(play)}"
            for spelling, play in world["plays"].items()
        )
        head = json.dumps(settings)[:-1]
        worlds.append(f'{json.dumps(name)}: {head}, "plays": {{\n{plays}\n}}}}')
    return "{\n" + ",\n".join(worlds) + "\n}\n"


def main() -> None:
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


if __name__ == "__main__":
    main()
