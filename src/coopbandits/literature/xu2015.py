r"""DisCo: one reward for the joint action, no messages (Xu, Tekin, Zhang, van der Schaar 2015).

Reconstruction, from the abstract and from memory, of "Distributed multi-agent online learning based
on global feedback", IEEE Transactions on Signal Processing 2015.

**Model.** N agents choose one of K actions each, and one *global* reward depends on the joint
action :math:`a = (a_1, …, a_N)` with mean :math:`\mu(a)`. Agents neither communicate nor see each
other's actions; agent n sees the global reward with an error of its own,
:math:`r + e_n`, :math:`E\,e_n = 0`. Regret is :math:`\sum_t \max_a\mu(a) - \mu(a(t))`.

**Algorithms** (`rule`):

``"ucb"``
    Every agent runs UCB1 on all joint actions and plays its own part of the best one. Without
    errors all agents compute the same, so nothing is lost by not communicating. With errors they
    drift apart: each credits the reward to a joint action that was not played.
``"joint"`` (DisCo)
    Phases follow from the round alone, so agents stay in step. If fewer than :math:`A\ln t`
    exploration phases were held, one begins: all :math:`K^N` joint actions in a fixed order, once
    each. In all other rounds every agent plays its part of the joint action with the largest mean
    of its *own* observations from exploration. The agents need not agree on these means, only on
    which is largest, so the best joint action must be unique.
``"own"`` (DisCo for a fully informative reward)
    As before, but an exploration phase has NK rounds: agent after agent tries each of its K
    actions while the others keep playing what they believe is best. Agent n compares its own
    actions only. That is right if the reward is *fully informative*: which action of agent n is
    better must not depend on the others.

After m phases a mean of rewards in [0, 1] with errors in [−w, w] is off by Δ/2 with probability
below :math:`2\exp(-mΔ^2/(2(1 + 2w)^2))`, so that mistakes are summable for
:math:`A > 2(1 + 2w)^2/Δ^2`, Δ being the smallest difference that counts.

**Guarantee** (the abstract's): regret is logarithmic in T; it is linear in the number of joint
actions in general, and linear in the number of actions of all agents together if the reward is
fully informative.

**Differs from the paper.** The text was not available: phases, the constant A and what the others
play while one agent explores are derived here. Rewards are 0 or 1, errors uniform. Partially
informative rewards and learning from exploitation are left out.

**Oracles.** UCB1 in a plain loop; the rounds of every phase by hand.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from coopbandits.core.checks import require_nonnegative, require_positive
from coopbandits.core.choice import best_arms
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.literature.models import (
    Dice,
    Floats,
    Lines,
    Model,
    Outcome,
    Played,
    read_chances,
    read_means,
    require_sizes,
)

MOST_JOINT_ACTIONS = 10**6
RULES = ("joint", "own", "ucb")


def global_feedback(
    means: ArrayLike,
    horizon: int,
    rule: str = "joint",
    error: float = 0.0,
    exploration: float = 10.0,
    runs: int = 1,
    seed: int = 0,
) -> Outcome:
    r"""Let agents learn from one reward for their joint action.

    Regret is the global one; `agent_regret` divides it evenly.

    Parameters
    ----------
    means : array with one axis of length K per agent
        The probability of the global reward to be 1, by joint action.
    horizon, runs, seed : int
        As in `simulate`.
    rule : {"joint", "own", "ucb"}
        How agents learn, see above.
    error : float
        w; each agent sees the reward plus an error of its own, uniform in [−w, w].
    exploration : float
        A; about :math:`A\ln t` exploration phases are held until round t.

    Examples
    --------
    >>> from coopbandits.literature import global_feedback
    >>> both = [[0.1, 0.5], [0.9, 0.2]]  # action 1 of the first agent with 0 of the second
    >>> result = global_feedback(both, horizon=2000, error=0.5)
    >>> bool(result.regret[0] < 2000 * 0.4), result.messages.tolist()
    (True, [0])
    """
    chances = read_chances(means)
    lengths = set(chances.shape)
    if len(lengths) != 1 or min(lengths) < 2:
        raise InputError(
            f"means have shape {chances.shape}; give one axis per agent, all of the same length, "
            "at least 2"
        )
    require_sizes(horizon=horizon, runs=runs, seed=seed)
    require_positive("exploration", exploration)
    if rule not in RULES:
        raise unknown_name("rule", rule, RULES)
    require_nonnegative("error", error)
    earned = np.zeros(runs)
    for run in range(runs):
        feedback = Feedback(chances, horizon, error, Dice(seed, run))
        if rule == "ucb":
            _ucb(feedback)
        else:
            _disco(feedback, rule == "own", exploration)
        earned[run] = feedback.earned
    lost = (horizon * chances.max() - earned) / chances.ndim
    nothing = np.zeros(runs, dtype=np.int64)  # is sent
    return Outcome(nothing, nothing, np.repeat(lost[:, None], chances.ndim, axis=1))


class Feedback:
    """Rounds of one run: the global reward, and what each agent sees of it."""

    def __init__(self, chances: Floats, horizon: int, error: float, dice: Dice) -> None:
        self.chances, self.horizon, self.error, self.dice = chances, horizon, error, dice
        self.round, self.earned = 0, 0.0

    def play(self, joint: tuple[int, ...]) -> None:
        self.round += 1
        self.earned += float(self.chances[joint])

    def observe(self, joint: tuple[int, ...]) -> Floats:
        """Play a joint action and return what every agent sees; zeros beyond the horizon."""
        if self.round == self.horizon:
            return np.zeros(len(joint))
        self.play(joint)
        reward = float(self.dice.uniform() < self.chances[joint])
        return reward + self.error * (2.0 * self.dice.uniforms(len(joint)) - 1.0)


def _disco(feedback: Feedback, own: bool, exploration: float) -> None:
    shape = feedback.chances.shape
    agents, actions = len(shape), shape[0]
    # Every action is tried once per phase, so sums compare as means do.
    sums = np.zeros((agents, actions if own else feedback.chances.size))
    best: tuple[int, ...] = (0,) * agents
    phases = 0
    while feedback.round < feedback.horizon:
        if phases > 0 and phases >= exploration * math.log(feedback.round + 1):
            feedback.play(best)
            continue
        phases += 1
        if own:
            for n, k in np.ndindex(agents, actions):
                sums[n, k] += feedback.observe((*best[:n], k, *best[n + 1 :]))[n]
            best = tuple(best_arms(sums).tolist())
        else:
            for place, joint in enumerate(np.ndindex(shape)):
                sums[:, place] += feedback.observe(joint)
            best = _parts(best_arms(sums).tolist(), shape)


def _parts(places: list[int], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return what agents play of whom each has a joint action of its own in mind."""
    return tuple(int(np.unravel_index(place, shape)[n]) for n, place in enumerate(places))


