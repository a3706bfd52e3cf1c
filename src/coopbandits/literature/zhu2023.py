"""Resilient UCB: neighbours tell their own means, and the extreme ones are not believed.

Zhu, Koppel, Velasquez and Liu, "Byzantine-resilient decentralized multi-armed bandits", 2023.

A message is [K own means | K own counts], as they are when it is sent; what a neighbour told last
counts until it tells more. Of an arm only those neighbours are heard that have pulled it about as
often as the agent itself. The f largest and f smallest of their means are dropped, so that f liars
move the average of the others and the own mean no further than an honest neighbour could.

Liars are agents of the same kind that report something else than they know, and believe no
neighbour.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from coopbandits.core import rows
from coopbandits.core.aggregate.aggregation import OWN, means_alone
from coopbandits.core.aggregate.fields import TIME, Aggregation, FieldMachine, Sizes
from coopbandits.core.aggregate.messages import check_counts, check_means
from coopbandits.core.checks import require_count, require_number, require_positive
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.core.index import UCB
from coopbandits.core.policy import Parts, Policy

if TYPE_CHECKING:
    from coopbandits.core.contract import LocalView, State, Vector
    from coopbandits.core.statistic import Statistic


LIES = ("raise", "swap")
"""What a liar tells: a bad arm is good, or the two best arms are each other."""

ATTACKS = ("none", *LIES)

RAISE = ATTACKS.index("raise")


@dataclass(frozen=True)
class TrimmedMeans(Aggregation):
    r"""The average of the own and the neighbours' means, without the extreme ones.

    Of an arm that the agent pulled n times, those neighbours are heard that pulled it at least
    :math:`n/κ` times. If there are more than 2f, the f largest and f smallest means are dropped,
    and the average z of the own mean and those left counts as :math:`4n/(4/M^2 + κ/M + κ)` pulls,
    M of them having been averaged. Otherwise the own mean counts alone.

    Parameters
    ----------
    liars : int
        f, how many neighbours of an agent may lie.
    kappa : float
        κ, at least 1.
    attack : {"none", "raise", "swap"}
        What the agent tells, if not the truth: "raise" that the arm which it finds worst has the
        mean `mean`, from as many pulls as it has heard of; "swap" exchanges the means of the two
        arms that it finds best. A liar goes by its own pulls alone.
    mean : float
        What "raise" tells.

    Notes
    -----
    Knows who its neighbours are. Sends 2K values to each of them in every round.
    """

    liars: int = 1
    kappa: float = 1.5
    attack: str = "none"
    mean: float = 1.0
    name: ClassVar[str] = "trimmed-means"
    totals: ClassVar[bool] = False
    shares: ClassVar[str] = OWN
    shared: ClassVar[str] = "own"
    derived: ClassVar[tuple[str, ...]] = (
        "told", "near", "liars", "kappa", "attack", "mean",
    )  # fmt: skip
    takes_context: ClassVar[bool] = False

    def __post_init__(self) -> None:
        require_count("liars", self.liars, least=0)
        require_positive("kappa", self.kappa)
        if self.kappa < 1.0:
            raise InputError(f"kappa is {self.kappa:g}; it must be at least 1")
        if self.attack not in ATTACKS:
            raise unknown_name("attack", str(self.attack), ATTACKS)
        require_number("mean", self.mean, "a finite number", -math.inf, math.inf)

    def carried(self, asked: Statistic) -> Statistic:
        return means_alone(self.name, asked)

    def fields(self, sizes: Sizes) -> Mapping[str, Any]:
        return {
            "own": sizes.width,
            "told": sizes.width,  # own means, own counts
            "heard": (sizes.links, sizes.width),
            "near": sizes.links,  # means of the neighbours that are heard of an arm
            "liars": int,
            "kappa": float,
            "attack": int,
            "mean": float,
        }

    def start(self, s: Any, view: LocalView) -> None:
        s.me.liars, s.me.kappa = self.liars, self.kappa
        s.me.attack, s.me.mean = ATTACKS.index(self.attack), self.mean

    def check_messages(self, agent: FieldMachine, messages: Mapping[int, Vector]) -> None:
        check_means(messages, agent.registers)

    def check_state(self, agent: FieldMachine, values: State) -> None:
        for heard in values["heard"]:  # of one neighbour
            check_counts("heard", agent.registers.share(heard).counts)

    @staticmethod
    def observe(s: Any, pull: Vector) -> None:
        rows.add(s.own, pull)

    @staticmethod
    def prepare(s: Any) -> None:
        """Compute the own means, and make up what is told instead."""
        arms = s.own.size // 2
        rows.copy(s.told, s.own)
        for k in range(arms):
            s.told[k] /= max(1.0, s.own[arms + k])
        if s.me.attack > 0 and arms > 1:  # with a single arm there is nothing to gain
            lie(s, arms)

    @staticmethod
    def message(s: Any, out: Vector) -> int:
        """Write [own means | own counts]."""
        rows.copy(out, s.told)
        return int(s.told.size)

    @staticmethod
    def receive(s: Any, inbox: Any, lengths: Any) -> None:
        """Note what neighbours tell."""
        for link in range(lengths.size):
            if lengths[link] > 0:
                rows.copy(s.heard[link], inbox[link])

    @staticmethod
    def estimate(s: Any, totals: Vector, certain: Vector, about: Vector) -> None:
        """Write every arm as pulls with the trimmed mean; own pulls are the time."""
        arms, liars, kappa = s.own.size // 2, s.me.liars, s.me.kappa
        about[TIME] = max(2.0, rows.total(s.own[arms:]))
        rows.copy(totals, s.own)
        if s.me.attack > 0:
            return
        for k in range(arms):
            count, heard = s.own[arms + k], 0
            if count == 0.0:
                continue
            for link in range(s.near.size):
                if kappa * s.heard[link, arms + k] >= count:
                    s.near[heard] = s.heard[link, k]
                    heard += 1
            if heard > 2 * liars:
                rows.sort(s.near[:heard])
                size = heard - 2 * liars + 1.0
                mean = (rows.total(s.near[liars : heard - liars]) + s.own[k] / count) / size
                credit = 4.0 * count / (4.0 / (size * size) + kappa / size + kappa)
                totals[k], totals[arms + k] = mean * credit, credit


def lie(s: Any, arms: int) -> None:
    """Tell a bad arm for a good one, or the two best arms for each other."""
    worst = best = 0
    for k in range(arms):
        if s.told[k] < s.told[worst]:
            worst = k
        if s.told[k] >= s.told[best]:
            best = k
    if s.me.attack == RAISE:
        s.told[worst] = s.me.mean
        for link in range(s.heard.shape[0]):
            s.told[arms + worst] = max(s.told[arms + worst], s.heard[link, arms + worst])
        return
    second = 1 if best == 0 else 0
    for k in range(arms):
        if k != best and s.told[k] >= s.told[second]:
            second = k
    s.told[best], s.told[second] = s.told[second], s.told[best]


@dataclass(frozen=True)
class ResilientUCB(Policy):
    r"""Resilient UCB (Zhu, Koppel, Velasquez, Liu 2023): trimmed means × UCB.

    Plays the arm with the largest :math:`z_k + \sqrt{g_k B σ^2 \ln t/n_k}`, z the own mean averaged
    with those of neighbours but for the f largest and f smallest, :math:`g_k = (4/M^2 + κ/M +
    κ)/4` for M means averaged, and 1 where there are too few of them.

    Parameters
    ----------
    liars : int
        f, how many neighbours of an agent may lie.
    kappa : float
        κ, at least 1: a neighbour counts if it has pulled an arm at least 1/κ times as often.
    constant : float
        B; 8 is the authors' 2 for rewards in [0, 1].

    Notes
    -----
    Knows who its neighbours are. Sends 2K values to each of them in every round. *Differs from the
    paper*: a neighbour that was not heard counts with what it told last.
    """

    liars: int = 1
    kappa: float = 1.5
    constant: float = 8.0
    name: ClassVar[str] = "resilient-ucb"

    @property
    def parts(self) -> Parts:
        return Parts(TrimmedMeans(self.liars, self.kappa), UCB(self.constant))


@dataclass(frozen=True)
class Liar(Policy):
    """Lies to agents that tell their means, and plays UCB on its own pulls itself.

    Parameters
    ----------
    attack : {"raise", "swap"}
        "raise" tells that the arm which the liar finds worst has the mean `mean`, from as many
        pulls as it has heard of; "swap" exchanges the means of the two arms that it finds best.
    mean : float
        What "raise" tells.
    constant : float
        B of its own UCB.

    Notes
    -----
    Its aggregation is that of those it lies to, with an `attack`, so give it to some agents of a
    population, ``resilient-ucb+liar@0``. Knows who its neighbours are. The attacks are ours.
    """

    attack: str = "raise"
    mean: float = 1.0
    constant: float = 8.0
    name: ClassVar[str] = "liar"

    def __post_init__(self) -> None:
        if self.attack not in LIES:
            raise unknown_name("attack", str(self.attack), LIES)
        super().__post_init__()

    @property
    def parts(self) -> Parts:
        return Parts(TrimmedMeans(attack=self.attack, mean=self.mean), UCB(self.constant))
