"""Exp3-Coop: exponential weights on losses that neighbours report, against an adversary.

Cesa-Bianchi, Gentile, Mansour and Minora, "Delay and cooperation in nonstochastic bandits", COLT
2016.

Rewards need not come from any distribution; all agents meet the same ones in a round. A message is
a list of items (agent, round, arm, loss, K probabilities), passed on up to d hops. What was played
in round t − d within d hops is known to all there when round t ends, and counts then: an arm's loss
by the probability that some agent would have played it.

An item is added up as it is heard, in a table with a row for each of the last d + 1 rounds; it is
kept as it is only as long as it is passed on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from coopbandits.core import rows
from coopbandits.core.aggregate.aggregation import told_agents
from coopbandits.core.aggregate.fields import Aggregation, FieldMachine, Sizes, whole
from coopbandits.core.aggregate.flooded_pulls import check_keys, is_young
from coopbandits.core.aggregate.messages import (
    all_finite,
    check_arms,
    check_news,
    flag_values,
    is_set,
    set_flag,
    write_news,
)
from coopbandits.core.aggregate.neighborhood import arm_of
from coopbandits.core.checks import require_count, require_positive
from coopbandits.core.contract import Estimate, LocalView, State, Vector
from coopbandits.core.draws import uniform_of, word_at
from coopbandits.core.errors import InputError
from coopbandits.core.index import Index
from coopbandits.core.index.greedy import LOWEST, any_of
from coopbandits.core.policy import Parts, Policy
from coopbandits.core.statistic.arm_sums import counts_of, sums_of

HEADER = 4
"""Values of an item before its probabilities: agent, round, arm, loss."""

LEAST = 2.0**-52
"""An arm that was played has at least this probability, whatever rounding made of it."""

MOST_PULLS = 4
"""Own pulls of one round that are told, at most; in simulations there is one."""


@dataclass(frozen=True)
class Exp3Coop(Policy):
    r"""Exp3-Coop (Cesa-Bianchi, Gentile, Mansour, Minora 2016).

    Draws an arm with probability :math:`p_k \propto w_k`, and multiplies every :math:`w_k` by
    :math:`\exp(-η\,\ell_k B_k/q_k)`, :math:`B_k` whether some agent within d hops played the arm d
    rounds ago and :math:`q_k = 1 - \prod_j (1 - p_k^j)` the probability of that.

    Parameters
    ----------
    hop_limit : int
        d, how many links the news of a pull may cross; 0 for Exp3 without communication.
    eta : float or None
        η; None for :math:`\sqrt{\ln K/(t (d + 1 + K/m))}` in round t, m the agents within d hops
        that were heard.

    Notes
    -----
    Losses are 1 − reward, for rewards in [0, 1]; others count as 0 or 1, whichever is nearer. Knows
    N, its own number, who its neighbours are, and the number of the round, common to all. Sends
    K + 4 values for every pull made at most d − 1 hops away.

    *Differs from the paper*: its η is fixed, and made of the horizon and the independence number of
    the graph; ours takes the round and the neighbourhood in their place unless it is given.
    """

    hop_limit: int = 1
    eta: float | None = None
    name: ClassVar[str] = "exp3-coop"

    def __post_init__(self) -> None:
        require_count("hop_limit", self.hop_limit, least=0)
        if self.eta is not None:
            require_positive("eta", self.eta)

    @property
    def parts(self) -> Parts:
        return Parts(ReportedLosses(self.hop_limit, self.eta), WeightedDraw())


@dataclass(frozen=True)
class ReportedLosses(Aggregation):
    """The logarithms of an agent's weights, and what was reported of the last d + 1 rounds."""

    hop_limit: int = 1
    eta: float | None = None
    name: ClassVar[str] = "reported-losses"
    counts_pulls: ClassVar[bool] = False
    needs_common_round: ClassVar[bool] = True
    grows: ClassVar[bool] = True
    needs: ClassVar[frozenset[str]] = frozenset({"num_agents"})
    derived: ClassVar[tuple[str, ...]] = ("shares", "agent", "agents", "eta")

    def fields(self, sizes: Sizes) -> Mapping[str, Any]:
        """Return weights, sums of what was reported by round and arm, and items to pass on.

        Round t has its place in row t mod d + 1. Passed on at once are, at most, items of every
        agent from d − 1 rounds, and own pulls.
        """
        kept, arms = self.hop_limit + 1, sizes.arms
        others = sizes.agents * max(0, self.hop_limit - 1)
        return {
            "logits": arms,
            "rounds": int,
            "plays": (kept, arms),
            "losses": (kept, arms),
            "missed": (kept, arms),  # the probability that no agent plays an arm
            "heard": whole(kept),  # of how many agents
            "seen": whole(kept, flag_values(sizes.agents)),  # and of which, as bits
            "news": (others + MOST_PULLS if self.hop_limit else 0, HEADER + arms),
            "num_news": int,
            "shares": arms,  # the own probabilities
            "agent": int,
            "agents": int,
            "eta": float,
        }

    def message_width(self, sizes: Sizes) -> int:
        most, width = self.fields(sizes)["news"]
        return int(most * width)

    def start(self, s: Any, view: LocalView) -> None:
        s.missed[:] = 1.0
        s.me.agent, s.me.agents = view.agent_id, told_agents(view, "exp3-coop")
        s.me.eta = 0.0 if self.eta is None else self.eta

    def check_messages(self, agent: FieldMachine, messages: Mapping[int, Vector]) -> None:
        width = agent.state.news.shape[1]
        for j, message in messages.items():
            size = np.size(message)
            if np.ndim(message) != 1 or size == 0 or size % width or size > agent.most:
                raise InputError(
                    f"message from {j} has shape {np.shape(message)}; it must be one vector of "
                    f"{width} values per pull, of up to {agent.most // width} pulls"
                )
            if not all_finite(message):
                raise InputError(f"message from {j} has values that are not finite")
            items = np.reshape(message, (-1, width))
            self._check(agent, items, agent.state.me.rounds, f"message from {j}")

    def _check(self, agent: FieldMachine, items: Vector, now: int, source: str) -> None:
        check_keys(items[:, :2], agent.state.me.agents, 0, now, source)
        check_arms(items[:, 2], agent.registers.num_arms, source)
        shares = items[:, HEADER - 1 :]
        if not ((shares >= 0.0) & (shares <= 1.0)).all():
            raise InputError(
                f"{source} has losses and probabilities {shares.tolist()}; they lie in 0 to 1"
            )

    def check_state(self, agent: FieldMachine, values: State) -> None:
        check_news(values)
        news = values["news"][: values["num_news"]]
        self._check(agent, news, values["rounds"], "state field news")
        if values["logits"].max() != 0.0:
            raise InputError(
                f"state field logits is {values['logits'].tolist()}; the largest of them is 0"
            )
        plays, losses, missed = values["plays"], values["losses"], values["missed"]
        is_possible = (losses >= 0.0) & (losses <= plays) & (missed >= 0.0) & (missed <= 1.0)
        if not is_possible.all() or (values["heard"] < 0).any():
            raise InputError(
                f"state fields plays {plays.tolist()}, losses {losses.tolist()}, missed "
                f"{missed.tolist()} and heard {values['heard'].tolist()} do not go together; a "
                "loss lies in 0 to 1, and so does the probability to miss an arm"
            )

    @staticmethod
    def observe(s: Any, pull: Vector) -> None:
        arm, arms = arm_of(pull, s.logits.size), s.logits.size
        total = 0.0
        for k in range(arms):
            s.shares[k] = math.exp(s.logits[k])
            total += s.shares[k]
        rows.scale(s.shares, 1.0 / total)
        loss = min(1.0, max(0.0, 1.0 - pull[arm]))
        place = s.me.rounds % s.heard.size
        add_up(s, place, arm, loss, s.shares)
        mark(s, place, s.me.agent)
        if s.me.num_news < s.news.shape[0]:
            item = s.news[s.me.num_news]
            item[0], item[1], item[2], item[3] = s.me.agent, s.me.rounds, arm, loss
            rows.copy(item[HEADER:], s.shares)
            s.me.num_news += 1

    @staticmethod
    def message(s: Any, out: Vector) -> int:
        """Write the items of this round; stay silent if there are none."""
        return write_news(s, out)

    @staticmethod
    def receive(s: Any, inbox: Any, lengths: Any) -> None:
        """Take in items not heard before, then let the losses of d rounds ago count."""
        width = s.news.shape[1]
        s.me.num_news = 0
        for link in range(lengths.size):
            items = lengths[link] // width
            # Items of one agent and round come in one message: only the messages before make
            # them old.
            for item in range(items):
                take_in(s, inbox[link, item * width : (item + 1) * width])
            for item in range(items):
                agent, now = int(inbox[link, item * width]), int(inbox[link, item * width + 1])
                if is_young(s, agent, now):
                    mark(s, now % s.heard.size, agent)
        count_losses(s, (s.me.rounds + 1) % s.heard.size)
        s.me.rounds += 1

    @staticmethod
    def estimate(s: Any, totals: Vector, certain: Vector, about: Vector) -> None:
        """Write the logarithms of weights, as sums of one pull each."""
        rows.copy(sums_of(totals), s.logits)
        rows.fill(counts_of(totals), 1.0)


