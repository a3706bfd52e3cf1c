"""Agents and policies that each break one clause of the contract."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from coopbandits.core import Agent, InputError, LocalView, Machine, Policy, Registers, State, Vector

from .honest import Honest, Pool, Pooled, Using

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class NumberedPolicy(Using):
    name: ClassVar[Any] = 7


class NeedyPolicy(Using):
    @property
    def needs(self) -> Any:
        return {"num_agents"}


class CuriousPolicy(Using):
    """Needs what nobody computes."""

    @property
    def needs(self) -> frozenset[str]:
        return frozenset({"epsilon_c:exact"})


class IgnoresAllowed(Honest):
    def choose(self, word: int, allowed: Sequence[int] | None = None, context: Any = None) -> int:
        return super().choose(word)


class ChoosesNumpyIntegers(Honest):
    def choose(self, word: int, allowed: Sequence[int] | None = None, context: Any = None) -> Any:
        return np.int64(super().choose(word, allowed))


class ChoosesOneTooFar(Honest):
    def choose(self, word: int, allowed: Sequence[int] | None = None, context: Any = None) -> int:
        return super().choose(word, allowed) + 1


class SendsLists(Honest):
    def outgoing(self, neighbor: int) -> Any:
        return self.machine.own.tolist()


class SendsTwoMessages(Honest):
    def outgoing(self, neighbor: int) -> Any:
        return np.array([self.machine.own, self.machine.heard])


class SendsSinglePrecision(Honest):
    def outgoing(self, neighbor: int) -> Any:
        return self.machine.own.astype(np.float32)


class SendsInfinity(Honest):
    def outgoing(self, neighbor: int) -> Vector | None:
        return np.append(self.machine.own, np.inf)

    def receive(self, messages: Mapping[int, Vector]) -> None:
        super().receive({j: message[:-1] for j, message in messages.items()})


class SendsToAnybody(Honest):
    def outgoing(self, neighbor: int) -> Vector | None:
        return self.machine.own.copy()


class LeakyPool(Pool):
    def outgoing(self, neighbor: int) -> Vector | None:
        return self.own


class LeakyPooled(Pooled):
    """Hands out its own array."""

    def make(self, view: LocalView, registers: Registers) -> Machine:
        return LeakyPool(view)


class TakesLastArmOnly(Honest):
    last: int | None = None

    def choose(self, word: int, allowed: Sequence[int] | None = None, context: Any = None) -> int:
        self.last = super().choose(word, allowed)
        return self.last

    def observe(self, arm: int, reward: float, context: Any = None) -> None:
        if arm != self.last:
            raise InputError(f"arm {arm} was not chosen")
        super().observe(arm, reward)


class ExportsArrays(Honest):
    def export_state(self) -> State:
        return {**super().export_state(), "own": self.machine.own}


class ExportsTuples(Honest):
    def export_state(self) -> State:
        return {**super().export_state(), "pair": (1, 2)}


class ExportsNaN(Honest):
    def export_state(self) -> State:
        return {**super().export_state(), "unknown": float("nan")}


class ExportsNoVersion(Honest):
    def export_state(self) -> State:
        state = super().export_state()
        del state["version"]
        return state


class ExportsItself(Honest):
    def __init__(self, view: LocalView) -> None:
        super().__init__(view)
        self.log: list[int] = []

    def observe(self, arm: int, reward: float, context: Any = None) -> None:
        super().observe(arm, reward)
        self.log.append(arm)

    def export_state(self) -> State:
        return {**super().export_state(), "log": self.log}


class TakesNaN(Honest):
    def observe(self, arm: int, reward: float, context: Any = None) -> None:
        super().observe(arm, reward if np.isfinite(reward) else 0.0)


class CountsFromTheEnd(Honest):
    def observe(self, arm: int, reward: float, context: Any = None) -> None:
        super().observe(self.view.num_arms - 1 if arm == -1 else arm, reward)


class ChangesBeforeRefusing(Honest):
    def observe(self, arm: int, reward: float, context: Any = None) -> None:
        self.machine.own[-1] += 1.0
        super().observe(arm, reward)


class CountsChoices(Honest):
    def choose(self, word: int, allowed: Sequence[int] | None = None, context: Any = None) -> int:
        arm = super().choose(word, allowed)
        self.machine.own[-1] += 1.0
        return arm


class SendsItsChoice(Honest):
    """The state looks clean, but the message tells of a choice that may be thrown away."""

    def outgoing(self, neighbor: int) -> Vector | None:
        message = super().outgoing(neighbor)
        return None if message is None else message + self.open_pulls.sum()


class ForgetsWhatItSent(Honest):
    def outgoing(self, neighbor: int) -> Vector | None:
        message = super().outgoing(neighbor)
        self.machine.own = np.zeros_like(self.machine.own)
        return message


class NumbersItsMessages(Honest):
    sent = 0.0

    def outgoing(self, neighbor: int) -> Vector | None:
        message = super().outgoing(neighbor)
        self.sent += 1.0
        return None if message is None else message + self.sent


class SendsItsArray(Honest):
    def outgoing(self, neighbor: int) -> Vector | None:
        return self.machine.own if neighbor in self.view.neighbor_weights else None


class KeepsTheArrayItGot(Honest):
    def receive(self, messages: Mapping[int, Vector]) -> None:
        super().receive(messages)
        if messages:
            self.machine.heard = messages[min(messages)]


class WritesOnTheArrayItGot(Honest):
    def receive(self, messages: Mapping[int, Vector]) -> None:
        super().receive(messages)
        for message in messages.values():
            message += 1.0


class CountsGlobally(Honest):
    """Has a source of chance of its own."""

    pulls: ClassVar[int] = 0

    def observe(self, arm: int, reward: float, context: Any = None) -> None:
        type(self).pulls += 1
        super().observe(arm, reward * (self.pulls % 7))


class HasHiddenState(Honest):
    best = 0.0

    def observe(self, arm: int, reward: float, context: Any = None) -> None:
        super().observe(arm, reward)
        self.best = max(self.best, reward)
        self.machine.own[0] += self.best


class HasHiddenStateWithinTheRound(Honest):
    last = 0.0

    def observe(self, arm: int, reward: float, context: Any = None) -> None:
        super().observe(arm, reward)
        self.last = reward

    def outgoing(self, neighbor: int) -> Vector | None:
        message = super().outgoing(neighbor)
        return None if message is None else message + self.last


class TakesAnyVersion(Honest):
    def restore_state(self, state: State) -> None:
        super().restore_state({**state, "version": 1})


class TakesAnyNumberOfArms(Honest):
    def restore_state(self, state: State) -> None:
        if state["num_arms"] == self.view.num_arms:
            super().restore_state(state)


class ChangesBeforeRefusingState(Honest):
    def restore_state(self, state: State) -> None:
        self.open_pulls[:] = state["open_pulls"][: self.view.num_arms]
        self.open_pulls[0] += state["version"] != 1
        super().restore_state(state)


class WritesOnABlackboard(Honest):
    """Tells everybody its arm through the class, and follows its left-hand neighbour's last one.

    Equal runs give equal blackboards, so that determinism alone does not show it.
    """

    blackboard: ClassVar[dict[int, int]] = {}

    def observe(self, arm: int, reward: float, context: Any = None) -> None:
        super().observe(arm, reward)
        self.blackboard[self.view.agent_id] = arm

    def receive(self, messages: Mapping[int, Vector]) -> None:
        super().receive(messages)
        for neighbor in messages:
            self.machine.heard[0] += self.blackboard[neighbor]


class KnowsAllViews(Policy):
    """Remembers every view it was asked for, which is the whole network."""

    name = "test"

    def __init__(self) -> None:
        self.views: dict[int, LocalView] = {}

    def make_agent(self, view: LocalView) -> Agent:
        self.views[view.agent_id] = view
        return KnowsTheNetwork(view, self.views)


class KnowsTheNetwork(Honest):
    def __init__(self, view: LocalView, views: dict[int, LocalView]) -> None:
        super().__init__(view)
        self.views = views

    def observe(self, arm: int, reward: float, context: Any = None) -> None:
        neighbors = self.view.neighbor_weights
        degrees = sum(len(self.views[j].neighbor_weights) for j in neighbors)
        super().observe(arm, reward * (1 + degrees))
