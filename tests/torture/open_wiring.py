"""Links that agents open and close themselves: the network where neighbours are found.

Any two agents can be connected. What the real `OpenTransport` does is done here without sockets: a
call is answered or fails, an id is proved, and a link that is closed ends once what was sent before
has arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from coopbandits.fleet.address import Address
from coopbandits.fleet.transport import ITSELF, Arrival
from tests.torture.network import Link
from tests.torture.process import Wire, name, number
from tests.torture.schedule import SECOND
from tests.torture.wiring import Wiring

PORT = 7400
DEGREE = 3
SEEDS = (Address(name(0), PORT), Address(name(1), PORT))
"""An agent's host bears its name."""

CALL_TIMEOUT = SECOND
LOOK_UP_TIME = SECOND // 100

Failed = Callable[[str], None]


class OpenWire(Wire):
    """One agent's end of a network in which agents call each other."""

    address = Address("127.0.0.1", PORT)

    def __init__(self, wiring: OpenWiring, index: int) -> None:
        super().__init__(
            lambda peer, data: wiring.post(index, number(peer), data),
            lambda peer, reason: wiring.part(index, number(peer), reason),
        )
        self.wiring, self.index = wiring, index

    def call(self, peer: str, address: Address, cause: object, failed: Failed) -> None:
        """Call an agent, or whoever answers."""
        self.wiring.call(self.index, peer, address, cause, failed)

    def arrival_of(self, peer: str) -> Arrival:
        """Return why a neighbour was called, and where it is."""
        link = self.wiring.between(self.index, number(peer))
        return Arrival(link.cause if link.caller == self.index else None, peer)

    def look_up(self, places: Iterable[Address], found: Callable[[list[Address]], None]) -> None:
        """Find the same addresses, after a while."""
        stage = self.wiring.stage
        stage.lives.later(stage.actors[self.index], LOOK_UP_TIME, partial(found, list(places)))


class OpenWiring(Wiring):
    """All links that there can be."""

    def lay(self, one: int, other: int) -> Link:
        """Make it possible that two agents are connected; whether they are is their own matter."""
        return self.add(min(one, other), max(one, other))

    def begin(self) -> None:
        """Leave it to the agents."""

    def after_close(self, link: Link) -> None:
        """Leave it to the agents."""

    def wire(self, index: int) -> Wire:
        """Return one agent's end of the network."""
        return OpenWire(self, index)

    # Calls

    def call(self, caller: int, peer: str, address: Address, cause: object, failed: Failed) -> None:
        """Let an agent call whoever is at an address; the answer takes a while."""
        actor = self.stage.actors[caller]
        host, there = address.host, len(self.stage.actors) + (self.stage.liar is not None)
        hosts = {name(index): index for index in range(there)}
        callee = hosts.get(host, -1) if address.port == PORT else -1
        fail = partial(self._fail, caller, actor.life, failed)
        if callee == caller:
            self.stage.plan(1, fail, ITSELF)
        elif callee < 0 or peer not in ("", host):
            self.stage.plan(LOOK_UP_TIME, fail, "nobody answers, or somebody else")
        else:
            pause = self.between(caller, callee).dial_pause() // 10
            self.stage.plan(pause, self._ring, caller, actor.life, callee, cause, fail)

    def _fail(self, caller: int, life: int, failed: Failed, reason: str) -> None:
        actor = self.stage.actors[caller]
        if actor.life == life:
            self.stage.lives.later(actor, 0, partial(failed, reason))

    def _ring(self, caller: int, life: int, callee: int, cause: object, fail: Failed) -> None:
        """Open a link between two agents, if both are there and nothing is between them."""
        stage, link = self.stage, self.between(caller, callee)
        if not self._is_there(caller) or self._life(caller) != life:
            return
        awake_at = 0 if self._is_liar(callee) else stage.actors[callee].awake_at
        if link.held_until() > stage.time:
            stage.plan(CALL_TIMEOUT, fail, "it took too long")
        elif not self._is_there(callee) or link.up:
            fail("nobody answers, or it is linked already")
        elif awake_at > stage.time:
            stage.plan(awake_at - stage.time, self._ring, caller, life, callee, cause, fail)
        else:
            link.caller, link.cause = caller, cause
            self.open(link, caller, callee)

    def call_as_liar(self, victim: int) -> None:
        """Let the liar call an agent, which asks nothing of it but a certificate."""
        liar = len(self.stage.actors)
        self._ring(liar, self._life(liar), victim, object(), lambda _: None)

    def _is_there(self, index: int) -> bool:
        if self._is_liar(index):
            return self.stage.lies.present
        return self.stage.actors[index].process is not None

    def _life(self, index: int) -> int:
        return self.stage.lies.visit if self._is_liar(index) else self.stage.actors[index].life

    # Ends

    def part(self, one: int, other: int, reason: str) -> None:
        """Close a link once what one end has sent has arrived."""
        link, now = self.between(one, other), self.stage.time
        arrival = link.directions[one, other].last_arrival
        self.stage.plan(max(0, arrival - now) + 1, self._close, link, link.generation, reason)

    def _close(self, link: Link, generation: int, reason: str) -> None:
        if link.generation == generation:
            self.close(link, reason)
