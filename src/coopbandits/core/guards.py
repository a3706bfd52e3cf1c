"""What every agent refuses: arms, rewards, neighbours and states that cannot be."""

from __future__ import annotations

import math
from collections.abc import Collection
from numbers import Integral, Real
from typing import Any

import numpy as np

from coopbandits.core.contract import LocalView, State
from coopbandits.core.errors import InputError
from coopbandits.core.state import STATE_VERSION


def read_arm(arm: Any, num_arms: int) -> int:
    """Return an arm as Python's own number, or refuse it."""
    if isinstance(arm, bool) or not isinstance(arm, Integral):
        raise InputError(f"arm is {arm!r}; it must be a whole number")
    if arm not in range(num_arms):
        raise InputError(f"arm {arm} does not exist; arms are numbered 0 to {num_arms - 1}")
    return int(arm)


def read_reward(reward: Any) -> float:
    """Return a reward as Python's own float, or refuse it."""
    if not isinstance(reward, Real | np.bool_):
        raise InputError(f"reward is {reward!r}; rewards are finite numbers")
    try:
        value = float(reward)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise InputError(f"reward {value} is not finite; rewards are finite numbers")
    return value


def require_neighbors(view: LocalView, who: Collection[int]) -> None:
    """Refuse anybody who is no neighbour."""
    known = view.neighbor_weights
    for j in who:  # in every round of every agent: no set is made unless somebody is strange
        if j not in known:
            raise InputError(
                f"{sorted(set(who) - known.keys())} are no neighbours of agent {view.agent_id}; "
                f"its neighbours are {list(known)}"
            )


def identity(policy: str, view: LocalView) -> State:
    """Return what must agree before a state is restored."""
    return {
        "version": STATE_VERSION,
        "policy": policy,
        "agent_id": view.agent_id,
        "num_arms": view.num_arms,
        "num_agents": view.num_agents,
        "lambda_bound": view.lambda_bound,
    }


def require_same_agent(state: State, own: State) -> None:
    """Refuse the state of another agent."""
    for key, value in own.items():
        if state.get(key) != value:
            raise InputError(
                f"state has {key} {state.get(key)!r}, but this agent has {value!r}; "
                "restore it into the agent it came from"
            )
