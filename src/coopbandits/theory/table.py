"""All bounds of one setting, side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from coopbandits.core.errors import InputError
from coopbandits.core.spelling import Named
from coopbandits.network import Network
from coopbandits.problems import Problem
from coopbandits.theory.coop_ucb import coop_ucb_bound, require_gamma
from coopbandits.theory.dducb import (
    asymptotic_shape,
    finite_time_bound,
    instance_independent_shape,
    sharper_finite_time_bound,
)
from coopbandits.theory.references import (
    is_vacuous,
    lai_robbins,
    lower_bound_shape,
    worst_arm_regret,
)

Kind: TypeAlias = Literal["upper bound", "lower bound", "shape", "regret"]


@dataclass(frozen=True)
class BoundRow:
    """One number of the table.

    Attributes
    ----------
    name : str
        What it is.
    kind : {"upper bound", "lower bound", "shape", "regret"}
        A shape has no constants and bounds nothing.
    value : float or None
        Regret of the whole network; None where the bound does not cover the setting.
    assumptions : str
        What it is proven for.
    vacuous : bool or None
        Whether even always playing the worst arm stays below it; None unless an upper bound.
    refusal : str or None
        Why there is no value.
    """

    name: str
    kind: Kind
    value: float | None
    assumptions: str
    vacuous: bool | None
    refusal: str | None = None


class _Entry(NamedTuple):
    name: str
    kind: Kind
    assumptions: str
    function: Callable[[Problem, Network, Named, int], float]


_PROVEN = "DDUCB, bonus_factor=4, own_pulls and variants off, E ≥ C, λ bound ≥ λ"
_CLAIMED = "DDUCB, bonus_factor=4, remix off; constants left out"

_ENTRIES = (
    _Entry("finite-time bound", "upper bound", _PROVEN, finite_time_bound),
    _Entry("sharper finite-time bound", "upper bound", _PROVEN, sharper_finite_time_bound),
    _Entry("asymptotic shape", "shape", _CLAIMED, asymptotic_shape),
    _Entry("instance-independent shape", "shape", _CLAIMED, instance_independent_shape),
)

_REFERENCES = (
    _Entry(
        "Lai–Robbins lower bound",
        "lower bound",
        "normal rewards, any consistent policy, T → ∞",
        lambda problem, network, _, horizon: lai_robbins(problem, network, horizon),
    ),
    _Entry(
        "lower-bound shape",
        "shape",
        "any policy asymptotically optimal in T, N and K; constants left out",
        lambda problem, network, _, horizon: lower_bound_shape(problem, network, horizon),
    ),
    _Entry(
        "always the worst arm",
        "regret",
        "none",
        lambda problem, network, _, horizon: worst_arm_regret(problem, network, horizon),
    ),
)


def table(
    problem: Problem, network: Network, policy: Named, horizon: int, *, gamma: float = 2.0
) -> list[BoundRow]:
    """Return every bound at horizon T; those that do not cover the setting say why.

    Parameters
    ----------
    problem, network : Problem, Network
        Arms and agents.
    policy : policy
        DDUCB; `as_analysed(policy)` has values in all rows.
    horizon : int
        T.
    gamma : float
        γ of coop-UCB, whose bound is listed for comparison (closed form of ε_c).
    """
    # Checked up front, so that a bad argument is an error and not a row without a value.
    require_gamma(gamma)
    worst_arm_regret(problem, network, horizon)
    entries = (*_ENTRIES, _coop_ucb(gamma), *_REFERENCES)
    return [_row(entry, problem, network, policy, horizon) for entry in entries]


def _coop_ucb(gamma: float) -> _Entry:
    return _Entry(
        f"coop-UCB bound, γ = {gamma:g}",
        "upper bound",
        "coop-UCB with a bonus proportional to sqrt(6 ln(tN)), not as published",
        lambda problem, network, _, horizon: coop_ucb_bound(problem, network, gamma, horizon),
    )


def _row(
    entry: _Entry, problem: Problem, network: Network, policy: Named, horizon: int
) -> BoundRow:
    try:
        value = entry.function(problem, network, policy, horizon)
    except InputError as error:
        return BoundRow(entry.name, entry.kind, None, entry.assumptions, None, str(error))
    vacuous = None
    if entry.kind == "upper bound":
        vacuous = is_vacuous(value, problem, network, horizon)
    return BoundRow(entry.name, entry.kind, value, entry.assumptions, vacuous)
