"""Staged mixing, the aggregation of DDUCB: mix what is old, collect what is new, read what is done.

Time runs in stages of E rounds. Four vectors of registers move like a pipeline. In the paper's
letters, for reward sums and pull counts::

    fresh        γ, c   pulled during this stage
    in_flight    β, b   pulled during the last stage, being mixed now; never read before the end
    accumulated  δ, d   all that has been mixed
    settled      α, a   what the index reads: a copy of accumulated, plus own pulls of this stage

The first K rounds are the initial stage: nothing is mixed and nothing is sent.

Values in flight are mixed as flows over links (`core/mixing.py`)::

    F_ij ← ω P_ij (y_j − y_i) + (ω − 1) F_ij,      y_i ← y_i + Σ_j F_ij

A link whose message is lost moves nothing in that round and restarts with a plain step. An agent
that missed a neighbour's message says so in its next one, and that neighbour then takes back what
it moved in vain. So what one end adds the other subtracts, and no momentum outlives a gap in the
messages behind it.

**Stamps.** After a loss, messages over that link end in one more value: the number of the round,
negative if the sender did not hear the receiver in the round before. An agent that has missed a
message takes only stamped ones of the present round over that link from then on, so a late message
is never mistaken: its own round has been missed.

**After a fault**, mixed counts may be too small to be possible: an arm whose network count is below
the own pulls behind it is read as these own pulls. Values in flight are left alone, so that nothing
is lost. Time s is the number of pulls behind the settled counts, N Σ_k a^k. With one pull per agent
and round that is the paper's s: mixing keeps a vector of equal entries, so Σ_k a^k is t − E at a
stage boundary, and every pull read at once adds 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from coopbandits.core import rows
from coopbandits.core.aggregate.aggregation import MIXED, SYNCHRONOUS, ContextMachine, MessageSize
from coopbandits.core.aggregate.claims import LARGEST
from coopbandits.core.aggregate.fields import (
    AGENTS,
    TIME,
    Aggregation,
    FieldMachine,
    Sizes,
    whole,
)
from coopbandits.core.aggregate.forgetting import check_forgetting
from coopbandits.core.aggregate.messages import all_finite, check_vectors, largest
from coopbandits.core.aggregate.self_estimating import (
    FindsOut,
    finding_fields,
    finding_out,
    start_finding,
)
from coopbandits.core.checks import require_count, require_flag, require_lambda, require_number
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.core.estimate.survey import HEAD
from coopbandits.core.mixing import LAMBDA_ZERO, mixing_rounds
from coopbandits.core.statistic.arm_sums import add_pull

if TYPE_CHECKING:
    from coopbandits.core.aggregate.claims import Claims
    from coopbandits.core.contract import LocalView, Share, State, Vector
    from coopbandits.core.statistic import Registers

COUNTERS = (
    "missed_messages", "undone_flows", "restarted_links", "touched_stages", "overruled_counts",
)  # fmt: skip
"""What `StagedMixingMachine.diagnostics` counts: messages that did not arrive; flows taken back
because the other end had missed the message; links that started again with a plain step; stages
with a lost message; mixed counts below the own pulls."""

PLANNED = (
    "initial_rounds", "stage_rounds", "sends", "fewest_agents", "most_agents", "lambda_bound",
)  # fmt: skip
"""Fields that are the plan of stages, which follows from N and a bound on λ."""

MISSED, STAMPED = range(2)
"""Flags of a link: not heard in the last round; messages end in a stamp."""

NO_ARM = -1.0


class MixingPlan(NamedTuple):
    """How values are mixed in every stage.

    Attributes
    ----------
    fewest_agents, most_agents : int
        Bounds on N; equal where N is known.
    lambda_bound : float
        λ of the accelerated recursion; 0 mixes plainly.
    steps : int
        C, the mixing steps of every value in a stage.
    budget : int
        Values of those in flight that travel in a round, at most.
    sends : int
        Values that travel in a stage.
    stage_rounds : int
        E.
    """

    fewest_agents: int
    most_agents: int
    lambda_bound: float
    steps: int
    budget: int
    sends: int
    stage_rounds: int


def travelling(s: Any, rounds: int) -> tuple[int, int]:
    """Return the first coordinate that travels in a round, and how many do, cyclically."""
    size = s.in_flight.size
    if s.me.budget == size:
        return 0, size
    first = (rounds - s.me.initial_rounds) % s.me.stage_rounds * s.me.budget
    return first % size, min(s.me.budget, s.me.sends - first)


def flow(s: Any, link: int, message: Any, first: int, count: int) -> None:
    """Move values in flight over one link, from which this round's message was heard."""
    size, bound, weight = s.in_flight.size, s.me.lambda_bound, s.weights[link]
    if s.rho.shape[1] == 1:  # all coordinates travel together
        omega, momentum = 1.0, 0.0
        if bound >= LAMBDA_ZERO:
            rho = s.rho[link, 0]
            doubled = 2.0 if rho > 0.0 else 1.0
            s.rho[link, 0] = 1.0 / (doubled / bound - rho)
            omega = s.rho[link, 0] * doubled / bound
            momentum = s.rho[link, 0] * rho
        flows = s.flows[link]
        rows.scale(flows, momentum)
        rows.add_difference(flows, omega * weight, message[:size], s.in_flight)
        rows.add(s.moved, flows)
        return
    for i in range(count):
        w = (first + i) % size
        moved = weight * (message[i] - s.in_flight[w])
        if bound >= LAMBDA_ZERO:
            rho = s.rho[link, w]
            doubled = 2.0 if rho > 0.0 else 1.0
            s.rho[link, w] = 1.0 / (doubled / bound - rho)
            omega = s.rho[link, w] * doubled / bound
            moved = omega * moved + s.rho[link, w] * rho * s.flows[link, w]
        s.flows[link, w] = moved
        s.moved[w] += moved


