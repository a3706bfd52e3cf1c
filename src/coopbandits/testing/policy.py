"""The contract of a policy, as checks that anybody can run on a policy of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast

from coopbandits.core import InputError
from coopbandits.core.spelling import one_line
from coopbandits.testing.checks import (
    PolicyCheckError,
    calls,
    forms,
    index,
    knowledge,
    state,
    totals,
    trouble,
)
from coopbandits.testing.world import Trial

if TYPE_CHECKING:
    from coopbandits.core import Policy

Check = Callable[[Trial], None]
AnyTrial = TypeVar("AnyTrial")

__all__ = ["CHECKS", "PolicyCheckError", "check_policy", "run_check"]

CHECKS: tuple[Check, ...] = (
    calls.settings,
    index.index_value,
    index.index_random,
    index.index_prepare,
    index.index_values,
    index.index_bound,
    index.index_bonus,
    calls.message_form,
    calls.choice,
    calls.neighbors_only,
    calls.rewards_in_any_order,
    state.plain_state,
    calls.illegal_rewards,
    state.sending_changes_nothing,
    state.choosing_changes_nothing,
    state.messages_are_copies,
    knowledge.determinism,
    state.restart,
    state.foreign_state,
    knowledge.local_knowledge,
    knowledge.needs,
    trouble.lost_and_late_messages,
    trouble.repeated_messages,
    totals.own_pulls,
    totals.no_invented_pulls,
    totals.totals_of_all,
    totals.renamed_agents,
    totals.renamed_arms,
    totals.certified_pulls,
    totals.shares_add_up,
    totals.exact_totals,
    forms.compiled_form,
)
"""All checks. They run in this order: a later one takes for granted what an earlier one showed."""


def check_policy(
    policy: Policy, *, num_arms: int = 3, rounds: int | None = None, seed: int = 0
) -> None:
    """Check that a policy fulfils the contract, or say in one sentence where it does not.

    The policy plays with normal rewards on a cycle, a star, a complete graph and a single node,
    and its agents are told what `simulate` would tell them. The checks, listed in ``CHECKS``, are
    functions whose docstrings are the contract. What the parts of a policy declare of themselves is
    held to: an index to its values, and an aggregation to what it promises where messages are lost,
    late or delivered again.

    Parameters
    ----------
    policy : Policy
        The policy, with the settings to check.
    num_arms : int
        K, the number of arms.
    rounds : int or None
        Rounds played in every check. The default, 15 + 3K, is for policies that show all they do
        within so many rounds; give more if yours has longer stages.
    seed : int
        Seed of words and rewards.

    Raises
    ------
    PolicyCheckError
        For the first check that fails; it is an AssertionError.

    Examples
    --------
    >>> from coopbandits.core import DDUCB
    >>> check_policy(DDUCB())
    """
    rounds = 15 + 3 * num_arms if rounds is None else rounds
    require_sizes("check_policy", num_arms, rounds, seed)
    if getattr(policy, "takes_context", False) is True:  # a class has a property there
        raise InputError(
            f"policy {policy.spelling} looks at features, and check_policy tells none; simulate it "
            "on a cb.LinearBandit"
        )
    for check in CHECKS:
        run_check(check, Trial(policy, num_arms, rounds, seed))


def require_sizes(caller: str, num_arms: int, rounds: int, seed: int) -> None:
    """Refuse sizes with which nothing would be checked."""
    if num_arms < 1 or rounds < 1 or not 0 <= seed < 2**63:
        raise InputError(
            f"{caller} got num_arms={num_arms}, rounds={rounds}, seed={seed}; "
            "it takes at least one arm, one round and a seed from 0 to 2^63 − 1"
        )


def run_check(check: Callable[[AnyTrial], None], trial: AnyTrial) -> None:
    """Run one check; an exception out of the policy fails it like any other finding."""
    name = check.__name__.replace("_", " ")
    try:
        check(trial)
    except PolicyCheckError as found:
        raise PolicyCheckError(f"check '{name}': {found}") from None
    except Exception as error:
        if isinstance(trial, Trial) and (need := knowledge.forgotten(cast("Check", check), trial)):
            raise PolicyCheckError(
                f"check '{name}': the policy raised {one_line(error)} {need}"
            ) from error
        raise PolicyCheckError(
            f"check '{name}': the policy raised {type(error).__name__} ({error}); expected is that "
            "every call the contract allows succeeds"
        ) from error
