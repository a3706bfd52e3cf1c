"""An agent in memory, alone and without a network, that keeps all that `Service` promises."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from coopbandits.core.errors import InputError, unknown_name
from coopbandits.fleet.document.content import Document, read_document
from coopbandits.fleet.document.seal import from_json
from coopbandits.fleet.service import (
    ArmEstimate,
    BanditSchema,
    BanditState,
    Choice,
    Context,
    ExpiredTicketError,
    Metric,
    OtherRewardError,
    RateLimitError,
    Receipt,
    Recommendation,
    Stored,
    UnknownBanditError,
    UnknownTicketError,
    require_allowed,
)
from coopbandits.fleet.service.metrics import measured
from coopbandits.page.state import AgentState, ArmState, NeighborState, Note


class StandIn:
    """Plays the arm with the best mean so far, every arm once at first."""

    def __init__(
        self,
        arms: Sequence[str] = ("blue", "green", "red"),
        *,
        clock: Callable[[], float] = lambda: 0.0,
        lifetime: float = 60.0,
        pause: float = 0.0,
        name: str = "button",
    ) -> None:
        self.name, self.names, self.clock = name, list(arms), clock
        self.lifetime, self.pause = lifetime, pause
        self.chose_at = -math.inf
        self.rewards: dict[str, list[float]] = {arm: [] for arm in arms}
        self.made = self.expired = 0
        self.open: dict[str, tuple[str, float]] = {}
        self.settled: dict[str, Receipt] = {}
        self.unready: str | None = None
        self.neighbors: list[NeighborState] = []
        self.notes: list[Note] = []
        self.document: Document | None = None
        self.token: str | None = None

    def choose(
        self, allowed: Sequence[str] | None = None, context: Context | None = None
    ) -> Choice:
        self._refuse(context)
        names = self.names if allowed is None else require_allowed(allowed)
        for name in names:
            if name not in self.names:
                raise unknown_name("arm", name, self.names)
        self._expire()
        wait = self.chose_at + self.pause - self.clock()
        if wait > 0.0:
            raise RateLimitError(f"this is faster than every {self.pause} s; slow down", wait)
        self.made, self.chose_at = self.made + 1, self.clock()
        choice = Choice(f"ticket-{self.made}", max(names, key=self._value))
        self.open[choice.ticket] = (choice.arm, self.clock() + self.lifetime)
        return choice

    def observe(self, ticket: str, reward: float) -> Receipt:
        if not 0 <= reward <= 1:
            raise InputError(f"a reward must be from 0 to 1, got {reward}")
        self._expire()
        if ticket in self.settled:
            if self.settled[ticket].reward != reward:
                raise OtherRewardError(f"{ticket} has another reward already")
            return self.settled[ticket]._replace(duplicate=True)
        if ticket in self.open:
            arm, _ = self.open.pop(ticket)
            self.rewards[arm].append(reward)
            self.settled[ticket] = Receipt(ticket, arm, reward, duplicate=False)
            return self.settled[ticket]
        if ticket in {f"ticket-{number}" for number in range(1, self.made + 1)}:
            raise ExpiredTicketError(f"{ticket} has expired; choose again")
        raise UnknownTicketError(f"there is no ticket {ticket!r}; choose first")

    def choose_for(
        self, unit: str, allowed: Sequence[str] | None = None, context: Context | None = None
    ) -> Choice:
        return self.choose(allowed, context)._replace(sticky=False)

    def submit(self, ticket: str, reward: float) -> Receipt:
        return self.observe(ticket, reward)

    def stored(self, then: Stored) -> None:
        then(None)

    def schemas(self) -> list[BanditSchema]:
        return [BanditSchema(self.name, self.names, (0.0, 1.0), None)]

    def arms(self, context: Context | None = None) -> list[ArmEstimate]:
        self._refuse(context)
        return [self._estimate(arm, rewards) for arm, rewards in self.rewards.items()]

    def recommendation(self, confidence: float = 0.95) -> Recommendation:
        if not 0.0 < confidence < 1.0:
            raise InputError(f"confidence is {confidence}; it must be between 0 and 1")
        known = [arm for arm in self.arms() if arm.mean is not None]
        best = max(known, key=lambda arm: arm.mean or 0.0).arm if known else None
        pulls = sum(arm.pulls for arm in known)
        return Recommendation(best, None, pulls, confidence, False, f"{best} so far.")

    def bandit(self, name: str | None) -> StandIn:
        if name not in (None, self.name):
            raise UnknownBanditError(f"unknown bandit {name!r}; known are {self.name}")
        return self

    def bandits(self) -> list[BanditState]:
        done, waiting = len(self.settled), len(self.open)
        return [BanditState(self.name, 0, "best", self.names, None, [], False, 0, done, waiting, 0)]

    def export(self) -> dict[str, Any]:
        return {"arms": self.rewards}

    def health(self) -> dict[str, Any]:
        return {"id": "stand-in", "tickets": len(self.open)}

    def state(self, since: int = 0) -> AgentState:
        arms = [self._shown(arm) for arm in self.arms()]
        known = [arm for arm in arms if arm.mean is not None]
        prefers = max(known, key=lambda arm: arm.mean or 0.0).arm if known else None
        notes = [note for note in self.notes if note.seq > since]
        done = len(self.settled)
        return AgentState(
            "stand-in", "test", "best", 0.0, self.clock(), 0, 1, self.unready, arms, prefers, 1.0,
            self.made, done, len(self.open), self.expired, list(self.neighbors), notes,
        )  # fmt: skip

    def ready(self) -> str | None:
        return self.unready

    def cluster(self) -> dict[str, Any]:
        return {"id": "stand-in", "version": self.document.version if self.document else 0}

    def adopt(self, signed: bytes | bytearray) -> dict[str, Any]:
        self.document = read_document(from_json(signed).content)
        return self.cluster()

    def metrics(self) -> list[Metric]:
        return [
            measured("link_up", ({"neighbor": "shop-2"}, 1.0), ({"neighbor": "shop-3"}, 0.0)),
            measured("reconnects_total"),
            measured("choices_total", ({}, self.made)),
            measured("rewards_total", ({}, len(self.settled))),
            measured("open_tickets", ({}, len(self.open))),
            measured("expired_tickets_total", ({}, self.expired)),
        ]

    def _refuse(self, context: Context | None) -> None:
        if context is not None:
            raise InputError("a context was given, but there are no features; leave it out")

    def _shown(self, arm: ArmEstimate) -> ArmState:
        low, high = arm.confidence or (None, None)
        return ArmState(
            arm.arm, arm.mean, low, high, arm.pulls, arm.own_pulls + arm.open, arm.own_pulls,
            arm.own_reward, arm.open,
        )  # fmt: skip

    def _estimate(self, arm: str, rewards: list[float]) -> ArmEstimate:
        pulls, total = len(rewards), math.fsum(rewards)
        mean = total / pulls if pulls else None
        # Hoeffding's interval for rewards from 0 to 1.
        width = math.sqrt(math.log(2 / 0.05) / (2 * pulls)) if pulls else None
        interval = None if mean is None or width is None else (mean - width, mean + width)
        waiting = sum(chosen == arm for chosen, _ in self.open.values())
        return ArmEstimate(arm, mean, float(pulls), interval, pulls, total, waiting)

    def _value(self, arm: str) -> float:
        rewards = self.rewards[arm]
        return math.fsum(rewards) / len(rewards) if rewards else math.inf

    def _expire(self) -> None:
        now = self.clock()
        late = [ticket for ticket, (_, expires) in self.open.items() if expires <= now]
        for ticket in late:
            del self.open[ticket]
        self.expired += len(late)
