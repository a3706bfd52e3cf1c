"""Drives the views of one agent over its real links: calls, greetings, seeds, goodbyes.

An agent's id comes from its certificate, by way of the transport. Its address comes from the
connection: the one at which it answered, or from which it called, with the port that it names. What
others say of it is a hint where to call.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from coopbandits.core.errors import InputError
from coopbandits.fleet.address import Address, parse_address
from coopbandits.fleet.logs import LogEvent
from coopbandits.fleet.overlay.hyparview import Call, Close, HyParView, Send
from coopbandits.fleet.overlay.messages import Ask, Contact, Goodbye, Message, Refused
from coopbandits.fleet.transport import ITSELF, Arrival, DialAgent, LookUpSeeds

LOOK_UP_TICKS = 60
"""Ticks between two lookups of the names of seeds; fewer without neighbours."""

LOOK_UP_TICKS_ALONE = 5

MOST_SEEDS = 64
"""Most addresses of seeds that are used."""

FREE_VISITS = 3
"""How often a caller is admitted without a pause, such as one that is restarted a few times."""

FIRST_PAUSE, LAST_PAUSE = 2, 64
"""Ticks until it is admitted again after that, at first and at last; doubled each time."""

FORGET_TICKS = 120
"""A caller that was not admitted for this many ticks has no pause."""

log = logging.getLogger(__name__)


class Host(Protocol):
    """What `Members` needs of its node."""

    def send_members(self, name: str, message: Message) -> None:
        """Send an agent a message about members."""

    def part_from(self, name: str, reason: str) -> None:
        """Close the link to a neighbour, after what was sent over it."""

    def dial(self, action: DialAgent | LookUpSeeds) -> None:
        """Ask for a call, or for the addresses of seeds."""


class Visit(NamedTuple):
    """How often a caller was admitted, when it was last, and how long it waits after that."""

    times: int
    time: int
    pause: int


class Visits:
    """Callers admitted lately: each time, every bandit has to continue with other neighbours."""

    def __init__(self) -> None:
        self._last: dict[str, Visit] = {}

    def is_early(self, name: str, time: int) -> bool:
        """Return whether a caller comes before its pause is over."""
        last = self._last.get(name)
        return last is not None and time < last.time + last.pause

    def count(self, name: str, time: int) -> None:
        last = self._last.get(name) or Visit(0, time, 0)
        pause = 0
        if last.times + 1 >= FREE_VISITS:
            pause = min(2 * last.pause or FIRST_PAUSE, LAST_PAUSE)
        self._last[name] = Visit(last.times + 1, time, pause)

    def forget(self, time: int) -> None:
        for name in [name for name, last in self._last.items() if time >= last.time + FORGET_TICKS]:
            del self._last[name]


class Members:
    """Finds neighbours for one node.

    Parameters
    ----------
    view : HyParView
        The agent's views.
    host : Host
        Its node.
    seeds : sequence of Address
        Where others may be; names are looked up.
    place : str
        Where others reach the agent, as told in HELLO.
    """

    def __init__(
        self,
        view: HyParView,
        host: Host,
        seeds: Sequence[Address],
        place: Callable[[], str],
    ) -> None:
        self.view, self.host = view, host
        self.seeds, self.place = seeds, place
        self._causes: dict[str, object] = {}  # calls, by the ids at the other ends of links
        self._hosts: dict[str, str] = {}
        self._linked: set[str] = set()
        self._next_look_up = 0
        self._visits = Visits()

    # The clock

    def tick(self) -> None:
        """Look for neighbours, where there are too few; call it once a second."""
        if self.view.time >= self._next_look_up:
            ticks = LOOK_UP_TICKS if self.view.active else LOOK_UP_TICKS_ALONE
            self._next_look_up = self.view.time + ticks
            self.host.dial(LookUpSeeds(tuple(self.seeds)))
        self._visits.forget(self.view.time)
        self.view.tick()
        self._carry_out()

    def found(self, places: list[Address]) -> None:
        """Note the addresses of seeds; a name server that fails changes nothing."""
        if places:
            chosen = self.view.chance.sample(places, MOST_SEEDS)
            first = not self.view.seeds
            self.view.seeds = list(map(str, chosen))
            if first:
                self.view.tick()
                self._carry_out()

    def leave(self) -> None:
        """Say goodbye to all neighbours."""
        self.view.leave()
        self._carry_out()

    def _carry_out(self) -> None:
        actions, self.view.actions = self.view.actions, []
        for action in actions:
            match action:
                case Call():
                    self._call(action)
                case Send(name, message):
                    if name in self._linked:
                        self.host.send_members(name, message)
                case Close(name):
                    self.host.part_from(name, "the neighbours have changed")

    # Calls

    def _call(self, call: Call) -> None:
        try:
            address = parse_address(call.address)
        except InputError:  # a member made it up
            self.view.failed(call)
            return
        self.host.dial(DialAgent(call.name, address, call))

    def call_failed(self, call: object, reason: str) -> None:
        """Note a call that was not answered as expected."""
        assert isinstance(call, Call)  # noqa: S101  only these are made here
        log.debug(
            LogEvent("a call failed", peer=call.name or None, address=call.address, reason=reason)
        )
        if reason == ITSELF:
            self.view.reached_itself(call)
        else:
            self.view.failed(call)
        self._carry_out()

    def link_up(self, name: str, arrival: Arrival) -> None:
        """Note a link, over which nothing was sent yet."""
        self._causes[name], self._hosts[name] = arrival.cause, arrival.host

    def has_called(self, name: str) -> bool:
        """Return whether this agent has called the other end of a link."""
        return self._causes[name] is not None

    def greeting(self, name: str) -> dict[str, str]:
        """Return what HELLO says besides: why the agent has called, and where to call back."""
        call = self._causes[name]
        return {"ask": call.ask.value if isinstance(call, Call) else "", "place": self.place()}

    def greeted(self, name: str, ask: str, place: str) -> Refused | None:
        """Make an agent that says HELLO a neighbour, or return a refusal."""
        call = self._causes[name]
        refusal = None
        if isinstance(call, Call):
            self.view.accepted(call, name)
        else:
            refusal = self._asked(Contact(name, self._address(name, place)), _read_ask(name, ask))
        if refusal is None:
            self._linked.add(name)
        self._carry_out()
        return refusal

    def _asked(self, contact: Contact, ask: Ask) -> Refused | None:
        """Admit a caller, unless it comes and goes all the time; or return a refusal."""
        if self._visits.is_early(contact.name, self.view.time):
            return Refused([])
        refusal = self.view.asked(contact, ask)
        if refusal is None:
            self._visits.count(contact.name, self.view.time)
        return refusal

    def _address(self, name: str, place: str) -> str:
        host = Address(self._hosts[name], 1)
        told = place if not place.startswith(":") else str(host).removesuffix(":1") + place
        return str(parse_address(told))

    def declined(self, name: str, contacts: Iterable[Contact]) -> None:
        """Handle the answer of an agent that has no room."""
        call = self._causes[name]
        if isinstance(call, Call) and call.key in self.view.calling:
            self.view.refused(call, name, contacts)
            self._carry_out()

    # Links

    def heard(self, name: str, message: Message) -> None:
        """Handle a neighbour's message about members."""
        if isinstance(message, Goodbye) and message.leaving:
            self.host.part_from(name, "it is leaving")
        self.view.heard(name, message)
        self._carry_out()

    def link_down(self, name: str) -> None:
        """Note that a link is down; one that never was a neighbour's is a failed call."""
        call = self._causes.pop(name)
        del self._hosts[name]
        if name in self._linked:
            self._linked.remove(name)
            self.view.broken(name)
        elif isinstance(call, Call) and call.key in self.view.calling:
            self.view.failed(call)
        self._carry_out()

    def place_of(self, name: str) -> Address | None:
        """Return where a neighbour is."""
        call = self._causes.get(name)
        address = call.address if isinstance(call, Call) else self.view.active.get(name)
        return None if address is None else parse_address(address)


def _read_ask(name: str, ask: str) -> Ask:
    try:
        return Ask(ask)
    except ValueError:
        raise InputError(
            f"{name} does not ask to be a neighbour, since its own are listed; either all nodes "
            'have neighbors = "auto", or none'
        ) from None