def take_in(s: Any, item: Any) -> None:
    """Add up an item that is news, and put it down for the neighbours if they may need it."""
    agent, made = int(item[0]), int(item[1])
    place = made % s.heard.size
    if not is_young(s, agent, made) or is_set(s.seen[place], agent):
        return
    add_up(s, place, int(item[2]), item[3], item[HEADER:])
    # In the next round it is a hop further, and one round older when it arrives.
    if made > s.me.rounds + 2 - s.heard.size and s.me.num_news < s.news.shape[0]:
        rows.copy(s.news[s.me.num_news], item)
        s.me.num_news += 1


def add_up(s: Any, place: int, arm: int, loss: float, shares: Any) -> None:
    """Add what was played with which probabilities to what is known of its round."""
    s.plays[place, arm] += 1.0
    s.losses[place, arm] += loss
    for k in range(s.logits.size):
        s.missed[place, k] *= 1.0 - shares[k]


def mark(s: Any, place: int, agent: int) -> None:
    if not is_set(s.seen[place], agent):
        set_flag(s.seen[place], agent)
        s.heard[place] += 1


def count_losses(s: Any, place: int) -> None:
    """Move the weights by the losses of one round, and make room for another."""
    arms, highest = s.logits.size, -math.inf
    if s.heard[place] > 0:
        rate = rate_of(s, s.heard[place])
        for k in range(arms):
            plays = s.plays[place, k]
            if plays > 0.0:
                reached = max(LEAST, 1.0 - s.missed[place, k])
                s.logits[k] -= rate * s.losses[place, k] / plays / reached
            highest = max(highest, s.logits[k])
        for k in range(arms):
            s.logits[k] -= highest
    rows.fill(s.plays[place], 0.0)
    rows.fill(s.losses[place], 0.0)
    rows.fill(s.missed[place], 1.0)
    rows.fill(s.seen[place], 0)
    s.heard[place] = 0


