r"""Ledger sums: pulls are handed on to a root that enters each of them in a ledger, exactly once.

Tree sums (`tree_sums`) recount the network in every round, so they lose what a broken tree no
longer connects. Here the pulls themselves move: as mass, which is handed on from neighbour to
neighbour towards the root, none of it lost and none taken twice (`moving_mass`).

**The ledger** D is what roots have collected: D = b + c, b the ledger that the root found when it
began, c all mass that reached it since. D travels to everybody, newest first: of two the one with
more pulls is kept. It outlives its root. A root collects only after 64 rounds, so that of those who
take themselves for roots while a tree is being grown hardly any begins; until then it holds, and
hands on if it steps down. Who steps down after it has collected forgets b and c: D has both.

**No pull is entered twice.** Call the rounds in which one root collects a tenure. What is collected
is never handed on again, so a pull is collected in at most one tenure. A ledger is a sum of
tenures, of each all that it had collected by some round. With D travels its *lineage*: which
tenures are in it, 3 of 48 bits each. A root that hears of a larger ledger takes it as b. If its own
tenure is not in that lineage, b + c counts nothing twice; if it is, c is dropped and a new tenure
begins. Bits that happen to be set by others only make it drop c.

**Estimates.** Two stand side by side: V of the tree, fresher while the tree stands, and D with the
own pulls since it came. The one with more pulls is read; V only if it has no more agents than D, or
than twice as many as extrema propagation says, ext. N̂ is a(V) once that is steady, as in tree
sums; before, the largest of a(V), a(D) and ext, or ext alone where one is more than 1.6 times as
much. If V has more agents than N̂, its tree is being regrown and counts some twice: its pulls then
count N̂/a(V) times.

**What is certain.** V may count a pull twice, so no confidence rests on it. C is a ledger and the
own pulls since it came: distinct pulls, since a ledger holds only pulls from before it came. Unlike
D with those since, C changes only to a ledger with more pulls than C has: D + own may shrink when D
is replaced, and an agent that may look at sets of every size again and again is wrong more often.

A message is [S_j | D | lineage, number, number last heard | a message of tree sums]: three times
all registers and 13 values, 6K + 13 with sums and counts, and up to 33 more while agents are
counted.

**Forgetting.** With a discount γ all mass ages with the clock of tree sums, H, S_j, Q_j, D, b and c
alike, and what a message tells ages from its stamp: so S_j − Q_j and b + c are sums of the same
pulls as without, each times γ to its age. Counts no longer only grow, so the number of pulls ever
made travels beside them, and of two ledgers the one with more of those is kept.

*Differs from the paper*: none has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from coopbandits.core.aggregate.aggregation import OWN, ROBUST, AnyAggregation, MessageSize, Moving
from coopbandits.core.aggregate.claims import Doubt, PartlyImpossibleError
from coopbandits.core.aggregate.exchange import anticipation, check_vectors
from coopbandits.core.aggregate.extrema import EXPONENTIALS, check_minima
from coopbandits.core.aggregate.forgetting import check_forgetting
from coopbandits.core.aggregate.moving_mass import MovingMass
from coopbandits.core.aggregate.spanning_tree import CONTROL
from coopbandits.core.checks import require_count
from coopbandits.core.contract import Estimate, LocalView, State, Vector
from coopbandits.core.draws import words
from coopbandits.core.errors import InputError
from coopbandits.core.statistic import VersionedRegisters

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coopbandits.core.aggregate.claims import Claims
    from coopbandits.core.statistic import Registers

YOUNG = 64
"""Rounds for which a root holds what reaches it instead of collecting it."""

MOST = 1.6
"""A count of agents is believed up to so many times what minima say."""

HEADER = 3
"""Values between the ledger and the part of tree sums: lineage, number, number last heard."""

LINEAGE_BITS = 48

TENURES = 1 << 41
"""Where the words of tenures begin, by round; those before are others' (`moving_mass`)."""


