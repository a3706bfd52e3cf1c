"""Resilient UCB, and agents that lie to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from coopbandits.core.aggregate.trimmed_means import LIES, TrimmedMeans
from coopbandits.core.errors import unknown_name
from coopbandits.core.index import UCB
from coopbandits.core.policy import Parts, Policy


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
        """Trimmed means × UCB."""
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
        """Refuse an attack that is none; the parts check the mean."""
        if self.attack not in LIES:
            raise unknown_name("attack", str(self.attack), LIES)
        super().__post_init__()

    @property
    def parts(self) -> Parts:
        """Lies about means × UCB."""
        return Parts(TrimmedMeans(attack=self.attack, mean=self.mean), UCB(self.constant))
