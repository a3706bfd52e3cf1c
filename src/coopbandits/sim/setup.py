"""The setup that policies are compared in: world, runs, stopping rule, and what is recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.aggregate.neighborhood import LEAST_DEGREE
from coopbandits.core.checks import require_count, require_flag, require_number
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.core.index import UNIT_REWARDS
from coopbandits.core.index.trial import try_index
from coopbandits.core.policy import AnyPolicy, Parts
from coopbandits.core.recommend import CONFIDENCE, require_certain, require_confidence
from coopbandits.core.spelling import is_ours, spell
from coopbandits.network import Faults, Network, parse_faults
from coopbandits.network.faults import PERFECT
from coopbandits.problems import Problem, Tables, parse_problem
from coopbandits.sim.clocks import Clocks, parse_clocks
from coopbandits.theory.epsilon_c import epsilon_c

CURVE_POINTS = 200
MOST_POINTS = 10**8
"""Points of a curve, which all lie in memory."""
MOST_ROUNDS = 10**15
"""More than anybody can wait for, and far from where 64-bit numbers end."""

PRECISIONS = ("float64", "float32")
"""What agents compute with; single precision is the GPU engine's alone."""

TELLING = 1e-6
"""Means must differ by so much of their size above 1: indices tie where they differ by 1e-9."""

ROUNDING = 8 * float(np.finfo(np.float64).eps)
"""Means that differ by no more of their size are equal but for rounding."""

COUNTS = {"horizon": 1, "runs": 1, "seed": 0}
"""Settings that are whole numbers, and their least values."""

KEPT = ("agents", "curves", "arms", "watch")
KEPT_WORDS = {"curves": "curves of single agents", "arms": "single arms", "watch": "frames"}


