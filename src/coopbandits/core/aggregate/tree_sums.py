r"""Tree sums: exact totals over a spanning tree that the agents grow by themselves, and regrow.

**Sums.** An agent tells neighbour j the cumulative statistics of all on its own side of that link::

    payload to j = V − [j is a tree neighbour] R_j,     V = O + Σ_{tree neighbours j} R_j

O being the own totals (registers, a = 1 agent, B the rounds behind them) and R_j the last payload
from j. All of it is cumulative, hence idempotent: a lost or a late message is only a delay. On a
tree that stands, V is exact, every agent's share delayed by its distance, and a(V) = N; while the
tree changes, it may count too much or too little.

**Tree.** The agents grow it by themselves (`spanning_tree`), by four control values in a message. A
child that fell silent leaves V.

**Rounds behind totals.** B counts from the round of an agent's first pull to that of its last. An
agent that lost its memory starts again, so B tells that its earlier pulls are not in its totals.
Anticipated is what is missing of the rounds since the own first pull: after all have lost their
memory nothing is on its way.

**Number of agents.** N̂ = a(V) once it was the same for 20 rounds and is at least 0.45 of what
extrema propagation says (`extrema`); before that the larger of the two. Rounds without any message
do not count: while an agent hears nothing, a(V) cannot change. A number that a(V) had in 2500
steady rounds, and no other since, is believed whatever minima say. The 32 minima travel until a(V)
is steady, and for 100 rounds of every later generation. A message has 6 values beside the
registers, 32 or 33 more with the minima.

**Forgetting.** With a discount γ a message ends in a stamp, the sender's clock when it wrote the
payload (`forgetting`). O and R_j are multiplied by γ for every round that the clock moves on, and
what comes late by one more γ for every round it is late. So V is exactly the sum of all pulls
known, each times γ to its age. B decays too, a does not. With a window of w rounds V(t) − V(t − w)
is read; where a(V) changes or V falls the tree has been regrown, V(t − w) says nothing about the
pulls in V(t), and the window starts again.

**Lazy.** With `lazy` the payload is left out of messages, and the four control values are all that
is sent, as long as it has not grown enough (`messages`), the number of agents on this side is the
same, and no 32 rounds have passed: so what was lost, or told to an agent that forgot it, is told
again.

*Differs from the paper*: none has it. The model of Martínez-Rubio, Kanade and Rebeschini (2019)
forbids global structures that are given, while this one is made by the agents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from coopbandits.core import rows
from coopbandits.core.aggregate.aggregation import OWN, ROBUST, MessageSize, moved_rows
from coopbandits.core.aggregate.extrema import (
    COUNTING,
    EXPONENTIALS,
    check_count,
    check_counting,
    check_minima,
    counted,
    end_count,
    hear_minima,
    start_counting,
    write_drawn,
)
from coopbandits.core.aggregate.fields import (
    AGENTS,
    AHEAD,
    Aggregation,
    FieldMachine,
    Sizes,
    anticipation,
    whole,
)
from coopbandits.core.aggregate.forgetting import (
    check_forgetting,
    check_ring,
    decayed_rounds,
    has_fewer,
    keep_totals,
    window_fields,
)
from coopbandits.core.aggregate.messages import check_vectors, has_grown, require_lazy
from coopbandits.core.aggregate.pooling import (
    ESTIMATE,
    ESTIMATED,
    Spread,
    carried,
    pool,
    require_spread,
)
from coopbandits.core.aggregate.spanning_tree import (
    CONTROL,
    FAR,
    NOBODY,
    PLACING,
    check_place,
    hear_place,
    is_relative,
    placing_links,
    start_tree,
    tend,
    write_place,
)
from coopbandits.core.checks import require_count
from coopbandits.core.errors import InputError
from coopbandits.core.statistic.arm_sums import add_site_pull

if TYPE_CHECKING:
    from coopbandits.core.aggregate.claims import Claims
    from coopbandits.core.contract import LocalView, State, Vector
    from coopbandits.core.statistic import Registers, Statistic

STEADY = 20
"""Rounds for which a(V) must be the same."""

FEWEST = 0.45
"""A steady count of agents that is a smaller share of what minima say may be that of a part."""

CERTAIN = 2500
"""Steady rounds of the same a(V) after which it is believed whatever minima say. They may be a
liar's, or those of agents that have left, and one network in 42 000 draws so small ones itself."""

SPREAD = 100
"""Rounds for which the minima of a new generation travel although a(V) is steady."""

REFRESH = 32.0
"""Rounds after which a lazy agent tells its totals in any case."""

