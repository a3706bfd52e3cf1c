"""The benchmark suite: scenarios and policies as data.

Arms are shuffled in every scenario: ties go to the lowest arm, so a best arm that always comes
first would flatter. Every policy is played with its own bonus constant, and with one that is the
same for all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from typing import Any

from coopbandits.core.checks import require_count
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.core.policy import AnyPolicy, combine
from coopbandits.core.registry import EXAMPLES, parse_policy
from coopbandits.network import Network, parse_faults
from coopbandits.network.faults import PERFECT
from coopbandits.problems import Problem, World, make_problem
from coopbandits.sim import Cell
from coopbandits.sim.engine import ENGINES, GPU, REFERENCE
from coopbandits.sim.record import Task


@dataclass(frozen=True)
class Scenario:
    """A network, a problem, a horizon and faults, with a sentence on what they probe."""

    name: str
    graph: str
    problem: Mapping[str, Any] | str
    horizon: int
    probes: str
    faults: str = ""

    @property
    def yardstick(self) -> str:
        """The policy that scores are relative to, on the same tapes and under the same faults."""
        if self.in_context:
            return INFORMED
        if self.is_world:
            return ALONE
        return FLOODED if self.faults else YARDSTICK

    @property
    def is_world(self) -> bool:
        """Whether rewards move, or agents differ in what they are offered."""
        return isinstance(make_problem(self.name, self.problem), World)

    @property
    def in_context(self) -> bool:
        """Whether rewards depend on features."""
        return make_problem(self.name, self.problem).num_features > 0


def _gaussian(means: str) -> dict[str, Any]:
    return {"kind": "gaussian", "means": means, "sigma": 1.0}


def _bernoulli(means: str) -> dict[str, Any]:
    return {"kind": "bernoulli", "means": means}


PAPER = _gaussian("1,0.8x16")
"""The arms of Martínez-Rubio, Kanade and Rebeschini (2019)."""

SCENARIOS: tuple[Scenario, ...] = (
    Scenario("cycle-100", "cycle:100", PAPER, 10_000,
             "The paper's first graph: it takes 50 rounds to hear of the other side."),
    Scenario("cycle-200", "cycle:200", PAPER, 4_000,
             "The paper's slowest graph: a stage of DDUCB takes 355 rounds."),
    Scenario("grid-10x10", "grid:10x10", PAPER, 5_000,
             "The paper's small grid: a stage takes 43 rounds where the cycle's takes 164."),
    Scenario("grid-15x15", "grid:15x15", PAPER, 3_000,
             "The paper's large grid: with more agents, what each explores alone weighs more."),
    Scenario("star-50", "star:50", PAPER, 5_000,
             "One hub hears everybody, and everybody hears the hub alone."),
    Scenario("barbell-50", "barbell:20,10", PAPER, 5_000,
             "Two cliques and a thin bridge: quick inside, slow between."),
    Scenario("path-50", "path:50", _gaussian("1,0.8x4"), 10_000,
             "The longest way between so many agents, with few arms."),
    Scenario("regular-100", "regular:3,100,seed=1", PAPER, 3_000,
             "A random 3-regular graph: few links, and yet all are near."),
    Scenario("erdos-renyi-100", "erdos-renyi:100,0.08,seed=1", PAPER, 3_000,
             "Links at random, so that some agents have few and some have many."),
    Scenario("small-world-100", "small-world:100,4,0.1,seed=1", PAPER, 3_000,
             "A ring of near neighbours with a few shortcuts."),
    Scenario("few-agents", "cycle:5", _gaussian("1,0.8x9"), 20_000,
             "Five agents for long: what cooperating costs where it gains little."),
    Scenario("two-arms", "grid:5x5", _gaussian("1,0.9"), 20_000,
             "Two arms, as in a test of one change at several sites."),
    Scenario("fifty-arms", "grid:6x6", _gaussian("1,0.8x49"), 4_000,
             "More arms than agents: exploring must be shared."),
    Scenario("small-gaps", "regular:4,50,seed=1", _gaussian("1,0.95x9"), 10_000,
             "Gaps of 0.05 σ, which one agent alone could not see within the horizon."),
    Scenario("graded-arms", "grid:6x6", _gaussian("1,0.95,0.9,0.8,0.7,0.5,0.3,0"), 5_000,
             "Gaps from 0.05 to 1: bad arms must go at once, near ones need care."),
    Scenario("click-rates", "grid:5x5", _bernoulli("0.05,0.03x9"), 10_000,
             "Rates of a few per cent, whose variance is far below the 1/4 that UCB assumes."),
    Scenario("conversions", "small-world:30,4,0.2,seed=1", _bernoulli("0.025,0.02x4"), 10_000,
             "Rates half a per cent apart, where rewards are rare."),
    Scenario("fair-coins", "cycle:30", _bernoulli("0.5,0.4x5"), 5_000,
             "Rates near one half, where a variance of 1/4 is right."),
)  # fmt: skip

_DEATHS = ",".join(f"crash=0.1@{start}" for start in range(200, 1001, 200))
_RESTARTS = ",".join(f"crash=0.1@{start}..{start + 40}" for start in range(200, 1101, 100))
_FORGETFUL = ",".join(f"crash=0.1@{start}..{start + 40}:lost" for start in range(200, 1101, 100))

SCENARIOS += tuple(
    Scenario(name, graph, PAPER, horizon, probes, faults)
    for name, graph, horizon, faults, probes in (
        ("loss-10", "cycle:100", 2500, "loss=0.1", "One message in ten is lost."),
        ("loss-30", "cycle:100", 2500, "loss=0.3", "Three messages in ten are lost."),
        ("loss-50", "cycle:100", 2500, "loss=0.5", "Every other message is lost."),
        ("bursts", "grid:10x10", 2500, "bursts=50..25",
         "Links are silent for 25 rounds on end, in one direction, a third of the time."),
        ("churn", "grid:10x10", 2500, "churn=200..100",
         "Links are down for 100 rounds on end, a third of the time."),
        ("sleeping", "grid:10x10", 2500, "sleep=0.3", "An agent sleeps in three rounds of ten."),
        ("half-crash", "grid:10x10", 2500, "crash=0.5@500",
         "Half of the agents crash in round 500 and do not return."),
        ("redrawn", "erdos-renyi:100,0.2,seed=1", 2500, "redraw=50:0.2",
         "Every 50 rounds it is drawn anew which fifth of the links is there."),
        ("unequal-speeds", "grid:10x10", 2500, "speeds=10",
         "Some agents act in every round, some in one of ten."),
        ("partition", "grid:10x10", 2500, "partition=0.5@200..500",
         "Half of the network is cut off from the other half for 300 rounds."),
        ("deaths", "grid:10x10", 2500, _DEATHS,
         "Five times, 200 rounds apart, a tenth of the agents dies, and now and then a root."),
        ("restarts-kept", "grid:10x10", 2500, _RESTARTS,
         "Ten times a tenth of the agents is away for 40 rounds."),
        ("restarts-lost", "grid:10x10", 2500, _FORGETFUL,
         "The same, but they return without memory."),
        ("one-way", "erdos-renyi:100,0.08,seed=1", 2500, "one-way=0.3",
         "Three links in ten work in one direction only."),
        ("loss-and-churn", "grid:10x10", 2500, "loss=0.3,churn=200..100",
         "Messages get lost over links that go down for long."),
        ("late-joiners", "grid:10x10", 2500, "join=0.5@500",
         "Half of the agents join after 500 rounds."),
        ("regular-400", "regular:4,400,seed=1", 800, "loss=0.1",
         "Four hundred agents for a short time, and one message in ten is lost."),
    )
)  # fmt: skip
"""The paper's arms on imperfect networks."""

