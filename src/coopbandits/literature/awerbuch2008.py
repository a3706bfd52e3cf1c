r"""Users who follow each other, some of them dishonest (Awerbuch and Kleinberg 2008).

Reconstruction, from the abstract and from memory, of "Competitive collaborative learning", Journal
of Computer and System Sciences 2008.

**Model.** N users choose among K resources in every round and see the reward of their own choice.
Rewards may change adversarially. Honest users form G groups; users of one group value resources in
the same way. The others are Byzantine: they report whatever they like. No user knows who belongs to
which group or who is honest. Regret is that of honest users against the best fixed resource of
their group.

**Algorithm.** Every user draws a few *sources* once and for all: s random resources and s random
users. In each round it draws one source from an adversarial bandit algorithm (Exp3) and plays that
resource, or what that user announced in the round before; honest users announce what they played.
It then credits the reward to the source. With estimated losses :math:`\hat L` and S = 2s sources,

.. math::
    p_j \propto e^{-η\hat L_j}, \qquad
    \hat L_j \leftarrow \hat L_j + \frac{1 - r}{p_j}\,1\{j \text{ was drawn}\}, \qquad
    η = \sqrt{\frac{2\ln S}{S\,T}}.

With :math:`s \approx G\ln N` some honest users of every group have the group's best resource among
their sources, and each user of the group reaches one of them by a chain of honest users of
length :math:`O(\ln N)`. A user bets on 2s sources instead of K resources, and no user needs to
trust another: who announces bad resources loses weight with each user that asks.

**Guarantee** (the abstract's): if the number of honest users is at least a constant fraction of the
number of resources, expected regret per user is linear in the number of groups and logarithmic in
the number of resources. A user alone has a regret polynomial in the number of resources
(:math:`\sqrt{2TK\ln K}` with this algorithm).

**Differs from the paper.** The text was not available. Users hear each other once per round
instead of O(log N) times between two decisions, and the bandit algorithm is Exp3 on losses without
mixing. The learners make no assumption on rewards, but the ones drawn here are stationary. No
theorem covers this form.

**Oracles.** Exp3 in a plain loop for one user; the same users without contacts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coopbandits.core.checks import require_count
from coopbandits.core.errors import InputError
from coopbandits.literature.models import (
    Dice,
    Floats,
    Lines,
    Model,
    Outcome,
    Played,
    read_means,
    read_table,
    require_sizes,
)

Places = NDArray[np.int64]


def collaborate(
    means: ArrayLike,
    users: int,
    horizon: int,
    liars: int = 0,
    sources: int | None = None,
    betrayal: int = 0,
    runs: int = 1,
    seed: int = 0,
) -> Outcome:
    r"""Let users learn which resources to use and which users to follow.

    `agent_regret` is that of honest users alone.

    Parameters
    ----------
    means : (group, resource)
        The probability of each resource to pay 1, by group. Honest user i is of group i mod G.
    users : int
        N, liars included.
    horizon, runs, seed : int
        As in `simulate`.
    liars : int
        How many users are dishonest; they always announce the resource that is worst on average.
    sources : int, optional
        s, the number of users and the number of resources that a user samples;
        :math:`\lceil G\ln N\rceil` unless given. With 0 users do not listen to each other, and
        each tries all K resources.
    betrayal : int
        The round from which liars lie; until then they announce the resource that is best on
        average.

    Examples
    --------
    >>> from coopbandits.literature import collaborate
    >>> means = [[0.9] + [0.3] * 39]
    >>> together = collaborate(means, users=40, horizon=1000, liars=8)
    >>> alone = collaborate(means, users=40, horizon=1000, liars=8, sources=0)
    >>> together.agent_regret.shape, bool(together.regret[0] < alone.regret[0])
    ((1, 32), True)
    """
    chances = read_table(means)
    groups, resources = chances.shape
    require_sizes(users=users, horizon=horizon, runs=runs, seed=seed)
    require_count("betrayal", betrayal, least=0)
    most = min(users - 1, resources)
    if sources is None:
        sources = min(math.ceil(groups * math.log(users)), most)
    for name, value, highest in (("liars", liars, users - 1), ("sources", sources, most)):
        require_count(name, value, least=0)
        if value > highest:
            raise InputError(f"{name} is {value}; give at most {highest}")
    parts = [
        _play(chances, users - liars, liars, horizon, sources, betrayal, Dice(seed, run))
        for run in range(runs)
    ]
    heard = np.array([count for _, count in parts], dtype=np.int64)
    return Outcome(heard, heard, np.array([regret for regret, _ in parts]))


def _play(
    chances: Floats,
    honest: int,
    liars: int,
    horizon: int,
    sources: int,
    betrayal: int,
    dice: Dice,
) -> tuple[Floats, int]:
    """Return the regret of every honest user, and how many announcements they followed."""
    groups, resources = chances.shape
    users = np.arange(honest)
    own = chances[users % groups]  # (honest user, resource)
    contacts, tried = _sources(honest, liars, resources, sources, dice)
    count = sources + tried.shape[1]
    rate = math.sqrt(2.0 * math.log(count) / (count * horizon))
    average = chances.mean(axis=0)
    announced = np.empty(honest + liars, dtype=np.int64)
    announced[:honest] = tried[:, 0]
    announced[honest:] = average.argmax() if betrayal > 0 else average.argmin()
    losses, earned, followed = np.zeros((honest, count)), np.zeros(honest), 0
    for t in range(horizon):
        # Weights relative to the largest: losses grow without bound, and exp would underflow.
        weights = np.exp(-rate * (losses - losses.min(axis=1, keepdims=True)))
        totals = weights.cumsum(axis=1)
        drawn = (totals <= dice.uniforms(honest)[:, None] * totals[:, -1:]).sum(axis=1)
        choices = np.concatenate([announced[contacts], tried], axis=1)[users, drawn]
        rewards = dice.uniforms(honest) < own[users, choices]
        losses[users, drawn] += (1.0 - rewards) * totals[:, -1] / weights[users, drawn]
        earned += own[users, choices]
        followed += int(np.count_nonzero(drawn < sources))
        announced[:honest] = choices
        if t + 1 >= betrayal:
            announced[honest:] = average.argmin()
    return horizon * own.max(axis=1) - earned, followed


def _sources(
    honest: int, liars: int, resources: int, sources: int, dice: Dice
) -> tuple[Places, Places]:
    """Return the users that every honest user may follow, and the resources that it tries."""
    if sources == 0:
        everything = np.tile(np.arange(resources), (honest, 1))
        return np.empty((honest, 0), dtype=np.int64), everything
    orders = dice.uniforms(honest * (honest + liars)).reshape(honest, -1)
    orders[np.arange(honest), np.arange(honest)] = np.inf  # not itself
    contacts = orders.argsort(axis=1)[:, :sources]
    tried = dice.uniforms(honest * resources).reshape(honest, -1).argsort(axis=1)[:, :sources]
    return contacts, tried


@dataclass(frozen=True)
class Collaborate(Model):
    """Users follow others, of whom some lie (Awerbuch, Kleinberg 2008, reconstruction).

    `liars` is the fraction of dishonest users; group g values the means shifted by g of G parts.
    """

    liars: float = 0.2
    groups: int = 1
    betrayal: int = 0
    name: ClassVar[str] = "collaborate"

    def play(self, played: Played) -> Lines:
        means, users, horizon, runs, seed = played
        chances = read_means(means)
        require_sizes(users=users, groups=self.groups)
        if not 0.0 <= self.liars < 1.0:
            raise InputError(f"liars is {self.liars}; it must be a number from 0 to below 1")
        shifts = [g * chances.size // self.groups for g in range(self.groups)]
        table = np.array([np.roll(chances, shift) for shift in shifts])
        liars = int(self.liars * users)
        return collaborate(
            table, users, horizon, liars, betrayal=self.betrayal, runs=runs, seed=seed
        ).lines
