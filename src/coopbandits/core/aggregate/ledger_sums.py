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

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from coopbandits.core import rows
from coopbandits.core.aggregate.aggregation import OWN, ROBUST, MessageSize, Moving
from coopbandits.core.aggregate.claims import Doubt, PartlyImpossibleError
from coopbandits.core.aggregate.doubt import SURE
from coopbandits.core.aggregate.exchange import check_vectors
from coopbandits.core.aggregate.extrema import EXPONENTIALS, check_minima, counted
from coopbandits.core.aggregate.fields import (
    AGENTS,
    TIME,
    Aggregation,
    FieldMachine,
    Sizes,
)
from coopbandits.core.aggregate.forgetting import check_forgetting
from coopbandits.core.aggregate.moving_mass import (
    FRONT,
    HEADER,
    MovingMass,
    add_pull,
    age_moving,
    exchange,
    find_carrier,
    moving_fields,
    observe_and_hold,
    pulls_in,
    start_moving,
    start_of_sums,
    take,
    write_handed,
    write_numbers,
)
from coopbandits.core.aggregate.spanning_tree import CONTROL
from coopbandits.core.aggregate.tree_sums import (
    age_mass,
    expect,
    is_believed,
    rounds_behind,
    rounds_since_first,
    write_control,
    write_side,
)
from coopbandits.core.checks import require_count
from coopbandits.core.draws import remainder_of, word_at
from coopbandits.core.errors import InputError
from coopbandits.core.statistic import VersionedRegisters

if TYPE_CHECKING:
    from coopbandits.core.aggregate.claims import Claims
    from coopbandits.core.contract import LocalView, State, Vector
    from coopbandits.core.statistic import Registers

YOUNG = 64
"""Rounds for which a root holds what reaches it instead of collecting it."""

MOST = 1.6
"""A count of agents is believed up to so many times what minima say."""

LINEAGE_BITS = 48

TENURES = 1 << 41
"""Where the words of tenures begin, by round; those before are others' (`moving_mass`)."""


def keep_ledger(s: Any, inbox: Any, lengths: Any) -> None:
    """Keep the largest ledger; a root enters what has reached it."""
    if s.me.dist != 0.0 and s.me.tenure != 0:
        step_down(s)
    width, grown, most = s.own.size, False, pulls_in(s, s.ledger)
    # A root in doubt could not add its own to a larger one, and hears of it again.
    if s.me.opened == SURE or s.me.tenure == 0:
        for link in range(lengths.size):
            if lengths[link] == 0:
                continue
            ledger = inbox[link, width : 2 * width]
            pulls = pulls_in(s, ledger)
            if pulls > most:
                rows.copy(s.ledger, ledger)
                rows.fill(s.meanwhile, 0.0)
                s.me.lineage, grown, most = int(inbox[link, 2 * width]), True, pulls
    if s.me.dist == 0.0 and s.me.reign >= YOUNG and s.me.opened == SURE:
        collect(s, grown)
        most = pulls_in(s, s.ledger)
    if most > pulls_in(s, s.certain):
        rows.copy(s.certain, s.ledger)


def step_down(s: Any) -> None:
    """Forget what was collected: the ledger has it."""
    s.me.tenure = 0
    rows.fill(s.base, 0.0)
    rows.fill(s.collected, 0.0)


def collect(s: Any, grown: bool) -> None:
    """Enter all mass at hand, on top of a ledger that has `grown` beyond the own one if any."""
    if s.me.tenure == 0 or (grown and s.me.lineage & s.me.tenure == s.me.tenure):
        s.me.tenure = tenure_of(s.me.word ^ s.me.nonce, s.me.rounds)
        rows.copy(s.base, s.ledger)
        rows.fill(s.collected, 0.0)
    elif grown:
        rows.copy(s.base, s.ledger)
    rows.add(s.collected, s.held)
    rows.add_up(s.ledger, s.base, s.collected)
    s.me.lineage |= s.me.tenure
    rows.fill(s.held, 0.0)
    rows.fill(s.meanwhile, 0.0)


