"""What an agent is told: rewards, and the messages with which a round ends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import numpy as np

from coopbandits.core.contract import ContextFleetAgent, FleetAgent, State, TimedAgent, Vector
from coopbandits.core.errors import InputError
from coopbandits.core.spelling import told

OWN_ERRORS = (ArithmeticError, LookupError, TypeError, ValueError)
"""What code that does not check its arguments raises."""


def tell(agent: FleetAgent, arm: int, seen: float, context: bytes = b"") -> None:
    """Tell an agent the reward of a pull, with the features of the request where there are any."""
    if context:
        cast("ContextFleetAgent", agent).observe(arm, seen, np.frombuffer(context))
    else:
        agent.observe(arm, seen)


def receive(agent: FleetAgent, messages: Mapping[int, Vector], tick: int) -> None:
    """Hand messages to an agent; one of somebody's own may trip over what a neighbour sends."""
    if agent.view.told_time:
        cast("TimedAgent", agent).pass_time(tick)
    try:
        agent.receive(messages)
    except InputError:
        raise
    except OWN_ERRORS as error:
        raise InputError(f"the agent cannot read a message: {told(error)}") from error


def receive_as_spoken(
    agent: FleetAgent,
    spoken_state: State,
    messages: Mapping[int, Vector],
    since: Iterable[tuple[Any, ...]],
) -> None:
    """End the round from the state in which the agent spoke, then observe what came since.

    Neighbours mix the values they were sent. Mixing newer rewards into the same round here would
    count them twice.
    """
    present, open_pulls = agent.export_state(), agent.open_pulls
    open_features = getattr(agent, "open_features", None)
    agent.restore_state(spoken_state)
    try:
        receive(agent, messages, 0)  # a synchronous policy is not told the time
    except InputError:
        agent.restore_state(present)
        raise
    for pull in since:
        tell(agent, *pull)
    agent.open_pulls = open_pulls
    if open_features is not None:
        cast("ContextFleetAgent", agent).open_features = open_features
