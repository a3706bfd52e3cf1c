"""Transports that each break one clause of the contract."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from coopbandits.fleet.transport import LinkEvents
from coopbandits.fleet.transport.memory import MemoryLink, MemoryNetwork, MemoryTransport


class Using(MemoryNetwork):
    """A network of some kind of transport."""

    def __init__(self, kind: type[MemoryTransport], max_waiting: int = 1 << 20) -> None:
        super().__init__(pause=0.01, max_waiting=max_waiting)
        self.kind = kind

    def transport(self, node: str, neighbors: Iterable[str]) -> MemoryTransport:
        return self.kind(self, node, neighbors)


class NeverStarts(MemoryTransport):
    async def start(self, events: LinkEvents) -> None:
        await asyncio.sleep(3600)


class ComesUpTwice(MemoryTransport):
    def link_up(self, peer: str, link: MemoryLink) -> None:
        super().link_up(peer, link)
        super().link_up(peer, link)


class FlapsAtFirst(MemoryTransport):
    def link_up(self, peer: str, link: MemoryLink) -> None:
        super().link_up(peer, link)
        self.events.link_down(peer, "not yet")
        self.events.link_up(peer)


class AddsAByte(MemoryTransport):
    def send(self, peer: str, data: bytes) -> bool:
        return super().send(peer, data + b"?" if len(data) == 4096 else data)


class CutsLongMessages(MemoryTransport):
    def send(self, peer: str, data: bytes) -> bool:
        return super().send(peer, data[: 1 << 19])


class LongMessagesAreFaster(MemoryTransport):
    def send(self, peer: str, data: bytes) -> bool:
        if len(data) == 100:
            asyncio.get_running_loop().call_later(0.01, super().send, peer, data)
            return True
        return super().send(peer, data)


class RefusesLongMessages(MemoryTransport):
    def send(self, peer: str, data: bytes) -> bool:
        return len(data) < 1 << 20 and super().send(peer, data)


class SendsToTheFirst(MemoryTransport):
    def send(self, peer: str, data: bytes) -> bool:
        return super().send(min(self.up, default=peer), data)


class IsAlwaysOptimistic(MemoryTransport):
    def send(self, peer: str, data: bytes) -> bool:
        super().send(peer, data)
        return True


class InventsLinks(MemoryTransport):
    def send(self, peer: str, data: bytes) -> bool:
        if peer == "gamma" and peer not in self.up:
            self.events.link_up(peer)
        return super().send(peer, data)


class DropsTheUnknown(MemoryTransport):
    def drop(self, peer: str, reason: str) -> None:
        super().drop(peer, reason)
        if peer not in self.up:
            self.events.link_down(peer, reason)


class DropsAtOneEnd(MemoryTransport):
    def drop(self, peer: str, reason: str) -> None:
        if peer in self.up:
            self.schedule(self.events.link_down, peer, reason)


class DropsAtOnce(MemoryTransport):
    def drop(self, peer: str, reason: str) -> None:
        if peer in self.up:
            self.link_down(peer, self.up[peer], reason)


class DropsForGood(MemoryTransport):
    def drop(self, peer: str, reason: str) -> None:
        self.network.cut(self.node, peer)


class DropsTwice(MemoryTransport):
    def drop(self, peer: str, reason: str) -> None:
        super().drop(peer, reason)
        asyncio.get_running_loop().call_later(0.03, super().drop, peer, reason)


class ForgetsTheReason(MemoryTransport):
    def drop(self, peer: str, reason: str) -> None:
        super().drop(peer, "something")


class ForgivesNobody(MemoryTransport):
    """Has no second link with a neighbour that stopped."""

    def __init__(self, network: MemoryNetwork, node: str, neighbors: Iterable[str]) -> None:
        super().__init__(network, node, neighbors)
        self.gone: set[str] = set()

    def link_up(self, peer: str, link: MemoryLink) -> None:
        if peer not in self.gone:
            super().link_up(peer, link)

    def link_down(self, peer: str, link: MemoryLink, reason: str) -> None:
        if reason == "the neighbour closed the link":
            self.gone.add(peer)
        super().link_down(peer, link, reason)


class StaysUpWithoutTheOther(MemoryTransport):
    def link_down(self, peer: str, link: MemoryLink, reason: str) -> None:
        if reason != "the neighbour closed the link":
            super().link_down(peer, link, reason)


class LeavesATask(MemoryTransport):
    task: asyncio.Task[None]

    async def start(self, events: LinkEvents) -> None:
        await super().start(events)
        self.task = asyncio.create_task(asyncio.sleep(3600))


class TalksAfterStop(MemoryTransport):
    async def stop(self) -> None:
        if self.up:
            asyncio.get_running_loop().call_later(0.01, self.events.refused, "x", "too late")
        await super().stop()


class StopsOnce(MemoryTransport):
    stopped = False

    async def stop(self) -> None:
        if self.stopped:
            raise RuntimeError("stopped before")
        self.stopped = True
        await super().stop()


class SendsAfterStop(MemoryTransport):
    stopped = False

    async def stop(self) -> None:
        await super().stop()
        self.stopped = True

    def send(self, peer: str, data: bytes) -> bool:
        return self.stopped or super().send(peer, data)


class FullAndStillUp(MemoryTransport):
    def send(self, peer: str, data: bytes) -> bool:
        link = self.up.get(peer)
        if link is not None and link.waiting.get(peer, 0) > self.network.max_waiting:
            return False
        return super().send(peer, data)


class GarblesWhatIsTooMuch(MemoryTransport):
    def send(self, peer: str, data: bytes) -> bool:
        link = self.up.get(peer)
        much = link is not None and link.waiting.get(peer, 0) > self.network.max_waiting // 2
        return super().send(peer, data[::-1] if much else data)


class AdmitsAnybody(MemoryTransport):
    def __init__(self, network: MemoryNetwork, node: str, neighbors: Iterable[str]) -> None:
        super().__init__(network, node, {*neighbors, "gamma"} - {node})


class RefusesSilently(MemoryTransport):
    def schedule(self, event: Callable[..., None], *what: Any) -> None:
        if event != self.events.refused:
            super().schedule(event, *what)


class AdmitsAndComplains(AdmitsAnybody):
    def link_up(self, peer: str, link: MemoryLink) -> None:
        super().link_up(peer, link)
        if "gamma" in (self.node, peer) and "beta" in self.up:
            self.events.refused(peer, "'gamma' is no neighbour")


class LetsStrangersSend(MemoryTransport):
    refused = False

    def schedule(self, event: Callable[..., None], *what: Any) -> None:
        self.refused = self.refused or event == self.events.refused
        super().schedule(event, *what)

    def send(self, peer: str, data: bytes) -> bool:
        return super().send(peer, data) or self.refused


class IsEasilyShocked(MemoryTransport):
    def schedule(self, event: Callable[..., None], *what: Any) -> None:
        super().schedule(event, *what)
        if event == self.events.refused and "beta" in self.up:
            self.drop("beta", "a stranger")
