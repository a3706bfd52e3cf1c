"""GosInE: agents tell each other arms, never rewards, and play few of them.

Chawla, Sankararaman, Ganesh and Shakkottai, "The gossiping insert-eliminate algorithm for
multi-agent bandits", AISTATS 2020.

Every agent holds its *sticky* arms for ever, and two more, one on trial. At the end of every phase
it keeps the better one of the two, and takes the arm that a random neighbour likes best in the
place of the other. A message is one value, the number of an arm.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from coopbandits.core import rows
from coopbandits.core.aggregate.aggregation import told_agents
from coopbandits.core.aggregate.fields import TIME, Aggregation, FieldMachine, Sizes, whole
from coopbandits.core.aggregate.messages import check_arms, check_vectors
from coopbandits.core.checks import require_count, require_flag, require_positive
from coopbandits.core.contract import Estimate, LocalView, State, Vector
from coopbandits.core.draws import signed_word, uniform_of, word_at
from coopbandits.core.errors import InputError
from coopbandits.core.index import Index
from coopbandits.core.policy import Parts, Policy
from coopbandits.core.statistic.arm_sums import counts_of, sums_of

BLOCKING_POWER = 2
"""η: a neighbour that is blocked in phase j is blocked up to phase j^η."""

NOT_HELD = 1e15
"""Added to the count of an arm that must not be played."""


@dataclass(frozen=True)
class GosInE(Policy):
    r"""GosInE (Chawla, Sankararaman, Ganesh, Shakkottai 2020), with synchronous phases.

    Plays UCB, :math:`\hat\mu_k + \sqrt{B σ^2 \ln(t + 1)/n_k}`, on its own pulls of the ⌈K/N⌉ + 2
    arms that it holds; phase j ends in round j³.

    Parameters
    ----------
    blocking : bool
        Whether an agent ignores, for a while, a neighbour whose advice turned out to be useless
        (Vial, Shakkottai, Srikant 2021, 2022).
    constant : float
        B; 16 is the authors' α = 4 for rewards in [0, 1].

    Notes
    -----
    Knows N, its own number, who its neighbours are, and a random word. Sends one value to each
    neighbour at the end of a phase: about :math:`T^{1/3}` times in T rounds.

    *Differs from the paper*: all neighbours are told, and one of them is listened to, where the
    paper asks one alone; so an agent sends as many values as it has neighbours. The thresholds of
    blocking are ours.
    """

    blocking: bool = False
    constant: float = 16.0
    name: ClassVar[str] = "gosine"

    def __post_init__(self) -> None:
        require_flag("blocking", self.blocking)
        require_positive("constant", self.constant)

    @property
    def parts(self) -> Parts:
        return Parts(ArmAdvice(self.blocking), HeldUCB(self.constant))


@dataclass(frozen=True)
class ArmAdvice(Aggregation):
    """Own pulls, and which arms are held: sticky ones, the one kept and the one on trial."""

    blocking: bool = False
    name: ClassVar[str] = "arm-advice"
    counts_pulls: ClassVar[bool] = False
    needs: ClassVar[frozenset[str]] = frozenset({"num_agents", "random_word"})
    derived: ClassVar[tuple[str, ...]] = ("sticky", "word", "blocks")

    def fields(self, sizes: Sizes) -> Mapping[str, Any]:
        return {
            "sums": sizes.arms,
            "counts": sizes.arms,
            "in_phase": sizes.arms,  # pulls in this phase
            "sticky": whole(sizes.arms),
            "kept": int,
            "tried": int,
            "rounds": int,
            "phase": int,
            "favourite": int,  # the arm played most in a phase, and since which one
            "since": int,
            "adviser": int,  # the link over which advice came, −1 for none, and which
            "advised": int,
            "blocked": sizes.links,  # up to which phase each neighbour is ignored
            "word": int,
            "blocks": int,
        }

    def message_width(self, sizes: Sizes) -> int:
        return 1

    def start(self, s: Any, view: LocalView) -> None:
        size = -(-view.num_arms // told_agents(view, "gosine"))
        own = (view.agent_id * size + np.arange(size + 2)) % view.num_arms
        s.sticky[own[:size]] = 1
        s.me.kept, s.me.tried = own[size:].tolist()
        s.me.phase, s.me.adviser = 1, -1
        s.me.word, s.me.blocks = signed_word(view.random_word), int(self.blocking)

    def check_messages(self, agent: FieldMachine, messages: Mapping[int, Vector]) -> None:
        check_vectors(messages, 1)
        for j, message in messages.items():
            check_arms(message, agent.registers.num_arms, f"message from {j}")

    def check_state(self, agent: FieldMachine, values: State) -> None:
        for name, least in (("rounds", 0), ("phase", 1), ("since", 0), ("adviser", -1)):
            require_count(f"state field {name}", values[name], least=least)
        if values["adviser"] >= len(agent.neighbors):
            raise InputError(
                f"state field adviser is {values['adviser']}; this agent has "
                f"{len(agent.neighbors)} neighbours, counted from 0"
            )
        names = ("kept", "tried", "favourite", "advised")
        arms = np.array([values[name] for name in names], dtype=np.float64)
        check_arms(arms, agent.registers.num_arms, f"state fields {', '.join(names)}")

    @staticmethod
    def observe(s: Any, pull: Vector) -> None:
        rows.add(s.sums, sums_of(pull))
        rows.add(s.counts, counts_of(pull))
        rows.add(s.in_phase, counts_of(pull))

    @staticmethod
    def message(s: Any, out: Vector) -> int:
        """Write the arm played most in this phase, in its last round."""
        if not ends_phase(s):
            return 0
        out[0] = most_played(s)
        return 1

    @staticmethod
    def receive(s: Any, inbox: Any, lengths: Any) -> None:
        """End the phase in its last round; what arrives in others is late, and of no use."""
        if ends_phase(s):
            end_phase(s, inbox, lengths)
        s.me.rounds += 1

    @staticmethod
    def estimate(s: Any, totals: Vector, certain: Vector, about: Vector) -> None:
        """Write own sums and counts; arms that are not held have huge counts."""
        counts = counts_of(totals)
        rows.copy(sums_of(totals), s.sums)
        rows.copy(counts, s.counts)
        about[TIME] = max(1.0, rows.total(s.counts))
        for k in range(counts.size):
            if not holds(s, k):
                counts[k] += NOT_HELD


def holds(s: Any, arm: int) -> bool:
    return bool(s.sticky[arm] == 1 or arm == s.me.kept or arm == s.me.tried)


def ends_phase(s: Any) -> bool:
    return bool(s.me.rounds + 1 >= s.me.phase**3)


def most_played(s: Any) -> int:
    found, most = 0, -1.0
    for k in range(s.in_phase.size):
        if s.in_phase[k] > most and holds(s, k):
            found, most = k, s.in_phase[k]
    return found


def end_phase(s: Any, inbox: Any, lengths: Any) -> None:
    """Keep the better one of the two arms, block an adviser, and ask another."""
    favourite = most_played(s)
    if favourite != s.me.favourite:
        s.me.favourite, s.me.since = favourite, s.me.phase
    if s.me.blocks == 1 and s.me.adviser >= 0 and is_useless(s):
        s.blocked[s.me.adviser] = float(s.me.phase**BLOCKING_POWER)
    if s.in_phase[s.me.kept] < s.in_phase[s.me.tried]:
        s.me.kept, s.me.tried = s.me.tried, s.me.kept
    s.me.adviser = ask(s, lengths)
    if s.me.adviser >= 0:
        s.me.advised = int(inbox[s.me.adviser, 0])
        if not holds(s, s.me.advised):
            s.me.tried = s.me.advised
    rows.fill(s.in_phase, 0.0)
    s.me.phase += 1


def is_useless(s: Any) -> bool:
    """Return whether the arm advised a phase ago was hardly played, and not for want of time."""
    settled = s.me.since <= math.ceil(s.me.phase / 2)
    return bool(settled and s.counts[s.me.advised] < math.ceil(math.log(s.me.phase + 1) ** 2))


def ask(s: Any, lengths: Any) -> int:
    """Return the link to a random neighbour that is not blocked; −1 if it was not heard."""
    open_to = 0
    for link in range(lengths.size):
        open_to += s.blocked[link] <= s.me.phase
    place = int(uniform_of(word_at(s.me.word, s.me.phase)) * open_to)
    for link in range(lengths.size):
        if s.blocked[link] <= s.me.phase:
            if place == 0:
                return link if lengths[link] > 0 else -1
            place -= 1
    return -1


@dataclass(frozen=True)
class HeldUCB(Index):
    """UCB on the arms held."""

    constant: float = 16.0
    name: ClassVar[str] = "held-ucb"
    random: ClassVar[bool] = False
    prepare_reads: ClassVar[str] = "time"

    def numbers(self, view: LocalView) -> tuple[float, ...]:
        return (self.constant * view.sigma**2,)

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Any, scratch: Any) -> None:
        scratch[0] = numbers[0] * math.log(1.0 + estimate.time)

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        count = estimate.counts[arm]
        if count >= NOT_HELD:
            return -1e300
        if count <= 0.0:
            return math.inf
        return float(estimate.sums[arm] / count + math.sqrt(scratch[0] / count))
