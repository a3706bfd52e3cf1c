"""DDUCB: decentralised delayed upper confidence bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import ClassVar, Self

from coopbandits.core.aggregate import StagedMixing
from coopbandits.core.checks import require_number, require_positive
from coopbandits.core.index import UCB
from coopbandits.core.policy import Parts, Policy


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
    discount : float
        γ, what a pull counts in every round compared with the one before; 1 for ever the same. It
        must reach back two stages, 1/(1 − γ) ≥ 2E.

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
    discount: float = 1.0
    name: ClassVar[str] = "dducb"

    def __post_init__(self) -> None:
        require_number("eta", self.eta, "a finite number larger than 1", 1.0, math.inf)
        limit = (self.eta - 1) / (7 * (self.eta + 1))
        accepted = (
            f"strictly between 0 and (eta − 1)/(7(eta + 1)), which is {limit:.6g} "
            f"at eta = {self.eta:g}"
        )
        require_number("epsilon", self.epsilon, accepted, 0.0, limit)
        require_positive("bonus_factor", self.bonus_factor)
        super().__post_init__()

    @property
    def parts(self) -> Parts:
        return Parts(self._aggregation, UCB(self.bonus_constant))

    @property
    def _aggregation(self) -> StagedMixing:
        shared = {field.name: getattr(self, field.name) for field in fields(StagedMixing)}
        return StagedMixing(**shared)

    @property
    def finds_out(self) -> bool:
        return self._aggregation.finds_out

    @property
    def bonus_constant(self) -> float:
        """B, the constant of the bonus sqrt(B σ² ln s / n)."""
        return self.bonus_factor * self.eta

    def with_constant(self, constant: float) -> Self:
        """B = bonus_factor·η; η stays, since the analysis has it elsewhere, too."""
        return replace(self, bonus_factor=constant / self.eta)

    def mixing_steps(self, num_agents: int | None, lambda_bound: float | None) -> int:
        return self._aggregation.mixing_steps(num_agents, lambda_bound)

    def known_lambda(self, told: float | None) -> float:
        return self._aggregation.known_lambda(told)