def restart(s: Any, link: int, first: int, count: int) -> None:
    """Forget what some coordinates moved over a link: the next step is a plain one."""
    size = s.in_flight.size
    for i in range(count):
        s.flows[link, (first + i) % size] = 0.0
        s.rho[link, (first + i) % s.rho.shape[1]] = 0.0


def undo(s: Any, link: int) -> None:
    """Take back the last step over a link whose other end did not make it.

    What it moved in the last round of a stage is taken out of the next one's values: the sum over
    agents is the same.
    """
    first, count = travelling(s, s.me.rounds - 1)
    size = s.in_flight.size
    for i in range(count):
        w = (first + i) % size
        s.moved[w] -= s.flows[link, w]
    restart(s, link, first, count)


def possible(s: Any, read: Any) -> int:
    """Replace counts below the own pulls behind them, with their sums; return how many."""
    overruled = 0
    if s.me.touched_stage > 0:
        for k in range(s.count_at.size):
            at = s.count_at[k]
            if read[at] < s.own[at] / s.me.most_agents:
                overruled += 1
                for w in range(read.size):
                    if s.group[w] == k:
                        read[w] = s.own[w] / s.me.most_agents
    return overruled


def end_stage(s: Any) -> None:
    rows.add(s.accumulated, s.in_flight)
    rows.copy(s.settled, s.accumulated)
    s.me.overruled_counts += possible(s, s.settled)


def next_stage(s: Any) -> None:
    rows.copy(s.in_flight, s.fresh)
    rows.add(s.own, s.fresh)
    rows.fill(s.fresh, 0.0)
    for link in range(s.weights.size):
        rows.fill(s.rho[link], 0.0)


