"""DPE2: one leader explores by its own pulls, and all others play what it last called best.

Wang, Proutiere, Ariu, Jedra and Russo, "Optimal algorithms for multiplayer multi-armed bandits",
AISTATS 2020.

Every agent draws a tag; the smallest one leads. Until an agent hears of a smaller tag than its own
it leads itself. A leader's word is (tag, stamp, arm): of two words the one with the smaller tag
counts, of one leader's the one with the larger stamp. A message is a word and whether the sender
wants an answer, which it does until it knows that the neighbour has the same word. So nothing is
sent once all agree, and a lost message is only a delay.

Estimates rank arms instead of describing rewards: `SweepRanks` plays the arm that ranks highest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from coopbandits.core import rows
from coopbandits.core.aggregate.fields import Aggregation, FieldMachine, Sizes, whole
from coopbandits.core.aggregate.messages import check_arms, check_vectors
from coopbandits.core.checks import require_count
from coopbandits.core.contract import Estimate, LocalView, State, Vector
from coopbandits.core.draws import uniform_of
from coopbandits.core.errors import InputError
from coopbandits.core.index import Index, Support, family_support, require_family
from coopbandits.core.policy import Parts, Policy
from coopbandits.core.special import bernoulli_upper
from coopbandits.core.spelling import AUTO
from coopbandits.core.statistic.arm_sums import counts_of, sums_of

NOTHING_HEARD = 2.0
"""Stands for the tag of a neighbour that has not been heard; tags lie between 0 and 1."""

BEST = 0.5
"""What the best arm has beside its rank: K + 1 where a sweep begins with it, else 0 to K."""


@dataclass(frozen=True)
class DPE2(Policy):
    r"""DPE2 (Wang, Proutiere, Ariu, Jedra, Russo 2020) on a graph.

    The leader sweeps through a queue: first its best arm, then all arms with
    :math:`\max\{q : n_k\,d(\hat\mu_k, q) \le \ln t + 4 \ln\ln t\} > \hat\mu_b`, by falling
    index. At the end of a sweep it may call another arm best, and floods it.

    Parameters
    ----------
    family : {"auto", "gaussian", "bernoulli"}
        The rewards' family; "bernoulli" accepts any rewards in [0, 1]. "auto" is "bernoulli" where
        rewards are known to lie in [0, 1], else "gaussian".

    Notes
    -----
    Knows who its neighbours are, and a random word of its own. Sends 4 values to a neighbour that
    may not know the latest word of the leader, and none otherwise.

    *Differs from the paper*: on a graph the leader has to be found; and it sweeps through the queue
    where the paper's text tosses a coin between its best arm and the queue.
    """

    family: str = AUTO
    name: ClassVar[str] = "dpe2"

    def __post_init__(self) -> None:
        require_family(self.family)

    @property
    def parts(self) -> Parts:
        return Parts(LeaderWords(self.family), SweepRanks(self.family))


@dataclass(frozen=True)
class LeaderWords(Aggregation):
    """The leader's words, and its own pulls.

    A leader that is gone for good leaves all others with its last word. One that comes back without
    its memory hears of its own later words, and takes up their stamps.
    """

    family: str = AUTO
    name: ClassVar[str] = "leader-words"
    counts_pulls: ClassVar[bool] = False
    needs: ClassVar[frozenset[str]] = frozenset({"random_word"})
    derived: ClassVar[tuple[str, ...]] = ("own_tag", "sigma", "is_binary", "uppers")

    def fields(self, sizes: Sizes) -> Mapping[str, Any]:
        return {
            "own_tag": float,
            "sigma": float,
            "is_binary": int,
            "sums": sizes.arms,
            "counts": sizes.arms,
            "uppers": sizes.arms,
            "ranks": whole(sizes.arms),  # of arms left in the sweep, the first one's the largest
            "starting": int,  # whether the sweep begins with a pull of the best arm
            "best": int,
            "tag": float,
            "stamp": int,
            "told": (sizes.links, 2),  # neighbours' tags and stamps
            "asked": sizes.links,  # who wants an answer
        }

    def message_width(self, sizes: Sizes) -> int:
        return 4

    def start(self, s: Any, view: LocalView) -> None:
        s.me.own_tag = s.me.tag = uniform_of(view.random_word)
        s.me.sigma, s.me.is_binary = view.sigma, int(self.family == "bernoulli")
        s.me.starting = 1
        s.ranks[1:] = np.arange(view.num_arms - 1, 0, -1)
        s.told[:, 0] = NOTHING_HEARD

    def check_messages(self, agent: FieldMachine, messages: Mapping[int, Vector]) -> None:
        check_vectors(messages, 4)
        for j, message in messages.items():
            check_word(message, agent.registers.num_arms, j)

    def check_state(self, agent: FieldMachine, values: State) -> None:
        require_count("state field stamp", values["stamp"], least=0)
        num_arms, ranks = agent.registers.num_arms, values["ranks"]
        check_arms(np.array([float(values["best"])]), num_arms, "state field best")
        if ((ranks < 0) | (ranks > num_arms)).any():
            raise InputError(
                f"state field ranks is {ranks.tolist()}; ranks of {num_arms} arms are 0 to "
                f"{num_arms}"
            )

    @staticmethod
    def observe(s: Any, pull: Vector) -> None:
        """Count a leader's pull, and begin another sweep where this one is over."""
        if s.me.tag != s.me.own_tag:
            return
        rows.add(s.sums, sums_of(pull))
        rows.add(s.counts, counts_of(pull))
        pulled, queued, time = counts_of(pull), 0, 0.0
        for k in range(s.sums.size):
            if pulled[k] > 0.0:
                if s.me.starting == 1 and k == s.me.best:
                    s.me.starting = 0
                else:
                    s.ranks[k] = 0
            queued += s.ranks[k] > 0
            time += s.counts[k]
        if queued == 0 and s.me.starting == 0 and time > 2.0:
            begin_sweep(s, math.log(time) + 4.0 * math.log(math.log(time)))

    @staticmethod
    def message(s: Any, link: int, out: Vector) -> int:
        """Write [tag, stamp, arm, whether an answer is wanted] to who may not know it."""
        differs = s.told[link, 0] != s.me.tag or s.told[link, 1] != s.me.stamp
        if not differs and s.asked[link] == 0.0:
            return 0
        out[0], out[1], out[2], out[3] = s.me.tag, s.me.stamp, s.me.best, differs
        return 4

    @staticmethod
    def receive(s: Any, inbox: Any, lengths: Any) -> None:
        """Follow the smallest tag, in its latest word."""
        for link in range(lengths.size):
            s.asked[link] = 0.0
            if lengths[link] == 0:
                continue
            tag, stamp = inbox[link, 0], inbox[link, 1]
            if is_later(tag, stamp, s.told[link, 0], s.told[link, 1]):
                s.told[link, 0], s.told[link, 1] = tag, stamp
            s.asked[link] = inbox[link, 3]
            if not is_later(tag, stamp, s.me.tag, s.me.stamp):
                continue
            if tag == s.me.own_tag:  # from a neighbour that remembers what this agent has forgotten
                s.me.stamp = int(stamp) + 1
            else:
                s.me.tag, s.me.stamp, s.me.best = tag, int(stamp), int(inbox[link, 2])

    @staticmethod
    def estimate(s: Any, totals: Vector, certain: Vector, about: Vector) -> None:
        """Write the ranks of arms, as sums of one pull each."""
        num_arms, leads = s.sums.size, s.me.tag == s.me.own_tag
        ranks = sums_of(totals)
        rows.fill(counts_of(totals), 1.0)
        for k in range(num_arms):
            ranks[k] = float(s.ranks[k]) if leads else 0.0
        if leads and s.me.starting == 1:
            ranks[s.me.best] = num_arms + 1.0
        ranks[s.me.best] += BEST


