"""Agents that may play some of the arms only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.errors import InputError, unknown_name
from coopbandits.problems.problem import Problem
from coopbandits.problems.site_groups import named_agents


@dataclass(frozen=True)
class Subsets:
    """Arms that agents may play: subsets that agents take in turn, or pairs of agent and arms."""

    turns: tuple[tuple[int, ...], ...] = ()
    named: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def masks(self, agents: Sequence[Any], num_arms: int) -> NDArray[np.bool_]:
        """Return which arms every agent may play (N, K)."""
        masks = np.zeros((len(agents), num_arms), dtype=bool)
        by_name = named_agents(dict(self.named), agents)
        for agent, mask in enumerate(masks):
            turn = self.turns[agent % len(self.turns)] if self.turns else range(num_arms)
            mask[list(by_name.get(agent, turn))] = True
        if len(self.turns) > len(agents):
            raise InputError(
                f"there are {len(self.turns)} subsets for {len(agents)} agents; give at most one "
                "per agent"
            )
        return masks

    @property
    def names_agents(self) -> bool:
        """Whether agents are told by name."""
        return bool(self.named)

    def describe(self) -> Any:
        """Return the subsets as plain data."""
        if self.turns:
            return [list(arms) for arms in self.turns]
        return {agent: list(arms) for agent, arms in self.named}

    def __repr__(self) -> str:
        count = len(self.turns or self.named)
        return f"{count} subset{'s' if count > 1 else ''} of arms"


def make_subsets(base: Problem, allowed: Any) -> Subsets:
    """Return the subsets that `subsets` is asked for."""
    if isinstance(allowed, Mapping) and allowed:
        pairs = [
            (str(agent), _arms(base, f"agent {agent}", arms)) for agent, arms in allowed.items()
        ]
        return Subsets(named=tuple(sorted(pairs)))
    if not isinstance(allowed, Sequence) or isinstance(allowed, str) or not allowed:
        raise InputError(
            f"allowed is {allowed!r}; give a list of lists of arms, or a dict from agents to arms"
        )
    return Subsets(
        turns=tuple(_arms(base, f"subset {place}", arms) for place, arms in enumerate(allowed))
    )


def _arms(base: Problem, owner: str, arms: Any) -> tuple[int, ...]:
    if isinstance(arms, str) or not isinstance(arms, Sequence):
        raise InputError(f"{owner} may play {arms!r}; give a list of arms")
    if not arms:
        raise InputError(f"{owner} may play no arm; allow at least one")
    return tuple(sorted({_arm(base, owner, arm) for arm in arms}))


def _arm(base: Problem, owner: str, arm: Any) -> int:
    if isinstance(arm, str) and base.arm_names is not None:
        if arm not in base.arm_names:
            raise unknown_name("arm", arm, base.arm_names)
        return base.arm_names.index(arm)
    is_whole = isinstance(arm, Integral) and not isinstance(arm, bool)
    if not is_whole or not 0 <= int(arm) < base.num_arms:
        raise InputError(f"{owner} may play arm {arm!r}; arms are 0 to {base.num_arms - 1}")
    return int(arm)
