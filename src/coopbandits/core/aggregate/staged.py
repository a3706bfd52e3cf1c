"""Staged mixing, the aggregation of DDUCB: mix what is old, collect what is new, read what is done.

Time runs in stages of E rounds. Four pairs of vectors (reward sums, pull counts) move like a
pipeline; each is one array of length 2K, sums first. In the paper's letters::

    fresh        γ, c   pulled during this stage
    in_flight    β, b   pulled during the last stage, being mixed now; never read before the end
    accumulated  δ, d   all that has been mixed
    settled      α, a   what the index reads: a copy of accumulated, plus own pulls of this stage

The first K rounds are the initial stage: nothing is mixed and nothing is sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from coopbandits.core.agent import Aggregation, Estimate, LocalView, Vector
from coopbandits.core.aggregate.exchange import add_pull, check_messages
from coopbandits.core.errors import InputError
from coopbandits.core.mixing import LAMBDA_ZERO, chebyshev_step, next_rho, weighted_sum

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


class StagedMixing(Aggregation):
    """Delayed network totals, exact to the precision of C mixing steps.

    Parameters
    ----------
    view : LocalView
        What the agent may know.
    num_agents : (int, int)
        A lower and an upper bound on N; equal where N is known.
    steps : int
        C, the mixing steps every value gets within a stage.
    lambda_bound : float
        λ of the accelerated recursion; 0 mixes plainly.
    own_pulls : bool
        Read own pulls at once, with weight 1/N.
    neighbor_pulls : bool
        Send every pull to the neighbours too, which read it at once, with weight 1/N.
    remix : bool
        Mix the accumulated totals again, one plain step every round.
    values_per_message : int or None
        L, the budget of values per message; None for all 2K.

    Notes
    -----
    Time s is the number of pulls behind the settled counts, N Σ_k a^k. With one pull per agent and
    round that is the paper's s: mixing keeps a vector of equal entries, so Σ_k a^k is t − E at a
    stage boundary, and every pull read at once adds 1.
    """

    fields = (
        "rounds", "fresh", "in_flight", "before", "rho", "accumulated", "settled", "last_pull",
    )  # fmt: skip

    def __init__(
        self,
        view: LocalView,
        *,
        num_agents: tuple[int, int],
        steps: int,
        lambda_bound: float,
        own_pulls: bool,
        neighbor_pulls: bool = False,
        remix: bool = False,
        values_per_message: int | None = None,
    ) -> None:
        size = 2 * view.num_arms
        self.view = view
        self.fewest_agents, self.most_agents = num_agents
        self.lambda_bound = lambda_bound
        self.own_pulls, self.neighbor_pulls, self.remix = own_pulls, neighbor_pulls, remix
        self.sends = size * steps
        self.budget = size if values_per_message is None else min(values_per_message, size)
        self.stage_rounds = max(steps, -(-self.sends // self.budget))
        self.rounds = 0
        self.fresh = np.zeros(size)
        self.in_flight = np.zeros(size)
        self.before = np.zeros(size)  # in_flight one step ago, y_{r−1}
        self.rho = np.zeros(size)  # ρ_r of every coordinate's own step number
        self.accumulated = np.zeros(size)
        self.settled = np.zeros(size)
        self.last_pull = np.array([-1.0, 0.0])  # arm and reward, arm −1 for none this round

    @property
    def initial(self) -> bool:
        """Whether the K initial rounds are still running."""
        return self.rounds < self.view.num_arms

    def estimate(self) -> Estimate:
        """Return the settled totals (with `remix` and without `own_pulls`: the remixed ones)."""
        arms = self.view.num_arms
        first_stage = self.rounds < arms + self.stage_rounds
        read = self.settled if self.own_pulls or not self.remix or first_stage else self.accumulated
        return Estimate(
            sums=self.fewest_agents * read[:arms],
            counts=self.fewest_agents * read[arms:],
            time=max(2.0, self.most_agents * float(read[arms:].sum())),
            num_agents=self.fewest_agents,
        )

    def observe(self, arm: int, reward: float) -> None:
        """Collect one own pull; it is settled at once in the initial stage or with `own_pulls`."""
        add_pull(self.fresh, arm, reward, 1.0)
        if self.own_pulls or self.initial:
            add_pull(self.settled, arm, reward, 1.0 / self.most_agents)
        self.last_pull = np.array([arm, reward])

    def outgoing(self, neighbor: int) -> Vector | None:
        """Return [values in flight | accumulated if `remix` | arm, reward if `neighbor_pulls`]."""
        del neighbor  # all get the same
        return None if self.initial else self._payload()

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Make one mixing step; at the end of a stage, move the pipeline on."""
        self._check(messages)
        if self.initial:
            self.rounds += 1
            self.last_pull = np.array([-1.0, 0.0])
            if self.rounds == self.view.num_arms:
                self._next_stage()
            return
        coordinates = self._coordinates()
        mixed_size = coordinates.size + (self.accumulated.size if self.remix else 0)
        mixed = weighted_sum(
            self.view.own_weight,
            self._payload()[:mixed_size],
            self.view.neighbor_weights,
            {j: message[:mixed_size] for j, message in messages.items()},
        )
        self._mix(coordinates, mixed[: coordinates.size])
        if self.remix:
            self.accumulated = mixed[coordinates.size :]
        if self.neighbor_pulls:
            self._settle_pulls(messages)
        self.last_pull = np.array([-1.0, 0.0])
        self.rounds += 1
        if self._round_of_stage() == 0:
            self.accumulated = self.accumulated + self.in_flight
            self.settled = self.accumulated.copy()
            self._next_stage()

    def _round_of_stage(self) -> int:
        return (self.rounds - self.view.num_arms) % self.stage_rounds

    def _coordinates(self) -> NDArray[np.int64]:
        """Return the coordinates that travel this round, each at most `steps` times a stage."""
        start = self._round_of_stage() * self.budget
        return np.arange(start, min(start + self.budget, self.sends)) % self.in_flight.size

    def _payload(self) -> Vector:
        parts = [self.in_flight[self._coordinates()]]
        if self.remix:
            parts.append(self.accumulated)
        if self.neighbor_pulls:
            parts.append(self.last_pull)
        return np.concatenate(parts)

    def _mix(self, coordinates: NDArray[np.int64], mixed: Vector) -> None:
        if self.lambda_bound < LAMBDA_ZERO:
            self.in_flight[coordinates] = mixed
            return
        rho = self.rho[coordinates]
        rho_next = next_rho(rho, self.lambda_bound)
        step = chebyshev_step(mixed, self.before[coordinates], rho, rho_next, self.lambda_bound)
        self.before[coordinates] = self.in_flight[coordinates]
        self.in_flight[coordinates] = step
        self.rho[coordinates] = rho_next

    def _settle_pulls(self, messages: Mapping[int, Vector]) -> None:
        for message in messages.values():
            arm, reward = int(message[-2]), float(message[-1])
            if arm >= 0:
                add_pull(self.settled, arm, reward, 1.0 / self.most_agents)

    def _next_stage(self) -> None:
        self.in_flight = self.fresh
        self.fresh = np.zeros_like(self.fresh)
        self.before = np.zeros_like(self.before)
        self.rho = np.zeros_like(self.rho)

    def _check(self, messages: Mapping[int, Vector]) -> None:
        """Refuse what this round cannot use, before anything changes."""
        expected = [] if self.initial else sorted(self.view.neighbor_weights)
        check_messages(messages, expected, 0 if self.initial else self._payload().size)
        if not self.neighbor_pulls:
            return
        for neighbor, message in messages.items():
            if message[-2] not in range(-1, self.view.num_arms):
                raise InputError(
                    f"message from {neighbor} tells of arm {message[-2]}; "
                    f"arms are 0 to {self.view.num_arms - 1}, or -1 for none"
                )
