"""Calls between agents: a reward for the agent that issued its ticket, a choice for a unit's owner.

A call has its effect at the agent that answers it, and nothing is kept at the agent that was asked.
So a reward counts exactly once by the journal of its ticket's agent alone, and whoever gets no
answer can call again.

The owner of a unit is the member with the highest hash of unit and member (rendezvous hashing), so
an agent that comes or goes moves its own units and no others. It remembers the arm. Where it does
not choose in time, whatever the reason, the agent that was asked chooses for itself.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
import numpy as np
import numpy.typing as npt

from coopbandits.core.errors import InputError
from coopbandits.fleet.logs import LogEvent
from coopbandits.fleet.protocol.calls import MAX_PLAIN
from coopbandits.fleet.protocol.frames import printable
from coopbandits.fleet.service import (
    Choice,
    Context,
    DrainingError,
    ExpiredTicketError,
    Metric,
    OtherRewardError,
    OwnerAwayError,
    Pending,
    RateLimitError,
    Receipt,
    UnavailableError,
    UnknownBanditError,
    UnknownTicketError,
)
from coopbandits.fleet.service.metrics import measured

if TYPE_CHECKING:
    from coopbandits.fleet.service.agent import ServedAgent
    from coopbandits.fleet.service.bandit import ServedBandit

CALLS = "choose", "observe"
RESULTS = "answered", "rejected", "away", "busy"
"""What becomes of a forwarded call: `rejected` with an error of the other agent, `away` without an
answer in time, `busy` where too many wait already."""

log = logging.getLogger(__name__)

Hash = Annotated[bytes, msgspec.Meta(min_length=8, max_length=16)]
Short = Annotated[str, msgspec.Meta(max_length=400)]
"""A ticket or the name of an arm."""
Wait = Annotated[float, msgspec.Meta(ge=0, le=3600)]


class ChooseCall(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """Choose for a unit, given by its hash; `call` is the same when the call is sent again."""

    bandit: int
    call: Hash
    unit: Hash
    allowed: list[str] | None = None
    context: dict[str, float | str] | None = None


class ObserveCall(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """Count the reward of a ticket."""

    bandit: int
    ticket: str
    reward: float


class ChoiceReply(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """The choice of an owner."""

    ticket: Short
    arm: Short


class ReceiptReply(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """What became of a reward."""

    arm: Short
    duplicate: bool


class ErrorReply(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """An error of the service, by the name of its class."""

    kind: str
    sentence: str
    retry_after: Wait = 0.0


Reply = ChoiceReply | ReceiptReply | ErrorReply

_encode = msgspec.msgpack.Encoder().encode
_decode_call = msgspec.msgpack.Decoder(ChooseCall | ObserveCall).decode
_decode_reply = msgspec.msgpack.Decoder(Reply).decode

ERRORS: dict[str, type[InputError] | type[UnavailableError]] = {
    kind.__name__: kind
    for kind in (
        InputError, UnknownBanditError, UnknownTicketError, ExpiredTicketError, OtherRewardError,
        UnavailableError, DrainingError,
    )
}  # fmt: skip


def _replied(error: InputError | UnavailableError) -> ErrorReply:
    wait = min(error.retry_after, 3600.0) if isinstance(error, RateLimitError) else 0.0
    return ErrorReply(type(error).__name__, printable(str(error)), wait)


def _error(reply: Reply) -> Exception:
    """Return the error in a reply."""
    if not isinstance(reply, ErrorReply):
        return UnavailableError("the agent that issued the ticket answered something else")
    sentence = printable(reply.sentence)  # for logs of applications, too
    if reply.kind == RateLimitError.__name__:
        return RateLimitError(sentence, reply.retry_after)
    return ERRORS.get(reply.kind, UnavailableError)(sentence)


class Owners:
    """The owner of each unit, by rendezvous hashing over the agents that are there."""

    def __init__(self, number_of: Callable[[str], int]) -> None:
        self._number_of = number_of
        self._names: list[str] = []
        self._numbers: npt.NDArray[np.uint64] = np.zeros(0, np.uint64)

    def take(self, names: list[str]) -> None:
        """Go by these agents from now on."""
        self._names = names
        numbers = np.array([self._number_of(name) for name in names], np.uint64)
        self._numbers = _mixed(numbers)

    def find(self, unit: bytes) -> str:
        """Return the owner of a unit."""
        word = np.uint64(int.from_bytes(unit[:8], "little"))
        return self._names[int(_mixed(self._numbers ^ word).argmax())]


def _mixed(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return words whose bits depend on all bits of these (the finalizer of SplitMix64)."""
    words = (words ^ words >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ words >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return words ^ words >> np.uint64(31)


class Forwarding:
    """The calls that one agent makes of others for its applications, and serves for others.

    Attributes
    ----------
    results : Counter
        Calls by what became of them: pairs of one of `CALLS` and one of `RESULTS`.
    seconds : dict of str to float
        How long their applications have waited, by `CALLS`.
    """

    def __init__(self, agent: ServedAgent) -> None:
        self.agent, self.node = agent, agent.node
        self.results: Counter[tuple[str, str]] = Counter()
        self.seconds = dict.fromkeys(CALLS, 0.0)
        self._owners = Owners(self.node.settings.number_of)
        self._generation = -1
        self.node.calls.serve = self.serve

    # For this agent's applications

    def owner_of(self, unit: bytes) -> str:
        """Return the agent that owns a unit."""
        routes = self.node.routes
        if self._generation != routes.generation:
            self._generation = routes.generation
            self._owners.take(routes.present())
        return self._owners.find(unit)

    def choose(
        self,
        service: ServedBandit,
        owner: str,
        unit: bytes,
        allowed: Sequence[str] | None,
        context: Context | None,
    ) -> Pending[Choice] | None:
        """Have a unit's owner choose; None if it would not be reached."""
        words = self.agent.words().to_bytes(8, "little")
        names = None if allowed is None else list(allowed)
        features = None if context is None else dict(context)
        call = _encode(ChooseCall(service.declared.number, words, unit, names, features))
        if self._is_busy("choose") or len(call) > MAX_PLAIN or self.node.calls.is_away(owner):
            return None
        pending = Pending[Choice]()

        def then(reply: Reply | None) -> None:
            # An owner may lie. What it returns must be an arm that may be chosen here, with a
            # ticket of its own: others would count the reward for another arm, under their names.
            if (
                isinstance(reply, ChoiceReply)
                and reply.ticket.partition("@")[2] == owner
                and service.selection.permits(service.selection.place_of(reply.arm), allowed)
            ):
                pending.settle(Choice(reply.ticket, reply.arm, sticky=True))
                return
            try:
                pending.settle(service.choose(allowed, context)._replace(sticky=False))
            except Exception as error:  # the answer says so, as without a unit
                pending.settle(error)

        self._begin("choose", owner, call, then)
        return pending

    def submit(
        self, service: ServedBandit, issuer: str, ticket: str, reward: float
    ) -> Pending[Receipt]:
        """Submit a reward to the agent that issued its ticket."""
        if reason := self.node.bars(issuer):
            raise ExpiredTicketError(
                f"{reason}, and has issued this ticket; its reward is not counted"
            )
        call = _encode(ObserveCall(service.declared.number, ticket, reward))
        if len(call) > MAX_PLAIN:
            raise UnknownTicketError("this is no ticket; submit the one that choose returned")
        if self._is_busy("observe"):
            raise OwnerAwayError(
                f"{self.agent.config.max_forwarded_calls} calls of other agents wait for answers; "
                "submit the reward again, or raise max_forwarded_calls"
            )
        pending = Pending[Receipt]()

        def then(reply: Reply | None) -> None:
            if reply is None:
                pending.settle(self._away(issuer))
            elif isinstance(reply, ReceiptReply):
                pending.settle(Receipt(ticket, reply.arm, reward, reply.duplicate))
            else:
                pending.settle(_error(reply))

        self._begin("observe", issuer, call, then)
        return pending

    def _is_busy(self, kind: str) -> bool:
        if len(self.node.calls.pending) < self.agent.config.max_forwarded_calls:
            return False
        self.results[kind, "busy"] += 1
        return True

    def _away(self, issuer: str) -> Exception:
        away, lifetime = self.node.routes.seconds_away(issuer), self.agent.config.ticket_lifetime
        if away > lifetime:
            return ExpiredTicketError(
                f"agent {issuer}, which issued this ticket, has been away for longer than a ticket "
                f"lives ({lifetime:g} s), so this reward is not counted"
            )
        return OwnerAwayError(
            f"agent {issuer}, which issued this ticket, cannot be reached now; submit the reward "
            "again, it counts once"
        )

    def _begin(
        self, kind: str, destination: str, call: bytes, then: Callable[[Reply | None], None]
    ) -> None:
        agent, began = self.agent, self.agent.clock()

        def answered(answer: bytes | None) -> None:
            reply = None if answer is None else _read_reply(answer)
            if reply is None:
                result = "away"
            else:
                result = "rejected" if isinstance(reply, ErrorReply) else "answered"
            self.results[kind, result] += 1
            self.seconds[kind] += max(0.0, agent.clock() - began)
            then(reply)

        self.node.calls.begin(destination, call, began, agent.config.forward_seconds, answered)
        agent.stored(lambda _: None)  # so that it is sent

    def metrics(self, services: Sequence[ServedBandit]) -> list[Metric]:
        """Return the metrics of calls, members and units."""
        node, pairs = self.node, [(call, result) for call in CALLS for result in RESULTS]
        counts = [({"call": c, "result": r}, float(self.results[c, r])) for c, r in pairs]
        seconds = [({"call": call}, spent) for call, spent in self.seconds.items()]
        relayed = [({"result": what}, float(n)) for what, n in node.calls.relayed.items()]
        units = sum(len(service.replica.units.given) for service in services)
        return [
            measured("forwarded_calls_total", *counts),
            measured("forwarded_seconds_total", *seconds),
            measured("forwarded_calls_waiting", ({}, len(node.calls.pending))),
            measured("served_calls_total", ({}, node.calls.served)),
            measured("relayed_frames_total", *relayed),
            measured("members", ({}, len(node.routes.present()))),
            measured("remembered_units", ({}, units)),
        ]

    # For other agents

    def serve(self, origin: str, plain: bytes) -> bytes:
        """Serve a call of another agent."""
        try:
            return _encode(self._serve(plain))
        except (InputError, UnavailableError) as error:
            return _encode(_replied(error))
        except Exception:  # like a request of an application
            log.exception(LogEvent("a call failed", peer=origin))
            sentence = f"agent {self.agent.config.id} failed at this call; its log says why"
            return _encode(ErrorReply(UnavailableError.__name__, sentence))

    def _serve(self, plain: bytes) -> Reply:
        try:
            call = _decode_call(plain)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(f"a call that cannot be read: {error}") from None
        service = self.agent.services.get(call.bandit)
        if service is None:
            raise UnknownBanditError(
                f"agent {self.agent.config.id} has no bandit with the number {call.bandit}; "
                "declare it on all nodes"
            )
        if isinstance(call, ObserveCall):
            receipt = service.observe(call.ticket, call.reward)
            return ReceiptReply(receipt.arm, receipt.duplicate)
        if not service.declared.sticky_seconds:
            raise InputError(
                f"bandit {service.declared.name} has no sticky_seconds on agent "
                f"{self.agent.config.id}; state it on all nodes"
            )
        choice = service.choose(call.allowed, call.context, call.unit, call.call)
        return ChoiceReply(choice.ticket, choice.arm)


def _read_reply(answer: bytes) -> Reply:
    try:
        reply: Reply = _decode_reply(answer)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ErrorReply(UnavailableError.__name__, "the other agent's answer cannot be read")
    return reply