class StagedMixingMachine(FieldMachine):
    """An agent that checks what it is sent, and counts what went wrong."""

    def __init__(self, spec: StagedMixing, view: LocalView, registers: Registers) -> None:
        super().__init__(spec, view, registers)
        self.links = ()  # stages are of all agents together: neighbours cannot change
        self._sized = -1, 0.0

    @property
    def initial(self) -> bool:
        return bool(self.state.me.rounds < self.state.me.initial_rounds)

    @property
    def diagnostics(self) -> dict[str, int]:
        """How often which fault was met."""
        return {name: int(getattr(self.state.me, name)) for name in COUNTERS}

    def receive(self, messages: Mapping[int, Vector]) -> None:
        super().receive(self._present(messages))

    def check_messages(self, messages: Mapping[int, Vector]) -> None:
        """Do nothing: `_present` has checked them."""

    def _present(self, messages: Mapping[int, Vector]) -> dict[int, Vector]:
        """Return the messages of this round, which may be fewer, or reject what cannot be used."""
        s, me = self.state, self.state.me
        if self.initial:
            if messages:
                raise InputError(
                    f"messages arrived from {list(messages)}, but agents are silent in the "
                    f"{me.initial_rounds} initial rounds; deliver none"
                )
            return {}
        size, number = travelling(s, me.rounds)[1], me.rounds + 1
        size += me.remix * s.in_flight.size + 2 * me.neighbor_pulls
        found, values = {}, {}
        for j, message in messages.items():
            stamped = np.shape(message) == (size + 1,) and abs(message[-1]) == number
            # Without a right stamp where there must be one, a message is late, whatever its size.
            if stamped or not s.faulty[self.places[j], STAMPED]:
                found[j], values[j] = message, message[:size] if stamped else message
                if np.shape(message) == (size + 1,) and not stamped:
                    raise InputError(
                        f"message from {j} has the stamp {message[-1]:g} of another round, but "
                        "none has been missed; deliver every message in the round it was sent, or "
                        "not at all"
                    )
            elif np.ndim(message) != 1 or not all_finite(message):
                raise InputError(f"message from {j} is not one vector of finite values")
        check_vectors(values, size)
        if me.neighbor_pulls:
            self._check_pulls(found, size)
        return found

    def _check_pulls(self, messages: Mapping[int, Vector], size: int) -> None:
        for j, message in messages.items():
            if message[size - 2] not in range(-1, self.registers.num_arms):
                raise InputError(
                    f"message from {j} tells of arm {message[size - 2]}; arms are 0 to "
                    f"{self.registers.num_arms - 1}, or -1 for none"
                )

    def share(self) -> Share:
        """Return what was pulled, what is being mixed and what has been."""
        s = self.state
        return self.registers.share(s.fresh + s.in_flight + s.accumulated)

    def restore_state(self, state: State) -> None:
        super().restore_state(state)
        self._sized = -1, 0.0

    def check_claims(self, message: Vector, claims: Claims, now: float) -> None:
        """Reject values in flight, of this round or the next, that N agents cannot have pulled.

        What accelerated mixing has on its way may be negative, but is never larger than the sum of
        what is mixed: no entry of q_r(P) is above 1, since none of its eigenvalues is. Together
        with what has been mixed here it is at most all pulls of N agents since the epoch began, in
        size, and so a lie that is repeated stage after stage does not add up beyond that.
        """
        s = self.state
        most = float(s.me.most_agents * claims.most_pulls(now - claims.epoch))
        size = math.sqrt(np.vdot(message, message))  # no value is larger, and it is soon computed
        if size + self._mixed_size() <= min(most, LARGEST):
            return  # in whatever way they add up
        claims.check_within("a value", largest(message), 0.0, LARGEST)
        mixed = [self._with(message, rounds) for rounds in (s.me.rounds, s.me.rounds + 1)]
        self._check_mixed(mixed, claims, most)
        if s.me.remix and message.size >= 2 * self.registers.size:
            self._check_mixed([message[self.registers.size :]], claims, most)

    def _with(self, message: Vector, rounds: int) -> Vector:
        """Return what has been mixed, and what a message of some round says is in flight."""
        together: Vector = self.state.accumulated.copy()
        first, count = travelling(self.state, rounds)
        places = (first + np.arange(min(count, message.size))) % together.size
        together[places] += message[: places.size]
        return together

    def _check_mixed(self, values: list[Vector], claims: Claims, most: float) -> None:
        """Reject values, whichever of these they mean."""
        shares = [self.registers.share(one) for one in values]
        sizes = [abs(np.append(s.counts, s.sums if claims.bounded else 0.0)).max() for s in shares]
        claims.check_within("pulls and rewards in flight", float(min(sizes)), 0.0, most)
        if claims.bounded and self.registers.num_features:  # all are sums of products then
            allowed = most * max(1.0, claims.largest_feature**2)
            claims.check_within("features in flight", min(map(largest, values)), 0.0, allowed)

    def _mixed_size(self) -> float:
        """Return the largest value that has been mixed, or more: what ages gets smaller."""
        me = self.state.me
        changes = me.rounds if me.remix else (me.rounds - me.initial_rounds) // me.stage_rounds
        if self._sized[0] != changes:
            self._sized = changes, largest(self.state.accumulated)
        return self._sized[1]


