"""The machine of staged mixing: mix what is old, collect what is new, read what is done.

Time runs in stages of E rounds. Four vectors of registers move like a pipeline. In the paper's
letters, for reward sums and pull counts::

    fresh        γ, c   pulled during this stage
    in_flight    β, b   pulled during the last stage, being mixed now; never read before the end
    accumulated  δ, d   all that has been mixed
    settled      α, a   what the index reads: a copy of accumulated, plus own pulls of this stage

The first K rounds are the initial stage: nothing is mixed and nothing is sent.

Values in flight are mixed as flows over links (`core/mixing.py`). A link whose message is lost
moves nothing in that round and restarts with a plain step. Who missed a neighbour's message says so
in the next one, and that neighbour then takes back what it moved in vain. So what one end adds the
other subtracts, and no momentum outlives a gap in the messages behind it.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from coopbandits.core.aggregate.aggregation import ContextMachine
from coopbandits.core.aggregate.arrivals import Arrived, read_arrivals
from coopbandits.core.aggregate.claims import LARGEST
from coopbandits.core.aggregate.exchange import check_messages, largest
from coopbandits.core.contract import Estimate, LocalView, Share, Vector
from coopbandits.core.errors import InputError
from coopbandits.core.mixing import LAMBDA_ZERO, flow_step

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from coopbandits.core.aggregate.claims import Claims
    from coopbandits.core.statistic import Registers


COUNTERS = (
    "missed_messages", "undone_flows", "restarted_links", "touched_stages", "overruled_counts",
)  # fmt: skip
"""What `StagedMixingMachine.diagnostics` counts.

