"""Flooding of single pulls: each is passed on from neighbour to neighbour for some hops.

A message is a list of items of four values (origin, time, arm, reward): the own pulls of this
round, and what was heard for the first time in the last. All agents count rounds together, and an
item's time is the round of its pull, so its age tells how far it has come. All pulls of one agent
in one round travel together under the key (origin, time); a key heard before is dropped. After
`hop_limit` rounds an item is too old for anybody, and its key can be forgotten. With `wait`, what
was heard counts only once it is that old.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from coopbandits.core.aggregate.aggregation import AnyAggregation, Machine, MessageSize
from coopbandits.core.aggregate.exchange import add_old, check_arms, read_items
from coopbandits.core.checks import require_count
from coopbandits.core.contract import Estimate, LocalView, State, Vector
from coopbandits.core.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coopbandits.core.statistic import Registers

Key = tuple[float, ...]
"""(origin, time) of some items."""


@dataclass(frozen=True)
class FloodedPulls(AnyAggregation):
    """Pulls of all agents up to `hop_limit` hops away, each delayed by its hop distance.

    Parameters
    ----------
    hop_limit : int
        How many links the news of a pull may cross.
    wait : int
        How many rounds old another agent's pull must be to count; up to 1 it makes no difference.

    Notes
    -----
    Knows its own number, who its neighbours are, and the number of the round, common to all. Sends
    4 values to each neighbour for every pull that was made at most `hop_limit` − 1 hops away.
    """

    hop_limit: int = 2
    wait: int = 0
    name: ClassVar[str] = "flooded-pulls"
    needs_common_round: ClassVar[bool] = True
    grows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Refuse a limit that is none."""
        require_count("hop_limit", self.hop_limit)
        require_count("wait", self.wait, least=0)

    @property
    def uncertified(self) -> str:
        """Nothing: a pull is known by its key, and counts once."""
        return ""

    def make(self, view: LocalView, registers: Registers) -> FloodedPullsMachine:
        """Return the machine of one agent."""
        return FloodedPullsMachine(view, registers, self.hop_limit, self.wait)

    def message_size(self, registers: Registers, max_agents: int) -> MessageSize:
        """Return the size for one pull a round, and where everybody is within reach."""
        del registers
        when = f"with {max_agents} agents within {self.hop_limit} hops"
        return MessageSize(4, 4 * max_agents, when)


class FloodedPullsMachine(Machine):
    """Totals of all pulls heard of, and what may still travel.

    Notes
    -----
    The time is the number of own pulls, as one agent's without communication. Nothing is ever
    counted twice. A lost message is made up for where another path is short enough. What is
    observed between sending and receiving is told to nobody.
    """

    fields = ("totals", "num_pulls", "rounds", "outbox", "seen")
    tables = ("outbox", "seen")

    def __init__(
        self, view: LocalView, registers: Registers, hop_limit: int, wait: int = 0
    ) -> None:
        self.agent_id, self.registers = view.agent_id, registers
        self.hop_limit, self.wait = hop_limit, wait
        self.totals = registers.zeros()
        self.num_pulls = 0
        self.rounds = 0
        self.outbox = np.empty((0, 4))  # items to send in this round
        self.seen = np.empty((0, 2))  # keys heard that might be heard again
        self.waiting = np.empty((0, 4))  # items heard that do not count yet
        if wait > 1:
            self.keep_also("waiting", is_table=True)

    def estimate(self) -> Estimate:
        """Return the totals of all that was heard."""
        time = max(2.0, float(self.num_pulls))
        found = self.registers.read(self.totals, time=time, num_agents=1.0)
        return found._replace(certain=self.registers.share(self.totals))

    def observe(self, arm: int, reward: float) -> None:
        """Add one own pull, and put it down for the others."""
        self.registers.add(self.totals, arm, reward)
        self.num_pulls += 1
        self.outbox = np.vstack([self.outbox, [self.agent_id, self.rounds, arm, reward]])

    def outgoing(self, neighbor: int) -> Vector | None:
        """Return the items of this round, or None if there are none."""
        del neighbor  # all get the same
        return self.outbox.flatten() if self.outbox.size else None

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Add every pull not heard of before, and put down for the next round what may go on."""
        heard = [self._read(j, message) for j, message in messages.items()]
        seen: set[Key] = set(map(tuple, self.seen.tolist()))
        fresh: list[list[float]] = []
        for items in heard:
            # Items of one key come in one message: only the messages before make it old.
            new = [item for item in items.tolist() if self._is_news(item, seen)]
            seen.update(tuple(item[:2]) for item in new)
            fresh += new
        news = np.array(fresh, dtype=np.float64).reshape(-1, 4)
        for _, time, arm, reward in self._ripe(news):
            add_old(self.registers, self.totals, int(arm), reward, self.rounds - int(time))
        self.registers.age(self.totals)
        self.rounds += 1
        self.outbox = self._young(news)
        self.seen = self._young(np.vstack([self.seen, news[:, :2]]))

    def _ripe(self, news: Vector) -> list[list[float]]:
        """Return what counts from the next round on, and keep the rest."""
        items = np.vstack([self.waiting, news])
        young = self.rounds + 1 - items[:, 1] < self.wait
        self.waiting = items[young]
        ripe: list[list[float]] = items[~young].tolist()
        return ripe

    def _is_news(self, item: list[float], seen: set[Key]) -> bool:
        origin, time = item[:2]
        too_old = self.rounds - time >= self.hop_limit
        return origin != self.agent_id and not too_old and (origin, time) not in seen

    def _young(self, rows: Vector) -> Vector:
        """Return the rows (origin, time, …) that may still be heard at the end of this round."""
        return rows[self.rounds - rows[:, 1] < self.hop_limit]

    def _read(self, sender: int, message: Vector) -> Vector:
        items = read_items(message, 4, self.registers.num_arms, sender)
        # What comes late, or again, may be too old to count and is still no mistake.
        check_keys(items[:, :2], 0, self.rounds, f"message from {sender}")
        return items

    def check_state(self, values: State) -> None:
        """Refuse items and keys that no agent can have heard."""
        for name in ("num_pulls", "rounds"):
            require_count(f"state field {name}", values[name], least=0)
        oldest = max(0, values["rounds"] - self.hop_limit + 1)
        for name in ("outbox", "seen"):
            check_keys(values[name][:, :2], oldest, values["rounds"], f"state field {name}")
        waiting = values.get("waiting", self.waiting)
        check_keys(waiting[:, :2], 0, values["rounds"], "state field waiting")
        check_arms(values["outbox"][:, 2], self.registers.num_arms, "state field outbox")
        check_arms(waiting[:, 2], self.registers.num_arms, "state field waiting")


def check_keys(keys: Vector, oldest: int, now: int, source: str) -> None:
    """Refuse all but numbers of agents, and of rounds from `oldest` to `now`."""
    legal = (keys >= [0, oldest]) & (keys <= [np.inf, now]) & (keys == np.floor(keys))
    strange = keys[~legal.all(axis=1)]
    if strange.size:
        raise InputError(
            f"{source} has a pull of agent {strange[0, 0]:g} in round {strange[0, 1]:g}; agents "
            f"are whole numbers from 0 and rounds {oldest} to {now}, which all count together"
        )