@dataclass(frozen=True)
class LedgerSums(AnyAggregation):
    """Network totals in messages that do not grow with the network, and that outlive any tree.

    Parameters
    ----------
    discount : float
        γ, what a pull counts in every round compared with the one before; 1 for ever the same.

    Notes
    -----
    Knows who its neighbours are, a random word of its own, and whether rounds are common (otherwise
    nothing is anticipated). Sends three times all registers and 13 values to each neighbour in
    every round, four more with a discount, and 32 or 33 more until the number of agents is steady.
    """

    discount: float = 1.0
    name: ClassVar[str] = "ledger-sums"
    mode: ClassVar[str] = ROBUST
    shares: ClassVar[str] = OWN
    exact: ClassVar[bool] = True
    overtakes: ClassVar[bool] = True
    checks_claims: ClassVar[bool] = True
    outlives: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse what is no discount."""
        check_forgetting(self.discount)

    @property
    def needs(self) -> frozenset[str]:
        """A random word."""
        return frozenset({"random_word"})

    @property
    def uncertified(self) -> str:
        """Nothing: a ledger holds every pull at most once."""
        return ""

    @property
    def takes_context(self) -> bool:
        """Yes."""
        return True

    def make(self, view: LocalView, registers: Registers) -> LedgerSumsMachine:
        """Return the machine of one agent."""
        return LedgerSumsMachine(view, self._versioned(registers))

    def _versioned(self, registers: Registers) -> Registers:
        """Return registers whose version only grows, whatever is forgotten."""
        found = registers.decaying(self.discount)
        return found if found.decay == 1.0 else VersionedRegisters(found)

    def message_size(self, registers: Registers, max_agents: int) -> MessageSize:
        """Return the size without and with the minima by which agents are counted."""
        del max_agents
        found = self._versioned(registers)
        usual = 3 * (found.size + 2) + HEADER + CONTROL + (found.decay != 1.0)
        return MessageSize(usual, usual + EXPONENTIALS + 1, "while agents are being counted")


class LedgerSumsMachine(MovingMass):
    """The ledger, the mass that moves towards it, and the agent's place on the tree."""

    front, header = 2, HEADER
    masses = (*MovingMass.masses, "ledger", "meanwhile", "base", "collected", "certain")
    growing = (*MovingMass.growing, "meanwhile", "certain")
    dropped = (*MovingMass.dropped, "base", "collected")  # the ledger has these
    registered = MappingProxyType({**MovingMass.registered, **dict.fromkeys(masses, (0, 2))})
    fields: tuple[str, ...] = (
        *MovingMass.fields, "ledger", "lineage", "meanwhile", "tenure", "base", "collected",
        "certain",
    )  # fmt: skip

    def __init__(self, view: LocalView, registers: Registers) -> None:
        super().__init__(view, registers)
        width = self.own.size
        self.ledger, self.lineage = np.zeros(width), 0  # D
        self.meanwhile = np.zeros(width)  # own pulls since D came
        self.tenure = 0  # the bits of a root that collects, else 0
        self.base, self.collected = np.zeros(width), np.zeros(width)  # b and c
        self.certain = np.zeros(width)  # C

    def estimate(self) -> Estimate:
        """Return V or D, whichever has more pulls."""
        totals, ledger = self._totals(), self.ledger + self.meanwhile
        entered, counted = float(ledger[-2]), self._counted()
        credible = float(totals[-2]) <= max(entered, 2.0 * counted)
        agents = self._num_agents(max(entered, float(totals[-2]) if credible else 0.0))
        part = min(1.0, agents / float(totals[-2]))  # of V: more agents than there are count twice
        if not credible or part * self._pulls(totals) < self._pulls(ledger):
            totals, part = ledger, 1.0
        rounds, behind = self._rounds_since_first(), part * float(totals[-1])
        ahead = anticipation(agents, rounds, behind) if self.common_round else 1.0
        time = max(2.0, float(self.registers.pulls(totals[:-2])))
        found = self.registers.read(totals[:-2], time=time, num_agents=agents, anticipation=ahead)
        return found._replace(certain=self.registers.share(self.certain[:-2]))

    def _num_agents(self, agents: float) -> float:
        """Return how many agents there are, `agents` being the most that is credible."""
        counted = self._counted()
        if self._is_believed(self.agents_seen):
            agents = self.agents_seen
        elif not counted <= agents <= MOST * counted:
            agents = counted
        return min(self.most_agents, agents)

    def outgoing(self, neighbor: int) -> Vector:
        """Return [S_j | D | lineage, number, number last heard | a message of tree sums]."""
        handed, numbers = self._handed_to(neighbor)
        header = [float(self.lineage), *numbers]
        return np.concatenate([handed, self.ledger, header, super().outgoing(neighbor)])

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Hand on, take what is new, look after the tree and the ledger."""
        self._check(messages)
        self._keep_ledger(self._exchange(messages))

    def _check(self, messages: Mapping[int, Vector]) -> None:
        size = self.start + self.own.size + CONTROL + self.stamps
        check_vectors(messages, size, size + EXPONENTIALS, size + EXPONENTIALS + 1)
        check_minima(messages, size)
        for j, message in messages.items():
            _check_lineage(float(message[self.start - HEADER]), f"message from {j}")

    def _keep_ledger(self, told: Mapping[int, Vector]) -> None:
        """Keep the largest ledger; a root enters what has reached it."""
        if self.dist != 0 and self.tenure:
            self._step_down()
        width, grown = self.own.size, False
        # A root in doubt could not add its own to a larger one, and hears of it again.
        for message in told.values() if self.is_sure or not self.tenure else ():
            ledger = message[width : 2 * width]
            if self._pulls(ledger) > self._pulls(self.ledger):
                self.ledger, self.lineage = ledger.copy(), int(message[2 * width])
                self.meanwhile, grown = np.zeros(width), True
        if self.dist == 0 and self.reign >= YOUNG and self.is_sure:
            self._collect(grown)
        if self._pulls(self.ledger) > self._pulls(self.certain):
            self.certain = self.ledger.copy()

    def _step_down(self) -> None:
        """Forget what was collected: the ledger has it."""
        self.tenure = 0
        self.base, self.collected = np.zeros(self.own.size), np.zeros(self.own.size)

    def _collect(self, grown: bool) -> None:
        """Enter all mass at hand, on top of a ledger that has `grown` beyond the own one if any."""
        if not self.tenure or (grown and self.lineage & self.tenure == self.tenure):
            self.tenure = tenure_of(self.word ^ self.nonce, self.rounds)
            self.base, self.collected = self.ledger, np.zeros(self.own.size)
        elif grown:
            self.base = self.ledger
        self.collected = self.collected + self.held
        self.ledger, self.lineage = self.base + self.collected, self.lineage | self.tenure
        self.held, self.meanwhile = np.zeros(self.own.size), np.zeros(self.own.size)

    def moving(self) -> Moving:
        """Return where pulls are: here, on links, and in the ledger."""
        return Moving(*self._count_moving(), self._pulls(self.ledger))

    def check_claims(self, message: Vector, claims: Claims, now: float) -> None:
        """Refuse what cannot have been handed on, and a tree that cannot be.

        A ledger that cannot be is left out, and the rest of its message believed: otherwise one lie
        in the ledger of an honest root would keep everybody from listening to anybody.
        """
        if message.size < self.start:
            return  # its form is checked when the round ends
        self._check_handed(message, claims, now)
        super().check_claims(message[self.start :], claims, now)
        width = self.own.size
        try:
            self._check_mass(message[width : 2 * width], claims, now)
            _check_lineage(float(message[2 * width]), "a claim")
        except InputError as error:
            rest = message.copy()
            rest[width : 2 * width + 1] = 0.0
            raise PartlyImpossibleError(rest, [Doubt(str(error))]) from error

    def _begin_anew(self) -> None:
        """Begin a new tenure, too, if this is a root."""
        super()._begin_anew()
        self.tenure = 0

    def check_state(self, values: State) -> None:
        """Refuse bits that no lineage has."""
        super().check_state(values)
        for name in ("lineage", "tenure"):
            require_count(f"state field {name}", values[name], least=0)
            _check_lineage(values[name], f"state field {name}")


def tenure_of(word: int, rounds: int) -> int:
    """Return up to 3 of 48 bits for the tenure that begins with some round of an agent."""
    drawn = int(words(word, np.array([TENURES + rounds], dtype=np.uint64))[0])
    return sum({1 << (drawn >> 16 * k) % LINEAGE_BITS for k in range(3)})


def _check_lineage(lineage: float, what: str) -> None:
    if not 0 <= lineage < 1 << LINEAGE_BITS or lineage % 1:
        raise InputError(
            f"{what} has lineage {lineage:g}; it is a whole number of {LINEAGE_BITS} bits"
        )
