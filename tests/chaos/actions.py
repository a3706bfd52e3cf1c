"""What goes wrong: each action harms one agent or all of them, waits, and makes good again."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from coopbandits.fleet.client import AsyncClient
from coopbandits.fleet.identity.certs import issue
from coopbandits.fleet.local.members import Member, Members
from coopbandits.fleet.local.trouble import Dice

from .hosts import Host, knows

CALM = 4.0
"""Seconds that a disturbance lasts."""

NOTICED = 5.0
"""An agent must notice by then that it cannot write."""


@dataclass
class Chaos:
    """A fleet, its hosts, and what was done to it."""

    members: Members
    hosts: list[Host]
    certificates: Path
    dice: Dice
    actions: dict[str, Action]
    counts: dict[str, int] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)

    def any_member(self) -> tuple[int, Member]:
        at = self.dice.word() % len(self.members.all)
        return at, self.members.all[at]

    def journal(self, member: Member) -> Path:
        return member.place.folder / "journal"

    async def reason(self, member: Member) -> str | None:
        async with AsyncClient(member.place.api, timeout=1.0) as client:
            return await client.ready()

    async def expect_refusal(self, member: Member, what: str) -> None:
        """Wait until an agent says that it is not ready."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + NOTICED
        while loop.time() < deadline:
            if await self.reason(member) is not None:
                return
            await asyncio.sleep(0.1)
        self.complaints.append(f"{member.place.id} stayed ready: {what}")

    async def revive(self, member: Member) -> None:
        await self.members.restart(member)


Action = Callable[[Chaos], Awaitable[None]]


async def kill_one(chaos: Chaos) -> None:
    _, member = chaos.any_member()
    await member.kill()
    await asyncio.sleep(0.3)
    await chaos.revive(member)


async def kill_all(chaos: Chaos) -> None:
    await asyncio.gather(*(member.kill() for member in chaos.members.all))
    await asyncio.gather(*(chaos.revive(member) for member in chaos.members.all))


async def pause_one(chaos: Chaos) -> None:
    _, member = chaos.any_member()
    member.pause()
    await asyncio.sleep(CALM)
    member.resume()


async def mute_one(chaos: Chaos) -> None:
    """A link that loses everything in one direction."""
    at, _ = chaos.any_member()
    here, there = chaos.hosts[at], chaos.hosts[(at + 1) % len(chaos.hosts)]
    here.mute(there, True)
    await asyncio.sleep(CALM)
    here.mute(there, False)


async def stutter(chaos: Chaos) -> None:
    """A link that loses about half in one direction, in bursts."""
    at, _ = chaos.any_member()
    here, there = chaos.hosts[at], chaos.hosts[(at + 1) % len(chaos.hosts)]
    for number in range(20):
        here.mute(there, number % 2 == 0)
        await asyncio.sleep(CALM / 20)


def disturbance(*how: str) -> Action:
    async def disturb(chaos: Chaos) -> None:
        at, _ = chaos.any_member()
        chaos.hosts[at].disturb(*how)
        await asyncio.sleep(CALM)
        chaos.hosts[at].calm()

    return disturb


async def unplug_one(chaos: Chaos) -> None:
    at, _ = chaos.any_member()
    chaos.hosts[at].plug("down")
    await asyncio.sleep(CALM)
    chaos.hosts[at].plug("up")


async def fill_disk(chaos: Chaos) -> None:
    """Journals are on disks of their own; nothing else fits on one that is full."""
    _, member = chaos.any_member()
    filler = chaos.journal(member) / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    await chaos.expect_refusal(member, "its disk was full")
    filler.unlink()


async def remove_journal(chaos: Chaos) -> None:
    """The journal is moved away under a live agent, and put back before its next start."""
    _, member = chaos.any_member()
    folder = chaos.journal(member)
    kept = [(path, path.with_name(f"{path.name}.kept")) for path in folder.iterdir()]
    for path, aside in kept:
        path.rename(aside)
    await chaos.expect_refusal(member, "its journal was gone")
    await member.kill()
    for path in folder.iterdir():
        if not path.name.endswith(".kept"):
            path.unlink()
    for path, aside in kept:
        aside.rename(path)
    await chaos.revive(member)


async def flip_a_bit(chaos: Chaos) -> None:
    """A damaged journal is refused and left alone; repaired, it is taken again."""
    _, member = chaos.any_member()
    await member.kill()
    path = max(chaos.journal(member).iterdir(), key=lambda each: each.stat().st_size)
    sound = path.read_bytes()
    at = chaos.dice.word() % (8 * len(sound))
    damaged = bytearray(sound)
    damaged[at // 8] ^= 1 << at % 8
    path.write_bytes(damaged)
    member.start(chaos.members._keeper.group)
    if not await member._wait(20.0) or member._running().returncode == 0:
        chaos.complaints.append(f"{member.place.id} started on a journal with bit {at} flipped")
        await member.kill()
    elif path.read_bytes() != damaged:
        chaos.complaints.append(f"{member.place.id} changed a journal with bit {at} flipped")
    path.write_bytes(sound)
    await chaos.revive(member)


async def change_certificate(chaos: Chaos) -> None:
    """A new certificate for an agent that goes on."""
    _, member = chaos.any_member()
    issue(chaos.certificates, [member.place.id], force=True)
    await asyncio.sleep(1.0)


async def hold_connections(chaos: Chaos) -> None:
    """Idle and endless requests on the API; its own application must be served meanwhile."""
    _, member = chaos.any_member()
    path = member.place.api.removeprefix("unix:")
    held = []
    for number in range(100):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(1.0)
        held.append(connection)
        try:
            connection.connect(path)
            if number % 2:
                connection.sendall(b"POST /choose HTTP/1.1\r\nX-Endless: ")
                connection.sendall(b"x" * 4096)
        except OSError:  # refused: as good as held
            pass
    await asyncio.sleep(CALM)
    for connection in held:
        connection.close()


ACTIONS: dict[str, Action] = {
    "kill one": kill_one,
    "kill all": kill_all,
    "pause one": pause_one,
    "mute one way": mute_one,
    "stutter one way": stutter,
    "unplug one": unplug_one,
    "fill a disk": fill_disk,
    "remove a journal": remove_journal,
    "flip a bit": flip_a_bit,
    "change a certificate": change_certificate,
    "hostile HTTP clients": hold_connections,
}

DISTURBANCES = {
    "lose 60 % one way": ("netem", "loss", "60%"),
    "delay 300 ± 100 ms": ("netem", "delay", "300ms", "100ms"),
    "duplicate and reorder": ("netem", "delay", "20ms", "reorder", "50%", "duplicate", "30%"),
    "16 kB/s": ("tbf", "rate", "128kbit", "burst", "10kb", "latency", "400ms"),
}
"""Not every kernel has these."""


def available() -> dict[str, Action]:
    """Return all actions that are possible here, and print which are not."""
    found = dict(ACTIONS)
    for what, how in DISTURBANCES.items():
        if knows(*how):
            found[what] = disturbance(*how)
        else:
            print(f"left out: {what}, since this kernel has no {how[0]}")
    return found