@dataclass(frozen=True, eq=False)
class Setup:
    """Everything that a simulation is a function of, except the policy; bad settings are refused.

    Attributes
    ----------
    problem, network : Problem, Network
        The world beyond and between the agents.
    horizon : int
        T, rounds.
    rounds : array of int
        The rounds after which totals are recorded, as `recorded_rounds` returns them.
    runs, seed : int
        Independent repetitions, and the seed they all follow from.
    keep : {"", "agents", "curves", "arms", "watch"}
        Whether to keep pulls per agent, their regret as curves, or every single arm as well; or
        pulls per agent and the first run in frames, for `coopbandits dashboard`.
    shuffle_arms : bool
        Whether the arms are shuffled in every run.
    faults : Faults
        What goes wrong between agents.
    clocks : Clocks or None
        When agents pull and gossip; None for common rounds.
    stop : Stop or None
        Whether to record when agents could have stopped, and what they would recommend.
    precision : {"float64", "float32"}
        What agents compute with.
    """

    problem: Problem
    network: Network
    horizon: int
    rounds: NDArray[np.int64]
    runs: int = 1
    seed: int = 0
    keep: str = ""
    shuffle_arms: bool = False
    faults: Faults = PERFECT
    clocks: Clocks | None = None
    stop: Stop | None = None
    precision: str = PRECISIONS[0]

    def __post_init__(self) -> None:
        require_world(self.problem, self.network)
        for name, least in COUNTS.items():
            require_count(name, getattr(self, name), least)
            # Settings are stored as JSON, which numpy's integers cannot be.
            object.__setattr__(self, name, int(getattr(self, name)))
        if self.keep not in ("", *KEPT):
            raise unknown_name("value of keep", str(self.keep), KEPT)
        require_flag("shuffle_arms", self.shuffle_arms)
        if self.precision not in PRECISIONS:
            raise unknown_name("precision", str(self.precision), PRECISIONS)
        if not np.array_equal(self.rounds, recorded_rounds(self.horizon, self.rounds)):
            raise InputError(
                f"rounds must ascend and end with the horizon {self.horizon}; got {self.rounds}"
            )
        self._check_conditions()

    @cached_property
    def tables(self) -> Tables:
        """Rewards and means of all agents and rounds."""
        return self.problem.reward_tables(self.network.labels)

    @property
    def family(self) -> str:
        """The family of rewards that policies with family "auto" are suited to.

        The problem's, unless drift or sites move rewards out of [0, 1].
        """
        least, most = self.tables.bounds or UNIT_REWARDS
        is_unit = UNIT_REWARDS[0] <= least and most <= UNIT_REWARDS[1]
        return self.problem.family if is_unit else "gaussian"

    @property
    def sees_sites(self) -> bool:
        """Whether it is measured how much sites differ: they may, and single arms are at hand."""
        groups, segments = self.tables.means.shape[:2]
        if self.tables.in_context:  # what differs between sites is no mean
            return False
        return self.keep in ("curves", "arms", "watch") and groups > 1 and segments == 1

    def _check_conditions(self) -> None:
        """Reject worlds, faults and clocks that contradict the other settings."""
        _ = self.tables  # refuses groups and subsets that do not fit the agents
        if not self.tables.in_context:
            self._check_scale(self.tables.means)
        if self.stop is not None and not self.tables.is_one:
            why = "rewards drift or differ between agents: there is no one best arm to be sure of"
            if self.problem.num_features:
                why = (
                    "rewards depend on features: every context has a best arm of its own, and "
                    "bounds on the means of arms hold for none of them"
                )
            raise InputError(f"stop is given, but {why}; leave stop out, or play the plain problem")
        if self.stop is not None and self.clocks is not None:
            raise InputError(
                "stop is counted in rounds, and with clocks there are none; leave one of them out"
            )
        if self.faults:
            self.faults.schedule(self.network, self.seed, 0)  # refuses graphs that do not fit
        if self.clocks is None:
            return
        others = [kind for kind in self.faults.kinds if kind.loss_without_rounds is None]
        if others:
            raise InputError(
                f"fault {others[0].full_name()} is defined in rounds, and with clocks there are "
                "none; of faults only loss goes with clocks"
            )
        if self.keep in KEPT_WORDS:
            raise InputError(
                f"{KEPT_WORDS[self.keep]} cannot be kept with clocks, since agents pull unequally "
                "often; "
                'keep="agents" keeps the pulls of every agent'
            )

    def _check_scale(self, means: NDArray[np.float64]) -> None:
        """Refuse rewards in units in which all arms are equal to `core.choice.best_arm`.

        A difference that rounding can have made is none; in a world some site or segment may have
        a small one by chance.
        """
        largest = float(np.abs(means).max())
        gaps = means.max(axis=-1, keepdims=True) - means
        told = np.where(gaps > ROUNDING * largest, gaps, np.inf).min(axis=-1)
        least = TELLING * max(1.0, largest)
        if (told < least).all():
            raise InputError(
                f"the means of two arms of {type(self.problem).__name__} differ by "
                f"{told.min():.3g}, which at their size is as good as a tie; rescale your rewards, "
                f"or take off what all have in common, so that they differ by {least:.3g} or more"
            )

    def check_policy(self, policy: AnyPolicy) -> None:
        """Reject a policy that cannot be played in this setup."""
        size = self.network.num_agents
        for agent in sorted(policy.named_agents):
            if agent >= size:
                raise InputError(
                    f"policy {policy.spelling} names agent {agent}; agents are numbered 0 to "
                    f"{size - 1} here"
                )
        for member in policy.members:
            self._check_member(member)
        for each in (policy, *policy.members):
            self._check_support(each)
        if self.stop is not None:
            require_certain(
                f"policy {policy.spelling}", policy.parts if policy.plays_parts else None
            )
        if self.clocks and policy.needs_common_round:
            raise InputError(
                f"policy {policy.spelling} needs rounds that all agents count together, and with "
                "clocks there are none; leave clocks out, or take a policy without such a need"
            )

    def _check_member(self, policy: AnyPolicy) -> None:
        self._check_features(policy)
        parts = policy.parts
        # An aggregation of one's own may tell an index more than the statistic does.
        if parts and is_ours(parts.aggregation) and not is_ours(parts.index):
            self.try_index(parts)

    def try_index(self, parts: Parts) -> bool:
        """Reject an index that fails in plain Python; return whether it can be compiled."""
        problem, needs = self.problem, parts.needs
        view = self.network.local_view(
            0,
            num_arms=problem.num_arms,
            sigma=self.tables.sigma,
            needs=needs,
            global_knowledge=global_knowledge(self.network, needs)[0],
        )
        registers = parts.registers(problem.num_arms, problem.num_features)
        return try_index(parts.index, parts.index.numbers(view), registers)

    def _check_support(self, policy: AnyPolicy) -> None:
        """Reject rewards outside the policy's support; a problem need not know its bounds."""
        low, high = policy.support
        least, most = self.tables.bounds or policy.support
        if not low <= least <= most <= high:
            raise InputError(
                f"policy {policy.spelling} is for rewards in [{low:g}, {high:g}], and those of "
                f"{type(self.problem).__name__} go from {least:g} to {most:g}; rescale the "
                "rewards, or choose an index or a family for any rewards"
            )

    def _check_features(self, policy: AnyPolicy) -> None:
        if not policy.takes_context:
            return
        if not self.problem.num_features:
            raise InputError(
                f"policy {policy.spelling} looks at features, and {type(self.problem).__name__} "
                "has none; give it a problem such as cb.LinearBandit"
            )
        registers = policy.parts and policy.parts.registers(
            self.problem.num_arms, self.problem.num_features
        )
        if registers and self.problem.one_context and not registers.one_context:
            raise InputError(
                f"policy {policy.spelling} has one model for all arms, which here have the same "
                "features; take an index with a model per arm, such as lin-ts:disjoint=true"
            )