def _ucb(feedback: Feedback) -> None:
    shape = feedback.chances.shape
    agents = np.arange(len(shape))
    sums = np.zeros((len(shape), feedback.chances.size))
    counts = np.ones_like(sums)
    for place, joint in enumerate(np.ndindex(shape)):
        sums[:, place] = feedback.observe(joint)
    scale = 1.0 + 2.0 * feedback.error  # of what is seen: the range of rewards and errors
    while feedback.round < feedback.horizon:
        width = scale * np.sqrt(2.0 * math.log(feedback.round + 1) / counts)
        places = best_arms(sums / counts + width)
        sums[agents, places] += feedback.observe(_parts(places.tolist(), shape))
        counts[agents, places] += 1.0


@dataclass(frozen=True)
class GlobalFeedback(Model):
    """One reward for the joint action, no communication (Xu et al. 2015, reconstruction).

    The reward's mean is the average of one mean per agent; agent n has them shifted by n actions.
    """

    rule: str = "joint"
    error: float = 0.1
    exploration: float = 10.0
    name: ClassVar[str] = "global-feedback"

    def play(self, played: Played) -> Lines:
        means, agents, horizon, runs, seed = played
        require_sizes(agents=agents)
        table = shared_reward(means, agents)
        return global_feedback(
            table, horizon, self.rule, self.error, self.exploration, runs, seed
        ).lines


def shared_reward(means: Sequence[float], agents: int) -> Floats:
    """Return the joint means of agents that contribute equally: a fully informative reward."""
    chances = read_means(means)
    if chances.size**agents > MOST_JOINT_ACTIONS:
        raise InputError(
            f"{agents} agents with {chances.size} actions have {chances.size**agents} joint "
            f"actions; at most {MOST_JOINT_ACTIONS} are supported, so give fewer agents or means"
        )
    table = np.zeros((chances.size,) * agents)
    for n in range(agents):
        along = [1] * agents
        along[n] = chances.size
        table = table + np.roll(chances, -n).reshape(along) / agents
    return table
