"""The checks behind `check_policy` and its kin, by subject, and what a check reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from coopbandits.testing.world import World


class PolicyCheckError(AssertionError):
    """A policy breaks the contract; the message names the check, what happened and what should."""


def finding(did: str, expected: str) -> PolicyCheckError:
    """Return the error for something a policy did, on one line whatever was printed in it."""
    return PolicyCheckError(" ".join(f"{did}; expected is {expected}".split()))


def expect_named(policy: Any) -> None:
    """Expect that a policy has a name and a spelling."""
    for attribute in ("name", "spelling"):
        value = getattr(policy, attribute, None)
        if not isinstance(value, str) or not value:
            raise finding(f"{attribute} is {value!r}", "a word, as typed on the command line")


def expect_refused(
    world: World, call: Callable[[], None], error: type[Exception], what: str
) -> None:
    """Expect that a call to agent 0 raises `error` and leaves its state as it was."""
    before = world.agents[0].export_state()
    try:
        call()
    except error:
        if world.agents[0].export_state() == before:
            return
        did = f"{what} was refused, but changed the state"
    else:
        did = f"{what} was accepted"
    raise finding(f"{did} ({world.where(0)})", f"{error.__name__} and an unchanged state")
