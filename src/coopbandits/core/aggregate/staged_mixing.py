"""Staged mixing, the aggregation of DDUCB: whole stages of accelerated gossip."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from coopbandits.core.aggregate.aggregation import (
    MIXED,
    SYNCHRONOUS,
    Aggregation,
    Machine,
    MessageSize,
)
from coopbandits.core.aggregate.forgetting import check_forgetting
from coopbandits.core.aggregate.self_estimating import SelfEstimatingMachine
from coopbandits.core.aggregate.staged_machine import StagedMixingMachine
from coopbandits.core.checks import require_count, require_flag, require_lambda, require_number
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.core.mixing import mixing_rounds

if TYPE_CHECKING:
    from coopbandits.core.contract import LocalView
    from coopbandits.core.statistic import Registers


@dataclass(frozen=True)
class StagedMixing(Aggregation):
    """Delayed network averages: the pulls of one stage are mixed in the next (DDUCB).

    Parameters
    ----------
    epsilon : float
        ε, precision of the mixing: every weight lies within (1 ± ε)/N.
    accelerated : bool
        Chebyshev mixing; otherwise plain mixing, with its larger C.
    own_pulls : bool
        Read own pulls at once, with weight 1/N.
    neighbor_pulls : bool
        Send every pull to the neighbours too, which read it at once: 2 more values per message.
    remix : bool
        Also mix the accumulated totals, one plain step every round: twice the values per message.
    values_per_message : int or None
        L, a budget of values per message, which makes stages longer.
    mixing_rounds : int or None
        The number of mixing steps in a stage instead of C.
    num_agents : int, (int, int), "estimate" or None
        N, or bounds on it, instead of what the network tells; with "estimate" the agents count
        themselves.
    lambda_bound : float, "estimate", "heuristic" or None
        An upper bound on λ instead of what the network tells; with "estimate" the agents find a
        bound that holds for certain, with "heuristic" a tighter one that may fail.
    discount : float
        γ, what a pull counts in every round compared with the one before; 1 for ever the same. It
        must reach back two stages, 1/(1 − γ) ≥ 2E, or nothing is left of what is heard.

    Notes
    -----
    Knows its row of P, N (or bounds) and a bound on λ. Sends all registers to each neighbour and
    round after the K initial rounds, in which it stays silent. Over links that have lost a message,
    those that follow have one value more.
    """

    epsilon: float = 1 / 22
    accelerated: bool = True
    own_pulls: bool = True
    neighbor_pulls: bool = False
    remix: bool = False
    values_per_message: int | None = None
    mixing_rounds: int | None = None
    num_agents: int | tuple[int, int] | str | None = None
    lambda_bound: float | str | None = None
    discount: float = 1.0
    name: ClassVar[str] = "staged-mixing"
    mode: ClassVar[str] = SYNCHRONOUS
    needs_common_round: ClassVar[bool] = True
    shares: ClassVar[str] = MIXED
    checks_claims: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse settings outside what the aggregation is defined for."""
        require_number("epsilon", self.epsilon, "strictly between 0 and 1", 0.0, 1.0)
        check_forgetting(self.discount)
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

    @property
    def takes_context(self) -> bool:
        """Yes, unless single pulls are sent, which tell arm and reward."""
        return not self.neighbor_pulls

    def make(self, view: LocalView, registers: Registers) -> Machine:
        """Return the machine of one agent."""
        if not self.estimates:
            return self.make_staged(view, registers)
        if self.lambda_bound == "estimate":
            _check_weights(view)

        def make_mixing(num_agents: int, bound: float) -> StagedMixingMachine:
            agents = num_agents if self.num_agents == "estimate" else view.num_agents
            known = bound if isinstance(self.lambda_bound, str) else view.lambda_bound
            told = replace(view, num_agents=agents, lambda_bound=known)
            return self.make_staged(told, registers)

        heuristic = self.lambda_bound == "heuristic"
        decaying = registers.decaying(self.discount)
        return SelfEstimatingMachine(view, decaying, make_mixing, heuristic=heuristic)

    def make_staged(self, view: LocalView, registers: Registers) -> StagedMixingMachine:
        """Return the machine of an agent that knows N and a bound on λ."""
        machine = StagedMixingMachine(
            view,
            registers.decaying(self.discount),
            num_agents=self._bounds(view.num_agents),
            steps=self.mixing_steps(view.num_agents, view.lambda_bound),
            lambda_bound=self.known_lambda(view.lambda_bound) if self.accelerated else 0.0,
            own_pulls=self.own_pulls,
            neighbor_pulls=self.neighbor_pulls,
            remix=self.remix,
            values_per_message=self.values_per_message,
        )
        _check_memory(self.discount, machine.stage_rounds)
        return machine

    def stages(self, view: LocalView, registers: Registers) -> tuple[int, int] | None:
        """Return when the first stage of mixing ends, and how long all are."""
        if self.estimates:
            return None
        machine = self.make_staged(view, registers)
        return machine.initial_rounds + machine.stage_rounds, machine.stage_rounds

    def message_size(self, registers: Registers, max_agents: int) -> MessageSize:
        """Return the size usually, and while agents are counted or after losses."""
        usual = min(self.values_per_message or registers.size, registers.size)
        usual += registers.size * self.remix + 2 * self.neighbor_pulls
        if self.estimates:
            return MessageSize(usual, max(usual, max_agents + 4), "while agents are being counted")
        return MessageSize(usual, usual + 1, "after losses")

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
            raise InputError(f"{self.name} needs the number of agents; set num_agents or tell it")
        return given if isinstance(given, tuple) else (given, given)

    def known_lambda(self, told: float | None) -> float:
        """Return the bound on λ: the setting, or what was told."""
        given = told if isinstance(self.lambda_bound, str | None) else self.lambda_bound
        if given is None:
            raise InputError(f"{self.name} needs a bound on λ; set lambda_bound or tell it")
        require_lambda("lambda_bound", given)
        return given


def _check_combination(spec: StagedMixing) -> None:
    for name in ("accelerated", "own_pulls", "neighbor_pulls", "remix"):
        require_flag(name, getattr(spec, name))
    for name in ("values_per_message", "mixing_rounds"):
        if getattr(spec, name) is not None:
            require_count(name, getattr(spec, name))
    if spec.neighbor_pulls and not spec.own_pulls:
        raise InputError(
            "neighbor_pulls=True implies own pulls, but own_pulls=False was set; leave own_pulls on"
        )
    if spec.values_per_message is not None and (spec.neighbor_pulls or spec.remix):
        raise InputError(
            f"values_per_message={spec.values_per_message} cannot be combined with "
            "neighbor_pulls or remix, which send more values; choose one of them"
        )


def _check_memory(discount: float, stage: int) -> None:
    """Refuse a discount that leaves little of what is read a stage or two after it was pulled."""
    if (1.0 - discount) * 2 * stage > 1.0 + 1e-9:
        least, better = (math.ceil(1e6 * (1 - 1 / (part * stage))) / 1e6 for part in (2, 4))
        raise InputError(
            f"discount is {discount:g}, which remembers about {1 / (1 - discount):.3g} rounds and "
            f"forgets faster than it hears: stages here have {stage} rounds, and news takes two; "
            f"set at least {least:g}, better {better:g}"
        )


def _check_words(spec: StagedMixing) -> None:
    for name, known in (
        ("num_agents", ("estimate",)),
        ("lambda_bound", ("estimate", "heuristic")),
    ):
        given = getattr(spec, name)
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
