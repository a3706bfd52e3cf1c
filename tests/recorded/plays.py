"""What is kept of a play, how it is written, and how a play is compared with a recorded one.

A play is kept as arrays by name. The file has all arms, and pulls, regret and counts of messages as
numbers; what agents know in the end is packed, 36 bits of every number's mantissa.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import coopbandits as cb
from coopbandits.core.policy import AnyPolicy
from coopbandits.literature.models import Played, parse_model
from coopbandits.problems.spelled import CHANGES, changed

from .worlds import World

HERE = Path(__file__).parent
FILE = HERE / "plays.json"

Facts = dict[str, np.ndarray[Any, Any]]
"""What is kept of one play, by name."""

Written = dict[str, Any]
"""The same in the file."""

Recording = dict[str, dict[str, Any]]
"""The file: by world its settings, and under "plays" what is written of each."""

RELATIVE, ABSOLUTE = 1e-9, 1e-12
"""By how much numbers that are not whole may differ."""

REGRET = ("regret", "worst_regret", "realized_regret", "global_regret")
SENT = (
    "messages_sent", "values_sent", "messages_delivered", "messages_late", "messages_lost",
)  # fmt: skip
GROUPS = {"regret": REGRET, "sent": SENT}
"""Numbers that stand together in the file, a row per run; the last of them may be missing."""
STOPPED = ("stop_round", "stop_arm")
KNOWN = ("sums", "counts", "squares", "extra", "certain", "advice")
"""Of agents, in the end: totals, pulls that they certify, and what they recommend."""

AXES: dict[str, tuple[str, ...]] = {
    "arms": ("run", "round", "agent"),
    "agent_pulls": ("run", "agent", "arm"),
    "pulls": ("run", "arm"),
    "report": ("number",),
    **dict.fromkeys((*REGRET, *SENT), ("run",)),
    **dict.fromkeys(STOPPED, ("run", "agent")),
    **dict.fromkeys(KNOWN, ("agent", "number")),
}


def read() -> Recording:
    recording: Recording = json.loads(FILE.read_text(encoding="utf-8"))
    return recording


def play(world: World, text: str, engine: str = "auto") -> tuple[str, Facts]:
    """Play a policy or a model; return the engine that did, and what is kept of it."""
    if "means" in world:
        return "its own driver", report(world, text)
    policy = cb.parse_policy(text)
    own = ("faults", "clocks", "stop", "shuffle_arms")
    with made(policy) as agents:
        result = cb.simulate(
            problem_of(world),
            network(world["graph"], world.get("weights", "auto")),
            policy,
            world["horizon"],
            world["runs"],
            engine=engine,
            keep="agents" if "clocks" in world else "arms",  # no arms by round without rounds
            progress=False,
            **{name: world[name] for name in own if name in world},
        )
    (name,) = result.meta["engines"]
    facts = of_result(result)
    if name == "reference":  # others have no agents to ask
        assert agents, text
        facts |= of_agents([agents[at] for at in sorted(agents)], certified="stop" in world)
    return name, facts


def report(world: World, text: str) -> Facts:
    """Return all numbers in the report of a model."""
    lines = parse_model(text).play(Played(**world))
    texts = [value.replace("\u2009", "") for _, value in lines]
    numbers = re.findall(r"-?\d+\.?\d*", " ".join(texts))
    return {"report": np.array([float(number) for number in numbers])}


network = cache(cb.Network.from_spec)


def problem_of(world: World) -> cb.Problem:
    problem = cb.parse_problem(world["problem"].format(here=HERE))
    for name in CHANGES:
        if name in world:
            problem = changed(problem, name, world[name])
    return problem


@contextmanager
def made(policy: AnyPolicy) -> Iterator[dict[int, Any]]:
    """Collect what a policy makes meanwhile: the latest agents by number, or the controller."""
    name = "make_controller" if policy.central else "make_agent"
    home = next(kind for kind in type(policy).__mro__ if name in vars(kind))
    make: Callable[..., Any] = vars(home)[name]
    found: dict[int, Any] = {}

    def keep(self: AnyPolicy, view: Any, *more: Any) -> Any:
        agent = make(self, view, *more)
        found[0 if policy.central else view.agent_id] = agent
        return agent

    with mock.patch.object(home, name, keep):
        yield found


def of_result(result: cb.Result) -> Facts:
    data = result.dataset.isel(policy=0)
    facts = {name: data[name].values for name in ("pulls", *STOPPED) if name in data}
    if "arms" in data:
        facts["arms"] = data["arms"].values.transpose(0, 2, 1)
    else:
        facts["agent_pulls"] = data["agent_pulls"].values
    for name in (*REGRET, *SENT):
        if name in data:
            facts[name] = (
                data[name].values[:, -1] if "round" in data[name].dims else data[name].values
            )
    if np.array_equal(facts["regret"], facts["global_regret"]):
        del facts["global_regret"]
    return facts


def of_agents(agents: list[Any], certified: bool) -> Facts:
    """Return what agents know in the end, a row per agent; nothing if they have no estimates."""
    if not all(hasattr(agent, "estimate") for agent in agents):
        return {}
    estimates = [agent.estimate() for agent in agents]
    known = {name: [getattr(each, name) for each in estimates] for name in KNOWN[:-2]}
    if all(each.certain is not None for each in estimates):
        known["certain"] = [each.certain.counts for each in estimates]
    if certified and all(hasattr(agent, "recommend") for agent in agents):
        known["advice"] = [tuple(agent.recommend()) for agent in agents]
    return {name: np.array([flat(row) for row in rows]) for name, rows in known.items()}


def flat(values: Any) -> np.ndarray[Any, Any]:
    """Return numbers, arrays and tuples of these as one row."""
    if isinstance(values, tuple):
        return np.hstack([np.empty(0), *map(flat, values)])
    return np.ravel(np.asarray(values, dtype=float))


def written(facts: Facts) -> Written:
    """Return what the file says of a play."""
    found: Written = {}
    if "arms" in facts:
        found["arms"] = pack((facts["arms"] + 1).astype(np.uint8).tobytes())  # −1: no pull
    for group, names in GROUPS.items():
        columns = [facts[name].tolist() for name in names if name in facts]
        if columns:
            found[group] = plain([list(row) for row in zip(*columns, strict=True)])
    for name in ("pulls", "agent_pulls", "report", *STOPPED):
        if name in facts:
            found[name] = plain(facts[name].tolist())
    known = [facts[name].ravel() for name in KNOWN if name in facts]
    if known:
        numbers = np.concatenate(known).astype(">f8").view(np.uint8).reshape(-1, 8)
        found["known"] = pack(numbers[:, :6].T.tobytes())
    return found


def plain(values: Any) -> Any:
    """Return nested lists of numbers with ten digits each."""
    if isinstance(values, list):
        return [plain(each) for each in values]
    return values if isinstance(values, int) else json.loads(f"{values:.10g}")


def pack(data: bytes) -> str:
    return base64.b85encode(zlib.compress(data, 9)).decode()


def unpack(text: str) -> np.ndarray[Any, Any]:
    return np.frombuffer(zlib.decompress(base64.b85decode(text)), dtype=np.uint8)


def kept(recorded: Written, played: Facts) -> Facts:
    """Return what was recorded as arrays; those that are packed in the shapes that were played."""
    packed = ("arms", "known")
    found = {name: np.array(values) for name, values in recorded.items() if name not in packed}
    for group in GROUPS.keys() & found.keys():
        found |= dict(zip(GROUPS[group], found.pop(group).T, strict=False))
    if "arms" in recorded:
        arms = unpack(recorded["arms"]).astype(np.int64) - 1
        found["arms"] = shaped(arms, played.get("arms", arms))
    names = [name for name in KNOWN if name in played]
    if "known" in recorded and names:
        cut = unpack(recorded["known"]).reshape(6, -1).T
        numbers = np.pad(cut, ((0, 0), (0, 2))).reshape(-1).view(">f8").astype(float)
        if numbers.size != sum(played[name].size for name in names):
            return found | {name: np.empty(0) for name in names}
        for name in names:
            found[name] = shaped(numbers[: played[name].size], played[name])
            numbers = numbers[played[name].size :]
    return found


def shaped(values: np.ndarray[Any, Any], like: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return values.reshape(like.shape) if values.size == like.size else values


def differences(recorded: Written, played: Facts) -> list[str]:
    """Return a sentence for every quantity that was recorded otherwise, about the first place.

    What agents know is compared where it was played by agents that can be asked.
    """
    expected = kept(recorded, played)
    names = [name for name in AXES if name in expected or name in played]
    return [line for name in names if (line := difference(name, expected, played))]


def difference(name: str, expected: Facts, played: Facts) -> str:
    if name not in played or name not in expected:
        where = "played" if name in played else "recorded"
        return f"{name} was {where} only"
    old, new = expected[name], played[name]
    if old.shape != new.shape:
        return f"{name} was recorded with shape {old.shape} and played with shape {new.shape}"
    if new.dtype.kind == "i":
        other = old != new
    else:
        other = ~np.isclose(new, old, rtol=RELATIVE, atol=ABSOLUTE, equal_nan=True)
    if not other.any():
        return ""
    at = tuple(int(place) for place in np.argwhere(other)[0])
    place = ", ".join(
        f"{axis} {number + (axis == 'round')}"  # rounds are counted from 1
        for axis, number in zip(AXES[name], at, strict=True)
    )
    return (
        f"{name} first differ in {place}: recorded {old[at]:.10g}, played {new[at]:.10g}; "
        f"{other.sum()} of {other.size} differ"
    )
