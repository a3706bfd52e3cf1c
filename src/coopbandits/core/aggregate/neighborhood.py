"""Sums over neighbours: every agent counts its own pulls and those of its neighbours.

A message tells of the pulls since the last round, by two values each, arm and reward, where the
statistic follows from them: where it is sums per arm. Registers of any other statistic, such as
linear models, are told as they are, added up over these pulls. What a neighbour pulls in one round
is known in the next; what others pull is never known.

A lost message is lost for good, one delivered again counts again, and what is observed between
sending and receiving is never sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from coopbandits.core import rows
from coopbandits.core.aggregate.aggregation import MessageSize
from coopbandits.core.aggregate.fields import TIME, Aggregation, FieldMachine, Sizes
from coopbandits.core.aggregate.messages import check_arms, check_vectors, read_items, write_news
from coopbandits.core.checks import require_count, require_flag
from coopbandits.core.draws import uniform_of, word_at
from coopbandits.core.errors import InputError
from coopbandits.core.statistic.arm_sums import add_pull

if TYPE_CHECKING:
    from coopbandits.core.contract import LocalView, State, Vector
    from coopbandits.core.statistic import Registers, Statistic

LEAST_DEGREE = "least_degree"
"""Global knowledge: the smallest number of neighbours that an agent of the network has."""

MOST_PULLS = 32
"""Pulls that a message tells one by one, at most. Further ones of a round, which there are only on
own clocks with far more pulls than messages, are never sent."""

NO_ARM = -1


@dataclass(frozen=True)
class NeighborhoodSums(Aggregation):
    r"""Own pulls and those of the neighbours.

    Parameters
    ----------
    exploring : bool
        Whether only pulls are told that explore, of another arm than the one with the best mean by
        what the agent knew before (ComEx; Madhushani, Leonard 2021).
    fair : bool
        Whether an agent with d neighbours counts each of their pulls with probability
        :math:`d_{\min}/d` alone, so that who has many does not run ahead (LF; Madhushani, Dubey,
        Leonard, Pentland 2021).

    Notes
    -----
    Knows who its neighbours are; to be fair also the smallest number of neighbours in the network,
    and a random word. Sends 2 values, arm and reward, to each of them for every pull that is told;
    with another statistic than sums per arm, all registers. The time is the number of own pulls, as
    one agent's without communication.
    """

    exploring: bool = False
    fair: bool = False
    name: ClassVar[str] = "neighborhood-sums"
    derived: ClassVar[tuple[str, ...]] = ("senders", "arms", "exploring", "word", "heard_share")

    def __post_init__(self) -> None:
        require_flag("exploring", self.exploring)
        require_flag("fair", self.fair)

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({LEAST_DEGREE, "random_word"} if self.fair else ())

    @property
    def certifies(self) -> bool:  # type: ignore[override]  # by a setting
        return not self.exploring

    @property
    def uncertified(self) -> str:
        return "lets rewards decide which pulls are told" if self.exploring else ""

    @property
    def takes_context(self) -> bool:
        return not self.exploring

    def carried(self, asked: Statistic) -> Statistic:
        """Return what is asked for; reject what has no means of arms where they matter."""
        if self.exploring and (asked.takes_context or asked.registers(1).layout is None):
            raise InputError(
                f"{self.spelling} compares means of arms, which it cannot read from "
                f"{asked.spelling}; leave exploring out, or take an index on sums and counts such "
                "as ucb"
            )
        return asked

    def fields(self, sizes: Sizes) -> Mapping[str, Any]:
        return {
            "totals": sizes.width,
            "news": (MOST_PULLS if sizes.of_arms else 0, 2),  # arm, reward
            "added": 0 if sizes.of_arms else sizes.width,  # or their registers, added up
            "senders": sizes.links,
            "num_news": int,
            "num_pulls": int,
            "rounds": int,
            "arms": int,
            "exploring": int,
            "word": int,
            "heard_share": float,
        }

    def start(self, s: Any, view: LocalView) -> None:
        s.senders[:] = sorted(view.neighbor_weights)
        s.me.arms, s.me.exploring, s.me.heard_share = view.num_arms, int(self.exploring), 1.0
        if self.fair:
            degree = max(1, len(view.neighbor_weights))
            s.me.heard_share = view.global_knowledge[LEAST_DEGREE] / degree
            # The same 64 bits as a signed number, which fields hold.
            s.me.word = view.random_word - (view.random_word >> 63 << 64)

    def message_width(self, sizes: Sizes) -> int:
        return 2 * MOST_PULLS if sizes.of_arms else sizes.width

    def message_size(self, registers: Registers, max_agents: int) -> MessageSize:
        if registers.layout is None or registers.decay != 1.0:
            return super().message_size(registers, max_agents)
        return MessageSize(2, 2, "with one pull a round")

    def check_messages(self, agent: FieldMachine, messages: Mapping[int, Vector]) -> None:
        if agent.state.news.size == 0:
            check_vectors(messages, agent.registers.size)
            return
        for neighbor, message in messages.items():
            read_items(message, 2, agent.registers.num_arms, neighbor)
            if message.size > 2 * MOST_PULLS:
                raise InputError(
                    f"message from {neighbor} tells of {message.size // 2} pulls; it may tell of "
                    f"up to {MOST_PULLS}"
                )

    def check_state(self, agent: FieldMachine, values: State) -> None:
        require_count("state field rounds", values["rounds"], least=0)
        require_count("state field num_news", values["num_news"], least=0)
        require_count("state field num_pulls", values["num_pulls"], least=values["num_news"])
        news = values["news"]
        if len(news) and values["num_news"] > len(news):
            raise InputError(
                f"state field num_news is {values['num_news']}; an agent tells of up to "
                f"{len(news)} pulls"
            )
        check_arms(news[:, 0], agent.registers.num_arms, "state field news")

    @staticmethod
    def age(s: Any, factors: Vector, factor: float) -> None:
        rows.multiply(s.totals, factors)

    @staticmethod
    def age_message(s: Any, message: Vector, factors: Vector, factor: float) -> None:
        """Multiply a neighbour's registers: where they fade they are told as they are."""
        rows.multiply(message[: s.totals.size], factors)

    @staticmethod
    def observe(s: Any, pull: Vector) -> None:
        """Add an own pull, and put it down for the neighbours."""
        if s.added.size > 0:
            rows.add(s.added, pull)
            s.me.num_news += 1
        elif s.me.num_news < MOST_PULLS:
            arm = arm_of(pull, s.me.arms)
            if s.me.exploring == 0 or arm != best(s.totals, s.me.arms):
                s.news[s.me.num_news, 0], s.news[s.me.num_news, 1] = arm, pull[arm]
                s.me.num_news += 1
        rows.add(s.totals, pull)
        s.me.num_pulls += 1

    @staticmethod
    def message(s: Any, out: Vector) -> int:
        """Write the own pulls of this round that are told; stay silent if there are none."""
        if s.me.num_news == 0 or s.added.size == 0:
            return write_news(s, out)
        rows.copy(out[: s.added.size], s.added)
        return int(s.added.size)

    @staticmethod
    def receive(s: Any, inbox: Any, lengths: Any) -> None:
        for link in range(lengths.size):
            message = inbox[link]
            if s.added.size == 0:
                for item in range(lengths[link] // 2):
                    if counts(s, link, item):
                        arm, reward = int(message[2 * item]), message[2 * item + 1]
                        add_pull(s.totals, s.me.arms, arm, reward, 1.0)
            elif lengths[link] > 0 and counts(s, link, 0):
                rows.add(s.totals, message[: s.totals.size])
        rows.fill(s.added, 0.0)
        s.me.num_news = 0
        s.me.rounds += 1

    @staticmethod
    def estimate(s: Any, totals: Vector, certain: Vector, about: Vector) -> None:
        about[TIME] = max(2.0, float(s.me.num_pulls))
        rows.copy(totals, s.totals)
        rows.copy(certain, s.totals)


def arm_of(pull: Any, arms: int) -> int:
    """Return the arm of one pull by its count."""
    for k in range(arms):
        if pull[arms + k] > 0.0:
            return k
    return NO_ARM  # unreachable: every pull counts


def best(totals: Any, arms: int) -> int:
    """Return the first of the arms with the largest mean, `NO_ARM` before any pull."""
    found, largest = NO_ARM, 0.0
    for k in range(arms):
        count = totals[arms + k]
        if count > 0.0:
            mean = totals[k] / count
            if found == NO_ARM or mean > largest:
                found, largest = k, mean
    return found


def counts(s: Any, link: int, item: int) -> bool:
    """Return whether some item of a neighbour's message counts."""
    if s.me.heard_share >= 1.0:
        return True
    key = word_at(word_at(s.me.word, s.me.rounds), int(s.senders[link]))
    return bool(uniform_of(word_at(key, item)) < s.me.heard_share)
