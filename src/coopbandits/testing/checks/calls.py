"""What may be called with what, and what comes back."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from coopbandits.core import Agent, CentralPolicy, InputError, Policy
from coopbandits.testing.checks import expect_named, expect_refused, finding

if TYPE_CHECKING:
    from coopbandits.testing.world import Trial, World


def settings(trial: Trial) -> None:
    """A policy has a name and a spelling, says what it needs, and makes agents."""
    policy: Any = trial.policy
    if isinstance(policy, CentralPolicy):
        expected = "one that makes agents; check_central_policy checks those that see everything"
        raise finding(f"{policy!r} is a central policy", expected)
    if not isinstance(policy, Policy):
        expected = "an instance of a subclass of coopbandits.core.Policy, such as DDUCB()"
        raise finding(f"{policy!r} is no policy", expected)
    expect_named(policy)
    needs: Any = policy.needs
    if not isinstance(needs, frozenset) or not all(isinstance(need, str) for need in needs):
        expected = 'a frozenset of words, such as frozenset({"num_agents"})'
        raise finding(f"needs is {needs!r}", expected)
    agent: Any = trial.world("cycle").agents[0]
    if not isinstance(agent, Agent):
        raise finding(f"make_agent returned {agent!r}", "a coopbandits.core.Agent")


def message_form(trial: Trial) -> None:
    """A message is None or one vector: a one-dimensional float64 array of finite values.

    So there is at most one message per neighbour and round, and a driver can count its values.
    """
    for world in trial.worlds():
        for _ in range(trial.rounds):
            for agent, word, noise in zip(world.agents, *world.draw(), strict=True):
                arm = agent.choose(word)
                if arm in range(trial.num_arms):  # whether it is, is the next check's business
                    agent.observe(arm, noise)
            for sender, receiver in world.links:
                message: Any = world.agents[sender].outgoing(receiver)
                if message is not None and not _is_vector(message):
                    raise finding(
                        f"outgoing({receiver}) returned {message!r} ({world.where(sender)})",
                        "None or one one-dimensional float64 array of finite values",
                    )
            world.deliver(world.send())


def _is_vector(message: Any) -> bool:
    if not isinstance(message, np.ndarray) or message.dtype != np.float64:
        return False
    return message.ndim == 1 and bool(np.isfinite(message).all())


def choice(trial: Trial) -> None:
    """`choose` returns an int that is an arm, and one of the allowed arms where some are given."""
    arms = list(range(trial.num_arms))
    for world in trial.worlds():
        for _ in range(trial.rounds):
            for i, word in enumerate(world.draw()[0]):
                turn = (world.rounds + i) % trial.num_arms
                _expect_arm(world, i, world.agents[i].choose(word), arms)
                for allowed in ([turn], [k for k in arms if k != turn] or arms):
                    _expect_arm(world, i, world.agents[i].choose(word, allowed), allowed)
            world.play()


def _expect_arm(world: World, agent: int, arm: Any, allowed: list[int]) -> None:
    if not isinstance(arm, int) or arm not in allowed:
        where = world.where(agent)
        raise finding(f"choose returned {arm!r} ({where})", f"one of {allowed}, as a Python int")


def neighbors_only(trial: Trial) -> None:
    """`outgoing` to anybody but a neighbour returns None or raises InputError."""
    for world in trial.worlds():
        for _ in range(trial.rounds):
            world.play()
            for i, view in enumerate(world.views):
                strangers = set(range(len(world.agents) + 1)) - set(view.neighbor_weights)
                for j in sorted(strangers):
                    if not _is_silent(world.agents[i], j):
                        did = f"outgoing({j}) returned a message, but {j} is no neighbour"
                        raise finding(f"{did} ({world.where(i)})", "None or InputError")


def _is_silent(agent: Agent, stranger: int) -> bool:
    try:
        return agent.outgoing(stranger) is None
    except InputError:
        return True


def rewards_in_any_order(trial: Trial) -> None:
    """Rewards may come late, never, several at once, and for arms that were not chosen."""
    for world in trial.worlds():
        for _ in range(trial.rounds):
            for i, (word, noise) in enumerate(zip(*world.draw(), strict=True)):
                agent, turn = world.agents[i], world.rounds + i
                for burst in range(turn % 3):
                    agent.observe((turn + burst) % trial.num_arms, noise)
                if turn % 2:
                    _expect_arm(world, i, agent.choose(word), list(range(trial.num_arms)))
            world.deliver(world.send())


def illegal_rewards(trial: Trial) -> None:
    """A reward of no arm, or one that is not finite, raises ValueError and changes nothing."""
    calls = ((trial.num_arms, 0.0), (-1, 0.0), (0, float("nan")), (0, float("inf")))
    for world in trial.worlds():
        for _ in range(trial.rounds):
            world.play()
            for arm, reward in calls:
                call = partial(world.agents[0].observe, arm, reward)
                expect_refused(world, call, ValueError, f"observe({arm}, {reward})")