_COINS = _bernoulli("0.6,0.5x4")
_SITES = {"kind": "gaussian", "means": "0.3,0.2,0.2,0.1,0", "sigma": 0.5}

SCENARIOS += tuple(
    Scenario(name, graph, {**problem, change: spelled}, horizon, probes)
    for name, graph, problem, horizon, change, spelled, probes in (
        ("drift-abrupt", "cycle:20", _COINS, 3000, "drift", "steps=1500:0.5x2,0.6,0.5x2",
         "The best arm is another from one round to the next, half-way."),
        ("drift-slow", "cycle:20", _COINS, 3000, "drift", "ramp=500..2500:0.5x4,0.6,pieces=20",
         "The best arm and another change places, little by little."),
        ("drift-seasonal", "cycle:20", _COINS, 3000, "drift",
         "steps=300:0.5,0.6,0.5x3,period=600",
         "Days and nights of 300 rounds have a best arm each."),
        ("sites-alike", "cycle:20", _SITES, 1500, "sites", "spread=0.03",
         "Agents' means differ by a third of the gaps, so that most have the same best arm."),
        ("sites-apart", "cycle:20", _SITES, 1500, "sites", "spread=0.3",
         "Agents' means differ by more than the gaps, so that what others saw misleads."),
        ("subsets", "cycle:10", _COINS, 500, "subsets", "0,1,2/2,3,4/1,3",
         "Agents may play two or three of five arms, and few the best one."),
    )
)  # fmt: skip
"""Rewards that move, sites that differ, arms that not all agents have."""

