"""Flooding of single pulls: each is passed on from neighbour to neighbour for some hops.

A message is a list of items (origin, round, arm, reward): the own pulls of this round, and what was
heard for the first time in the last. Registers of any other statistic than sums per arm, such as
linear models, are told as they are in the place of arm and reward. All agents count rounds
together, so the round of a pull tells how far it has come. All pulls of one agent in one round
travel together under the key (origin, round); a key heard before is dropped. After `hop_limit`
rounds an item is too old for anybody, and its key is forgotten.

An item is added up as it is heard. With `wait` it goes to a row for its round first, and the row to
the totals once it is that old.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from coopbandits.core import rows
from coopbandits.core.aggregate.aggregation import MessageSize, told_agents
from coopbandits.core.aggregate.fields import (
    TIME,
    Aggregation,
    FieldMachine,
    Sizes,
    sizes_of,
    whole,
)
from coopbandits.core.aggregate.messages import (
    check_arms,
    check_counts,
    check_news,
    flag_values,
    is_set,
    read_items,
    read_rows,
    set_flag,
    write_news,
)
from coopbandits.core.aggregate.neighborhood import MOST_PULLS, arm_of
from coopbandits.core.checks import require_count
from coopbandits.core.errors import InputError
from coopbandits.core.statistic.arm_sums import add_pull

if TYPE_CHECKING:
    from coopbandits.core.contract import LocalView, State, Vector
    from coopbandits.core.statistic import Registers

KEY = 2
"""Values of an item before what it tells of a pull: origin and round."""


@dataclass(frozen=True)
class FloodedPulls(Aggregation):
    """Pulls of all agents up to `hop_limit` hops away, each delayed by its hop distance.

    Parameters
    ----------
    hop_limit : int
        How many links the news of a pull may cross.
    wait : int
        How many rounds old another agent's pull must be to count; up to 1 it makes no difference.

    Notes
    -----
    Knows N, its own number, who its neighbours are, and the number of the round, common to all.
    Sends 4 values to each neighbour for every pull that was made at most `hop_limit` − 1 hops away;
    with another statistic than sums per arm, 2 and all registers. The time is the number of own
    pulls, as one agent's without communication.

    Nothing is ever counted twice. A lost message is made up for where another path is short enough.
    What is observed between sending and receiving is never sent.
    """

    hop_limit: int = 2
    wait: int = 0
    name: ClassVar[str] = "flooded-pulls"
    needs_common_round: ClassVar[bool] = True
    grows: ClassVar[bool] = True
    certifies: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({"num_agents"})
    derived: ClassVar[tuple[str, ...]] = ("plain", "arms", "agent", "agents")

    def __post_init__(self) -> None:
        require_count("hop_limit", self.hop_limit)
        require_count("wait", self.wait, least=0)

    def fields(self, sizes: Sizes) -> Mapping[str, Any]:
        """Return totals, what was heard of the last rounds, and items to pass on.

        Round t has its place in row t mod `hop_limit` of what was heard, and in row t mod `wait` of
        what waits.
        """
        item = KEY + (2 if sizes.of_arms else sizes.width)
        return {
            "totals": sizes.width,
            "waiting": (self.wait if self.wait > 1 else 0, sizes.width),
            "seen": whole(self.hop_limit, flag_values(sizes.agents)),  # agents, as bits
            "news": (most_items(self.hop_limit, sizes.agents), item),
            "num_news": int,
            "num_pulls": int,
            "rounds": int,
            "plain": int(sizes.of_arms),  # a place if items tell arm and reward; else registers
            "arms": int,
            "agent": int,
            "agents": int,
        }

    def message_width(self, sizes: Sizes) -> int:
        most, width = self.fields(sizes)["news"]
        return int(most * width)

    def message_size(self, registers: Registers, max_agents: int) -> MessageSize:
        of_arms = sizes_of(registers, 1, max_agents).of_arms
        item, stamp = KEY + (2 if of_arms else registers.size), int(registers.decay != 1.0)
        when = f"with {max_agents} agents within {self.hop_limit} hops"
        return MessageSize(item + stamp, item * max_agents + stamp, when)

    def start(self, s: Any, view: LocalView) -> None:
        s.me.agent, s.me.agents = view.agent_id, told_agents(view, self.name)
        s.me.arms = view.num_arms

    def check_messages(self, agent: FieldMachine, messages: Mapping[int, Vector]) -> None:
        most, width = agent.state.news.shape
        for j, message in messages.items():
            if agent.state.plain.size > 0:
                items = read_items(message, width, agent.registers.num_arms, j)
            else:
                items = read_rows(message, width, j)
            if len(items) > most:
                raise InputError(
                    f"message from {j} tells of {len(items)} pulls; it may tell of up to {most}"
                )
            # What comes late, or again, may be too old to count and is still no mistake.
            check_keys(
                items[:, :KEY], agent.state.me.agents, 0, agent.state.me.rounds, f"message from {j}"
            )

    def check_state(self, agent: FieldMachine, values: State) -> None:
        require_count("state field num_pulls", values["num_pulls"], least=0)
        check_news(values)
        now, num_news, news = values["rounds"], values["num_news"], values["news"]
        oldest = max(0, now - len(values["seen"]) + 1)
        check_keys(news[:num_news, :KEY], agent.state.me.agents, oldest, now, "state field news")
        if agent.state.plain.size > 0:
            check_arms(news[:num_news, KEY], agent.registers.num_arms, "state field news")
        check_counts("waiting", agent.registers.share(values["waiting"].sum(axis=0)).counts)

    @staticmethod
    def age(s: Any, factors: Vector, factor: float) -> None:
        rows.multiply(s.totals, factors)
        for place in range(s.waiting.shape[0]):
            rows.multiply(s.waiting[place], factors)
        for item in range(s.me.num_news):
            rows.multiply(s.news[item, KEY:], factors)

    @staticmethod
    def age_message(s: Any, message: Vector, factors: Vector, factor: float) -> None:
        """Multiply the registers of every item: where they fade they are told as they are."""
        width = s.news.shape[1]
        for item in range(message.size // width):
            rows.multiply(message[item * width + KEY : (item + 1) * width], factors)

    @staticmethod
    def observe(s: Any, pull: Vector) -> None:
        rows.add(s.totals, pull)
        s.me.num_pulls += 1
        if s.me.num_news < s.news.shape[0]:
            item = s.news[s.me.num_news]
            item[0], item[1] = s.me.agent, s.me.rounds
            if s.plain.size > 0:
                arm = arm_of(pull, s.me.arms)
                item[KEY], item[KEY + 1] = arm, pull[arm]
            else:
                rows.copy(item[KEY:], pull)
            s.me.num_news += 1

    @staticmethod
    def message(s: Any, out: Vector) -> int:
        return write_news(s, out)

    @staticmethod
    def receive(s: Any, inbox: Any, lengths: Any) -> None:
        """Add every pull that is news, and keep for the next round what may travel on."""
        width = s.news.shape[1]
        s.me.num_news = 0
        for link in range(lengths.size):
            items = lengths[link] // width
            # Items of one key come in one message: only the messages before make it old.
            for item in range(items):
                take_in(s, inbox[link, item * width : (item + 1) * width])
            for item in range(items):
                origin, made = int(inbox[link, item * width]), int(inbox[link, item * width + 1])
                if is_young(s, origin, made):
                    set_flag(s.seen[made % s.seen.shape[0]], origin)
        s.me.rounds += 1
        rows.fill(s.seen[s.me.rounds % s.seen.shape[0]], 0)
        if s.waiting.shape[0] > 0:
            ripe = s.waiting[s.me.rounds % s.waiting.shape[0]]
            rows.add(s.totals, ripe)
            rows.fill(ripe, 0.0)

    @staticmethod
    def estimate(s: Any, totals: Vector, certain: Vector, about: Vector) -> None:
        """Write the totals of all that was heard, each pull of which is known by its key."""
        about[TIME] = max(2.0, float(s.me.num_pulls))
        rows.copy(totals, s.totals)
        rows.copy(certain, s.totals)


def most_items(hop_limit: int, agents: int) -> int:
    """Return how many items an agent passes on at once, at most; further ones go no further.

    News that is never late is less than N rounds old, and one pull of every agent in each of these
    rounds leaves room for what is late: all of them are never heard of at once. Neighbours with a
    larger `hop_limit` tell of one pull of every agent, where nothing is lost.
    """
    return agents * max(1, min(hop_limit, agents) - 1) + MOST_PULLS


def is_young(s: Any, origin: int, made: int) -> bool:
    """Return whether an item is another agent's, and has not come too far."""
    return bool(origin != s.me.agent and made > s.me.rounds - s.seen.shape[0])


