"""The proof: what applications were told is counted, is what the agents hold, once each.

Three accounts are compared, as vectors of K reward sums and K numbers of pulls:

- *acknowledged*: what the applications wrote down when an agent had answered;
- *own*: what all agents have taken in from their own applications;
- *held*: with flooding and trees the estimate of every single agent; with a synchronous policy the
  shares of all agents after the same round, together. Pull mixing (gossip-ts) conserves on average
  only, so of it the own account alone is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from coopbandits.core.agent import Vector
from coopbandits.fleet.config.model import MODES
from coopbandits.fleet.local.players import Reward
from coopbandits.fleet.service import ArmEstimate

EXACT = 1e-9


@dataclass(frozen=True)
class Verdict:
    """What the accounts say.

    Attributes
    ----------
    acknowledged, own : array of shape (2K,)
        As above.
    held : dict of str to array
        What is held, by whom; empty where the policy conserves on average only.
    scale : array of shape (2K,)
        What differences are measured by: the rewards' magnitudes, and the numbers of pulls.
    problem : str
        Why there is no account; empty where there is.
    best_found : int
        Agents whose estimate of the best arm's mean is the largest.
    answering : int
        Agents that answered.
    """

    acknowledged: Vector
    own: Vector
    held: Mapping[str, Vector]
    scale: Vector
    problem: str
    best_found: int
    answering: int

    @property
    def accounts(self) -> dict[str, Vector]:
        """Return what is compared with what was acknowledged, by whose it is."""
        return {**self.held, "all agents' own rewards": self.own}

    @property
    def differences(self) -> Vector:
        """Return the largest difference from what was acknowledged, entry by entry."""
        accounts = self.accounts.values()
        found: Vector = np.max([abs(each - self.acknowledged) for each in accounts], axis=0)
        return found

    @property
    def holds(self) -> bool:
        """Return whether all accounts agree."""
        return not self.problem and bool((self.differences <= EXACT * self.scale).all())

    @property
    def farthest(self) -> str:
        """Return whose account differs most."""
        errors = {
            who: float((abs(each - self.acknowledged) / self.scale).max())
            for who, each in self.accounts.items()
        }
        return max(errors, key=lambda who: errors[who])


class Account(NamedTuple):
    """What was acknowledged, and what differences from it are measured by."""

    total: Vector
    scale: Vector


def add_up(rewards: Iterable[Reward], num_arms: int) -> Account:
    """Return the account of some rewards; its scale is at least 1."""
    total, scale = np.zeros(2 * num_arms), np.ones(2 * num_arms)
    for reward in rewards:
        total[reward.arm] += reward.reward
        scale[reward.arm] += abs(reward.reward)
        total[num_arms + reward.arm] += 1.0
        scale[num_arms + reward.arm] += 1.0
    return Account(total, scale)


def judge(
    policy: str,
    best_arms: Sequence[bool],
    acknowledged: Account,
    arms: Mapping[str, list[ArmEstimate] | None],
    health: Mapping[str, dict[str, Any] | None],
) -> Verdict:
    """Compare the accounts.

    Parameters
    ----------
    policy : str
        Its spelling.
    best_arms : sequence of bool
        Which arms are best.
    acknowledged : Account
        What all applications were acknowledged.
    arms, health : mapping
        What each agent answered to these questions; None where it did not.
    """
    total, scale = acknowledged
    known = {who: answer for who, answer in arms.items() if answer is not None}
    silent = sorted(who for who in arms if arms[who] is None or health[who] is None)
    own = np.zeros_like(scale) + sum(own_account(answer) for answer in known.values())
    held, problem = _held(policy, known, health)
    if silent:
        problem = f"{', '.join(silent)} did not answer"
    found = sum(_is_best(answer, best_arms) for answer in known.values())
    answering = len(arms) - len(silent)
    return Verdict(total, own, held, scale, problem, found, answering)


def _held(
    policy: str,
    arms: Mapping[str, list[ArmEstimate]],
    health: Mapping[str, dict[str, Any] | None],
) -> tuple[dict[str, Vector], str]:
    name = policy.partition(":")[0]
    if name == "gossip-ts":
        return {}, ""
    if MODES[name] == "robust":
        return {who: estimate_account(answer) for who, answer in arms.items()}, ""
    shares = [answer["shares"] for answer in health.values() if answer is not None]
    common = set.intersection(*map(set, shares)) if shares else set()
    if not common:
        return {}, "there is no round that all agents have just ended"
    last = max(common, key=int)
    together: Vector = np.sum([share[last] for share in shares], axis=0)
    return {f"all agents' shares after round {last}": together}, ""


def own_account(arms: list[ArmEstimate]) -> Vector:
    """Return what an agent took in from its own application."""
    return np.array([arm.own_reward for arm in arms] + [float(arm.own_pulls) for arm in arms])


def estimate_account(arms: list[ArmEstimate]) -> Vector:
    """Return what an agent believes that all have taken in."""
    sums = [(arm.mean or 0.0) * arm.pulls for arm in arms]
    return np.array(sums + [arm.pulls for arm in arms])


def _is_best(arms: list[ArmEstimate], best_arms: Sequence[bool]) -> bool:
    means = [-np.inf if arm.mean is None else arm.mean for arm in arms]
    return best_arms[int(np.argmax(means))] and max(means) > -np.inf