FEW = 16
"""With up to this many relatives, the payload to one is added up from all others. With more
it is subtracted from V: in a star, adding up would take N² rows a round. What that rounds off is no
more than what adding up in another order does."""

SUMMING: dict[str, Any] = {
    **PLACING,
    **COUNTING,
    "relatives": int,
    "agents_seen": float,  # a(V)
    "steady": int,  # rounds for which it has been so
    "standing": float,  # the last steady a(V)
    "stood": int,  # its steady rounds
    "first": int,  # rounds before the first own pull
    "common": int,  # whether all agents count rounds together
}
"""Numbers of an agent that adds up what its branches tell."""


def summing_fields(sizes: Sizes) -> dict[str, Any]:
    width = sizes.width + 2
    return {
        "own": width,  # O, ending in a and B
        "branches": width,  # what the parent and children told, added up
        "totals": width,  # V
        "payloads": (sizes.links, width),  # R_j
        "kin": whole(sizes.links),  # the links to the parent and children; the rest is unused
        **placing_links(sizes.links),
        **SUMMING,
    }


def start_summing(s: Any, view: LocalView) -> None:
    start_tree(s, view)
    start_counting(s, view)
    s.own[-2] = s.me.agents_seen = s.me.standing = 1.0
    s.me.common = int(view.common_round)


def note_pull(s: Any) -> None:
    """Count the rounds behind the own totals: those from the first pull to this one."""
    last = s.own.size - 1
    ended = s.me.clock if s.me.decay != 1.0 else s.me.rounds
    if s.own[last] == 0.0 or ended < s.me.first:  # the latter where a clock was set back
        s.me.first = ended
    s.own[last] = decayed_rounds(s.me.decay, ended + 1 - s.me.first)


def age_mass(mass: Any, factors: Vector, factor: float) -> None:
    """Multiply registers and the rounds behind them; the number of agents in between stays."""
    rows.multiply(mass[: factors.size], factors)
    mass[mass.size - 1] *= factor


def sum_branches(s: Any) -> None:
    """Add up what the parent and children told, and note these; all else but pulls stays so."""
    relatives = 0
    for link in range(s.ages.size):
        if is_relative(s, link):
            if relatives == 0:
                rows.copy(s.branches, s.payloads[link])
            else:
                rows.add(s.branches, s.payloads[link])
            s.kin[relatives] = link
            relatives += 1
    if relatives == 0:
        rows.fill(s.branches, 0.0)
    s.me.relatives = relatives


def age_sums(s: Any, factors: Vector, factor: float) -> None:
    """Let what is told on the tree age."""
    age_mass(s.own, factors, factor)
    for link in range(s.ages.size):
        age_mass(s.payloads[link], factors, factor)
    sum_branches(s)


def write_side(s: Any, besides: int, out: Any) -> None:
    """Write what is on this side of a link."""
    if not is_relative(s, besides):
        rows.copy(out, s.totals)
        return
    if s.me.relatives > FEW:
        rows.copy(out, s.totals)
        rows.subtract(out, s.payloads[besides])
        return
    first, are_more = NOBODY, False
    for place in range(s.me.relatives):
        link = s.kin[place]
        if link == besides:
            continue
        if first == NOBODY:
            first = link
        elif are_more:
            rows.add(out, s.payloads[link])
        else:
            rows.add_up(out, s.payloads[first], s.payloads[link])
            are_more = True
    if are_more:
        rows.add_up(out, s.own, out)
    elif first != NOBODY:
        rows.add_up(out, s.own, s.payloads[first])
    else:
        rows.copy(out, s.own)


def spreads(s: Any) -> bool:
    """Return whether minima travel."""
    return bool(s.me.steady < STEADY or (s.me.generation > 0 and s.me.collecting < SPREAD))


def write_control(s: Any, link: int, out: Any, at: int) -> int:
    """Write [root, beat, dist, bond | m] from a place on; return where they end."""
    end = write_place(s, link, out, at)
    return write_drawn(s, out, end) if spreads(s) else end


def listen(s: Any, inbox: Any, lengths: Any, start: int) -> None:
    """End a round with what arrived; payloads begin at `start` in messages."""
    s.me.rounds += 1
    size, heard = s.own.size, False
    for link in range(lengths.size):
        s.ages[link] += 1.0
        if lengths[link] == 0:
            continue
        message, heard, at = inbox[link], True, start
        if lengths[link] > start + CONTROL:  # else it is a lazy one without totals
            rows.copy(s.payloads[link], message[at : at + size])
            at += size
        hear_place(s, link, message, at)
        hear_minima(s, message, at + CONTROL, lengths[link])
    tend(s, s.own[size - 1] > 0.0, heard)
    sum_branches(s)
    note_agents(s, heard)
    end_count(s)


