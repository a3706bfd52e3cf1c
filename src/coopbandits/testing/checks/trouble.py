"""What an agent must stand where messages are lost, late or delivered again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from coopbandits.core.aggregate.aggregation import MIXED, OWN, ROBUST
from coopbandits.testing.checks.finding import finding
from coopbandits.testing.checks.knowledge import expect_equal
from coopbandits.testing.post import BadPost
from coopbandits.testing.world import Round

if TYPE_CHECKING:
    from coopbandits.core import Vector
    from coopbandits.testing.world import Trial, World

SETTLED = 400
"""Rounds of quiet after which news has arrived everywhere on the checker's small graphs."""


def lost_and_late_messages(trial: Trial) -> None:
    """Any of the neighbours' messages may be missing or late, and a restart forgets nothing then.

    Nothing more is asked of a synchronous aggregation, which may play badly without messages. One
    whose agents first find out N needs them all, and says so.
    """
    if not _declared(trial, "estimates"):
        _play_through(trial, repeats=False)


def repeated_messages(trial: Trial) -> None:
    """A robust aggregation also takes messages that come again, and ones that were overtaken."""
    if _declared(trial, "mode") == ROBUST:
        _play_through(trial, repeats=True)


def _play_through(trial: Trial, *, repeats: bool) -> None:
    """Play a network and one that is restarted before every step through the same trouble."""
    trouble = "lost, late and repeated" if repeats else "lost and late"
    who = f"a network with {trouble} messages and one restored from its states before every step"
    expected = "equal ones, so that the exported state holds all that is remembered"
    for world, restarted in zip(trial.worlds(), trial.worlds(), strict=True):
        posts = [_post(trial, one, repeats=repeats) for one in (world, restarted)]
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


def shares_add_up(trial: Trial) -> None:
    """Shares add up to all that was observed, as `shares` declares.

    Those of own pulls do whatever happens to messages; mixed ones where all arrive.
    """
    declared = _declared(trial, "shares")
    if declared not in (OWN, MIXED) or not _counts_for_ever(trial):
        return
    for world in trial.worlds():
        post = _post(trial, world, repeats=_declared(trial, "mode") == ROBUST)
        observed = np.zeros((2, trial.num_arms))
        for _ in range(trial.rounds):
            observed += _pulled(world)
            messages = world.send()
            world.deliver(messages if declared == MIXED else post.carry(messages))
            shares = [agent.share() for agent in _agents(world)]
            _expect_totals(
                np.sum([[one.sums, one.counts] for one in shares], axis=0),
                observed,
                f"shares declared as {declared!r} add up to {{}} ({world.where()})",
            )


def exact_totals(trial: Trial) -> None:
    """An exact aggregation, once messages arrive again, makes all estimates everybody's totals."""
    if not _declared(trial, "exact") or not _counts_for_ever(trial):
        return
    for world in trial.worlds():
        post = _post(trial, world, repeats=_declared(trial, "mode") == ROBUST)
        observed = np.zeros((2, trial.num_arms))
        for _ in range(trial.rounds):
            observed += _pulled(world)
            world.deliver(post.carry(world.send()))
        for _ in range(SETTLED):
            world.deliver(world.send())
            if all(_agree(_estimate(agent), observed) for agent in _agents(world)):
                break
        for i, agent in enumerate(_agents(world)):
            told = f"an estimate declared as exact is {{}} ({world.where(i)})"
            _expect_totals(_estimate(agent), observed, told)


def _pulled(world: World) -> Vector:
    """Let every agent pull; return the reward sums and numbers of pulls, per arm."""
    observed = np.zeros((2, world.means.size))
    for pull in world.pull():
        observed[:, pull.arm] += pull.reward, 1.0
    return observed


def _estimate(agent: Any) -> Vector:
    estimate = agent.estimate()
    return np.array([estimate.sums, estimate.counts])


def _agree(told: Vector, observed: Vector) -> bool:
    return told.shape == observed.shape and np.allclose(told, observed, rtol=1e-9, atol=1e-9)


def _expect_totals(told: Vector, observed: Vector, sentence: str) -> None:
    if not _agree(told, observed):
        text = f"sums and counts {np.asarray(told).tolist()}"
        expected = f"{observed.tolist()}, so that nothing is lost and nothing counts twice"
        raise finding(sentence.format(text), expected)


def _post(trial: Trial, world: World, *, repeats: bool) -> BadPost:
    overtakes = bool(_declared(trial, "overtakes"))
    return BadPost(world.links, trial.seed, repeats=repeats, overtakes=overtakes)


def _declared(trial: Trial, name: str) -> Any:
    """Return what the aggregation declares; nothing where a policy is not made of parts."""
    parts = trial.policy.parts
    return None if parts is None else getattr(parts.aggregation, name, None)


def _counts_for_ever(trial: Trial) -> bool:
    parts = trial.policy.parts
    if parts is None or parts.statistic.registers(trial.num_arms).decay != 1.0:
        return False
    return (_declared(trial, "discount") or 1.0) == 1.0 and _declared(trial, "window") is None


def _agents(world: World) -> list[Any]:
    return list(world.agents)
