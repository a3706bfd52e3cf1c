"""DDUCB: decentralised delayed upper confidence bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from coopbandits.core.agent import CooperativeAgent, LocalView
from coopbandits.core.aggregate.staged import StagedMixing
from coopbandits.core.aggregate.surveyed import SurveyedMixing
from coopbandits.core.checks import (
    require_count,
    require_flag,
    require_lambda,
    require_number,
    require_positive,
)
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.core.index.ucb import ucb_index
from coopbandits.core.mixing import mixing_rounds
from coopbandits.core.policy import Policy

if TYPE_CHECKING:
    from coopbandits.core.agent import Agent


@dataclass(frozen=True)
class DDUCB(Policy):
    r"""Staged accelerated mixing × UCB (Martínez-Rubio, Kanade, Rebeschini, NeurIPS 2019).

    Every agent plays the arm with the largest

    .. math:: \frac{α^k}{a^k} + \sqrt{\frac{B σ^2 \ln s}{N a^k}}, \qquad B = \text{bonus\_factor}·η

    where α, a are reward sums and pull counts averaged over the network, at least one stage old,
    and s is the number of pulls behind them. A stage has C rounds, in which the pulls of the last
    stage are mixed until every weight lies within (1 ± ε)/N.

    Parameters
    ----------
    eta : float
        η > 1, exploration.
    epsilon : float
        ε, precision of the mixing; below (η − 1)/(7(η + 1)).
    bonus_factor : float
        B/η: 2 as in the paper's pseudocode and experiments, 4 as its theorem needs.
    accelerated : bool
        Chebyshev mixing; otherwise plain mixing, with its larger C.
    own_pulls : bool
        Read own pulls at once, with weight 1/N (the paper's recommended modification); otherwise
        one arm is played for a whole stage.
    neighbor_pulls : bool
        Send every pull to the neighbours too, which read it at once: 2K + 2 values per message.
    remix : bool
        Also mix the accumulated totals, one plain step every round: 4K values per message.
    values_per_message : int or None
        L, a budget of values per message; the stage becomes max(C, ⌈2KC/L⌉) rounds long.
    mixing_rounds : int or None
        The number of mixing steps in a stage instead of C.
    num_agents : int, (int, int), "estimate" or None
        N, or bounds on it, instead of what the network tells: C, s and the weight of a pull read
        at once use the upper bound, the bonus the lower one. With "estimate" the agents count
        themselves.
    lambda_bound : float, "estimate", "heuristic" or None
        An upper bound on λ instead of what the network tells. Values below the true λ are unsafe.
        With "estimate" the agents find a bound that holds for certain; with "heuristic" a tighter
        one that may fail.

    Notes
    -----
    Knows its row of P, N (or bounds) and a bound on λ. Sends 2K values to each neighbour and round
    after the K initial rounds, in which it pulls every arm once and stays silent. With estimates
    the agents spend their first rounds on finding N and λ, and go by their own pulls meanwhile.
    Over links that have lost a message, those that follow have one value more.

    *Differs from the paper*: the mixing step starts from y_0 and includes the own value (the
    printed one loses mass); exactly T pulls, initial ones included; B = 2η by default although the
    theorem is proven for 4η; a step is written as flows over links, which is the same and survives
    lost messages; ties go to the lowest arm within 1e-9; s is read off the counts,
    which is the same number and stays meaningful when pulls and rounds come apart.
    """

    eta: float = 2.0
    epsilon: float = 1 / 22
    bonus_factor: float = 2.0
    accelerated: bool = True
    own_pulls: bool = True
    neighbor_pulls: bool = False
    remix: bool = False
    values_per_message: int | None = None
    mixing_rounds: int | None = None
    num_agents: int | tuple[int, int] | str | None = None
    lambda_bound: float | str | None = None
    name: ClassVar[str] = "dducb"
    needs_common_round: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse settings outside what the algorithm is defined for."""
        _check_exploration(self)
        _check_combination(self)
        _check_words(self)
        if not isinstance(self.num_agents, str | None):
            _check_num_agents(self.num_agents)
        if not isinstance(self.lambda_bound, str | None):
            require_lambda("lambda_bound", self.lambda_bound)

    @property
    def estimates(self) -> bool:
        """Whether the agents find out N or λ by themselves."""
        return isinstance(self.num_agents, str) or isinstance(self.lambda_bound, str)

    @property
    def needs(self) -> frozenset[str]:
        """N and a bound on λ, unless the settings tell them or make them unnecessary."""
        wanted = set()
        if self.num_agents is None:
            wanted.add("num_agents")
        if self.lambda_bound is None and (self.accelerated or self.mixing_rounds is None):
            wanted.add("lambda_bound")
        if self.estimates:
            wanted.add("random_word")
        return frozenset(wanted)

    def make_agent(self, view: LocalView) -> Agent:
        """Return a fresh agent."""
        aggregation = self._surveyed(view) if self.estimates else self._staged(view)
        index = partial(ucb_index, scale=self.bonus_constant * view.sigma**2)
        return CooperativeAgent(view, aggregation, index, self.spelling)

    def _surveyed(self, view: LocalView) -> SurveyedMixing:
        """Return an aggregation that estimates what this policy wants to be estimated."""
        if self.lambda_bound == "estimate":
            _check_weights(view)

        def make_mixing(num_agents: int, bound: float) -> StagedMixing:
            agents = num_agents if self.num_agents == "estimate" else view.num_agents
            known = bound if isinstance(self.lambda_bound, str) else view.lambda_bound
            return self._staged(replace(view, num_agents=agents, lambda_bound=known))

        return SurveyedMixing(view, make_mixing, heuristic=self.lambda_bound == "heuristic")

    def _staged(self, view: LocalView) -> StagedMixing:
        """Return the staged mixing of an agent that knows N and a bound on λ."""
        return StagedMixing(
            view,
            num_agents=self._bounds(view.num_agents),
            steps=self.mixing_steps(view.num_agents, view.lambda_bound),
            lambda_bound=self.known_lambda(view.lambda_bound) if self.accelerated else 0.0,
            own_pulls=self.own_pulls,
            neighbor_pulls=self.neighbor_pulls,
            remix=self.remix,
            values_per_message=self.values_per_message,
        )

    @property
    def bonus_constant(self) -> float:
        """B, the constant of the bonus sqrt(B σ² ln s / n)."""
        return self.bonus_factor * self.eta

    def mixing_steps(self, num_agents: int | None, lambda_bound: float | None) -> int:
        """Return C: the setting, or what N (its upper bound) and λ ask for."""
        if self.mixing_rounds is not None:
            return self.mixing_rounds
        return mixing_rounds(
            self._bounds(num_agents)[1],
            self.known_lambda(lambda_bound),
            self.epsilon,
            accelerated=self.accelerated,
        )

    def _bounds(self, told: int | None) -> tuple[int, int]:
        """Return the bounds on N: the setting, or what was told."""
        given = told if isinstance(self.num_agents, str | None) else self.num_agents
        if given is None:
            raise InputError("DDUCB needs the number of agents; set num_agents or tell it")
        return given if isinstance(given, tuple) else (given, given)

    def known_lambda(self, told: float | None) -> float:
        """Return the bound on λ: the setting, or what was told."""
        given = told if isinstance(self.lambda_bound, str | None) else self.lambda_bound
        if given is None:
            raise InputError("DDUCB needs a bound on λ; set lambda_bound or tell it")
        require_lambda("lambda_bound", given)
        return given


def _check_exploration(policy: DDUCB) -> None:
    require_number("eta", policy.eta, "a finite number larger than 1", 1.0, math.inf)
    limit = (policy.eta - 1) / (7 * (policy.eta + 1))
    accepted = (
        f"strictly between 0 and (eta − 1)/(7(eta + 1)), which is {limit:.6g} "
        f"at eta = {policy.eta:g}"
    )
    require_number("epsilon", policy.epsilon, accepted, 0.0, limit)
    require_positive("bonus_factor", policy.bonus_factor)


def _check_combination(policy: DDUCB) -> None:
    for name in ("accelerated", "own_pulls", "neighbor_pulls", "remix"):
        require_flag(name, getattr(policy, name))
    for name in ("values_per_message", "mixing_rounds"):
        if getattr(policy, name) is not None:
            require_count(name, getattr(policy, name))
    if policy.neighbor_pulls and not policy.own_pulls:
        raise InputError(
            "neighbor_pulls=True implies own pulls, but own_pulls=False was set; leave own_pulls on"
        )
    if policy.values_per_message is not None and (policy.neighbor_pulls or policy.remix):
        raise InputError(
            f"values_per_message={policy.values_per_message} cannot be combined with "
            "neighbor_pulls or remix, which send more values; choose one of them"
        )


def _check_words(policy: DDUCB) -> None:
    for name, known in (
        ("num_agents", ("estimate",)),
        ("lambda_bound", ("estimate", "heuristic")),
    ):
        given = getattr(policy, name)
        if isinstance(given, str) and given not in known:
            raise unknown_name(f"way to find {name}", given, known)


def _check_weights(view: LocalView) -> None:
    """Refuse weights with which nothing can be guaranteed about λ."""
    weights = {"own value": view.own_weight}
    weights |= {f"neighbour {j}": weight for j, weight in view.neighbor_weights.items()}
    for whose, weight in weights.items():
        if weight <= 0.0:
            raise InputError(
                f"agent {view.agent_id} gives its {whose} the weight {weight:g}, with which no "
                'bound on λ is certain; make all weights positive, or set lambda_bound="heuristic"'
            )


def _check_num_agents(given: int | tuple[int, int]) -> None:
    bounds = given if isinstance(given, tuple) else (given, given)
    for bound in bounds:
        require_count("num_agents", bound)
    if len(bounds) != 2 or bounds[0] > bounds[1]:
        raise InputError(f"num_agents is {given}; give N, or bounds (low, high) with low ≤ high")
