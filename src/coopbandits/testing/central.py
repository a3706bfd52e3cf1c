"""The contract of a central policy, which is smaller than an agent's: it sees everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from coopbandits.testing.checks import central, index
from coopbandits.testing.checks.central import CentralTrial
from coopbandits.testing.policy import require_sizes, run_check

if TYPE_CHECKING:
    from coopbandits.core import CentralPolicy

__all__ = ["CENTRAL_CHECKS", "check_central_policy"]

CENTRAL_CHECKS: tuple[Callable[[CentralTrial], None], ...] = (
    central.settings,
    index.index_value,
    index.index_random,
    index.index_prepare,
    index.index_bound,
    index.index_bonus,
    central.choice,
    central.determinism,
    central.choosing_changes_nothing,
    central.totals,
    central.nothing_too_early,
    central.nothing_too_late,
)
"""All checks. They run in this order: a later one takes for granted what an earlier one showed."""


def check_central_policy(
    policy: CentralPolicy, *, num_arms: int = 3, rounds: int | None = None, seed: int = 0
) -> None:
    """Check that a central policy fulfils its contract, or say in one sentence where it does not.

    The policy's controller plays with normal rewards for one agent and for five. The checks, listed
    in ``CENTRAL_CHECKS``, are functions whose docstrings are the contract.

    Parameters
    ----------
    policy : CentralPolicy
        The policy, with the settings to check.
    num_arms : int
        K, the number of arms.
    rounds : int or None
        Rounds played in every check, 15 + 3K unless told.
    seed : int
        Seed of words and rewards.

    Raises
    ------
    PolicyCheckError
        For the first check that fails; it is an AssertionError.

    Examples
    --------
    >>> from coopbandits.core import CentralTS
    >>> check_central_policy(CentralTS())
    """
    rounds = 15 + 3 * num_arms if rounds is None else rounds
    require_sizes("check_central_policy", num_arms, rounds, seed)
    for check in CENTRAL_CHECKS:
        run_check(check, CentralTrial(policy, num_arms, rounds, seed))