def book(s: Any, inbox: Any, lengths: Any) -> None:
    """Take what is new, and look after the ledger."""
    if s.me.opened == SURE:
        for link in range(lengths.size):
            if lengths[link] > 0:
                take(s, link, inbox[link])
    keep_ledger(s, inbox, lengths)


def num_agents(s: Any, agents: float) -> float:
    """Return how many agents there are, `agents` being the most that is credible."""
    told = counted(s)
    if is_believed(s, s.me.agents_seen):
        agents = s.me.agents_seen
    elif not told <= agents <= MOST * told:
        agents = told
    return float(min(s.me.most_agents, agents))


def tenure_of(word: int, rounds: int) -> int:
    """Return up to 3 of 48 bits for the tenure that begins with some round of an agent."""
    drawn, found = word_at(word, TENURES + rounds), 0
    for k in range(3):
        found |= 1 << remainder_of(drawn, 16 * k, LINEAGE_BITS)
    return found


class LedgerSumsMachine(MovingMass):
    """An agent that checks what it is sent, and may lose its tenure with its memory."""

    dropped = (*MovingMass.dropped, "base", "collected")  # the ledger has these
    registered = MappingProxyType(
        {
            **MovingMass.registered,
            **dict.fromkeys(("ledger", "meanwhile", "base", "collected", "certain"), (0, 2)),
        }
    )

    def _book(self, inbox: Any, lengths: Any) -> None:
        """Take what is new, and look after the ledger."""
        book(self.state, inbox, lengths)

    def check_messages(self, messages: Mapping[int, Vector]) -> None:
        """Reject messages that no agent of this aggregation writes."""
        size = self.start + self.state.own.size + CONTROL
        check_vectors(messages, size, size + EXPONENTIALS, size + EXPONENTIALS + 1)
        check_minima(messages, size)
        for j, message in messages.items():
            _check_lineage(float(message[self.start - HEADER]), f"message from {j}")

    def moving(self) -> Moving:
        """Return where pulls are: here, on links, and in the ledger."""
        return Moving(*self._count_moving(), self._pulls(self.state.ledger))

    def check_claims(self, message: Vector, claims: Claims, now: float) -> None:
        """Refuse what cannot have been handed on, and a tree that cannot be.

        A ledger that cannot be is left out, and the rest of its message believed: otherwise one lie
        in the ledger of an honest root would keep everybody from listening to anybody.
        """
        if message.size < self.start:
            return  # its form is checked when the round ends
        self._check_handed(message, claims, now)
        super().check_claims(message[self.start :], claims, now)
        width = self.state.own.size
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
        self.state.me.tenure = 0

    def check_state(self, values: State) -> None:
        """Refuse bits that no lineage has."""
        super().check_state(values)
        for name in ("lineage", "tenure"):
            require_count(f"state field {name}", values[name], least=0)
            _check_lineage(values[name], f"state field {name}")