def rate_of(s: Any, agents: int) -> float:
    """Return η in this round, `agents` agents having been heard of."""
    if s.me.eta > 0.0:
        return float(s.me.eta)
    arms, kept = s.logits.size, s.heard.size
    return math.sqrt(math.log(arms) / ((s.me.rounds + 1) * (kept + arms / agents)))


@dataclass(frozen=True)
class WeightedDraw(Index):
    """An arm drawn by weights, whose logarithms are told as means."""

    name: ClassVar[str] = "weighted-draw"
    prepare_reads: ClassVar[str] = "arms"

    @staticmethod
    def prepare(estimate: Estimate, word: int, numbers: Any, scratch: Any) -> None:
        scratch[0] = -math.inf
        for k in range(len(estimate.sums)):
            scratch[0] = max(scratch[0], logit_of(k, estimate))

    @staticmethod
    def value(arm: int, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> float:
        return math.exp(logit_of(arm, estimate) - scratch[0])

    @staticmethod
    def pick(values: Any, estimate: Estimate, word: int, numbers: Any, scratch: Any) -> int:
        """Draw an arm; any of them where those that were given up are all there is."""
        uniform, total, reached, arm = uniform_of(word_at(word, 0)), 0.0, 0.0, 0
        for k in range(len(values)):
            total += max(0.0, values[k])
        if total == 0.0:
            return any_of(values, uniform, LOWEST)
        for k in range(len(values)):
            if values[k] > 0.0:
                arm = k
                reached += values[k]
                if reached > uniform * total:
                    break
        return arm


def logit_of(arm: int, estimate: Estimate) -> float:
    """Return the logarithm of a weight; open pulls are further pulls that showed the same."""
    return float(estimate.sums[arm] / max(1.0, estimate.counts[arm]))
