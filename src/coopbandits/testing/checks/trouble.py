"""What an agent must stand where messages are lost, late or delivered again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from coopbandits.core.aggregate.aggregation import ROBUST
from coopbandits.testing.checks import finding
from coopbandits.testing.checks.knowledge import expect_equal
from coopbandits.testing.post import BadPost
from coopbandits.testing.world import Round

if TYPE_CHECKING:
    from coopbandits.testing.world import Trial, World


def lost_and_late_messages(trial: Trial) -> None:
    """Any of the neighbours' messages may be missing or late, and a restart forgets nothing then.

    Nothing more is asked of a synchronous aggregation, which may play badly without messages. One
    whose agents first find out N needs them all, and says so.
    """
    if not declared(trial, "finds_out"):
        _play_through(trial, repeats=False)


def repeated_messages(trial: Trial) -> None:
    """A robust aggregation also takes messages that come again, and ones that were overtaken."""
    if declared(trial, "mode") == ROBUST:
        _play_through(trial, repeats=True)


def _play_through(trial: Trial, *, repeats: bool) -> None:
    """Play a network and one that is restarted before every step through the same trouble."""
    trouble = "lost, late and repeated" if repeats else "lost and late"
    who = f"a network with {trouble} messages and one restored from its states before every step"
    expected = "equal ones, so that the exported state holds all that is remembered"
    for world, restarted in zip(trial.worlds(), trial.worlds(), strict=True):
        posts = [bad_post(trial, one, repeats=repeats) for one in (world, restarted)]
        for _ in range(trial.rounds):
            played = _troubled_round(world, posts[0])
            restarted.restart()
            again = _troubled_round(restarted, posts[1], restart=True)
            expect_equal(played, again, f"{who} ({world.where()})", expected)


def _troubled_round(world: World, post: BadPost, *, restart: bool = False) -> Round:
    pulls = world.pull()
    if restart:
        world.restart()
    messages = world.send()
    for (sender, _), message in messages.items():
        if not np.isfinite(message).all():
            where = world.where(sender)
            raise finding(
                f"with messages missing, one sent is {message} ({where})", "finite values"
            )
    world.deliver(post.carry(messages))
    return Round(pulls, messages)


def bad_post(trial: Trial, world: World, *, repeats: bool) -> BadPost:
    overtakes = bool(declared(trial, "overtakes"))
    return BadPost(world.links, trial.seed, repeats=repeats, overtakes=overtakes)


def declared(trial: Trial, name: str) -> Any:
    """Return what the aggregation declares; nothing where a policy is not made of parts."""
    parts = trial.policy.parts
    return None if parts is None else getattr(parts.aggregation, name, None)
