"""Flooding of totals: everybody keeps everybody's own totals, and passes on what is newer.

Per known agent there is one entry: its number, the rounds behind its totals, and their registers.
The number of pulls ever only grows, so it is an entry's version, and of two entries the one with
more pulls wins, for the own entry too: an agent that lost its memory hears of its former self.

A message to neighbour j is [number of this message | number of the last one heard from j | entries]
and carries the entries that j is not known to have: those that changed since the last message of
which j told that it arrived, less those that came from j. Messages are numbered by rounds. As every
message carries all since the last one acknowledged, whoever got it has all that the sender had: one
number per neighbour is enough, and what is lost is sent again until it is known to have arrived.
With `lazy` the own entry is news only once it has grown enough (`core.aggregate.lazy`), and where
there is neither news nor anything to acknowledge, nothing is sent at all.

Invariants: idempotent and order-free, so loss, delay and repetition only make entries older. What
is known is exact. Without faults an entry is as old as its agent is far away, and no protocol is
fresher. Memory and messages grow with the number of agents: all registers and 2 values per entry.

**Forgetting.** With a discount γ an entry holds its agent's totals as they counted in the round of
its last pull, which the rounds behind them tell; whoever reads it lets them age since then
(`forgetting`). So entries stay as their author told them, growing old is no news, and messages need
no stamp: the latest round in any entry tells the clock. Counts no longer only grow, so the number
of pulls ever made travels beside them as the version. With a window of w rounds, what was known w
rounds ago is taken off what is known now. It begins anew where an entry brings more than w rounds
at once, as after a partition: what is old would count as recent.

*Differs from the paper*: nothing known; it is folklore (anti-entropy, Demers et al. 1987).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from coopbandits.core import rows
from coopbandits.core.aggregate.aggregation import OWN, ROBUST, MessageSize
from coopbandits.core.aggregate.entries import HEADER
from coopbandits.core.aggregate.fields import Aggregation, FieldMachine, Sizes, whole
from coopbandits.core.aggregate.flooded_entries import (
    MARKS,
    NUMBER,
    TAGS,
    add_own,
    begin_round,
    end_round,
    find_news,
    hear,
    is_silent,
    listen,
    read_all,
    write_news,
)
from coopbandits.core.aggregate.flooded_entries import OWN as OWN_SOURCE
from coopbandits.core.aggregate.flooded_machine import FloodedTotalsMachine
from coopbandits.core.aggregate.forgetting import check_forgetting, fading_fields, window_fields
from coopbandits.core.aggregate.lazy import require_growth, require_lazy
from coopbandits.core.aggregate.pooling import (
    ESTIMATE,
    ESTIMATED,
    Spread,
    carried,
    pool,
    require_spread,
)
from coopbandits.core.statistic import VersionedRegisters

if TYPE_CHECKING:
    from coopbandits.core.contract import LocalView, Vector
    from coopbandits.core.statistic import Registers, Statistic


@dataclass(frozen=True)
class FloodedTotals(Aggregation):
    """Exact totals of all agents heard of, each as stale as its message delay.

    Parameters
    ----------
    discount : float
        γ, what a pull counts in every round compared with the one before; 1 for ever the same.
    window : int or None
        How many rounds of totals are read; None for all.
    lazy : float
        β: the own totals are told again once the pulls of some arm have grown by this share, and by
        one. 0 tells every pull.
    spread : float, "estimate" or None
        τ, by which the means of sites differ: others' pulls then count in part (`pooling`). None
        pools everything; "estimate" finds τ out, with K + 3 values more in an entry.

    Notes
    -----
    Knows its own number, who its neighbours are, and whether rounds are common (otherwise nothing
    is anticipated). Sends 2 values to each neighbour in every round, and all registers and 2 more,
    or 3 with a discount, for every agent of whom the neighbour may know less.
    """

    discount: float = 1.0
    window: int | None = None
    lazy: float = 0.0
    spread: Spread = None
    name: ClassVar[str] = "flooded-totals"
    mode: ClassVar[str] = ROBUST
    shares: ClassVar[str] = OWN
    exact: ClassVar[bool] = True
    checks_claims: ClassVar[bool] = True
    takes_time: ClassVar[bool] = True
    grows: ClassVar[bool] = True
    outlives: ClassVar[bool] = True
    stamped: ClassVar[bool] = False
    machine: ClassVar[type[FieldMachine]] = FloodedTotalsMachine
    derived: ClassVar[tuple[str, ...]] = (
        "num_entries", "num_agents", "place", "common", "marks", "ends", "news",
         "sums", "weights", "count_at", "version_at", "own", "is_site", "is_pooled", "lasting",
        "lazy", "spread", "sigma",
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Refuse what does not forget in one way, no such share, and no spread."""
        check_forgetting(self.discount, self.window)
        require_lazy(self, self.lazy)
        require_spread(self, self.spread)
        if self.lazy or self.spread is not None:
            object.__setattr__(self, "exact", False)
        if self.spread is not None:
            object.__setattr__(self, "totals", False)

    @property
    def certifies(self) -> bool:  # type: ignore[override]  # by settings
        """Yes, where every pull heard of is told as it is made, and counts as one."""
        return not self.uncertified

    @property
    def uncertified(self) -> str:
        """Why no pulls are certified."""
        if self.spread is not None:
            return "counts the pulls of others in parts"
        # A pull is told once later ones have made the totals grow: its reward has a say in that.
        return "lets rewards decide which pulls are told" if self.lazy else ""

    def carried(self, asked: Statistic) -> Statistic:
        """Return sums of sites where their spread is estimated."""
        return carried(self.spread, asked)

    def decaying(self, registers: Registers) -> Registers:
        """Return registers whose version only grows, whatever is forgotten."""
        found = super().decaying(registers)
        return found if found.decay == 1.0 else VersionedRegisters(found)

    def fields(self, sizes: Sizes) -> Mapping[str, Any]:
        """Return the tables, what links have heard, and room to work in; settings need some."""
        width, room, links = HEADER + sizes.width, sizes.room, sizes.links
        is_forgetful = self.discount != 1.0
        return {
            "entries": (room, width),
            "tags": (room, TAGS),
            "marks": (room, MARKS),
            "num_entries": int,
            "num_agents": int,  # authors heard of: one that has had several memories is one
            "number": int,
            "place": int,  # of the own entry
            "former": sizes.width,  # own pulls that count under former numbers
            "rounds": int,
            "common": int,  # whether all agents count rounds together
            "ends": links,  # who is at the other end
            "arrived": links,  # own messages that each neighbour told of last
            "heard": links,  # its message that was heard last
            "owed": links,  # whom to tell that entries arrived, where that is not always told
            "told": sizes.groups if self.lazy else 0,  # own pulls when they were last news
            "lazy": float,
            **window_fields(self.window, width),
            **fading_fields(sizes.width),
            "is_pooled": int,
            "is_site": int,
            "spread": float,
            "sigma": float,
            "own": sizes.width,
            "sums": width,
            "lasting": int,  # whether registers do not fade beside the number of pulls ever made
            "weights": room if is_forgetful else 0,
            "news": whole(room),
            "count_at": whole(sizes.groups),
            "version_at": whole(1 if is_forgetful else sizes.groups),
        }

    def functions(
        self, decay: float, **instead: Callable[..., Any]
    ) -> dict[str, Callable[..., Any]]:
        """Return the functions as they are: entries age as they are read, by their rounds."""
        del decay
        return super().functions(1.0, **instead)

    def begin(self, s: Any, view: LocalView, registers: Registers) -> None:
        """Begin, unless totals that are to be told lazily shrink."""
        require_growth(self.lazy, registers)
        super().begin(s, view, registers)

    def start(self, s: Any, view: LocalView) -> None:
        """Begin with an entry of the agent itself."""
        s.me.number, s.me.num_entries, s.me.num_agents = view.agent_id, 1, 1
        s.me.common, s.ends[:] = int(view.common_round), sorted(view.neighbor_weights)
        s.entries[0, 0] = s.marks[0, NUMBER] = view.agent_id
        s.tags[0, :2] = 1.0, OWN_SOURCE
        s.version_at[:] = HEADER + (s.count_at if self.discount == 1.0 else s.former.size - 1)
        s.me.lasting = int(self.discount != 1.0 and not s.fades[:-1].all())
        s.me.kept = int(self.window is not None)  # nothing, before the first round
        s.me.lazy, s.me.sigma = self.lazy, view.sigma
        if self.spread is not None:
            s.me.is_pooled, s.me.is_site = 1, int(self.spread == ESTIMATE)
            s.me.spread = ESTIMATED if self.spread == ESTIMATE else float(self.spread)

    def message_width(self, sizes: Sizes) -> int:
        """Return the size with news of everybody."""
        return HEADER + sizes.room * (HEADER + sizes.width)

    def message_size(self, registers: Registers, max_agents: int) -> MessageSize:
        """Return the size without news, and with news of everybody."""
        when = f"with news of {max_agents} agents in every round"
        size = self.decaying(registers).size
        return MessageSize(HEADER, HEADER + max_agents * (HEADER + size), when)

    @staticmethod
    def observe(s: Any, pull: Vector) -> None:
        """Add an own pull to the own entry."""
        add_own(s, pull)

    @staticmethod
    def message(s: Any, link: int, out: Vector) -> int:
        """Write [own number, number heard | entries that the neighbour may not have]."""
        count = find_news(s, link)
        return 0 if is_silent(s, link, count) else write_news(s, link, count, out)

    @staticmethod
    def receive(s: Any, inbox: Any, lengths: Any) -> None:
        """Take every entry that is newer than the one at hand."""
        begin_round(s)
        for link in range(lengths.size):
            length = lengths[link]
            s.owed[link] = 0.0
            if length > 0:
                listen(s, link, inbox[link, 0], inbox[link, 1], length)
            if length > HEADER:
                hear(s, inbox[link, HEADER:length], s.ends[link])
        end_round(s)

    @staticmethod
    def estimate(s: Any, totals: Vector, certain: Vector, about: Vector) -> None:
        """Write the totals of all agents heard of, each pull of which is in one entry."""
        read_all(s, totals, about)
        if s.me.is_pooled == 1:
            rows.add_up(s.own, s.entries[s.me.place, HEADER:], s.former)
            pool(totals, s.own, about, s.count_at.size, s.me.spread, s.me.sigma)
        rows.copy(certain, totals)
