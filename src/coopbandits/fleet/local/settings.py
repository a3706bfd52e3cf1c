"""Settings of a local fleet: graph, arms, policy, duration, and injected faults."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from coopbandits.core.checks import require_count
from coopbandits.core.errors import InputError
from coopbandits.core.index import ANY_REWARDS
from coopbandits.core.registry import parse_policy
from coopbandits.fleet.config.bandits import read_policy
from coopbandits.fleet.config.eligibility import require_blind
from coopbandits.fleet.config.values import Rate, read_value
from coopbandits.network import Network
from coopbandits.problems import BernoulliBandit, GaussianBandit, Problem, parse_means

MOST_AGENTS = 64
"""Each agent is a process of about 50 MB."""

MOST_PULLS = 1000.0
"""The most pulls per second that agents accept of each other; see `ClusterConfig`."""

UNITS = {"": 1.0, "s": 1.0, "ms": 0.001, "min": 60.0}
DURATION = re.compile(r"(?P<number>\d+\.?\d*|\.\d+)\s*(?P<unit>s|ms|min|)", re.ASCII)


@dataclass(frozen=True)
class Settings:
    """Settings of one run.

    Attributes
    ----------
    network : Network
        The graph, with Metropolis weights, which agents compute themselves.
    problem : Problem
        Generates the rewards.
    policy : str
        The spelling of a policy that can run in a fleet.
    seconds : float
        How long applications choose.
    rounds_per_second, pulls_per_second : float
        The pace of gossip, and of each application.
    seed : int
        Seed of rewards and faults. Agents draw their own random words, so arms differ every time.
    kill_every : float or None
        Seconds between two kills.
    pause, partition : float or None
        Seconds for which an agent is stopped, or a part of the network cut off.
    uvloop : bool
        Whether agents use uvloop.
    """

    network: Network
    problem: Problem
    policy: str = "flood-ts"
    seconds: float = 20.0
    rounds_per_second: float = 20.0
    pulls_per_second: float = 20.0
    seed: int = 0
    kill_every: float | None = None
    pause: float | None = None
    partition: float | None = None
    uvloop: bool = False

    def describe(self) -> dict[str, Any]:
        """Return the settings as plain data for JSON."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return plain | {"network": self.network.description, "problem": self.problem.describe()}


def make_settings(
    graph: str,
    means: str,
    *,
    sigma: float | None = None,
    policy: str = "flood-ts",
    rounds: int = 400,
    seconds: float | None = None,
    rounds_per_second: float = 20.0,
    pulls_per_second: float = 20.0,
    seed: int = 0,
    **trouble: Any,
) -> Settings:
    """Check the arguments of a command line and return settings.

    Without `seconds`, the duration follows from `rounds` and `rounds_per_second`. Arms pay 0 or 1
    with the given means; with `sigma` they are Gaussian.
    """
    problem = _problem(means, sigma)
    require_count("rounds", rounds, least=1)
    require_count("seed", seed, least=0)
    pace: float = read_value("rounds per second", rounds_per_second, Rate)
    pulls: float = read_value("pulls per second", pulls_per_second, Rate)
    if pulls > MOST_PULLS:
        raise InputError(
            f"pulls per second must be at most {MOST_PULLS:g}, which agents accept of each other, "
            f"got {pulls:g}"
        )
    network = _network(graph)
    if trouble.get("partition") is not None and network.num_agents < 2:
        raise InputError(
            f"graph {graph} has one agent, and a partition needs two; name a larger graph"
        )
    return Settings(
        network,
        problem,
        _policy(policy, problem),
        rounds / pace if seconds is None else seconds,
        pace,
        pulls,
        seed,
        **trouble,
    )


def _network(graph: str) -> Network:
    network = Network.from_spec(graph, weights="metropolis")
    if network.num_agents > MOST_AGENTS:
        raise InputError(
            f"graph {graph} has {network.num_agents} agents, and one machine runs at most "
            f"{MOST_AGENTS}, each a process of its own; simulate larger networks"
        )
    return network


def _problem(means: str, sigma: float | None) -> Problem:
    values = parse_means(means)
    if len(values) < 2:
        raise InputError(f"means {means} are of one arm; give two or more")
    if sigma is None and not all(0.0 <= value <= 1.0 for value in values):
        raise InputError(
            f"means {means} must be probabilities, in [0, 1]; change them, or make the arms "
            "Gaussian with --sigma"
        )
    return BernoulliBandit(values) if sigma is None else GaussianBandit(values, sigma)


def _policy(text: str, problem: Problem) -> str:
    policy: Any = parse_policy(read_policy("policy", text))
    require_blind("policy", policy)
    low, high = policy.support
    least, most = problem.bounds or ANY_REWARDS
    if not low <= least <= most <= high:
        raise InputError(
            f"policy {policy.spelling} is for rewards in [{low:g}, {high:g}], and with --sigma "
            "they are Gaussian; leave one of the two out"
        )
    spelling: str = policy.spelling
    return spelling


def parse_seconds(text: str) -> float:
    """Read a duration such as `2s`, `500ms`, `1.5min` or `1.5`, in seconds.

    Examples
    --------
    >>> parse_seconds("500ms")
    0.5
    """
    found = DURATION.fullmatch(text.strip())
    seconds = float(found["number"]) * UNITS[found["unit"]] if found else math.nan
    if not 0.0 < seconds <= 86400.0:
        raise InputError(
            f"duration must be positive and at most a day, got {text!r}; write 2s, 500ms or 1.5"
        )
    return seconds
