r"""Ledger sums: pulls are handed on to a root that enters each of them in a ledger, exactly once.

Tree sums (`tree_sums`) recount the network in every round, so they lose what a broken tree no
longer connects. Here the pulls themselves move: as mass, which is handed on from neighbour to
neighbour towards the root, none of it lost and none taken twice (`moving_mass`).

**The ledger** D is what roots have collected: D = b + c, b the ledger that the root found when it
began, c all mass that reached it since. D travels to all agents, newest first: of two the one with
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

**Recovery.** A process that starts continues from what its disk has kept. After a loss of power, or
with an older copy put back, that is less than what it has done: what it now holds it may have
handed on already, and what neighbours tell it may have taken already. It cannot know by itself, and
its neighbours can: they acknowledge numbers of its messages.

From its opening on an agent is *recovering*. It hands nothing on, takes nothing, and gives its
messages no numbers, so what neighbours acknowledge stays the last that they have heard from its
life before. A memory of r rounds has sent numbers up to r + 1. A neighbour that acknowledges such a
one, under the mark that this memory has drawn for the link, has heard nothing that it does not
know. Any other answer means that the memory is too old, or that the neighbour has forgotten what it
heard. Then the agent *resets*: it drops what it held when it was opened, and draws new marks. So it
does if a neighbour has not answered after `PATIENCE` rounds. It asks those that were neighbours
when it was opened, as soon as they are again. A neighbour that has become one since may know of a
later life, too: its answer is right unless it acknowledges a number that this memory has not sent.
A memory from before any neighbour was heard has only newcomers to ask, and cannot know how many
will come: it waits for `PATIENCE` rounds, and resumes if no answer was wrong.

*Many recovering.* If i and its neighbour j are both put back, both may look right to each other,
and what i holds may be known to a third by way of j. So i also waits for j: a recovering agent
tells its *level*, 0 until all neighbours have given the right answer, and then one more than the
least of those of its recovering neighbours. At level n all recovering within n - 1 links have got
right answers only. At `LEVELS`, or at once where no neighbour is recovering, recovery is over. An
agent that resets acknowledges nothing, so its recovering neighbours reset as well, and theirs.
Where all answers in reach are right the openings are a consistent cut: no agent knows of anything
that happened after it, and playing on from there is as if it had not.

This takes for granted that over a new link nothing arrives from before (frames carry the sender's
start), that pulls were not handed on over more than `LEVELS` agents in a row all of which have lost
that from their memories, and that a neighbour that answers was told of the rounds that a memory has
lost: links did not all break in the very round after which it was kept.

*Differs from the paper*: none has it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from coopbandits.core import rows
from coopbandits.core.aggregate.aggregation import OWN, ROBUST, MessageSize, Moving, moved_rows
from coopbandits.core.aggregate.claims import MAX_NUMBERS, PartlyImpossibleError, Rejection
from coopbandits.core.aggregate.extrema import EXPONENTIALS, check_minima, counted
from coopbandits.core.aggregate.fields import (
    AGENTS,
    TIME,
    Aggregation,
    FieldMachine,
    Sizes,
    agent_state,
)
from coopbandits.core.aggregate.forgetting import age_rows, check_forgetting
from coopbandits.core.aggregate.messages import check_vectors
from coopbandits.core.aggregate.moving_mass import (
    FRONT,
    HEADER,
    RECOVERED,
    add_pull,
    age_moving,
    exchange,
    find_carrier,
    hand_on,
    is_later,
    moving_fields,
    observe_and_hold,
    pulls_in,
    start_moving,
    start_of_sums,
    take,
    write_handed,
    write_numbers,
)
from coopbandits.core.aggregate.spanning_tree import CONTROL, NOBODY
from coopbandits.core.aggregate.tree_sums import (
    TreeSumsMachine,
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

if TYPE_CHECKING:
    from coopbandits.core.aggregate.claims import Claims
    from coopbandits.core.contract import LocalView, State, Vector
    from coopbandits.core.statistic import Registers

YOUNG = 64
"""Rounds for which a root holds what reaches it instead of collecting it."""

MOST = 1.6
"""A count of agents is believed up to this multiple of what minima say."""

LINEAGE_BITS = 48

TENURES = 1 << 41
"""Where the words of tenures begin, by round; those before are others' (`moving_mass`)."""

LEVELS = 64
"""The level at which recovery is over."""

PATIENCE = 512
"""Rounds for which a recovering agent waits for answers."""

UNHEARD = -1.0
"""The level of a neighbour that was one at the opening, and has not answered."""

FORMER = 16
"""Number of departed neighbours to remember."""

FORMER_FIELDS = ("former", "former_sent", "former_taken")