def take_in(s: Any, item: Any) -> None:
    """Add up an item that is news, and put it down for the neighbours if they may need it."""
    origin, made = int(item[0]), int(item[1])
    if not is_young(s, origin, made) or is_set(s.seen[made % s.seen.shape[0]], origin):
        return
    wait = s.waiting.shape[0]
    if wait > 0 and made + wait > s.me.rounds + 1:
        add_item(s, s.waiting[made % wait], item)
    else:
        add_item(s, s.totals, item)
    # In the next round it is a hop further, and one round older when it arrives.
    if made > s.me.rounds + 1 - s.seen.shape[0] and s.me.num_news < s.news.shape[0]:
        rows.copy(s.news[s.me.num_news], item)
        s.me.num_news += 1


def add_item(s: Any, row: Any, item: Any) -> None:
    if s.plain.size > 0:
        add_pull(row, s.me.arms, int(item[KEY]), item[KEY + 1], 1.0)
    else:
        rows.add(row, item[KEY:])


def check_keys(keys: Vector, num_agents: int, oldest: int, now: int, source: str) -> None:
    """Check numbers of agents, and of rounds from `oldest` to `now`."""
    legal = (keys >= [0, oldest]) & (keys <= [num_agents - 1, now]) & (keys == np.floor(keys))
    strange = keys[~legal.all(axis=1)]
    if strange.size:
        raise InputError(
            f"{source} has a pull of agent {strange[0, 0]:g} in round {strange[0, 1]:g}; agents "
            f"are numbered 0 to {num_agents - 1} and rounds {oldest} to {now}, which all count "
            "together"
        )
