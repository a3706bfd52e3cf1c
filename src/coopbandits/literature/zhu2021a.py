"""Dec_UCB and Dec_KL-UCB: own confidence about means that are tracked together.

Zhu and Liu, "Decentralized multi-armed bandit can outperform classic upper confidence bound", 2021,
2023. `zhu2021b` plays on the same `TrackedMeans`.

**Tracked means.** Every agent follows the average of all agents' own means (gradient tracking).
With x_i the own means of the arms, z_i ← Σ_j P_ij z_j + x_i(new) − x_i(old) in every round, so that
Σ_i z_i = Σ_i x_i always. Beside z, agents tell the largest number of pulls of every arm that they
have heard of; an arm on which an agent lags too far behind that counts as unknown, and so comes
first. A message is [z | largest counts], as they were when the last round ended. An agent is silent
until it has pulled every arm once. A neighbour that was not heard counts as if it had sent the own
z; where agents meet in pairs, the one that was heard counts half.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from coopbandits.core import rows
from coopbandits.core.aggregate.aggregation import means_alone, told_agents
from coopbandits.core.aggregate.fields import TIME, Aggregation, FieldMachine, Sizes
from coopbandits.core.aggregate.messages import check_counts, check_means
from coopbandits.core.checks import require_count, require_epsilon, require_flag, require_positive
from coopbandits.core.index import KLUCB, UCB
from coopbandits.core.policy import Parts, Policy
from coopbandits.core.spelling import AUTO

if TYPE_CHECKING:
    from coopbandits.core.contract import LocalView, State, Vector
    from coopbandits.core.statistic import Statistic


@dataclass(frozen=True)
class TrackedMeans(Aggregation):
    r"""The network's average of means, with the confidence of the own pulls.

    Parameters
    ----------
    credit : float
        What a pull counts: an arm that the agent pulled n times, which has d neighbours, counts as
        `credit` · (d + 1) · n pulls, and in pairs as `credit` · n/N.
    pairs : bool
        Whether agents meet in pairs (the fault ``pairs=1``), as Gossip_UCB has it: who was heard
        alone counts half.
    epsilon : float
        ε of the source `private` that rewards have passed; counts shrink to
        :math:`n/(1 + 128 N \ln^2 T \ln t \ln n/(n ε^2))` then.
    horizon : int
        T of that.

    Notes
    -----
    Knows its row of P, and in pairs N. Sends 2K values to each neighbour in every round, once it
    has pulled every arm. All agents count alike in z, however often each has pulled an arm; hence
    the rule against lagging behind: by K pulls or more, in pairs by more than N.
    """

    credit: float = 1.0
    pairs: bool = False
    epsilon: float = math.inf
    horizon: int = 1
    name: ClassVar[str] = "tracked-means"
    totals: ClassVar[bool] = False
    derived: ClassVar[tuple[str, ...]] = (
        "latest", "moved", "weights", "own_weight", "credit", "least_lag", "noise", "pairs",
    )  # fmt: skip
    takes_context: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_positive("credit", self.credit)
        require_flag("pairs", self.pairs)
        require_epsilon(self.epsilon)
        require_count("horizon", self.horizon)

    @property
    def needs(self) -> frozenset[str]:
        """N, where pairs are averaged or noise is allowed for."""
        asks = self.pairs or self.epsilon != math.inf
        return frozenset({"num_agents"} if asks else ())

    def carried(self, asked: Statistic) -> Statistic:
        return means_alone(self.name, asked)

    def fields(self, sizes: Sizes) -> Mapping[str, Any]:
        return {
            "own": sizes.width,
            "means": sizes.arms,  # own means as the last round ended
            "latest": sizes.arms,  # own means now
            "tracked": sizes.arms,  # z
            "moved": sizes.arms,
            "heard": sizes.arms,
            "num_pulls": int,
            "ready": int,  # whether every arm was pulled before this round
            "weights": sizes.links,
            "own_weight": float,
            "credit": float,
            "least_lag": float,  # so far behind is too far
            "noise": float,
            "pairs": int,
        }

    def start(self, s: Any, view: LocalView) -> None:
        """Note the row of P, and what counts are worth."""
        num_agents = told_agents(view, self.spelling) if self.needs else 1
        s.weights[:] = [view.neighbor_weights[j] for j in sorted(view.neighbor_weights)]
        s.me.own_weight, s.me.pairs = view.own_weight, int(self.pairs)
        s.me.credit = self.credit * (1.0 + s.weights.size)
        s.me.least_lag = s.means.size
        if self.pairs:
            s.me.credit, s.me.least_lag = self.credit / num_agents, num_agents + 1
        s.me.noise = 128.0 * num_agents * (math.log(self.horizon) / self.epsilon) ** 2

    def check_messages(self, agent: FieldMachine, messages: Mapping[int, Vector]) -> None:
        check_means(messages, agent.registers)

    def check_state(self, agent: FieldMachine, values: State) -> None:
        require_count("state field num_pulls", values["num_pulls"], least=0)
        check_counts("heard", values["heard"])

    @staticmethod
    def observe(s: Any, pull: Vector) -> None:
        """Add an own pull."""
        rows.add(s.own, pull)
        s.me.num_pulls += 1

    @staticmethod
    def message(s: Any, out: Vector) -> int:
        """Write [z | largest counts]; stay silent before every arm was pulled."""
        if s.me.ready == 0:
            return 0
        rows.copy(out[: s.tracked.size], s.tracked)
        rows.copy(out[s.tracked.size :], s.heard)
        return int(out.size)

    @staticmethod
    def receive(s: Any, inbox: Any, lengths: Any) -> None:
        """Average z with what was heard, and add what the own means have changed by."""
        arms, heard, missing = s.means.size, 0, 0.0
        for link in range(lengths.size):
            if lengths[link] > 0:
                heard += 1
            else:
                missing += s.weights[link]
        is_pair = s.me.pairs == 1 and heard == 1
        rows.set_scaled(s.moved, 0.5 if is_pair else s.me.own_weight + missing, s.tracked)
        rows.lift(s.heard, s.own[arms:])
        for link in range(lengths.size):
            if lengths[link] > 0:
                weight = 0.5 if is_pair else s.weights[link]
                rows.add_scaled(s.moved, weight, inbox[link, :arms])
                rows.lift(s.heard, inbox[link, arms:])
        least = own_means(s)
        rows.add(s.moved, s.latest)
        rows.subtract(s.moved, s.means)
        rows.copy(s.tracked, s.moved)
        rows.copy(s.means, s.latest)
        if least > 0.0:
            s.me.ready = 1

    @staticmethod
    def estimate(s: Any, totals: Vector, certain: Vector, about: Vector) -> None:
        """Write own counts times the credit, none where the agent lags behind, and z as means."""
        arms, time = s.means.size, max(2.0, float(s.me.num_pulls))
        about[TIME] = time
        own_means(s)
        for k in range(arms):
            count = s.own[arms + k]
            known = max(1.0, count)
            noise = s.me.noise * math.log(time) * math.log(known) / known
            worth = s.me.credit * (count / (1.0 + noise))
            if count <= s.heard[k] - s.me.least_lag:
                worth = 0.0
            # z as if this round had ended
            totals[k] = (s.tracked[k] + s.latest[k] - s.means[k]) * worth
            totals[arms + k] = worth


def own_means(s: Any) -> float:
    """Compute the own means as they are now; return the least number of own pulls of an arm."""
    arms = s.latest.size
    least = s.own[arms]
    for k in range(arms):
        count = s.own[arms + k]
        s.latest[k] = s.own[k] / max(1.0, count)
        least = min(least, count)
    return float(least)


@dataclass(frozen=True)
class DecUCB(Policy):
    r"""Dec_UCB (Zhu, Liu 2021, 2023), for doubly stochastic weights: tracked means × UCB.

    Plays the arm with the largest :math:`z_k + \sqrt{B σ^2 \ln t/((d + 1) n_k)}`, z the tracked
    means, :math:`n_k` the own pulls, d the number of neighbours, t all own pulls.

    Parameters
    ----------
    constant : float
        B; 12 is the authors' 3 for rewards in [0, 1].

    Notes
    -----
    Knows its row of P. Sends 2K values to each neighbour in every round.

    *Differs from the paper*: of the arms on which it lags behind an agent plays the lowest, not a
    random one. Links work both ways here, so the variant for directed graphs is left out.
    """

    constant: float = 12.0
    name: ClassVar[str] = "dec-ucb"

    @property
    def parts(self) -> Parts:
        return Parts(TrackedMeans(), UCB(self.constant))


@dataclass(frozen=True)
class DecKLUCB(Policy):
    r"""Dec_KL-UCB (Zhu, Liu 2021, 2023): tracked means × KL-UCB.

    Plays the arm with the largest q with :math:`(d + 1) n_k\,d(z_k, q) \le \frac32 (1 + β)(\ln t +
    3 \ln\ln t)`.

    Parameters
    ----------
    family : {"auto", "gaussian", "bernoulli"}
        The rewards' family; "bernoulli" accepts any rewards in [0, 1]. "auto" is "bernoulli" where
        rewards are known to lie in [0, 1], else "gaussian".
    beta : float
        β.

    Notes
    -----
    Knows its row of P. Sends 2K values to each neighbour in every round. *Differs from the paper*
    as `DecUCB` does.
    """

    family: str = AUTO
    beta: float = 0.01
    name: ClassVar[str] = "dec-kl-ucb"

    def __post_init__(self) -> None:
        require_positive("beta", self.beta)
        super().__post_init__()

    @property
    def parts(self) -> Parts:
        credit = 2.0 / (3.0 * (1.0 + self.beta))
        return Parts(TrackedMeans(credit), KLUCB(self.family, c=3.0))