def keep_ledger(s: Any, inbox: Any, lengths: Any) -> None:
    """Keep the largest ledger; a root enters what has reached it."""
    if s.me.dist != 0.0 and s.me.tenure != 0:
        step_down(s)
    width, grown, most = s.own.size, False, pulls_in(s, s.ledger)
    # While recovering, a root cannot merge its tenure into a larger ledger; it hears of it again.
    if s.me.opened == RECOVERED or s.me.tenure == 0:
        for link in range(lengths.size):
            if lengths[link] == 0:
                continue
            ledger = inbox[link, width : 2 * width]
            pulls = pulls_in(s, ledger)
            if pulls > most:
                rows.copy(s.ledger, ledger)
                rows.fill(s.meanwhile, 0.0)
                s.me.lineage, grown, most = int(inbox[link, 2 * width]), True, pulls
    if s.me.dist == 0.0 and s.me.reign >= YOUNG and s.me.opened == RECOVERED:
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
    if s.me.opened == RECOVERED:
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


def check_lineage(lineage: float, what: str) -> None:
    if not 0 <= lineage < 1 << LINEAGE_BITS or lineage % 1:
        raise InputError(
            f"{what} has lineage {lineage:g}; it is a whole number of {LINEAGE_BITS} bits"
        )


class LedgerSumsMachine(TreeSumsMachine):
    """An agent that may recover a memory, and that remembers departed neighbours.

    Attributes
    ----------
    levels : array
        The level that each neighbour told since the opening.
    former : array
        Of departed neighbours, in that order: who it is, the number of its last message, the mark
        told to it, its level if it is asked, and the pulls that surely have arrived.
    former_sent, former_taken : array
        S_j and Q_j of them.
    """

    registered = MappingProxyType(
        {
            **TreeSumsMachine.registered,
            **dict.fromkeys(
                (
                    "held", "doubted", "sent", "taken", "ledger", "meanwhile", "base", "collected",
                    "certain", *FORMER_FIELDS[1:],
                ),
                (0, 2),
            ),
        }
    )  # fmt: skip

    def __init__(self, spec: Aggregation, view: LocalView, registers: Registers) -> None:
        super().__init__(spec, view, registers)
        width, self.start = self.state.own.size, start_of_sums(self.state)
        self.levels = np.zeros(len(self.neighbors))
        self.former = np.zeros((0, 5))
        self.former_sent, self.former_taken = np.zeros((0, width)), np.zeros((0, width))
        self.keep_also("levels", is_link=True)
        for name in FORMER_FIELDS:
            self.keep_also(name, is_table=True)
        self.functions = spec.functions(registers.decay, receive=self._receive)

    @property
    def is_recovered(self) -> bool:
        """Whether the memory is certain to be no older than what it has told."""
        return bool(self.state.me.opened == RECOVERED)

    def _receive(self, s: Any, inbox: Any, lengths: Any) -> None:
        """Receive as the aggregation does, but compare answers first while recovering."""
        exchange(s, inbox, lengths)
        if not self.is_recovered:
            self._recover({j: inbox[at] for j, at in self.places.items() if lengths[at] > 0})
        book(s, inbox, lengths)

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Take in what arrived, and let what is known of departed neighbours age."""
        before = self.state.me.clock
        super().receive(messages)
        if len(self.former):
            for table in (self.former_sent, self.former_taken):
                age_rows(self.registers, table, max(0, self.state.me.clock - before))

    def reopened(self, word: int) -> None:
        """Begin to recover, unless there is nothing in this memory."""
        s = self.state
        s.me.nonce, self.is_prepared = word, False
        if not s.me.rounds and not pulls_in(s, s.own):
            return
        is_new = np.zeros(len(self.neighbors), dtype=bool)
        if self.is_recovered:
            s.me.carrier = find_carrier(s)
            hand_on(s)  # as the last message told
            s.me.carrier, s.me.opened = NOBODY, s.me.rounds
        else:  # already recovering: keep the earlier starting point
            is_new = (s.marks == 0.0) & (self.levels >= 0.0)
        s.me.level, self.levels[:] = 0, UNHEARD
        self.levels[is_new] = 0.0  # a neighbour since the first of these openings only
        self.former[self.former[:, 3] < LEVELS, 3] = UNHEARD
        rows.add(s.doubted, s.held)
        rows.fill(s.held, 0.0)

    def _recover(self, told: Mapping[int, Vector]) -> None:
        """Compare neighbours' acknowledgements with this memory: resume, reset or keep waiting."""
        right, s = True, self.state
        for j, message in told.items():
            at, (number, heard) = self.places[j], message[self.start - 2 : self.start].tolist()
            mark = float(s.marks[at])
            is_of_link = heard % 1.0 == mark if mark else self.levels[at] != UNHEARD
            self.levels[at] = LEVELS if number > 0.0 else min(-number, LEVELS)
            knows_more = heard != 0.0 and is_later(heard // 1.0, s.me.opened + 1.0)
            right &= is_of_link and not knows_more
        has_waited = s.me.rounds - s.me.opened > PATIENCE
        if right:
            # All who are asked count, whether they are neighbours now or not.
            asked = [*self.levels.tolist(), *self.former[:, 3].tolist()]
            s.me.level = min(LEVELS, 1 + int(min(asked, default=LEVELS)))
            # Without anybody who could ever have answered, it can only wait for newcomers.
            knows_somebody = s.marks.any() or self.former[:, 2].any()
            if s.me.level == LEVELS and (knows_somebody or has_waited):
                rows.add(s.held, s.doubted)
                rows.fill(s.doubted, 0.0)
                s.me.opened = RECOVERED
                return
        if not right or has_waited:
            self._reset()

    def _reset(self) -> None:
        """Drop what may have been handed on in rounds that this agent no longer knows of."""
        s = self.state
        # The ledger has what a root collected: a new tenure begins.
        for name in ("doubted", "numbers", "marks", "acknowledged", "base", "collected"):
            getattr(s, name)[:] = 0.0
        for name in FORMER_FIELDS:
            setattr(self, name, getattr(self, name)[:0])
        s.me.opened, s.me.tenure = RECOVERED, 0

    def check_messages(self, messages: Mapping[int, Vector]) -> None:
        size = self.start + self.state.own.size + CONTROL
        check_vectors(messages, size, size + EXPONENTIALS, size + EXPONENTIALS + 1)
        check_minima(messages, size)
        for j, message in messages.items():
            check_lineage(float(message[self.start - HEADER]), f"message from {j}")

    def check_claims(self, message: Vector, claims: Claims, now: float) -> None:
        """Reject what cannot have been handed on, and a tree that cannot be.

        A ledger that cannot be is left out, and the rest of its message believed: otherwise one lie
        in the ledger of an honest root would keep all agents from listening to each other.
        """
        if message.size < self.start:
            return  # its form is checked when the round ends
        width = self.state.own.size
        self._check_mass(message[:width], claims, now)
        number, most = float(message[self.start - 2]), claims.most_rounds(now)
        claims.check_within("a message's number", number, float(-LEVELS), most + 2.0)
        super().check_claims(message[self.start :], claims, now)
        try:
            self._check_mass(message[width : 2 * width], claims, now)
            check_lineage(float(message[2 * width]), "a claim")
        except InputError as error:
            rest = message.copy()
            rest[width : 2 * width + 1] = 0.0
            raise PartlyImpossibleError(rest, [Rejection(str(error))]) from error

    def _check_mass(self, mass: Vector, claims: Claims, now: float) -> None:
        """Reject mass of more than all agents can have pulled; each may have had many lives."""
        agents, behind = mass[-2:].tolist()
        claims.check_totals(self.registers, mass[:-2], claims.max_agents, now)
        claims.check_within("agents in mass", agents, 0.0, claims.max_agents * MAX_NUMBERS)
        most = claims.max_agents * claims.most_rounds(now)
        claims.check_within("rounds in mass", behind, 0.0, most)

    def check_state(self, values: State) -> None:
        super().check_state(values)
        require_count("state field nonce", values["nonce"], least=0)
        require_count("state field opened", values["opened"], least=RECOVERED)
        require_count("state field level", values["level"], least=0)
        if not ((values["levels"] >= UNHEARD) & (values["levels"] <= LEVELS)).all():
            raise InputError(
                f"state field levels is {values['levels'].tolist()}; levels are {UNHEARD:g} to "
                f"{LEVELS}"
            )
        if not ((values["marks"] >= 0.0) & (values["marks"] < 1.0)).all():
            raise InputError(
                f"state field marks is {values['marks'].tolist()}; marks are fractions, from 0 to 1"
            )
        if len({len(values[name]) for name in FORMER_FIELDS}) > 1:
            raise InputError(
                f"state fields {', '.join(FORMER_FIELDS)} must tell of the same neighbours; "
                "restore what export_state returned"
            )
        for name in ("lineage", "tenure"):
            require_count(f"state field {name}", values[name], least=0)
            check_lineage(values[name], f"state field {name}")

    def translated(self, message: Vector, theirs: Registers, places: Sequence[int]) -> Vector:
        width = theirs.size + 2
        start = FRONT * width + HEADER
        if message.size < start:
            return message  # of no such form, which is reported when it is read
        masses = message[: FRONT * width].reshape(FRONT, width)
        moved = moved_rows(masses, self.registers, theirs, places, (0, 2)).ravel()
        rest = super().translated(message[start:], theirs, places)
        return np.concatenate([moved, message[FRONT * width : start], rest])

    def moving(self) -> Moving:
        """Return where pulls are: here, on links, and in the ledger."""
        s = self.state
        handed = sum(map(self._pulls, [*s.sent, *self.former_sent]))
        arrived = float(s.receipts[:, 2].sum() + self.former[:, 4].sum())
        return Moving(self._pulls(s.held + s.doubted), handed - arrived, self._pulls(s.ledger))

    def _pulls(self, mass: Vector) -> float:
        return float(pulls_in(self.state, mass))

    def parted(self, neighbors: Collection[int]) -> None:
        """Stop handing mass to departed neighbours; they never received the pending mass."""
        for j in neighbors:
            self.state.acknowledged[self.places[j]] = 0.0
        self.is_prepared = False

    def relinked(self, state: State, neighbors: Sequence[int], own: Sequence[int]) -> State:
        """Remember the links to departing neighbours, and resume those to returning ones."""
        state = self._handed_on(state, neighbors)
        moved = super().relinked(state, neighbors, own)
        departed = zip(*(state[name] for name in FORMER_FIELDS), strict=True)
        known = {int(row[0]): (row, sent, taken) for row, sent, taken in departed}
        for at, j in enumerate(neighbors):
            is_asked = state["levels"][at] == UNHEARD
            if j not in own and (state["marks"][at] or is_asked):  # otherwise it was never heard
                level = LEVELS if state["opened"] == RECOVERED else state["levels"][at]
                row = [j, state["numbers"][at], state["marks"][at], level, state["receipts"][at][2]]
                known[j] = [*map(float, row)], state["sent"][at], state["taken"][at]
        for at, j in enumerate(own):
            if j in known and j not in neighbors:
                (_, number, mark, level, arrived), sent, taken = known.pop(j)
                moved["numbers"][at], moved["marks"][at] = number, mark
                moved["sent"][at], moved["taken"][at] = sent, taken
                moved["levels"][at] = min(level, 0.0)
                moved["receipts"][at] = [0.0, arrived, arrived]
        asked = [link for link in known.values() if link[0][3] < LEVELS]
        others = [link for link in known.values() if link[0][3] == LEVELS]
        for at, name in enumerate(FORMER_FIELDS):
            moved[name] = [link[at] for link in (*others[-FORMER:], *asked)]
        return moved

    def _handed_on(self, state: State, neighbors: Sequence[int]) -> State:
        """Return a state with the last message's hand-off applied.

        Without some neighbours others may carry: what one of these was told is not theirs.
        """
        if not neighbors:
            return state
        before = agent_state(self.layout, len(neighbors))
        for name in ("sent", "held", "controls", "ages", "gaps", "acknowledged", "wobbles", "lags"):
            getattr(before, name)[...] = state[name]
        for name in ("rounds", "opened", "root", "beat", "dist"):
            setattr(before.me, name, state[name])
        before.me.carrier = find_carrier(before)
        hand_on(before)
        return state | {"sent": before.sent.tolist(), "held": before.held.tolist()}


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
    keeps_own: ClassVar[bool] = True
    outlives: ClassVar[bool] = True
    versioned: ClassVar[bool] = True
    certifies: ClassVar[bool] = True
    machine: ClassVar[type[FieldMachine]] = LedgerSumsMachine
    shared: ClassVar[str] = "own"
    derived: ClassVar[tuple[str, ...]] = (
        "branches", "totals", "kin", "relatives", "born", "most_agents", "common", "count_at",
        "word", "carrier",
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_forgetting(self.discount)

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"random_word"})

    def fields(self, sizes: Sizes) -> Mapping[str, Any]:
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
        start_moving(s, view)

    def message_width(self, sizes: Sizes) -> int:
        return (FRONT + 1) * (sizes.width + 2) + HEADER + CONTROL + EXPONENTIALS + 1

    def message_size(self, registers: Registers, max_agents: int) -> MessageSize:
        found = self.decaying(registers)
        usual = (FRONT + 1) * (found.size + 2) + HEADER + CONTROL + (found.decay != 1.0)
        return MessageSize(usual, usual + EXPONENTIALS + 1, "while agents are being counted")

    @staticmethod
    def age(s: Any, factors: Vector, factor: float) -> None:
        age_moving(s, factors, factor)
        age_mass(s.ledger, factors, factor)
        age_mass(s.meanwhile, factors, factor)
        age_mass(s.base, factors, factor)
        age_mass(s.collected, factors, factor)
        age_mass(s.certain, factors, factor)

    @staticmethod
    def age_message(s: Any, message: Vector, factors: Vector, factor: float) -> None:
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
