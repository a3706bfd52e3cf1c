"""The audit: every acknowledged reward is held by the agents, and counted exactly once.

Three accounts are compared, as vectors of K reward sums and K numbers of pulls:

- *acknowledged*: what the applications logged when an agent had answered;
- *own*: what the agents have received from their own applications, summed;
- *held*: the estimate of every single agent where these become exact, as with flooding and trees;
  otherwise the sum of all agents' shares, after the same round where shares are mixtures. Where
  they add up only on average, as with pull mixing, only the own account is compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from coopbandits.core.aggregate.aggregation import MIXED, OWN
from coopbandits.core.contract import Vector
from coopbandits.core.registry import parse_policy
from coopbandits.fleet.config.eligibility import traits_of
from coopbandits.fleet.local.players import Reward
from coopbandits.fleet.service import ArmEstimate

EXACT = 1e-9


@dataclass(frozen=True)
class Verdict:
    """The result of an audit.

    Attributes
    ----------
    acknowledged, own : array of shape (2K,)
        The accounts above.
    held : dict of str to array
        The accounts above by holder; empty if the policy conserves only on average.
    scale : array of shape (2K,)
        The unit of differences: the rewards' magnitudes, and the numbers of pulls.
    problem : str
        Why the accounts could not be compared; empty if they could.
    best_found : int
        Agents that rank a best arm first.
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
        """Return the accounts compared with the acknowledged one, by holder."""
        return {**self.held, "all agents' own rewards": self.own}

    @property
    def differences(self) -> Vector:
        """Return the largest difference from the acknowledged account, entry by entry."""
        accounts = self.accounts.values()
        found: Vector = np.stack([abs(each - self.acknowledged) for each in accounts]).max(axis=0)
        return found

    @property
    def holds(self) -> bool:
        """Return whether all accounts agree."""
        return not self.problem and bool((self.differences <= EXACT * self.scale).all())

    @property
    def farthest(self) -> str:
        """Return the holder whose account differs most."""
        errors = {
            who: float((abs(each - self.acknowledged) / self.scale).max())
            for who, each in self.accounts.items()
        }
        return max(errors, key=lambda who: errors[who])


class Account(NamedTuple):
    """What was acknowledged, and the unit of differences from it."""

    total: Vector
    scale: Vector


def add_up(rewards: Iterable[Reward], num_arms: int) -> Account:
    """Return the account of some rewards; its scale is at least 1."""
    total, scale = np.zeros((2, num_arms)), np.ones((2, num_arms))
    for reward in rewards:
        total[:, reward.arm] += reward.reward, 1.0
        scale[:, reward.arm] += abs(reward.reward), 1.0
    return Account(total.ravel(), scale.ravel())


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
        The policy's spelling.
    best_arms : sequence of bool
        Which arms are best.
    acknowledged : Account
        The rewards acknowledged to all applications.
    arms, health : mapping
        Each agent's answers to these questions; None if it did not answer.
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
    found = traits_of(parse_policy(policy))
    if found.exact:
        return {who: estimate_account(answer) for who, answer in arms.items()}, ""
    shares = [_shares(answer) for answer in health.values() if answer is not None]
    if found.shares == OWN:
        return {"all agents' shares": _sum([share[max(share, key=int)] for share in shares])}, ""
    return _mixed(shares) if found.shares == MIXED else ({}, "")


def _shares(health: Mapping[str, Any]) -> dict[str, list[float]]:
    """Return the shares of an agent's one bandit, by round."""
    (bandit,) = health["bandits"].values()
    found: dict[str, list[float]] = bandit["shares"]
    return found


def _mixed(shares: Sequence[Mapping[str, list[float]]]) -> tuple[dict[str, Vector], str]:
    """Return the sum of shares after the last round that all have ended."""
    common = set.intersection(*map(set, shares)) if shares else set()
    if not common:
        return {}, "there is no round that all agents have just ended"
    last = max(common, key=int)
    return {f"all agents' shares after round {last}": _sum([share[last] for share in shares])}, ""


def _sum(accounts: Sequence[Sequence[float]]) -> Vector:
    total: Vector = np.sum(accounts, axis=0)
    return total


def own_account(arms: list[ArmEstimate]) -> Vector:
    """Return what an agent received from its own application."""
    return np.array([arm.own_reward for arm in arms] + [float(arm.own_pulls) for arm in arms])


def estimate_account(arms: list[ArmEstimate]) -> Vector:
    """Return what an agent believes all agents have received."""
    sums = [(arm.mean or 0.0) * arm.pulls for arm in arms]
    return np.array(sums + [arm.pulls for arm in arms])


def _is_best(arms: list[ArmEstimate], best_arms: Sequence[bool]) -> bool:
    means = [-np.inf if arm.mean is None else arm.mean for arm in arms]
    return best_arms[int(np.argmax(means))] and max(means) > -np.inf
