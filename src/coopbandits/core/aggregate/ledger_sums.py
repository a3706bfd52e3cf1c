r"""Ledger sums: pulls are handed on to a root that enters each of them in a ledger, exactly once.

Tree sums (`tree_sums`) recount the network in every round, so they lose what a broken tree no
longer connects. Here the pulls themselves move. They are *mass*: registers, the agents a that they
are of and the rounds B behind them.

**Handing on.** An agent holds mass H: its own pulls, and what was handed to it. Once a round all of
it goes to one neighbour j that is nearer to the root: S_j ← S_j + H, H ← 0. A message tells S_j,
all that was ever handed over that link, and the receiver adds what is new, S_j − Q_j, Q_j being
what it has taken before. So a lost message is only a delay. Who takes it must tell of the same
root, not be a child or cut off, have a newer beat, or the same and be nearer, and the link must
have worked both ways lately: within 1 + 2 (g − 1) + v rounds, g the mean gap between messages from
j and v its mean deviation. Of several the newest beat counts, less g, then the distance. If there
is none, the agent keeps H.

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

**Lost memories.** Messages are numbered by rounds, and a number's fraction, the mark, tells one
memory of a link from another: it is drawn when the other end is first heard. Nobody is handed
anything before it has acknowledged a number with that mark, and who sees a new mark takes S_j for
Q_j and adds nothing. So an agent that forgets loses what it held and what was on its way to it, and
nothing is taken twice. An agent that was opened again, and whose memory may be an older one, asks
its neighbours first (`doubt`). If it is older, the agent drops what it held, which it may have
handed on since, and begins all links anew.

**Estimates.** Two stand side by side: V of the tree, fresher while the tree stands, and D with the
own pulls since it came. The one with more pulls is read; V only if it has no more agents than D, or
than twice as many as extrema propagation says, ext. N̂ is a(V) once that is steady, as in tree
sums; before, the larger of both numbers of agents where that is within 0.6 and 1.6 of ext, else
ext. If V has more agents than N̂, its tree is being regrown and counts some twice: its pulls then
count N̂/a(V) times.

A message is [S_j | D | lineage, number, number last heard | a message of tree sums]: three times
all registers and 13 values, 6K + 13 with sums and counts, and up to 33 more while agents are
counted.

**Forgetting.** With a discount γ all mass ages with the clock of tree sums, H, S_j, Q_j, D, b and c
alike, and what a message tells ages from its stamp: so S_j − Q_j and b + c are sums of the same
pulls as without, each times γ to its age. Counts no longer only grow, so the number of pulls ever
made travels beside them, and of two ledgers the one with more of those is kept.

*Differs from the paper*: none has it. Cumulative sums per link are those of running-sum ratio
consensus (Hadjicostis, Vaidya, Domínguez-García 2016).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from coopbandits.core.aggregate.aggregation import OWN, ROBUST, Aggregation, MessageSize, Moving
from coopbandits.core.aggregate.claims import MAX_NUMBERS, Doubt, PartlyImpossibleError
from coopbandits.core.aggregate.doubt import LEVELS, SURE, DoubtfulMachine
from coopbandits.core.aggregate.exchange import anticipation, check_vectors
from coopbandits.core.aggregate.extrema import EXPONENTIALS, check_minima
from coopbandits.core.aggregate.forgetting import (
    age_rows,
    check_forgetting,
    has_fallen,
)
from coopbandits.core.aggregate.spanning_tree import CHILD, CONTROL, FAR, NOBODY
from coopbandits.core.aggregate.tree_sums import FEWEST, STEADY, TreeSumsMachine
from coopbandits.core.checks import require_count
from coopbandits.core.contract import Estimate, LocalView, State, Vector
from coopbandits.core.draws import words
from coopbandits.core.errors import InputError
from coopbandits.core.statistic import VersionedRegisters

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from coopbandits.core.aggregate.claims import Claims
    from coopbandits.core.statistic import Registers

YOUNG = 64
"""Rounds for which a root holds what reaches it instead of collecting it."""

SLACK = 1.0
"""Rounds that a link may be silent beyond its usual gaps before nothing is handed over it."""

AROUND = (0.6, 1.6)
"""A count of agents is believed if it is within these of what minima say."""

HEADER = 3
"""Values between the ledger and the part of tree sums: lineage, number, number last heard."""

LINEAGE_BITS = 48

DOUBTED = ("doubted", "numbers", "marks", "acknowledged", "base", "collected")
"""What a memory drops that is older than what it has told; the ledger has base and collected."""

MARKS, TENURES = 1 << 40, 1 << 41
"""Where the words of marks and of tenures begin, by round; those before are others' (`extrema`)."""


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

    def __post_init__(self) -> None:
        """Refuse what is no discount."""
        check_forgetting(self.discount)

    @property
    def needs(self) -> frozenset[str]:
        """A random word."""
        return frozenset({"random_word"})

    @property
    def whole_pulls(self) -> bool:
        """Yes."""
        return True

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


