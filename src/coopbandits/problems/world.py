"""Worlds: a problem that drifts, differs between sites, or offers some agents some arms only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.errors import InputError
from coopbandits.problems.arm_subsets import Subsets, make_subsets
from coopbandits.problems.own import Reward
from coopbandits.problems.problem import Problem, Variate
from coopbandits.problems.rewards import RewardForm
from coopbandits.problems.segments import Drift, make_drift
from coopbandits.problems.site_groups import Sites, make_sites
from coopbandits.problems.tables import Blocks, Tables, stack

NO_SINGLE = ("means", "gaps", "best_arm", "sigma")
"""What a plain problem has once, and a world once per group and segment."""


@dataclass(frozen=True)
class Changes:
    """What makes a world of a problem; None where there is no such change."""

    drift: Drift | None = None
    sites: Sites | None = None
    subsets: Subsets | None = None


class World(Problem):
    """A problem under changes; made by `drift`, `sites` and `subsets`, in any order.

    First the sites differ, then all of them drift. Means depend on agent and round, and
    `reward_tables` has them all.

    Attributes
    ----------
    base : Problem
        The plain problem.
    changes : Changes
        Its drift, sites and subsets.
    """

    def __init__(self, base: Problem, changes: Changes) -> None:
        # Not the base class's: there are neither one mean nor one σ per arm.
        self.base, self.changes = base, changes
        self.num_arms, self.arm_names = base.num_arms, base.arm_names
        if all(each and each.has_problems for each in (changes.drift, changes.sites)):
            raise InputError(
                "segments and groups are both given as problems, which cannot be added up; give "
                "means for one of them"
            )

    def __getattr__(self, name: str) -> NoReturn:
        if name in NO_SINGLE:
            raise _no_single(name)
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    @property
    def family(self) -> str:  # type: ignore[override]  # that of the base, which only an instance knows
        """The family that suits the plain problem."""
        return self.base.family

    @property
    def names_agents(self) -> bool:
        """Whether sites or subsets are told by names of agents, and not by their numbers."""
        changes = (self.changes.sites, self.changes.subsets)
        return any(change is not None and change.names_agents for change in changes)

    @property
    def num_features(self) -> int:
        """How many features arms have."""
        return self.base.num_features

    @property
    def one_context(self) -> bool:
        """Whether all arms have the same features."""
        return self.base.one_context

    @property
    def variate(self) -> Variate:
        """What the tape must hold."""
        return self.base.variate

    def kernel_form(self) -> RewardForm:
        """Return the kind of rewards, with the plain problem's table; see `reward_tables`."""
        return self.base.kernel_form()

    def reward_function(self) -> Reward | None:
        """Return the plain problem's function, which reads the rows of all tables."""
        return self.base.reward_function()

    def paid(
        self, table: NDArray[np.float64], rows: NDArray[Any], variates: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Return the reward of every pull, of these rows of a table."""
        return self.base.paid(table, rows, variates)

    def payer(self, table: NDArray[np.float64] | None = None) -> Callable[[int, float], float]:
        """Return what a pull pays, as a function of a table's row and the variate."""
        return self.base.payer(table)

    @property
    def bounds(self) -> NoReturn:
        """Refuse: those of all groups and segments are in `reward_tables`."""
        raise _no_single("bounds")

    def _check_pulls(self, arms: NDArray[Any], variates: NDArray[np.float64]) -> None:
        del arms, variates
        raise _no_single("reward of a pull")

    def reward_tables(self, agents: Sequence[Any]) -> Tables:
        """Return all rewards and means, for agents with these labels."""
        drift, sites, subsets = self.changes.drift, self.changes.sites, self.changes.subsets
        problems, group = [self.base], np.zeros(len(agents), dtype=np.int64)
        if sites:
            problems, group = sites.blocks(self.base, agents)
        allowed = None
        if subsets:
            masks = np.column_stack([group, subsets.masks(agents, self.num_arms)])
            kinds, group = np.unique(masks, axis=0, return_inverse=True)
            problems, allowed = [problems[kind] for kind in kinds[:, 0]], kinds[:, 1:].astype(bool)
        starts, period = (drift.starts, drift.period) if drift else ((0,), 0)
        blocks = [drift.over(block, self.base) if drift else [block] for block in problems]
        whole = stack(Blocks(blocks, group.reshape(-1).astype(np.int64), starts, period, allowed))
        self._check_extremes(whole)
        return whole

    def _check_extremes(self, tables: Tables) -> None:
        """Try a function of one's own where means are smallest and where they are largest."""
        means, rows = (each.reshape(-1, *each.shape[2:]) for each in (tables.means, tables.rows))
        for at in {int(means.min(axis=1).argmin()), int(means.max(axis=1).argmax())}:
            self.base.check_rows(rows[at], means[at])

    def describe(self) -> dict[str, Any]:
        """Return the plain problem's settings, and those of the changes."""
        return {**self.base.describe(), **{k: v.describe() for k, v in self._given().items()}}

    def _given(self) -> dict[str, Drift | Sites | Subsets]:
        every = {name: getattr(self.changes, name) for name in ("drift", "sites", "subsets")}
        return {name: change for name, change in every.items() if change is not None}

    def __hash__(self) -> int:
        return hash((type(self), hash(self.base)))

    def __repr__(self) -> str:
        changes = "; ".join(f"{name}: {change}" for name, change in self._given().items())
        return f"{self.base!r} with {changes}"


def _no_single(what: str) -> InputError:
    return InputError(
        f"a world has no single {what}, since rewards differ between agents or rounds; take the "
        "plain problem, world.base, or ask world.reward_tables(network.labels)"
    )


def drift(
    problem: Problem,
    steps: Mapping[int, Any] | Sequence[tuple[int, Any]] | None = None,
    *,
    ramp: tuple[int, int, Any] | None = None,
    switch_every: int | None = None,
    replay: int | None = None,
    period: int | None = None,
    pieces: int | None = None,
) -> World:
    """Return a problem whose rewards change with time.

    Parameters
    ----------
    problem : Problem
        What holds at first.
    steps : dict or list of pairs, optional
        After how many rounds there are which means, or which problem of the same kind. Where
        rewards depend on features, θ stands in the place of means here and below.
    ramp : (begin, end, means), optional
        Means go in a straight line from the problem's to these, between two rounds, in `pieces`
        segments (20 by default) that have the means of their middle.
    switch_every : int, optional
        After every so many rounds each arm pays what the arm before it has paid, so that the best
        arm moves on by one place; the first arm follows the last.
    replay : int, optional
        Rounds over which the time of a `LoggedBandit` is stretched, in `pieces` segments (20 by
        default) that draw from the rewards of their part of the log; the last one lasts.
    period : int, optional
        After so many rounds the steps or the ramp begin anew.

    Examples
    --------
    >>> from coopbandits import BernoulliBandit
    >>> drift(BernoulliBandit([0.5, 0.4]), {1000: [0.4, 0.5]})
    BernoulliBandit(means=[0.5, 0.4], sigma=0.5) with drift: 2 segments
    """
    given = {"steps": steps, "ramp": ramp, "switch_every": switch_every, "replay": replay,
             "period": period, "pieces": pieces}  # fmt: skip
    return _changed(problem, "drift", lambda base: make_drift(base, given))


def sites(
    problem: Problem,
    spread: float | None = None,
    *,
    seed: int = 0,
    groups: Sequence[Any] | Mapping[str, Any] | None = None,
    of: Sequence[Any] | Mapping[Any, Any] | None = None,
) -> World:
    """Return a problem whose means differ between agents.

    Parameters
    ----------
    problem : Problem
        What all have in common.
    spread : float, optional
        τ: every mean of every agent is moved by τ times a standard normal number, the same in all
        runs; probabilities end at 0 and 1.
    seed : int
        The seed of these numbers.
    groups : list or dict, optional
        Means, or a problem of the same kind, of every group of agents; a dict names the groups.
    of : list or dict, optional
        The group of every agent, by number or by name; agents join the groups in turn unless given.

    Examples
    --------
    >>> from coopbandits import GaussianBandit
    >>> sites(GaussianBandit([1.0, 0.8]), 0.1, seed=3)
    GaussianBandit(means=[1.0, 0.8], sigma=1.0) with sites: spread 0.1, seed 3
    """
    given = {"spread": spread, "seed": seed, "groups": groups, "of": of}
    return _changed(problem, "sites", lambda base: make_sites(base, given))


def subsets(problem: Problem, allowed: Sequence[Sequence[Any]] | Mapping[Any, Any]) -> World:
    """Return a problem of which every agent may play some arms only.

    Parameters
    ----------
    problem : Problem
        The arms.
    allowed : list of lists, or dict
        Subsets of arms, by number or name, which agents take in turn; or the arms of every agent by
        its name or number, and those left out may play all.

    Examples
    --------
    >>> from coopbandits import GaussianBandit
    >>> subsets(GaussianBandit([1.0, 0.8, 0.5]), [[0, 1], [1, 2]])
    GaussianBandit(means=[1.0, 0.8, 0.5], sigma=1.0) with subsets: 2 subsets of arms
    """
    return _changed(problem, "subsets", lambda base: make_subsets(base, allowed))


def _changed(problem: Problem, name: str, make: Callable[[Problem], Any]) -> World:
    if not isinstance(problem, Problem):
        raise InputError(f"problem is {problem!r}; give one such as cb.GaussianBandit([1, 0])")
    base, changes = (
        (problem.base, problem.changes) if isinstance(problem, World) else (problem, Changes())
    )
    if getattr(changes, name) is not None:
        raise InputError(f"the world has {name} already; give all of them in one call")
    return World(base, replace(changes, **{name: make(base)}))