def begin_sweep(s: Any, level: float) -> None:
    """Queue all arms that may be better than the best, and see which is the best now."""
    num_arms, best, highest = s.sums.size, 0, -math.inf
    for k in range(num_arms):  # the first sweep has gone through all arms
        mean = s.sums[k] / s.counts[k]
        if mean > highest:
            best, highest = k, mean
        if s.me.is_binary == 1:
            s.uppers[k] = bernoulli_upper(mean, level / s.counts[k])
        else:
            s.uppers[k] = mean + s.me.sigma * math.sqrt(2.0 * level / s.counts[k])
    least = s.sums[s.me.best] / s.counts[s.me.best]
    s.me.starting = 0
    for k in range(num_arms):
        s.ranks[k] = 0
        if s.uppers[k] > least:
            s.ranks[k] = s.me.starting = 1
            for other in range(num_arms):
                is_lower = least < s.uppers[other] < s.uppers[k]
                if is_lower or (s.uppers[other] == s.uppers[k] and other > k):
                    s.ranks[k] += 1
    if best != s.me.best:
        s.me.best, s.me.stamp = best, s.me.stamp + 1


def is_later(tag: float, stamp: float, other_tag: float, other_stamp: float) -> bool:
    """Return whether a word counts more than another."""
    return tag < other_tag or (tag == other_tag and stamp > other_stamp)


def check_word(message: Vector, num_arms: int, sender: int) -> None:
    """Reject a message that no leader can have sent."""
    tag, stamp, _, wants = message.tolist()
    check_arms(message[2:3], num_arms, f"message from {sender}")
    if not (0.0 < tag < 1.0 and stamp >= 0.0 and stamp == math.floor(stamp) and wants in (0, 1)):
        raise InputError(
            f"message from {sender} has tag {tag:g}, stamp {stamp:g} and wish {wants:g}; a tag "
            "lies between 0 and 1, a stamp is a whole number from 0, a wish is 0 or 1"
        )


@dataclass(frozen=True)
class SweepRanks(Index):
    """The arm that ranks highest and has no open pull, else the best arm."""

    family: str = AUTO
    name: ClassVar[str] = "sweep-ranks"
    random: ClassVar[bool] = False
    prepare_reads: ClassVar[str] = "arms"

    @property
    def support(self) -> Support:
        return family_support(self.family)

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Any, scratch: Any) -> None:
        """Find out whether a sweep has yet to begin, which it does with the best arm."""
        scratch[0] = 0.0
        for k in range(len(estimate.sums)):
            if estimate.counts[k] == 1.0 and estimate.sums[k] > len(estimate.sums):
                scratch[0] = 1.0

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        """Return the rank; an open pull has made the count larger than 1."""
        rank = estimate.sums[arm] / max(1.0, estimate.counts[arm])
        is_best, is_open = rank % 1.0 == BEST, estimate.counts[arm] > 1.0
        if is_open or scratch[0] > 0.0:
            return BEST if is_best else 0.0
        return float(rank)