SCENARIOS += (
    Scenario("linear", "cycle:20",
             {"kind": "linear", "theta": "1,0x4", "num_arms": 10, "sigma": 0.5}, 400,
             "What an arm pays depends on its features, which are others in every round."),
)  # fmt: skip
"""The best arm depends on who asks."""

COMMON = 2.0
"""The bonus constant at which policies are compared besides their own."""

OWN_HORIZON = 2500
"""Rounds of scenarios of one's own, unless told."""

YARDSTICK, FLOODED, ALONE = "central-ts", "flood-ts", "independent-ts"
INFORMED = "central-totals*lin-ts"
"""Yardsticks: everything is known immediately, or as soon as the faults allow; or nobody talks,
where it is open whether what others saw is of any use; or features are known as well."""

VARIANTS = {
    "dducb": ("dducb:bonus_factor=4", "dducb:own_pulls=false"),
    "coop-ucb": ("coop-ucb:gamma=2",),
}
"""Further settings of some policies, besides those of `EXAMPLES`."""

POLICIES = tuple(
    spelling
    for example in EXAMPLES
    for spelling in (example, *VARIANTS.get(parse_policy(example).name, ()))
)
"""Every policy of the registry; none of them looks at features."""

UNASKED = ("liar", "fed-ucb")
"""Who takes part only when named: a liar, whom nobody would choose, and private sums, whose regret
is the price of something that no other policy offers."""

CONTEXTUAL = (
    "local-sums*lin-ts", "tree-sums*lin-ts", "flooded-totals*lin-ts", "running-consensus*lin-ts",
    "flooded-totals*lin-ucb", "staged-mixing*lin-ucb",
)  # fmt: skip
"""Pairs that look at features, for scenarios that have some."""