def recorded_rounds(
    horizon: int, rounds: int | Sequence[int] | NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Return the rounds to record, ascending, the horizon included.

    `rounds` lists them, or is a number of log-spaced ones.
    """
    require_count("horizon", horizon)
    if horizon > MOST_ROUNDS:
        raise InputError(f"horizon is {horizon:.3g}; it must be at most {MOST_ROUNDS:.0e} rounds")
    if rounds is None or not isinstance(rounds, Iterable):
        points = CURVE_POINTS if rounds is None else rounds
        require_count("rounds", points)
        if points > MOST_POINTS:
            raise InputError(
                f"rounds is {points:.3g}; it must be at most {MOST_POINTS:.0e} points of a curve, "
                "or a list of rounds"
            )
        wanted = np.rint(np.geomspace(1, horizon, points if points > 1 else 0)).astype(np.int64)
    else:
        wanted = np.asarray(rounds)
        whole = wanted.ndim == 1 and (wanted.dtype.kind in "iu" or wanted.size == 0)
        if not whole or not ((wanted >= 1) & (wanted <= horizon)).all():
            raise InputError(
                f"rounds must be whole numbers in 1 to {horizon} (the horizon); got {rounds}"
            )
    return np.unique(np.append(wanted, horizon)).astype(np.int64)


def read_world(problem: Any, network: Any) -> tuple[Problem, Network]:
    """Return a problem and a network, parsed where given as text."""
    if isinstance(problem, str):
        problem = parse_problem(problem)
    if isinstance(network, str):
        network = Network.from_spec(network)
    require_world(problem, network)
    return problem, network


def read_network(given: Any) -> Network:
    """Return a network, parsed if given as text."""
    network = Network.from_spec(given) if isinstance(given, str) else given
    _require_network(network)
    return network


def require_world(problem: Any, network: Any) -> None:
    """Check that these are a problem and a network."""
    if not isinstance(problem, Problem):
        raise InputError(f"problem is {problem!r}; give one such as cb.GaussianBandit([1, 0])")
    _require_network(network)


def _require_network(network: Any) -> None:
    if not isinstance(network, Network):
        raise InputError(f"network is {network!r}; wrap a graph as cb.Network(graph)")


def read_conditions(faults: Any, clocks: Any) -> tuple[Faults, Clocks | None]:
    """Return faults and clocks, parsed where given as text."""
    if isinstance(faults, str):
        faults = parse_faults(faults)
    if isinstance(clocks, str):
        clocks = parse_clocks(clocks)
    if not isinstance(faults, Faults | None):
        raise InputError(f"faults is {faults!r}; give a text such as 'loss=0.3', or cb.Faults(…)")
    if not isinstance(clocks, Clocks | None):
        raise InputError(f"clocks is {clocks!r}; give a text such as 'poisson:ratio=10'")
    return faults or PERFECT, clocks


@dataclass(frozen=True)
class Stop:
    """Stop as soon as an agent knows the best arm, or one nearly as good.

    Parameters
    ----------
    confidence : float
        With which probability an agent shall be right.
    within : float
        How far the mean of what it recommends may be below the best one.
    """

    confidence: float = CONFIDENCE
    within: float = 0.0

    def __post_init__(self) -> None:
        require_confidence(self.confidence)
        require_number("within", self.within, "a number from 0 on", -1e-300, float("inf"))

    @property
    def spelling(self) -> str:
        """As on the command line: ``0.95``, or ``0.95,within=0.1``."""
        within = f",within={spell(self.within)}" if self.within else ""
        return spell(self.confidence) + within


def read_stop(given: Any) -> Stop | None:
    """Return a rule that may be given as a confidence or as text; None for none."""
    if given is None or given == "none":
        return None
    if isinstance(given, Stop):
        return given
    if not isinstance(given, str):
        return Stop(given)
    confidence, comma, rest = given.partition(",")
    name, equals, within = rest.partition("=")
    try:
        if comma and (name.strip(), equals) != ("within", "="):
            raise ValueError
        return Stop(float(confidence), float(within) if comma else 0.0)
    except ValueError:
        raise InputError(
            f"stop is {given!r}; give a confidence such as 0.95, or 0.95,within=0.1"
        ) from None


SOURCES: dict[str, Callable[[Network], NDArray[np.float64]]] = {
    "epsilon_c:closed": epsilon_c,
    "epsilon_c:landgren": lambda network: epsilon_c(network, form="landgren"),
    LEAST_DEGREE: lambda network: np.full(network.num_agents, float(network.degrees.min())),
}
"""Name → one number per agent."""

_found: WeakKeyDictionary[Network, dict[str, NDArray[np.float64]]] = WeakKeyDictionary()
"""What has been computed already, once per network."""

LOCAL = frozenset({"num_agents", "lambda_bound", "random_word", "secret"})
"""Needs that take no global knowledge: the driver fills them in."""


def global_knowledge(network: Network, needs: Iterable[str]) -> list[dict[str, float]]:
    """Return the global knowledge of every agent, by name."""
    known: list[dict[str, float]] = [{} for _ in range(network.num_agents)]
    for need in sorted(set(needs) - LOCAL):
        if need not in SOURCES:
            raise unknown_name("kind of global knowledge", need, SOURCES)
        found = _found.setdefault(network, {})
        if need not in found:
            found[need] = SOURCES[need](network)
        for own, value in zip(known, found[need], strict=True):
            own[need] = float(value)
    return known
