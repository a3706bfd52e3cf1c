"""Agents and aggregations that fail in trouble, or go by what they are not told.

Trouble is messages that are lost, late or delivered again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from coopbandits.core import InputError, LocalView, Machine, Registers, Share, Vector
from coopbandits.core.aggregate.aggregation import MIXED, OWN, ROBUST

from .honest import Honest, Pool, Pooled

if TYPE_CHECKING:
    from collections.abc import Mapping


class WaitsForAll(Honest):
    def receive(self, messages: Mapping[int, Vector]) -> None:
        if set(messages) != set(self.view.neighbor_weights):
            raise InputError(f"messages of {list(messages)} alone")
        super().receive(messages)


class RemembersInSecret(Honest):
    """Stands in for a missing message with the last one, which no exported state holds."""

    def __init__(self, view: LocalView) -> None:
        super().__init__(view)
        self.last: dict[int, Vector] = {}

    def receive(self, messages: Mapping[int, Vector]) -> None:
        late = {j: self.last.get(j, self.machine.own * 0.0) for j in self.view.neighbor_weights}
        super().receive({**late, **messages})
        self.last = {j: message.copy() for j, message in messages.items()}


class TellsOfTheMissing(Honest):
    """Sends infinity once it has heard of some neighbours only."""

    def outgoing(self, neighbor: int) -> Vector | None:
        message = super().outgoing(neighbor)
        return message if message is None or self.machine.heard[-1] >= 0.0 else message * np.inf

    def receive(self, messages: Mapping[int, Vector]) -> None:
        super().receive(messages)
        if len(messages) < len(self.view.neighbor_weights):
            self.machine.heard[-1] = -1.0


class GuessesTheNetwork(Honest):
    """Takes N where it is told, and else goes without: the need was forgotten."""

    def observe(self, arm: int, reward: float, context: Any = None) -> None:
        super().observe(arm, reward * (self.view.num_agents or 1))


class DrawsOnItsWord(Honest):
    """Goes by a word of its own, which is 0 for everybody as nobody draws one."""

    def choose(self, word: int, allowed: object = None, context: Any = None) -> int:
        return super().choose(word, allowed) if allowed else (self.view.random_word >> 7) % 2  # type: ignore[arg-type]  # none told


class NeedsTheNetwork(Honest):
    """Fails at once, as agents do whose policy forgot to say what they need."""

    def __init__(self, view: LocalView) -> None:
        super().__init__(view)
        self.scale = 2 * view.num_agents  # type: ignore[operator]  # none told


class NeedsMuch(Honest):
    """Fails in the middle of a round, for want of two things."""

    def observe(self, arm: int, reward: float, context: Any = None) -> None:
        scale = self.view.lambda_bound * self.view.global_knowledge["epsilon_c:closed"]  # type: ignore[operator]  # none told
        super().observe(arm, reward * scale)


class RefusingPool(Pool):
    """Numbers its messages and refuses one that it has seen."""

    fields: tuple[str, ...] = ("own", "heard", "round", "seen")

    def __init__(self, view: LocalView) -> None:
        super().__init__(view)
        self.round, self.seen = np.zeros(1), np.full(1 + max(self.neighbors, default=0), -1.0)

    def outgoing(self, neighbor: int) -> Vector | None:
        message = super().outgoing(neighbor)
        return None if message is None else np.append(message, self.round)

    def receive(self, messages: Mapping[int, Vector]) -> None:
        for j, message in messages.items():
            if message[-1] == self.seen[j]:
                raise InputError(f"message {message[-1]} of {j} came twice")
        super().receive({j: message[:-1] for j, message in messages.items()})
        for j, message in messages.items():
            self.seen[j] = message[-1]
        self.round = self.round + 1.0


class GreedyPool(Pool):
    """Claims what it heard as its own share."""

    def share(self) -> Share:
        sums, counts = (self.own + self.heard).reshape(2, -1)
        return Share(sums, counts)


class NewsPool(Pool):
    """Sends only what is new: what is lost stays lost, and what comes again counts twice."""

    fields: tuple[str, ...] = ("own", "heard", "news")

    def __init__(self, view: LocalView) -> None:
        super().__init__(view)
        self.news = np.zeros_like(self.own)

    def observe(self, arm: int, reward: float, context: Any = None) -> None:
        super().observe(arm, reward)
        self.news.reshape(2, -1)[:, arm] += reward, 1.0

    def outgoing(self, neighbor: int) -> Vector | None:
        return self.news.copy() if neighbor in self.neighbors else None

    def receive(self, messages: Mapping[int, Vector]) -> None:
        self.heard = self.heard + sum(messages.values(), np.zeros(self.own.size))
        self.news = np.zeros_like(self.own)

    def share(self) -> Share:
        sums, counts = self.own.reshape(2, -1)
        return Share(sums, counts)


@dataclass(frozen=True)
class Refusing(Pooled):
    """Declares to be robust."""

    mode: ClassVar[str] = ROBUST

    def make(self, view: LocalView, registers: Registers) -> Machine:
        return RefusingPool(view)


@dataclass(frozen=True)
class Greedy(Pooled):
    """Declares that shares are own pulls."""

    shares: ClassVar[str] = OWN

    def make(self, view: LocalView, registers: Registers) -> Machine:
        return GreedyPool(view)


@dataclass(frozen=True)
class GreedyMixed(Greedy):
    """Declares that shares are mixed."""

    shares: ClassVar[str] = MIXED


@dataclass(frozen=True)
class NewsOnly(Pooled):
    """Declares exact totals; on a complete graph without trouble they even are."""

    mode: ClassVar[str] = ROBUST
    shares: ClassVar[str] = OWN
    exact: ClassVar[bool] = True

    def make(self, view: LocalView, registers: Registers) -> Machine:
        return NewsPool(view)


@dataclass(frozen=True)
class Forgetful(Pooled):
    """An aggregation whose machine needs N, and which does not say so."""

    def make(self, view: LocalView, registers: Registers) -> Machine:
        return ScaledPool(view)


class ScaledPool(Pool):
    def __init__(self, view: LocalView) -> None:
        super().__init__(view)
        if view.num_agents is None:
            raise InputError("the number of agents was not told")