@dataclass(frozen=True)
class Plan:
    """Which policies are played in which scenarios, how often, with which seed."""

    scenarios: tuple[Scenario, ...]
    policies: tuple[str, ...]
    runs: int
    seed: int

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that the scores are a function of, as plain data."""
        scenarios = [asdict(scenario) for scenario in self.scenarios]
        for scenario in scenarios:
            del scenario["probes"]
        return {**asdict(self), "scenarios": scenarios}

    def cells(self) -> dict[tuple[str, str], Cell]:
        """Return the cells to play, by scenario and policy."""
        found = {}
        for scenario in self.scenarios:
            problem = make_problem(scenario.name, scenario.problem)
            network = Network.from_spec(scenario.graph)
            faults = parse_faults(scenario.faults) if scenario.faults else PERFECT
            for spelling in self.policies:
                cell = Cell(
                    problem, network, matched(spelling, problem), scenario.horizon, self.runs,
                    self.seed, shuffle_arms=True, faults=faults,
                )  # fmt: skip
                if self.takes(cell):
                    found[scenario.name, spelling] = cell
        return found

    def common_cells(self) -> dict[tuple[str, str], Cell]:
        """Return the same cells at the common constant, of policies that may have it."""
        return {
            key: replace(cell, policy=policy)
            for key, cell in self.cells().items()
            if (policy := at_common(cell.policy)) is not None
        }

    def takes(self, cell: Cell) -> bool:
        """Return whether a cell is played.

        Policies that look at features are played where there are some. Under faults, policies that
        only the reference engine plays are left out: with them a leaderboard would take days.
        """
        if cell.policy.takes_context and not cell.problem.num_features:
            return False
        return not cell.faults or plays_fast(cell)


def plays_fast(cell: Cell) -> bool:
    """Return whether an engine other than the reference plays a cell on any machine."""
    task = Task(cell.setup, cell.policy)
    modules = [module for name, module in ENGINES if name not in (GPU, REFERENCE)]
    return any(import_module(module).ENGINE.obstacle(task) is None for module in modules)


def usual_policies() -> list[str]:
    """Return the spellings in `POLICIES` that take part unasked."""
    return [text for text in POLICIES if parse_policy(text).name not in UNASKED]


def at_common(policy: AnyPolicy) -> AnyPolicy | None:
    """Return a policy at the common constant; None without a bonus, or where it needs more."""
    try:
        return None if policy.bonus_constant is None else policy.with_constant(COMMON)
    except InputError:  # coop-UCB needs more than 2
        return None


def matched(spelling: str, problem: Problem) -> AnyPolicy:
    """Return the policy as it suits the problem.

    It gets a model per arm where all arms have the same features, unless the spelling names
    `disjoint`.
    """
    policy = parse_policy(spelling)
    if not (policy.takes_context and problem.one_context) or _names_disjoint(spelling):
        return policy
    parts: Any = policy.parts  # there are some, or it would not look at features
    disjoint: AnyPolicy = combine(parts.aggregation, replace(parts.index, disjoint=True))
    return disjoint


def _names_disjoint(spelling: str) -> bool:
    return re.search(r"\bdisjoint\s*=", spelling) is not None


def make_plan(
    scenarios: Sequence[str] = (),
    policies: Sequence[str] = (),
    runs: int = 20,
    seed: int = 0,
    horizon: int | None = None,
) -> Plan:
    """Choose from the suite.

    Parameters
    ----------
    scenarios, policies : sequence of str
        Names and spellings; by default all. A scenario of one's own is written problem@graph.
        Yardsticks are always played.
    runs, seed : int
        As in `simulate`.
    horizon : int, optional
        Overrides the horizons of the scenarios.
    """
    require_count("runs", runs)
    require_count("seed", seed, least=0)
    chosen = _scenarios(scenarios)
    if horizon is not None:
        require_count("horizon", horizon)
        chosen = [replace(scenario, horizon=horizon) for scenario in chosen]
    return Plan(tuple(chosen), _policies(policies, chosen), runs, seed)


def _scenarios(names: Sequence[str]) -> list[Scenario]:
    known = {scenario.name: scenario for scenario in SCENARIOS}
    own = []
    for name in names:
        problem, at, graph = name.rpartition("@")
        if at:
            own.append(Scenario(name, graph, problem, OWN_HORIZON, "A scenario of your own."))
        elif name not in known:
            raise unknown_name("scenario", name, known)
    chosen = [scenario for scenario in SCENARIOS if not names or scenario.name in names]
    return [*chosen, *dict.fromkeys(own)]


def _policies(texts: Sequence[str], scenarios: Sequence[Scenario]) -> tuple[str, ...]:
    yardsticks = [scenario.yardstick for scenario in scenarios]
    has_features = any(scenario.in_context for scenario in scenarios)
    informed = CONTEXTUAL if has_features else ()
    spellings = [_spelled(text) for text in texts] or [*usual_policies(), *informed]
    for spelling in spellings:
        if spellings.count(spelling) > 1:
            raise InputError(f"policy {spelling} was given twice; give each once")
        if not has_features and parse_policy(spelling).takes_context:
            raise InputError(
                f"policy {spelling} looks at features, and none of the scenarios has any; add one "
                "that does, such as linear"
            )
    return tuple(dict.fromkeys([*spellings, *yardsticks]))


def _spelled(text: str) -> str:
    """Return the spelling of a policy; as it was given where a wish would be lost as a default."""
    spelling = parse_policy(text).spelling
    is_kept = _names_disjoint(spelling) == _names_disjoint(text)
    return spelling if is_kept else "".join(text.split())
