"""Links between the agents on a stage: dialled, cut, broken, and what passes over them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tests.torture.actor import Actor
from tests.torture.network import MOST_WAITING, Link
from tests.torture.process import Wire, name, number
from tests.torture.schedule import SECOND

if TYPE_CHECKING:
    from tests.torture.stage import Stage

Ends = tuple[int, int]


class Wiring:
    """All links, by the numbers of their ends; that of the liar is one beyond the agents'."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.links: dict[Ends, Link] = {}
        self.broken: list[tuple[int, int, str]] = []
        self._by_way: dict[Ends, Link] = {}

    def lay(self, one: int, other: int) -> Link:
        """Make two agents neighbours from their next start on."""
        edge = min(one, other), max(one, other)
        for here, there in (edge, edge[::-1]):
            if here < len(self.stage.actors):
                self.stage.actors[here].neighbors.add(there)
        return self.add(*edge)

    def add(self, one: int, other: int) -> Link:
        """Return the link of two ends, `one` being the smaller; there may be none yet."""
        edge = one, other
        if edge not in self.links:
            link = self.links[edge] = Link(self.stage.schedule.seed, *edge)
            self._by_way |= {edge: link, edge[::-1]: link}
        return self.links[edge]

    def between(self, one: int, other: int) -> Link:
        """Return the link of two ends, in any order."""
        return self._by_way[one, other]

    def begin(self) -> None:
        """Dial all neighbours."""
        for link in self.links.values():
            self.stage.plan(SECOND // 10, self.dial, link)

    def of(self, index: int) -> Iterator[Link]:
        """Yield the links of one end."""
        return (link for edge, link in self.links.items() if index in edge)

    def wire(self, index: int) -> Wire:
        """Return one agent's end of the network."""
        return Wire(
            lambda peer, data: self.post(index, number(peer), data),
            lambda peer, reason: self.broken.append((index, number(peer), reason)),
        )

    # Opening and closing

    def dial(self, link: Link) -> None:
        """Open a link, if both ends are there and nothing is between them."""
        if link.up:
            return
        one, other = link.ends
        if not (self._wants(one, other) and self._wants(other, one)):
            return  # whoever starts dials again
        held = link.held_until()
        if held > self.stage.time:
            self.stage.plan(held - self.stage.time + link.dial_pause(), self.dial, link)
            return
        self.open(link, *link.ends)

    def open(self, link: Link, *ends: int) -> None:
        """Open a link, and tell its ends in this order."""
        link.open()
        for here, there in (ends, ends[::-1]):
            if self._is_liar(here):
                self.stage.lies.link_up(name(there))
            elif (process := self.stage.actors[here].process) is not None:
                self.stage.lives.act(self.stage.actors[here], process.shell.link_up, name(there))

    def dial_all(self, actor: Actor) -> None:
        """Let an agent that has started be dialled."""
        for link in self.of(actor.index):
            if not link.up:
                self.stage.plan(link.dial_pause(), self.dial, link)

    def _is_liar(self, index: int) -> bool:
        return index == len(self.stage.actors)

    def _wants(self, index: int, other: int) -> bool:
        if self._is_liar(index):
            return self.stage.lies.present
        process = self.stage.actors[index].process
        return process is not None and name(other) in process.node.peers

    def close(self, link: Link, reason: str) -> None:
        """Break a link."""
        if not link.up:
            return
        link.close()
        self.stage.trace.note(self.stage.time, "down", *link.ends)
        for here, there in (link.ends, link.ends[::-1]):
            if self._is_liar(here):
                self.stage.lies.link_down(name(there), reason)
            elif (process := self.stage.actors[here].process) is not None:
                actor = self.stage.actors[here]
                self.stage.lives.act(actor, process.shell.link_down, name(there), reason)
        self.after_close(link)

    def after_close(self, link: Link) -> None:
        """Dial again."""
        self.stage.plan(link.dial_pause(), self.dial, link)

    def close_all(self, actor: Actor) -> None:
        """Break the links of an agent that has died."""
        for link in self.of(actor.index):
            self.close(link, "it died")

    def close_broken(self) -> None:
        """Break the links that an end has given up."""
        while self.broken:
            one, other, reason = self.broken.pop(0)
            self.close(self._by_way[one, other], reason)

    # Messages

    def post(self, sender: int, receiver: int, data: bytes) -> bool:
        """Put a message under way."""
        ends = sender, receiver
        link = self._by_way[ends]
        if not link.up:
            return False
        if len(link.directions[ends].waiting) >= MOST_WAITING:
            self.broken.append((sender, receiver, "too many bytes wait to be sent"))
            return False
        stage = self.stage
        for at in link.post(ends, data, stage.weather, stage.time):
            stage.plan(at - stage.time, self._arrive, link, ends, link.generation)
        return True

    def _arrive(self, link: Link, ends: Ends, generation: int) -> None:
        if link.generation != generation:
            return
        stage, (sender, receiver) = self.stage, ends
        until = link.directions[ends].held_until
        actor = None if self._is_liar(receiver) else stage.actors[receiver]
        if actor is not None:
            until = max(until, actor.awake_at)
        if until > stage.time:
            stage.plan(until - stage.time, self._arrive, link, ends, generation)
            return
        for data in link.take(ends, stage.weather):
            stage.trace.note(stage.time, "arrives", sender, receiver, len(data))
            if link.generation == generation:
                self._deliver(actor, name(sender), data)
        if actor is not None and not self._is_liar(sender):  # a liar may greet anew, with less
            stage.checks.heard(actor, name(sender), generation)

    def _deliver(self, actor: Actor | None, sender: str, data: bytes) -> None:
        if actor is None:
            self.stage.lies.received(sender, data)
        elif actor.process is not None:
            self.stage.lives.act(actor, actor.process.shell.received, sender, data)