@dataclass(frozen=True)
class LedgerSums(Aggregation):
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
    certifies: ClassVar[bool] = True
    machine: ClassVar[type[FieldMachine]] = LedgerSumsMachine
    shared: ClassVar[str] = "own"
    derived: ClassVar[tuple[str, ...]] = (
        "branches", "totals", "kin", "relatives", "born", "most_agents", "common", "count_at",
        "word", "carrier",
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Check the discount."""
        check_forgetting(self.discount)

    @property
    def needs(self) -> frozenset[str]:
        """A random word."""
        return frozenset({"random_word"})

    def decaying(self, registers: Registers) -> Registers:
        """Return registers whose version only grows, whatever is forgotten."""
        found = super().decaying(registers)
        return found if found.decay == 1.0 else VersionedRegisters(found)

    def fields(self, sizes: Sizes) -> Mapping[str, Any]:
        """Return mass that moves, and the ledger."""
        width = sizes.width + 2
        return {
            **moving_fields(sizes),
            "ledger": width,  # D
            "lineage": int,
            "meanwhile": width,  # own pulls since D came
            "tenure": int,  # the bits of a root that collects, else 0
            "base": width,  # b
            "collected": width,  # c
            "certain": width,  # C
        }

    def start(self, s: Any, view: LocalView) -> None:
        """Begin with an empty ledger."""
        start_moving(s, view)

    def message_width(self, sizes: Sizes) -> int:
        """Return the size of all that a message may have."""
        return (FRONT + 1) * (sizes.width + 2) + HEADER + CONTROL + EXPONENTIALS + 1

    def message_size(self, registers: Registers, max_agents: int) -> MessageSize:
        """Return the size without and with the minima by which agents are counted."""
        del max_agents
        found = self.decaying(registers)
        usual = (FRONT + 1) * (found.size + 2) + HEADER + CONTROL + (found.decay != 1.0)
        return MessageSize(usual, usual + EXPONENTIALS + 1, "while agents are being counted")

    @staticmethod
    def age(s: Any, factors: Vector, factor: float) -> None:
        """Let all mass age, and the sums of the tree."""
        age_moving(s, factors, factor)
        age_mass(s.ledger, factors, factor)
        age_mass(s.meanwhile, factors, factor)
        age_mass(s.base, factors, factor)
        age_mass(s.collected, factors, factor)
        age_mass(s.certain, factors, factor)

    @staticmethod
    def age_message(s: Any, message: Vector, factors: Vector, factor: float) -> None:
        """Let mass and the payload in a message age."""
        width, start = s.own.size, start_of_sums(s)
        age_mass(message[:width], factors, factor)
        age_mass(message[width : 2 * width], factors, factor)
        age_mass(message[start : start + width], factors, factor)

    @staticmethod
    def observe(s: Any, pull: Vector) -> None:
        """Add an own pull, which is in no ledger yet."""
        rounds = observe_and_hold(s, pull)
        add_pull(s, s.meanwhile, pull, rounds)
        add_pull(s, s.certain, pull, rounds)

    @staticmethod
    def prepare(s: Any) -> None:
        """Write V, and find out over which link mass goes."""
        rows.add_up(s.totals, s.own, s.branches)
        s.me.carrier = find_carrier(s)

    @staticmethod
    def message(s: Any, link: int, out: Vector) -> int:
        """Write [S_j | D | lineage, number, number last heard | a message of tree sums]."""
        width, start = s.own.size, start_of_sums(s)
        write_handed(s, link, out[:width])
        rows.copy(out[width : 2 * width], s.ledger)
        out[2 * width] = s.me.lineage
        write_numbers(s, link, out, start - 2)
        write_side(s, link, out[start : start + width])
        return write_control(s, link, out, start + width)

    @staticmethod
    def receive(s: Any, inbox: Any, lengths: Any) -> None:
        """Hand on, take what is new, look after the tree and the ledger."""
        exchange(s, inbox, lengths)
        book(s, inbox, lengths)

    @staticmethod
    def estimate(s: Any, totals: Vector, certain: Vector, about: Vector) -> None:
        """Write V or D, whichever has more pulls."""
        width, size = s.own.size, totals.size
        rows.add_up(s.totals, s.own, s.branches)
        agents, entered = s.totals[width - 2], s.ledger[width - 2] + s.meanwhile[width - 2]
        is_credible = agents <= max(entered, 2.0 * counted(s))
        about[AGENTS] = num_agents(s, max(entered, agents if is_credible else 0.0))
        part = min(1.0, about[AGENTS] / agents)  # of V: more agents than there are count twice
        behind = part * rounds_behind(s)
        pulls, kept = pulls_in(s, s.totals), pulls_in(s, s.ledger) + pulls_in(s, s.meanwhile)
        if is_credible and part * pulls >= kept:
            rows.copy(totals, s.totals[:size])
        else:
            rows.add_up(totals, s.ledger[:size], s.meanwhile[:size])
            behind, pulls = s.ledger[width - 1] + s.meanwhile[width - 1], kept
        expect(s, about, rounds_since_first(s), behind)
        if s.me.decay != 1.0:  # the time is that of pulls as they count now
            pulls = rows.total_at(totals, s.count_at)
        about[TIME] = max(2.0, pulls)
        rows.copy(certain, s.certain[:size])


def _check_lineage(lineage: float, what: str) -> None:
    if not 0 <= lineage < 1 << LINEAGE_BITS or lineage % 1:
        raise InputError(
            f"{what} has lineage {lineage:g}; it is a whole number of {LINEAGE_BITS} bits"
        )