class SelfEstimatingMachine(FindsOut, StagedMixingMachine):
    """An agent that finds out N or λ before it mixes."""


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
    machine: ClassVar[type[FieldMachine]] = StagedMixingMachine
    stamped: ClassVar[bool] = False  # all count rounds together

    def __post_init__(self) -> None:
        require_number("epsilon", self.epsilon, "strictly between 0 and 1", 0.0, 1.0)
        check_forgetting(self.discount)
        _check_combination(self)
        if isinstance(self.num_agents, str):
            if self.num_agents != "estimate":
                raise unknown_name("way to find num_agents", self.num_agents, ("estimate",))
        elif self.num_agents is not None:
            bounds = self.bounds(None)
            for bound in bounds:
                require_count("num_agents", bound)
            if len(bounds) != 2 or bounds[0] > bounds[1]:
                raise InputError(
                    f"num_agents is {self.num_agents}; give N, or bounds (low, high) with "
                    "low ≤ high"
                )
        if isinstance(self.lambda_bound, str):
            if self.lambda_bound not in (known := ("estimate", "heuristic")):
                raise unknown_name("way to find lambda_bound", self.lambda_bound, known)
        elif self.lambda_bound is not None:
            require_lambda("lambda_bound", self.lambda_bound)

    @property
    def finds_out(self) -> bool:  # type: ignore[override]  # by its settings
        """Whether the agents find out N or λ by themselves, before they mix."""
        return isinstance(self.num_agents, str) or isinstance(self.lambda_bound, str)

    @property
    def derived(self) -> tuple[str, ...]:  # type: ignore[override]  # by its settings
        settings = (
            "moved", "remixed", "weights", "count_at", "group", "budget", "arms", "own_pulls",
            "neighbor_pulls", "remix", "first", "count",
        )  # fmt: skip
        if self.finds_out:
            told = ("finds_agents", "finds_lambda", "told_steps", "plain", "epsilon", "own_weight")
            return (*settings, *told)
        return (*settings, *PLANNED)

    def plain_functions(self) -> dict[str, Any]:
        found = super().plain_functions()
        if self.finds_out:
            names = ("observe", "message", "receive", "estimate", "prepare")
            return found | finding_out(*(found[name] for name in names), next_stage)
        return found

    @property
    def needs(self) -> frozenset[str]:
        """N and a bound on λ, unless the settings tell them or make them unnecessary."""
        wanted = set()
        if self.num_agents is None:
            wanted.add("num_agents")
        if self.lambda_bound is None and (self.accelerated or self.mixing_rounds is None):
            wanted.add("lambda_bound")
        if self.finds_out:
            wanted.add("random_word")
        return frozenset(wanted)

    @property
    def takes_context(self) -> bool:
        return not self.neighbor_pulls

    def make(self, view: LocalView, registers: Registers) -> ContextMachine:
        kind = SelfEstimatingMachine if self.finds_out else StagedMixingMachine
        return kind(self, view, self.decaying(registers))

    def check_found(self, bound: float, stage_rounds: int) -> None:
        """Check that what agents found out lets them mix."""
        require_lambda("lambda_bound", bound)
        _check_memory(self.discount, stage_rounds)

    def plan(self, view: LocalView, width: int) -> MixingPlan:
        fewest, most = self.bounds(view.num_agents)
        steps = self.mixing_steps(view.num_agents, view.lambda_bound)
        bound = self.known_lambda(view.lambda_bound) if self.accelerated else 0.0
        budget, sends = self._budget(width), width * steps
        stage_rounds = max(steps, -(-sends // budget))
        _check_memory(self.discount, stage_rounds)
        return MixingPlan(fewest, most, bound, steps, budget, sends, stage_rounds)

    def _budget(self, width: int) -> int:
        return width if self.values_per_message is None else min(self.values_per_message, width)

    def stages(self, view: LocalView, registers: Registers) -> tuple[int, int] | None:
        if self.finds_out:
            return None
        stage_rounds = self.plan(view, registers.size).stage_rounds
        return view.num_arms + stage_rounds, stage_rounds

    def fields(self, sizes: Sizes) -> Mapping[str, Any]:
        links, width = sizes.links, sizes.width
        counts = ("rounds", "touched_stage", *COUNTERS)
        settings = (
            "initial_rounds", "stage_rounds", "budget", "sends", "arms", "own_pulls",
            "neighbor_pulls", "remix", "first", "count",
        )  # fmt: skip
        return {
            "fresh": width,
            "in_flight": width,
            "moved": width,  # by this round
            "accumulated": width,
            "remixed": width if self.remix else 0,
            "settled": width,
            "own": width,  # own pulls that have gone in flight
            "flows": (links, width),  # F_ij of every coordinate's last step
            "rho": (links, 1 if self._budget(width) == width else width),  # of its step number
            "weights": links,
            "faulty": whole(links, 2),
            "count_at": whole(sizes.groups),
            "group": whole(width),
            **dict.fromkeys((*counts, *settings), int),
            "fewest_agents": float,
            "most_agents": float,
            "lambda_bound": float,
            "last_arm": float,
            "last_reward": float,
            **(finding_fields(sizes) if self.finds_out else {}),
        }

    def start(self, s: Any, view: LocalView) -> None:
        s.weights[:] = [view.neighbor_weights[j] for j in sorted(view.neighbor_weights)]
        s.me.initial_rounds = s.me.arms = view.num_arms
        s.me.budget, s.me.last_arm = self._budget(s.fresh.size), NO_ARM
        if self.finds_out:
            if self.lambda_bound == "estimate":
                _check_weights(view)
            start_finding(s, self, view)
        else:
            for name, value in self.plan(view, s.fresh.size)._asdict().items():
                if name in PLANNED:
                    setattr(s.me, name, value)
        for name in ("own_pulls", "neighbor_pulls", "remix"):
            setattr(s.me, name, int(getattr(self, name)))

    def message_width(self, sizes: Sizes) -> int:
        remixed = sizes.width * self.remix
        mixed = self._budget(sizes.width) + remixed + 2 * self.neighbor_pulls + 1
        return max(mixed, HEAD + sizes.agents) if self.finds_out else mixed

    def message_size(self, registers: Registers, max_agents: int) -> MessageSize:
        usual = min(self.values_per_message or registers.size, registers.size)
        usual += registers.size * self.remix + 2 * self.neighbor_pulls
        if self.finds_out:
            return MessageSize(usual, max(usual, max_agents + 4), "while agents are being counted")
        return MessageSize(usual, usual + 1, "after losses")

    @staticmethod
    def age(s: Any, factors: Vector, factor: float) -> None:
        rows.multiply(s.fresh, factors)
        rows.multiply(s.in_flight, factors)
        rows.multiply(s.accumulated, factors)
        rows.multiply(s.settled, factors)
        rows.multiply(s.own, factors)
        for link in range(s.weights.size):
            rows.multiply(s.flows[link], factors)

    @staticmethod
    def observe(s: Any, pull: Vector) -> None:
        """Collect an own pull; it is settled at once in the initial stage or with `own_pulls`."""
        rows.add(s.fresh, pull)
        if s.me.own_pulls == 1 or s.me.rounds < s.me.initial_rounds:
            rows.add_scaled(s.settled, 1.0 / s.me.most_agents, pull)
        if s.me.neighbor_pulls == 1:
            for k in range(s.me.arms):
                if pull[s.me.arms + k] > 0.0:
                    s.me.last_arm, s.me.last_reward = float(k), pull[k]

    @staticmethod
    def prepare(s: Any) -> None:
        s.me.first, s.me.count = travelling(s, s.me.rounds)

    @staticmethod
    def message(s: Any, link: int, out: Vector) -> int:
        """Write this round's values, with a stamp over a link that has failed before.

        [values in flight | accumulated if `remix` | arm, reward if `neighbor_pulls` | stamp]
        """
        if s.me.rounds < s.me.initial_rounds:
            return 0
        size, length = s.in_flight.size, s.me.count
        if length == size and s.me.first == 0:
            rows.copy(out[:size], s.in_flight)
        else:
            for i in range(length):
                out[i] = s.in_flight[(s.me.first + i) % size]
        if s.me.remix == 1:
            rows.copy(out[length : length + size], s.accumulated)
            length += size
        if s.me.neighbor_pulls == 1:
            out[length], out[length + 1] = s.me.last_arm, s.me.last_reward
            length += 2
        if s.faulty[link, STAMPED] == 1:
            out[length] = -(s.me.rounds + 1.0) if s.faulty[link, MISSED] == 1 else s.me.rounds + 1.0
            length += 1
        return int(length)

    @staticmethod
    def receive(s: Any, inbox: Any, lengths: Any) -> None:
        """Make one mixing step over the links heard; at a stage's end, move the pipeline on."""
        if s.me.rounds >= s.me.initial_rounds:
            size, first, count = s.in_flight.size, s.me.first, s.me.count
            length = count + s.me.remix * size + 2 * s.me.neighbor_pulls
            is_touched = False
            rows.fill(s.moved, 0.0)
            rows.fill(s.remixed, 0.0)
            for link in range(lengths.size):
                message, has_missed = inbox[link], s.faulty[link, MISSED] == 1
                stamp = message[length] if lengths[link] == length + 1 else 0.0
                is_stamped = abs(stamp) == s.me.rounds + 1.0
                is_told = is_stamped and stamp < 0.0
                is_heard = is_stamped or (lengths[link] == length and s.faulty[link, STAMPED] == 0)
                if is_told:
                    undo(s, link)
                    s.me.undone_flows += 0 if has_missed else 1
                if not is_heard:
                    restart(s, link, first, count)
                    s.me.missed_messages += 1
                    s.faulty[link, MISSED] = s.faulty[link, STAMPED] = 1
                    is_touched = True
                    continue
                s.faulty[link, MISSED] = 0
                if is_stamped:
                    s.faulty[link, STAMPED] = 1
                    s.me.restarted_links += 1 if is_told or has_missed else 0
                    is_touched = is_touched or is_told
                flow(s, link, message, first, count)
                if s.me.remix == 1:
                    other = message[count : count + size]
                    rows.add_difference(s.remixed, s.weights[link], other, s.accumulated)
                if s.me.neighbor_pulls == 1 and message[length - 2] >= 0.0:
                    arm, reward = int(message[length - 2]), message[length - 1]
                    add_pull(s.settled, s.me.arms, arm, reward, 1.0 / s.me.most_agents)
            rows.add(s.in_flight, s.moved)
            if s.me.remix == 1:
                rows.add(s.accumulated, s.remixed)
            stage = (s.me.rounds - s.me.initial_rounds) // s.me.stage_rounds + 1
            if is_touched and s.me.touched_stage < stage:
                s.me.touched_stage = stage
                s.me.touched_stages += 1
        s.me.last_arm, s.me.last_reward = NO_ARM, 0.0
        s.me.rounds += 1
        mixed = s.me.rounds - s.me.initial_rounds
        if mixed >= 0 and mixed % s.me.stage_rounds == 0:
            if mixed > 0:
                end_stage(s)
            next_stage(s)

    @staticmethod
    def estimate(s: Any, totals: Vector, certain: Vector, about: Vector) -> None:
        """Write the settled totals (with `remix` and without `own_pulls`: the remixed ones)."""
        about[AGENTS] = s.me.fewest_agents
        about[TIME] = -s.me.most_agents / s.me.fewest_agents
        is_mixed = s.me.rounds >= s.me.initial_rounds + s.me.stage_rounds
        if s.me.remix == 1 and s.me.own_pulls == 0 and is_mixed:
            rows.copy(totals, s.accumulated)
            possible(s, totals)
            rows.scale(totals, s.me.fewest_agents)
        else:
            rows.set_scaled(totals, s.me.fewest_agents, s.settled)

    def mixing_steps(self, num_agents: int | None, lambda_bound: float | None) -> int:
        """Return C: the setting, or what N (its upper bound) and λ ask for."""
        if self.mixing_rounds is not None:
            return self.mixing_rounds
        return mixing_rounds(
            self.bounds(num_agents)[1],
            self.known_lambda(lambda_bound),
            self.epsilon,
            accelerated=self.accelerated,
        )

    def bounds(self, told: int | None) -> tuple[int, int]:
        given = told if isinstance(self.num_agents, str | None) else self.num_agents
        if given is None:
            raise InputError(
                f"{self.name} needs the number of agents; set num_agents, or LocalView.num_agents"
            )
        return given if isinstance(given, tuple) else (given, given)

    def known_lambda(self, told: float | None) -> float:
        given = told if isinstance(self.lambda_bound, str | None) else self.lambda_bound
        if given is None:
            raise InputError(
                f"{self.name} needs a bound on λ; set lambda_bound, or LocalView.lambda_bound"
            )
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
    """Reject a discount that leaves little of what is read a stage or two after it was pulled."""
    if (1.0 - discount) * 2 * stage > 1.0 + 1e-9:
        least, better = (math.ceil(1e6 * (1 - 1 / (part * stage))) / 1e6 for part in (2, 4))
        raise InputError(
            f"discount is {discount:g}, which remembers about {1 / (1 - discount):.3g} rounds and "
            f"forgets faster than it hears: stages here have {stage} rounds, and news takes two; "
            f"set at least {least:g}, better {better:g}"
        )


def _check_weights(view: LocalView) -> None:
    """Reject weights with which nothing can be guaranteed about λ."""
    weights = {"own value": view.own_weight}
    weights |= {f"neighbour {j}": weight for j, weight in view.neighbor_weights.items()}
    for whose, weight in weights.items():
        if weight <= 0.0:
            raise InputError(
                f"agent {view.agent_id} gives its {whose} the weight {weight:g}, with which no "
                'bound on λ is certain; make all weights positive, or set lambda_bound="heuristic"'
            )