def note_agents(s: Any, heard: bool) -> None:
    """Note for how long a(V) has been the same, in rounds in which anybody was heard."""
    place = s.own.size - 2
    agents = float(s.own[place] + s.branches[place])
    if agents != s.me.agents_seen:
        s.me.steady = 0
    elif heard:
        s.me.steady += 1
    s.me.agents_seen = agents
    if s.me.steady >= STEADY:
        s.me.stood = s.me.stood + 1 if agents == s.me.standing else 0
        s.me.standing = agents


def is_believed(s: Any, agents: float) -> bool:
    if s.me.stood >= CERTAIN and agents == s.me.standing:
        return True
    return bool(s.me.steady >= STEADY and agents >= FEWEST * counted(s))


def num_agents(s: Any, agents: float) -> float:
    """Return how many agents there are, V having `agents`, and no more than there can be."""
    if not is_believed(s, agents):
        agents = max(agents, counted(s))
    return float(min(s.me.most_agents, agents))


def rounds_since_first(s: Any) -> float:
    """Return the rounds since the own first pull, as they count."""
    if s.me.decay == 1.0:
        return float(s.me.rounds - s.me.first)
    return float(s.me.decay * decayed_rounds(s.me.decay, max(0, s.me.clock - s.me.first)))


def read(s: Any, totals: Vector, about: Vector) -> None:
    """Write V and the number of agents."""
    size = totals.size
    rows.add_up(totals, s.own[:size], s.branches[:size])
    about[AGENTS] = num_agents(s, float(s.own[size] + s.branches[size]))


def rounds_behind(s: Any) -> float:
    last = s.own.size - 1
    return float(s.own[last] + s.branches[last])


def expect(s: Any, about: Vector, rounds: float, behind: float) -> None:
    """Write how many of the pulls made in some rounds are on their way."""
    if s.me.common == 1:
        about[AHEAD] = anticipation(about[AGENTS], rounds, behind)


def read_all(s: Any, totals: Vector, about: Vector) -> None:
    """Write V, with as many pulls anticipated as are on their way."""
    read(s, totals, about)
    expect(s, about, rounds_since_first(s), rounds_behind(s))


def receive_in_window(s: Any, inbox: Any, lengths: Any) -> None:
    """Keep V in the window; it starts again where the tree was regrown."""
    agents = s.me.agents_seen
    listen(s, inbox, lengths, 0)
    rows.add_up(s.totals, s.own, s.branches)
    last = s.past[(s.me.oldest + s.me.kept - 1) % s.past.shape[0]]
    if s.me.agents_seen != agents or has_fewer(s, s.totals, last):
        s.me.kept = 0
    keep_totals(s, s.totals)


def tells(s: Any, link: int, payload: Vector) -> bool:
    """Return whether a lazy agent tells a neighbour the payload."""
    told, groups = s.told[link], s.count_at.size
    if spreads(s) or s.since[link] >= REFRESH or payload[s.own.size - 2] != told[groups]:
        return True
    for k in range(groups):  # noqa: SIM110  what is compiled has no generators
        if has_grown(payload[s.count_at[k]], told[k], s.me.lazy):
            return True
    return False


def message_if_news(s: Any, link: int, out: Vector) -> int:
    """Write the control values alone, unless there is news."""
    size = s.own.size
    write_side(s, link, out[:size])
    if tells(s, link, out[:size]):
        return write_control(s, link, out, size)
    return write_place(s, link, out, 0)


def receive_and_note(s: Any, inbox: Any, lengths: Any) -> None:
    """Note what this round's messages tell, then listen."""
    place, groups = s.own.size - 2, s.count_at.size
    for link in range(s.ages.size):
        write_side(s, link, s.payload)
        if not tells(s, link, s.payload):
            s.since[link] += 1.0
            continue
        s.since[link] = 1.0
        for k in range(groups):
            s.told[link, k] = s.payload[s.count_at[k]]
        s.told[link, groups] = s.payload[place]
    listen(s, inbox, lengths, 0)


def observe_at_site(s: Any, pull: Vector) -> None:
    add_site_pull(s.own, pull)
    note_pull(s)


