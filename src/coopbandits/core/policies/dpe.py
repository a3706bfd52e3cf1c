"""DPE2: one leader explores by its own pulls, and all others play what it last called best.

Every agent draws a tag; the smallest one leads. Until an agent hears of a smaller tag than its own
it leads itself. A leader's word is (tag, stamp, arm): of two words the one with the smaller tag
counts, of one leader's the one with the larger stamp. A message is a word and whether the sender
wants an answer, which it does until it knows that the neighbour has the same word. So nothing is
sent once all agree, and a lost message is only a delay.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.aggregate.exchange import check_arms, check_vectors
from coopbandits.core.checks import require_count
from coopbandits.core.contract import LocalView, State, Vector
from coopbandits.core.draws import uniform_of
from coopbandits.core.errors import InputError
from coopbandits.core.index import Support, family_support, require_family
from coopbandits.core.policy import Policy
from coopbandits.core.ruled import RuledAgent
from coopbandits.core.special import bernoulli_upper
from coopbandits.core.spelling import AUTO
from coopbandits.core.team import Arms, Sent, Team

NOTHING_HEARD = 2.0
"""Stands for the tag of a neighbour that has not been heard; tags lie between 0 and 1."""


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
        """Refuse an unknown family."""
        require_family(self.family)

    @property
    def support(self) -> Support:
        return family_support(self.family)

    @property
    def needs(self) -> frozenset[str]:
        """A random word."""
        return frozenset({"random_word"})

    def make_agent(self, view: LocalView) -> DPE2Agent:
        """Return a fresh agent."""
        return DPE2Agent(view, self.spelling, self.family)

    def make_team(self, views: Sequence[LocalView]) -> DPE2Team:
        """Return all agents, of which few do anything."""
        return DPE2Team([self.make_agent(view) for view in views])


class DPE2Agent(RuledAgent):
    """One agent: a leader, of itself at least, until it hears of a smaller tag.

    Notes
    -----
    A leader that is gone for good leaves everybody with its last word. One that comes back without
    its memory hears of its own later words, and takes up their stamps.
    """

    fields = ("sums", "counts", "queue", "starting", "best", "tag", "stamp", "told", "asked")
    tables = ("queue",)
    links = ("told", "asked")

    def __init__(self, view: LocalView, policy: str, family: str) -> None:
        super().__init__(view, policy)
        self.family = family
        self.own_tag = uniform_of(view.random_word)
        self.sums, self.counts = np.zeros(view.num_arms), np.zeros(view.num_arms)
        self.queue = np.arange(1, view.num_arms)  # what is left of the sweep, in this order
        self.starting = True  # whether the sweep begins with a pull of the best arm
        self.best = 0
        self.tag, self.stamp = self.own_tag, 0
        self.told = np.tile([NOTHING_HEARD, 0.0], (len(self.places), 1))  # neighbours' words
        self.asked = np.zeros(len(self.places))  # who wants an answer

    @property
    def leads(self) -> bool:
        """Whether the agent follows nobody."""
        return self.tag == self.own_tag

    def pick(self, word: int, arms: Sequence[int]) -> int:
        """Return the next arm of the sweep that is not open, or the best arm."""
        del word
        if self.leads and not (self.starting and not self.open_pulls[self.best]):
            for arm in self.queue.tolist():
                if arm in arms and not self.open_pulls[arm]:
                    return int(arm)
        return self.best if self.best in arms else arms[0]

    def learn(self, arm: int, reward: float) -> None:
        """Count the pull, and begin another sweep where this one is over."""
        if not self.leads:
            return
        self.sums[arm] += reward
        self.counts[arm] += 1.0
        if self.starting and arm == self.best:
            self.starting = False
        else:
            self.queue = self.queue[self.queue != arm]
        time = self.counts.sum()
        if self.queue.size == 0 and not self.starting and time > 2.0:
            self._sweep(math.log(time) + 4.0 * math.log(math.log(time)))

    def _sweep(self, level: float) -> None:
        """Queue all arms that may be better than the best, and see which is the best now."""
        means = self.sums / self.counts  # the first sweep goes through all arms
        uppers = [self._upper(k, level) for k in range(means.size)]
        queue = [k for k, upper in enumerate(uppers) if upper > means[self.best]]
        self.queue = np.array(sorted(queue, key=lambda k: -uppers[k]), dtype=np.int64)
        self.starting = bool(queue)
        best = int(means.argmax())
        if best != self.best:
            self.best, self.stamp = best, self.stamp + 1

    def _upper(self, arm: int, level: float) -> float:
        count = float(self.counts[arm])
        mean = float(self.sums[arm]) / count
        if self.family == "bernoulli":
            return bernoulli_upper(mean, level / count)
        return mean + self.view.sigma * math.sqrt(2.0 * level / count)

    def tell(self, neighbor: int) -> Vector | None:
        """Return [tag, stamp, arm, whether an answer is wanted] to who may not know it."""
        at = self.places[neighbor]
        differs = self.told[at].tolist() != [self.tag, self.stamp]
        if not differs and not self.asked[at]:
            return None
        return np.array([self.tag, self.stamp, self.best, differs], dtype=np.float64)

    def hear(self, messages: Mapping[int, Vector]) -> None:
        """Follow the smallest tag, in its latest word."""
        check_vectors(messages, 4)
        for j, message in messages.items():
            _check_word(message, self.view.num_arms, j)
        self.asked[:] = 0.0
        for j, message in messages.items():
            tag, stamp, arm, wants = message.tolist()
            at = self.places[j]
            if _is_later((tag, stamp), (self.told[at, 0], self.told[at, 1])):
                self.told[at] = tag, stamp
            self.asked[at] = wants
            if not _is_later((tag, stamp), (self.tag, self.stamp)):
                continue
            if tag == self.own_tag:  # told by who remembers what this agent has forgotten
                self.stamp = int(stamp) + 1
            else:
                self.tag, self.stamp, self.best = tag, int(stamp), int(arm)

    def check_state(self, values: State) -> None:
        """Refuse words and queues that cannot be."""
        super().check_state(values)
        require_count("state field stamp", values["stamp"], least=0)
        arms = np.append(values["queue"], values["best"]).astype(np.float64)
        check_arms(arms, self.view.num_arms, "state fields queue and best")


def _is_later(word: tuple[float, float], than: tuple[float, float]) -> bool:
    """Return whether a word (tag, stamp) counts more than another."""
    return word[0] < than[0] or (word[0] == than[0] and word[1] > than[1])


def _check_word(message: Vector, num_arms: int, sender: int) -> None:
    tag, stamp, _, wants = message.tolist()
    check_arms(message[2:3], num_arms, f"message from {sender}")
    if not (0.0 < tag < 1.0 and stamp >= 0.0 and stamp == math.floor(stamp) and wants in (0, 1)):
        raise InputError(
            f"message from {sender} has tag {tag:g}, stamp {stamp:g} and wish {wants:g}; a tag "
            "lies between 0 and 1, a stamp is a whole number from 0, a wish is 0 or 1"
        )


class DPE2Team(Team):
    """All agents, of which leaders pull and learn, and only those with news send messages."""

    def __init__(self, agents: Sequence[DPE2Agent]) -> None:
        self.agents, self.arms = agents, range(agents[0].view.num_arms)
        self.best = np.array([agent.best for agent in agents])
        self.leaders = list(range(len(agents)))
        self.restless = set(self.leaders)  # who may have something to tell

    def choose(self, words: NDArray[np.uint64]) -> Arms:
        """Return what followers call best, and the leaders' own arms."""
        del words
        arms = self.best.copy()
        for i in self.leaders:
            arms[i] = self.agents[i].pick(0, self.arms)
        return arms

    def learn(self, arms: Arms, rewards: NDArray[np.float64]) -> None:
        """Let leaders learn; one that changes its mind has something to tell."""
        for i in self.leaders:
            leader, before = self.agents[i], self.agents[i].stamp
            leader.learn(int(arms[i]), float(rewards[i]))
            if leader.stamp != before:
                self.best[i] = leader.best
                self.restless.add(i)

    def exchange(self) -> Sent:
        """Let those exchange messages that have any; who is asked answers in the next round."""
        sent = np.zeros(len(self.agents), dtype=np.int64)
        inboxes: dict[int, dict[int, Vector]] = {i: {} for i in self.restless}
        for i in sorted(self.restless):
            agent = self.agents[i]
            told = {j: message for j in agent.places if (message := agent.tell(j)) is not None}
            sent[i] = len(told)
            for j, message in told.items():
                inboxes.setdefault(j, {})[i] = message
        for i, inbox in inboxes.items():
            self.agents[i].hear(inbox)
            self.best[i] = self.agents[i].best
        self.restless = {i for i, inbox in inboxes.items() if inbox or sent[i]}
        if self.restless:
            self.leaders = [i for i in self.leaders if self.agents[i].leads]
        return Sent(sent, 4 * sent)