class LedgerSumsMachine(DoubtfulMachine, TreeSumsMachine):
    """Mass held and handed on, the ledger, and the agent's place on the tree."""

    fields: tuple[str, ...] = (
        *TreeSumsMachine.fields, *DoubtfulMachine.doubting, "held", "doubted", "sent", "taken",
        "numbers", "marks", "acknowledged", "wobbles", "receipts", "ledger", "lineage",
        "meanwhile", "tenure", "base", "collected",
    )  # fmt: skip
    links: tuple[str, ...] = (
        *TreeSumsMachine.links, *DoubtfulMachine.doubting_links, "sent", "taken", "numbers",
        "marks", "acknowledged", "wobbles", "receipts",
    )  # fmt: skip

    def __init__(self, view: LocalView, registers: Registers) -> None:
        super().__init__(view, registers)
        self.word, width, degree = view.random_word, self.own.size, len(self.places)
        self.start = 2 * width + HEADER  # where the part of tree sums begins
        self._start_sure()
        self.levels = np.zeros(degree)
        self.held = self.own.copy()  # H: this agent counts as one with its first pulls
        self.doubted = np.zeros(width)  # what was held when this memory was opened again
        self.sent = np.zeros((degree, width))  # S_j
        self.taken = np.zeros((degree, width))  # Q_j
        self.numbers = np.zeros(degree)  # the number of the last message from j, 0 for none
        self.marks = np.zeros(degree)  # the fraction of numbers told to j, 0 until j is heard
        self.acknowledged = np.zeros(degree)  # the last own number that j told to have heard
        self.wobbles = np.zeros(degree)  # v: mean deviation of gaps
        # An own number, the pulls handed on by then, and those that surely have arrived.
        self.receipts = np.zeros((degree, 3))
        self.ledger, self.lineage = np.zeros(width), 0  # D
        self.meanwhile = np.zeros(width)  # own pulls since D came
        self.tenure = 0  # the bits of a root that collects, else 0
        self.base, self.collected = np.zeros(width), np.zeros(width)  # b and c

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
        return self.registers.read(totals[:-2], time=time, num_agents=agents, anticipation=ahead)

    def _num_agents(self, agents: float) -> float:
        """Return how many agents there are, `agents` being the most that is credible."""
        counted = self._counted()
        if self.steady >= STEADY and self.agents_seen >= FEWEST * counted:
            return self.agents_seen
        return agents if AROUND[0] * counted <= agents <= AROUND[1] * counted else counted

    def observe(self, arm: int, reward: float, context: Vector | None = None) -> None:
        """Add one own pull, and hold it."""
        behind = self.own[-1]
        super().observe(arm, reward, context)
        for mass in (self.held, self.meanwhile):
            self.registers.record(mass[:-2], arm, reward, context)
            mass[-1] += self.own[-1] - behind

    def outgoing(self, neighbor: int) -> Vector:
        """Return [S_j | D | lineage, number, number last heard | a message of tree sums]."""
        at = self.places[neighbor]
        handed = self.sent[at] + self.held if neighbor == self._carrier() else self.sent[at]
        number = self.rounds + 1.0 + self.marks[at] if self.is_sure else float(-self.level)
        header = [float(self.lineage), number, self.numbers[at]]
        return np.concatenate([handed, self.ledger, header, super().outgoing(neighbor)])

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Hand on, take what is new, look after the tree and the ledger."""
        self._check(messages)
        told = {j: message for j, message in messages.items() if not self._is_late(j, message)}
        self._hand_on()
        for j in told:
            at = self.places[j]
            deviation = abs(self.ages[at] + 1.0 - self.gaps[at])
            self.wobbles[at] += 0.2 * (deviation - self.wobbles[at])
        super().receive({j: message[self.start :] for j, message in told.items()})
        if self.stamps:
            told = {j: self._aged(message) for j, message in told.items()}
        if not self.is_sure:
            self._ask(told)
        for j, message in told.items() if self.is_sure else ():
            self._take(self.places[j], message)
        self._keep_ledger(told)

    def reopened(self, word: int) -> None:
        """Doubt this memory, unless there is nothing in it."""
        self.nonce = word
        if not self.rounds and not self._pulls(self.own):
            return
        if self.is_sure:
            self._hand_on()  # as the last message told
        self._begin_doubt()
        self.doubted, self.held = self.doubted + self.held, np.zeros(self.own.size)

    def _ask(self, told: Mapping[int, Vector]) -> None:
        """Look at what neighbours have heard of this memory; go on, begin anew, or wait."""
        right = True
        for j, message in told.items():
            at, (number, heard) = self.places[j], message[self.start - 2 : self.start].tolist()
            right &= self._note_answer(at, number, heard, float(self.marks[at]))
        if right and self._settle():
            self.held, self.opened = self.held + self.doubted, SURE
            self.doubted = np.zeros(self.own.size)
        elif not right or self._has_waited():
            self._begin_anew()

    def _grow_older(self, stamps: list[float]) -> None:
        """Let all mass age, too."""
        before = self.clock
        super()._grow_older(stamps)
        for rows in (
            self.held, self.doubted, self.sent, self.taken, self.ledger, self.meanwhile,
            self.base, self.collected,
        ):  # fmt: skip
            age_rows(self.registers, rows, self.clock - before)

    def _aged(self, message: Vector) -> Vector:
        """Return a message whose mass has aged since it was written."""
        width, found = self.own.size, message.copy()
        rounds = self.clock - int(message[self.start + width + CONTROL])
        age_rows(self.registers, found[: 2 * width].reshape(2, width), rounds)
        return found

    def _check(self, messages: Mapping[int, Vector]) -> None:
        size = self.start + self.own.size + CONTROL + self.stamps
        check_vectors(messages, size, size + EXPONENTIALS, size + EXPONENTIALS + 1)
        check_minima(messages, size)
        for j, message in messages.items():
            _check_lineage(float(message[self.start - HEADER]), f"message from {j}")

    def _is_late(self, neighbor: int, message: Vector) -> bool:
        """Return whether a later message of the same memory was heard before."""
        number, last = float(message[self.start - 2]), float(self.numbers[self.places[neighbor]])
        return 0.0 < number < last and number % 1.0 == last % 1.0

    def _hand_on(self) -> None:
        """Hand all mass at hand to a neighbour, if there is one for it."""
        carrier = self._carrier()
        if carrier != NOBODY:
            self.sent[self.places[carrier]] += self.held
            self.held = np.zeros(self.held.size)

    def _carrier(self) -> int:
        """Return the neighbour to whom mass is handed in this round; `NOBODY` to keep it."""
        found = []
        if self.dist != 0 and self.is_sure:
            controls: list[list[float]] = self.controls.tolist()
            for (j, at), (root, beat, dist, bond) in zip(
                self.places.items(), controls, strict=True
            ):
                nearer = beat > self.beat or (beat == self.beat and dist < self.dist)
                fit = root == self.root and dist < FAR and bond != CHILD and nearer
                if fit and self._works_both_ways(at):
                    found.append((float(self.gaps[at]) - beat, dist, j))
        return min(found)[-1] if found else NOBODY

    def _works_both_ways(self, at: int) -> bool:
        """Return whether a neighbour was heard lately, and told that it heard this agent lately."""
        silence = SLACK + 2.0 * (self.gaps[at] - 1.0) + self.wobbles[at]
        # A message tells of the round before it, and is heard in the round before this one.
        answered = self.rounds + 1 - self.acknowledged[at] - 2
        return bool(self.acknowledged[at] and self.ages[at] <= silence and answered <= silence)

    def _begin_anew(self) -> None:
        """Drop what may have been handed on in rounds that this agent no longer knows of."""
        for name in DOUBTED:
            setattr(self, name, np.zeros_like(getattr(self, name)))
        self.opened, self.tenure = SURE, 0

    def _take(self, at: int, message: Vector) -> None:
        """Take over what a neighbour has handed on since its last message."""
        handed = message[: self.own.size]
        number, heard = message[self.start - 2 : self.start].tolist()
        if number <= 0.0:  # in doubt: it is heard again later
            self.acknowledged[at] = 0.0
            return
        mark = number % 1.0
        if not mark or mark != self.numbers[at] % 1.0:
            # The first that is heard of this memory: what it tells was handed to another.
            self.acknowledged[at] = 0.0
        elif not self._fell(self.taken[at], handed):
            self.held = self.held + (handed - self.taken[at])
        self.taken[at], self.numbers[at] = handed, number
        if not self.marks[at]:
            self.marks[at] = mark_of(self.word ^ self.nonce, self.rounds)
            self.receipts[at] = 0.0, *[self._pulls(self.sent[at])] * 2
        elif heard % 1.0 == self.marks[at]:
            self.acknowledged[at] = heard // 1.0
            self._note_receipt(at)

    def _fell(self, before: Vector, now: Vector) -> bool:
        """Return whether there are fewer pulls than before; where they decay, fewer ever made."""
        if self.stamps:
            return self._pulls(now) < self._pulls(before)
        return has_fallen(self.registers, before[:-2], now[:-2])

    def _note_receipt(self, at: int) -> None:
        """Note what has arrived at a neighbour, once it has heard a number noted before."""
        number, arrived, _ = self.receipts[at].tolist()
        if self.acknowledged[at] >= number:
            # This round's message may have been told before the last pulls: the next has them.
            self.receipts[at] = self.rounds + 1.0, self._pulls(self.sent[at]), arrived

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

    def _pulls(self, mass: Vector) -> float:
        """Return the number of pulls in some mass, as they were made."""
        return float(self.registers.version(mass[:-2]))

    def moving(self) -> Moving:
        """Return where pulls are: here, on links, and in the ledger."""
        handed = sum(map(self._pulls, self.sent))
        underway = handed - float(self.receipts[:, 2].sum())
        return Moving(self._pulls(self.held + self.doubted), underway, self._pulls(self.ledger))

    def check_claims(self, message: Vector, claims: Claims, now: float) -> None:
        """Refuse what cannot have been handed on, and a tree that cannot be.

        A ledger that cannot be is left out, and the rest of its message believed: otherwise one lie
        in the ledger of an honest root would keep everybody from listening to anybody.
        """
        if message.size < self.start:
            return  # its form is checked when the round ends
        width, most = self.own.size, claims.most_rounds(now)
        self._check_mass(message[:width], claims, now)
        number = float(message[2 * width + 1])
        claims.check_within("a message's number", number, float(-LEVELS), most + 2.0)
        super().check_claims(message[self.start :], claims, now)
        try:
            self._check_mass(message[width : 2 * width], claims, now)
            _check_lineage(float(message[2 * width]), "a claim")
        except InputError as error:
            rest = message.copy()
            rest[width : 2 * width + 1] = 0.0
            raise PartlyImpossibleError(rest, [Doubt(str(error))]) from error

    def _check_mass(self, mass: Vector, claims: Claims, now: float) -> None:
        """Refuse mass of more than all agents can have pulled; each may have had many lives."""
        agents, behind = mass[-2:].tolist()
        claims.check_totals(self.registers, mass[:-2], claims.max_agents, now)
        claims.check_within("agents in mass", agents, 0.0, claims.max_agents * MAX_NUMBERS)
        most = claims.max_agents * claims.most_rounds(now)
        claims.check_within("rounds in mass", behind, 0.0, most)

    def relinked(self, state: State, neighbors: Sequence[int], own: Sequence[int]) -> State:
        """Begin anew, if in doubt: a neighbour that has gone cannot tell what it has heard."""
        moved = super().relinked(state, neighbors, own)
        if state["opened"] != SURE:
            moved |= {name: np.zeros_like(getattr(self, name)).tolist() for name in DOUBTED}
            moved |= {"opened": SURE, "tenure": 0}
        return moved

    def check_state(self, values: State) -> None:
        """Refuse bits that no lineage has, and marks that are no fractions."""
        super().check_state(values)
        for name in ("lineage", "tenure"):
            require_count(f"state field {name}", values[name], least=0)
            _check_lineage(values[name], f"state field {name}")
        if not ((values["marks"] >= 0.0) & (values["marks"] < 1.0)).all():
            raise InputError(
                f"state field marks is {values['marks'].tolist()}; marks are fractions, from 0 to 1"
            )


def mark_of(word: int, rounds: int) -> float:
    """Return a fraction of 20 random bits, never 0; whole numbers may be added exactly."""
    bits = int(words(word, np.array([MARKS + rounds], dtype=np.uint64))[0]) >> 44
    return (bits + 0.5) * 2.0**-20


def tenure_of(word: int, rounds: int) -> int:
    """Return up to 3 of 48 bits for the tenure that begins with some round of an agent."""
    drawn = int(words(word, np.array([TENURES + rounds], dtype=np.uint64))[0])
    return sum({1 << (drawn >> 16 * k) % LINEAGE_BITS for k in range(3)})


def _check_lineage(lineage: float, what: str) -> None:
    if not 0 <= lineage < 1 << LINEAGE_BITS or lineage % 1:
        raise InputError(
            f"{what} has lineage {lineage:g}; it is a whole number of {LINEAGE_BITS} bits"
        )