class TreeSumsMachine(FieldMachine):
    """An agent that checks messages, and keeps its state as neighbours and arms change."""

    registered = MappingProxyType({"own": (0, 2), "payloads": (0, 2), "past": (0, 2)})
    counted = MappingProxyType({"told": 1})

    @property
    def parent(self) -> int:
        """The neighbour that leads to the root; `NOBODY` for none."""
        up = self.state.me.up
        return NOBODY if up == NOBODY else self.neighbors[up]

    @property
    def is_lazy(self) -> bool:
        """Whether messages may leave out totals."""
        return "told" in self.state._fields

    def check_messages(self, messages: Mapping[int, Vector]) -> None:
        size = self.registers.size + 2 + CONTROL
        short = (CONTROL,) if self.is_lazy else ()
        check_vectors(messages, size, size + EXPONENTIALS, size + EXPONENTIALS + 1, *short)
        check_minima(messages, size)

    def check_claims(self, message: Vector, claims: Claims, now: float) -> None:
        """Reject totals beyond what their agents can have pulled, and a tree that cannot be."""
        size, most = self.registers.size, claims.most_rounds(now)
        if self.is_lazy and message.size == CONTROL:
            check_place(message, claims, now)
            return
        if message.size < size + 2 + CONTROL + self.stamps:
            return  # its form is checked when the round ends
        if self.stamps:
            claims.check_clock(float(message[-1]), now)
            message = message[:-1]
        agents, behind = message[size : size + 2].tolist()
        claims.check_num_agents(agents)
        claims.check_totals(self.registers, message[:size], agents, now)
        claims.check_within("rounds behind totals", behind, 0.0, agents * most)
        check_place(message[size + 2 : size + 2 + CONTROL], claims, now)
        check_count(message[size + 2 + CONTROL :], claims, now)

    def translated(self, message: Vector, theirs: Registers, places: Sequence[int]) -> Vector:
        if message.size < theirs.size + CONTROL:
            return message  # a lazy one without totals
        behind = message.size - theirs.size
        return moved_rows(message, self.registers, theirs, places, (0, behind))

    def relinked(self, state: State, neighbors: Sequence[int], own: Sequence[int]) -> State:
        """Drop a parent that is no longer a neighbour; root and beat stay."""
        moved = super().relinked(state, neighbors, own)
        if state["up"] == NOBODY:
            return moved
        parent = dict(enumerate(neighbors)).get(state["up"], NOBODY)
        if parent in own:
            return moved | {"up": list(own).index(parent)}
        return moved | {"up": NOBODY, "dist": FAR}

    def own_totals(self) -> tuple[Vector, int]:
        return self.state.own[: self.registers.size].copy(), int(self.state.me.clock)

    def restore_state(self, state: State) -> None:
        super().restore_state(state)
        sum_branches(self.state)

    def check_state(self, values: State) -> None:
        check_counting(values)
        if not NOBODY <= values["up"] < len(self.neighbors):
            raise InputError(
                f"state field up is {values['up']}; it is the place of the parent among the "
                f"neighbours {self.neighbors}, from 0 on, or {NOBODY} for none"
            )
        for name in ("rounds", "still", "reign", "lived", "steady", "stood", "first"):
            require_count(f"state field {name}", values[name], least=0)
        check_ring(values, getattr(self.spec, "window", None))