Messages that did not arrive; flows taken back because the other end had missed the message; links
that started again with a plain step; stages with a lost message; mixed counts below the own pulls.
"""

NOT_EVEN = np.zeros((0, 0)), 0.0
"""Links are at different steps, or may be."""

NO_PULL = np.array([-1.0, 0.0])
"""Arm and reward of the last pull where there was none this round."""

NO_PULL.flags.writeable = False  # all agents share it


class StagedMixingMachine(ContextMachine):
    """Delayed network totals, exact to the precision of C mixing steps.

    Parameters
    ----------
    view : LocalView
        What the agent may know.
    registers : Registers
        What is added up.
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
        L, the budget of values per message; None for all registers.

    Notes
    -----
    Time s is the number of pulls behind the settled counts, N Σ_k a^k. With one pull per agent and
    round that is the paper's s: mixing keeps a vector of equal entries, so Σ_k a^k is t − E at a
    stage boundary, and every pull read at once adds 1.

    After a fault, mixed counts may be too small to be possible: an arm whose network count is below
    the own pulls behind it is read as these own pulls. Values in flight are left alone, so that
    nothing is lost. `diagnostics` counts what happened.
    """

    fields = (
        "rounds", "fresh", "in_flight", "flows", "rho", "accumulated", "settled", "own",
        "last_pull", "missed", "stamps", "faults", "touched_stage",
    )  # fmt: skip

    def __init__(
        self,
        view: LocalView,
        registers: Registers,
        *,
        num_agents: tuple[int, int],
        steps: int,
        lambda_bound: float,
        own_pulls: bool,
        neighbor_pulls: bool = False,
        remix: bool = False,
        values_per_message: int | None = None,
    ) -> None:
        size = registers.size
        self.view, self.registers = view, registers
        self.fewest_agents, self.most_agents = num_agents
        self.lambda_bound = lambda_bound
        self.own_pulls, self.neighbor_pulls, self.remix = own_pulls, neighbor_pulls, remix
        self.sends = size * steps
        self.budget = size if values_per_message is None else min(values_per_message, size)
        self.sends_registers = self.budget == size and not (remix or neighbor_pulls)
        self.stage_rounds = max(steps, -(-self.sends // self.budget))
        self.neighbors = sorted(view.neighbor_weights)
        self.weights = np.array([[view.neighbor_weights[j]] for j in self.neighbors]).reshape(-1, 1)
        if self.sends_registers:  # numpy multiplies arrays of equal shapes sooner
            self.weights = np.repeat(self.weights, size, axis=1)
        self.initial_rounds = view.num_arms
        self.rounds = 0
        self.fresh = np.zeros(size)
        self.in_flight = np.zeros(size)
        self.flows = np.zeros((len(self.neighbors), size))  # F_ij of every coordinate's last step
        self.rho = np.zeros_like(self.flows)  # ρ_r of every link's and coordinate's own step number
        self._even = self.rho, 0.0  # the one value of all of `rho`, as long as there is only one
        self.accumulated = np.zeros(size)
        self._sized, self._size = self.accumulated, 0.0  # see `_mixed_size`
        self.settled = np.zeros(size)
        self.own = np.zeros(size)  # own pulls that have gone in flight
        self.last_pull = NO_PULL
        self.missed = np.zeros(len(self.neighbors), np.int64)  # 1: not heard in the last round
        self.stamps = np.zeros(len(self.neighbors), np.int64)  # 1: messages have a stamp
        self.faults = np.zeros(len(COUNTERS), np.int64)
        self.touched_stage = 0  # the last one with a fault, counted from 1

    @property
    def initial(self) -> bool:
        """Whether the initial rounds are still running."""
        return self.rounds < self.initial_rounds

    @property
    def diagnostics(self) -> dict[str, int]:
        """How often which fault was met."""
        return dict(zip(COUNTERS, self.faults.tolist(), strict=True))

    def continue_from(self, pulled: Vector, rounds: int) -> None:
        """Take own pulls of so many earlier rounds for the initial stage, or its beginning."""
        self.initial_rounds = max(self.view.num_arms, rounds)
        self.rounds = rounds
        self.fresh = pulled.copy()
        self.settled = pulled / self.most_agents
        if not self.initial:
            self._next_stage()

    def estimate(self) -> Estimate:
        """Return the settled totals (with `remix` and without `own_pulls`: the remixed ones)."""
        read = self.settled
        if (
            self.remix
            and not self.own_pulls
            and self.rounds >= self.initial_rounds + self.stage_rounds
        ):
            read, _ = self._possible(self.accumulated)
        time = max(2.0, self.most_agents * float(self.registers.version(read)))
        totals = self.fewest_agents * read
        return self.registers.read(totals, time=time, num_agents=self.fewest_agents)

    def observe(self, arm: int, reward: float, context: Vector | None = None) -> None:
        """Collect one own pull; it is settled at once in the initial stage or with `own_pulls`."""
        self.registers.record(self.fresh, arm, reward, context)
        if self.own_pulls or self.initial:
            weight = 1.0 / self.most_agents
            self.registers.record(self.settled, arm, reward, context, weight)
        self.last_pull = np.array([arm, reward])

    def outgoing(self, neighbor: int) -> Vector | None:
        """Return this round's values, with a stamp over a link that has failed before.

        [values in flight | accumulated if `remix` | arm, reward if `neighbor_pulls` | stamp]
        """
        if self.rounds < self.initial_rounds:
            return None
        at = self.neighbors.index(neighbor)
        if not self.stamps.item(at):
            return self._payload()
        return np.append(self._payload(), (self.rounds + 1) * (-1.0 if self.missed[at] else 1.0))

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Make one mixing step over the links heard; at a stage's end, move the pipeline on."""
        if self.initial:
            check_messages(messages, [], 0)
        else:
            payload = self.in_flight if self.sends_registers else self._payload()
            number, stamps = self.rounds + 1, self.stamps.tolist()
            arrived = read_arrivals(messages, payload, number, self.neighbors, stamps)
            if self.neighbor_pulls:
                self._check_pulls(arrived)
            self._mix(arrived, payload)
            if not arrived.whole:
                self._note_faults(arrived)
        self.last_pull = NO_PULL
        self.registers.age(
            self.fresh, self.in_flight, self.accumulated, self.settled, self.own, self.flows
        )
        self.rounds += 1
        if self.rounds == self.initial_rounds:
            self._next_stage()
        elif not self.initial and self._round_of_stage() == 0:
            self._end_stage()

    def share(self) -> Share:
        """Return what was pulled, what is being mixed and what has been."""
        return self.registers.share(self.fresh + self.in_flight + self.accumulated)

    def check_claims(self, message: Vector, claims: Claims, now: float) -> None:
        """Refuse values in flight, of this round or the next, that N agents cannot have pulled.

        What accelerated mixing has on its way may be negative, but is never larger than the sum of
        what is mixed: no entry of q_r(P) is above 1, since none of its eigenvalues is. Together
        with what has been mixed here it is at most all pulls of N agents since the epoch began, in
        size, and so a lie that is repeated stage after stage does not add up beyond that.
        """
        most = self.most_agents * claims.most_pulls(now - claims.epoch)
        size = math.sqrt(np.vdot(message, message))  # no value is larger, and it is soon computed
        if size + self._mixed_size() <= min(most, LARGEST):
            return  # in whatever way they add up
        claims.check_within("a value", largest(message), 0.0, LARGEST)
        mixed = [self._with(message, rounds) for rounds in (self.rounds, self.rounds + 1)]
        self._check_mixed(mixed, claims, most)
        if self.remix and message.size >= 2 * self.registers.size:
            self._check_mixed([message[self.registers.size :]], claims, most)

    def _with(self, message: Vector, rounds: int) -> Vector:
        """Return what has been mixed, and what a message of some round says is in flight."""
        together = self.accumulated.copy()
        places = np.arange(together.size)[self._coordinates(rounds)][: message.size]
        together[places] += message[: places.size]
        return together

    def _check_mixed(self, values: list[Vector], claims: Claims, most: float) -> None:
        """Refuse values, whichever of these they mean."""
        shares = [self.registers.share(one) for one in values]
        sizes = [abs(np.append(s.counts, s.sums if claims.bounded else 0.0)).max() for s in shares]
        claims.check_within("pulls and rewards in flight", float(min(sizes)), 0.0, most)
        if claims.bounded and self.registers.num_features:  # all are sums of products then
            allowed = most * max(1.0, claims.largest_feature**2)
            claims.check_within("features in flight", min(map(largest, values)), 0.0, allowed)

    def _mixed_size(self) -> float:
        """Return the largest value that has been mixed, or more: what ages gets smaller."""
        if self._sized is not self.accumulated:
            self._sized, self._size = self.accumulated, largest(self.accumulated)
        return self._size

    def _round_of_stage(self) -> int:
        return (self.rounds - self.initial_rounds) % self.stage_rounds

    def _coordinates(self, rounds: int) -> NDArray[np.int64] | slice:
        """Return the coordinates that travel in this round; each travels `steps` times a stage."""
        if self.budget == self.in_flight.size:
            return slice(None)
        start = (rounds - self.initial_rounds) % self.stage_rounds * self.budget
        return np.arange(start, min(start + self.budget, self.sends)) % self.in_flight.size

    def _payload(self) -> Vector:
        if self.sends_registers:
            return self.in_flight.copy()
        parts = [self.in_flight[self._coordinates(self.rounds)]]
        if self.remix:
            parts.append(self.accumulated)
        if self.neighbor_pulls:
            parts.append(self.last_pull)
        return np.concatenate(parts) if len(parts) > 1 else parts[0].copy()

    def _mix(self, arrived: Arrived, payload: Vector) -> None:
        """Move values over the links that were heard; the others move nothing and restart."""
        pull = arrived.values - payload  # a missing one: own value, so 0
        pull *= self.weights
        if not arrived.whole:
            self._undo(arrived.told)
            self._even = NOT_EVEN
        if self.sends_registers and self._even[0] is self.rho:
            self._step_evenly(pull)
            return
        now = self._coordinates(self.rounds)
        size = self.in_flight[now].size
        if self._even[0] is self.rho and isinstance(now, slice):
            self._step_evenly(pull[:, :size])
        else:
            self._step(pull[:, :size], now, arrived)
        if self.remix:
            mixed = slice(size, size + self.accumulated.size)
            self.accumulated = self.accumulated + pull[:, mixed].sum(axis=0)
        if self.neighbor_pulls:
            self._settle_pulls(arrived.values[arrived.heard, -2:])

    def _step(self, pull: Vector, now: NDArray[np.int64] | slice, arrived: Arrived) -> None:
        flows, rho = flow_step(pull, self.flows[:, now], self.rho[:, now], self.lambda_bound)
        if not arrived.whole:
            flows[~arrived.heard] = rho[~arrived.heard] = 0.0
        self.flows[:, now], self.rho[:, now] = flows, rho
        self.in_flight[now] += flows.sum(axis=0)

    def _step_evenly(self, pull: Vector) -> None:
        """Do the same where all links are at the same step: then ρ is one number."""
        if self.lambda_bound >= LAMBDA_ZERO:
            omega, momentum, rho_next = _factors(self._even[1], self.lambda_bound)
            pull *= omega
            pull += momentum * self.flows
            self.rho.fill(rho_next)
            self._even = self.rho, rho_next
        self.flows = pull
        self.in_flight += np.add.reduce(pull)

    def _undo(self, told: NDArray[np.bool_]) -> None:
        """Take back the last step over links whose other end did not make it.

        What such a link moved in the last round of a stage is taken out of the next one's values:
        the sum over agents is the same.
        """
        last = np.arange(self.in_flight.size)[self._coordinates(self.rounds - 1)]
        links = np.ix_(told, last)
        self.in_flight[last] -= self.flows[links].sum(axis=0)
        self.flows[links] = self.rho[links] = 0.0

    def _note_faults(self, arrived: Arrived) -> None:
        lost, told = ~arrived.heard, arrived.told
        vain = told & (self.missed == 0)
        restarted = arrived.heard & (told | (self.missed > 0))
        self.faults[:3] += [lost.sum(), vain.sum(), restarted.sum()]
        self.missed = lost.astype(np.int64)
        self.stamps |= lost | arrived.stamped
        stage = (self.rounds - self.initial_rounds) // self.stage_rounds + 1
        if (lost | told).any() and self.touched_stage < stage:
            self.touched_stage = stage
            self.faults[3] += 1

    def _settle_pulls(self, pulls: Vector) -> None:
        for arm, reward in pulls.tolist():
            if arm >= 0:
                self.registers.add(self.settled, int(arm), reward, 1.0 / self.most_agents)

    def _end_stage(self) -> None:
        self.accumulated = self.accumulated + self.in_flight
        self.settled, overruled = self._possible(self.accumulated)
        self.faults[4] += overruled
        self._next_stage()

    def _next_stage(self) -> None:
        self.in_flight = self.fresh
        self.own = self.own + self.fresh
        self.fresh = np.zeros_like(self.fresh)
        self.rho = np.zeros_like(self.rho)
        self._even = self.rho, 0.0

    def _possible(self, totals: Vector) -> tuple[Vector, int]:
        """Return totals that are possible, and how many arms had to be read as own pulls."""
        read = totals.copy()
        if self.touched_stage == 0:
            return read, 0
        own = self.own / self.most_agents
        low = self.registers.share(read).counts < self.registers.share(own).counts
        self.registers.by_arm(read)[:, low] = self.registers.by_arm(own)[:, low]
        return read, int(low.sum())

    def _check_pulls(self, arrived: Arrived) -> None:
        arms = arrived.values[:, -2]
        for neighbor, arm in zip(self.neighbors, arms, strict=True):
            if arm not in range(-1, self.view.num_arms):
                raise InputError(
                    f"message from {neighbor} tells of arm {arm}; "
                    f"arms are 0 to {self.view.num_arms - 1}, or -1 for none"
                )


@lru_cache(maxsize=10_000)
def _factors(rho: float, lambda_bound: float) -> tuple[Vector, Vector, float]:
    """Return ω, ω − 1 and the next ρ of a step, as `flow_step` has them; the same in every stage.

    The first two as arrays without dimensions, which numpy need not make of them in every round.
    """
    doubled = 1.0 + (rho > 0)
    rho_next = 1.0 / (doubled / lambda_bound - rho)
    omega = rho_next * doubled / lambda_bound
    return np.array(omega), np.array(rho_next * rho), rho_next