@dataclass(frozen=True)
class TreeSums(Aggregation):
    """Exact network totals, each agent's part delayed by its distance on the tree.

    Parameters
    ----------
    discount : float
        γ, what a pull counts in every round compared with the one before; 1 for ever the same.
    window : int or None
        How many rounds of totals are read; None for all.
    lazy : float
        β: totals are told again once the pulls of some arm have grown by this share, and by one, or
        after 32 rounds. 0 tells them in every round.
    spread : float, "estimate" or None
        τ, by which the means of sites differ: others' pulls then count in part (`pooling`). None
        pools everything; "estimate" finds τ out, with K + 3 values more in a message.

    Notes
    -----
    Knows who its neighbours are, a random word of its own, and whether rounds are common (otherwise
    nothing is anticipated). Sends all registers and 6 values to each neighbour in every round, one
    more with a discount, and 32 more until the number of agents is steady.
    """

    discount: float = 1.0
    window: int | None = None
    lazy: float = 0.0
    spread: Spread = None
    name: ClassVar[str] = "tree-sums"
    mode: ClassVar[str] = ROBUST
    shares: ClassVar[str] = OWN
    exact: ClassVar[bool] = True
    overtakes: ClassVar[bool] = True
    checks_claims: ClassVar[bool] = True
    keeps_own: ClassVar[bool] = True
    takes_time: ClassVar[bool] = True
    machine: ClassVar[type[FieldMachine]] = TreeSumsMachine
    shared: ClassVar[str] = "own"
    derived: ClassVar[tuple[str, ...]] = (
        "branches", "totals", "payload", "kin", "relatives", "born", "most_agents", "common",
        "count_at", "lazy", "spread", "sigma",
    )  # fmt: skip

    def __post_init__(self) -> None:
        check_forgetting(self.discount, self.window)
        require_lazy(self.lazy, self.forgets)
        require_spread(self, self.spread)
        if self.lazy or self.spread is not None:
            object.__setattr__(self, "exact", False)
        if self.spread is not None:
            object.__setattr__(self, "totals", False)

    @property
    def uncertified(self) -> str:
        """Why no pulls are certified: nothing in V tells whether a part of the tree is in twice."""
        return "counts some pulls more than once while its tree is rebuilt"

    def carried(self, asked: Statistic) -> Statistic:
        return carried(self.spread, asked)

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"random_word"})

    def fields(self, sizes: Sizes) -> Mapping[str, Any]:
        links, groups = sizes.links, whole(sizes.groups)
        found = summing_fields(sizes)
        if self.window is not None:
            found |= {**window_fields(self.window, sizes.width + 2), "count_at": groups}
        if self.lazy:
            # Pulls per arm, and agents, in the payload that each neighbour was told last; and when.
            found |= {"told": (links, sizes.groups + 1), "since": links, "lazy": float}
            found |= {"payload": sizes.width + 2, "count_at": groups}  # and room to write one
        if self.spread is not None:
            found |= {"spread": float, "sigma": float, "count_at": groups}
        return found

    def begin(self, s: Any, view: LocalView, registers: Registers) -> None:
        require_lazy(self.lazy, registers.decay != 1.0)
        super().begin(s, view, registers)

    def start(self, s: Any, view: LocalView) -> None:
        start_summing(s, view)
        if self.window is not None:
            s.past[0], s.me.kept = s.own, 1
        if self.lazy:
            s.since[:], s.me.lazy = REFRESH, self.lazy
        if self.spread is not None:
            s.me.spread = ESTIMATED if self.spread == ESTIMATE else float(self.spread)
            s.me.sigma = view.sigma

    def plain_functions(self) -> dict[str, Callable[..., Any]]:
        found = super().plain_functions()
        if self.window is not None:
            found |= {"receive": receive_in_window, "estimate": self.estimate_in_window}
        if self.lazy:
            found |= {"message": message_if_news, "receive": receive_and_note}
        if self.spread is not None:
            found["estimate"] = self.estimate_in_part
        if self.spread == ESTIMATE:
            found["observe"] = observe_at_site
        return found

    def message_width(self, sizes: Sizes) -> int:
        return sizes.width + 2 + CONTROL + EXPONENTIALS + 1

    def message_size(self, registers: Registers, max_agents: int) -> MessageSize:
        full = registers.size + 2 + CONTROL + (self.decaying(registers).decay != 1.0)
        usual = CONTROL if self.lazy else full
        return MessageSize(usual, full + EXPONENTIALS + 1, "while agents are being counted")

    age = staticmethod(age_sums)

    @staticmethod
    def age_message(s: Any, message: Vector, factors: Vector, factor: float) -> None:
        age_mass(message[: s.own.size], factors, factor)

    @staticmethod
    def observe(s: Any, pull: Vector) -> None:
        rows.add(s.own[: pull.size], pull)
        note_pull(s)

    @staticmethod
    def prepare(s: Any) -> None:
        rows.add_up(s.totals, s.own, s.branches)

    @staticmethod
    def message(s: Any, link: int, out: Vector) -> int:
        """Write [payload | root, beat, dist, bond | m]."""
        size = s.own.size
        write_side(s, link, out[:size])
        return write_control(s, link, out, size)

    @staticmethod
    def receive(s: Any, inbox: Any, lengths: Any) -> None:
        """Listen, then look after the tree."""
        listen(s, inbox, lengths, 0)

    @staticmethod
    def estimate(s: Any, totals: Vector, certain: Vector, about: Vector) -> None:
        read_all(s, totals, about)

    @staticmethod
    def estimate_in_window(s: Any, totals: Vector, certain: Vector, about: Vector) -> None:
        """Write what V has more than before the window."""
        size, before = totals.size, s.past[s.me.oldest]
        read(s, totals, about)
        rows.subtract(totals, before[:size])
        expect(s, about, s.me.kept - 1.0, rounds_behind(s) - before[size + 1])

    @staticmethod
    def estimate_in_part(s: Any, totals: Vector, certain: Vector, about: Vector) -> None:
        """Write the own totals, and as much of the others' as sites are alike."""
        read_all(s, totals, about)
        pool(totals, s.own, about, s.count_at.size, s.me.spread, s.me.sigma)
