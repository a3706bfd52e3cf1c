"""What goes wrong: each action harms one agent or all of them, waits, and makes good again."""

from __future__ import annotations

import asyncio
import math
import shutil
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from coopbandits.fleet.client import AsyncClient
from coopbandits.fleet.identity.certs import issue
from coopbandits.fleet.local.agents import BANDIT, Member, Members
from coopbandits.fleet.local.faults import Dice

from . import clocks
from .hosts import Host, knows
from .relays import Relays

JOURNAL, CLOCK, REVOKED = "disk/journal", "clock", "revoked.txt"
"""An agent's journal and clock, in its folder, and the list that all agents read."""

FORWARD = "the clock was set forward"

CALM = 4.0
"""Seconds that a disturbance lasts."""

NOTICED = 5.0
"""An agent must notice by then that it cannot write."""


@dataclass
class Chaos:
    """A fleet, its hosts, and what was done to it."""

    members: Members
    hosts: list[Host]
    relays: Relays
    folder: Path
    dice: Dice
    actions: dict[str, Action]
    counts: dict[str, int] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)

    def any_member(self) -> tuple[int, Member]:
        at = self.dice.word() % len(self.members.all)
        return at, self.members.all[at]

    def journal(self, member: Member) -> Path:
        return member.place.folder / JOURNAL

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

    async def expect_recovery(self, member: Member, what: str) -> None:
        """Wait until an agent that was not restarted is ready again."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + NOTICED
        while (reason := await self.reason(member)) is not None and loop.time() < deadline:
            await asyncio.sleep(0.1)
        if reason is not None:
            self.complaints.append(f"{member.place.id} is not ready after {what}: {reason}")

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


async def move_journal(chaos: Chaos) -> None:
    """The folder is moved away under a live agent, and put back: before a restart, or without."""
    _, member = chaos.any_member()
    folder = chaos.journal(member)
    aside = folder.with_name("aside")
    folder.rename(aside)
    await chaos.expect_refusal(member, "its journal's folder was gone")
    if restart := bool(chaos.dice.word() % 2):
        await member.kill()
    if folder.exists():
        chaos.complaints.append(f"{member.place.id} made a folder in the place of its journal")
        shutil.rmtree(folder)
    aside.rename(folder)
    if restart:
        await chaos.revive(member)
    else:
        await chaos.expect_recovery(member, "its journal's folder was put back")


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
    issue(chaos.folder / "certificates", [member.place.id], force=True)
    await asyncio.sleep(1.0)


async def revoke_one(chaos: Chaos) -> None:
    """An agent is revoked while it runs: all others forget it, until it is off the list again."""
    _, member = chaos.any_member()
    name, listed = member.place.id, chaos.folder / REVOKED
    listed.write_text(f"{name}\n")
    try:
        deadline = asyncio.get_running_loop().time() + NOTICED
        while left := await believers(chaos, name):
            if asyncio.get_running_loop().time() > deadline:
                chaos.complaints.append(f"{name} was revoked, and still counts for {left}")
                break
            await asyncio.sleep(0.2)
    finally:
        listed.write_text("")


async def believers(chaos: Chaos, name: str) -> list[str]:
    """Return the agents that have a link to this one, or still count it."""
    answers = await chaos.members.ask("health")
    most = len(chaos.members.all) - 1
    return [
        who
        for who, health in answers.items()
        if who != name
        and health
        and (health["links"].get(name) == "up" or health["bandits"][BANDIT]["agents_known"] > most)
    ]


async def set_clock(chaos: Chaos) -> None:
    """An agent's clock is set, forward or back, while it runs; sometimes it restarts then."""
    _, member = chaos.any_member()
    file, log = member.place.folder / CLOCK, member.place.folder / "log.txt"
    before, noted = int(file.read_text()), log.read_text().count(FORWARD)
    seconds = chaos.dice.pick([one for one in clocks.OFFSETS if one != before])
    clocks.set_clock(file, seconds)
    deadline = asyncio.get_running_loop().time() + NOTICED
    while seconds > before and log.read_text().count(FORWARD) == noted:
        if asyncio.get_running_loop().time() > deadline:
            chaos.complaints.append(f"{member.place.id} did not notice that its clock was set")
            break
        await asyncio.sleep(0.2)
    if chaos.dice.word() % 2:
        await member.kill()
        await chaos.revive(member)


def slow(latency: float, rate: float) -> Action:
    async def slow_down(chaos: Chaos) -> None:
        at, _ = chaos.any_member()
        relay = chaos.relays.all[at]
        relay.latency, relay.rate = latency, rate
        await asyncio.sleep(CALM)
        relay.latency, relay.rate = 0.0, math.inf

    return slow_down


async def lose_answers(chaos: Chaos) -> None:
    """Applications do not hear that a reward was counted, and hand it in again."""
    for counter in chaos.relays.counters:
        counter.losing = True
    await asyncio.sleep(1.0)
    for counter in chaos.relays.counters:
        counter.losing = False


HOSTILE = (
    b"",
    b"POST /bandits/local/choose HTTP/1.1\r\nX-Endless: " + b"x" * 4096,
    b"POST /bandits/local/observe HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: 60000\r\n\r\n{",
    b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n" * 200,
    bytes(range(256)) * 16,
)
"""Silence, headers without end, a body that never comes, answers that nobody reads, and no HTTP."""


async def hostile_clients(chaos: Chaos) -> None:
    """Connections that hold the API up; others must be served meanwhile."""
    _, member = chaos.any_member()
    path = member.place.api.removeprefix("unix:")
    held = []
    for number in range(300):
        connection = socket.socket(socket.AF_UNIX)
        connection.setblocking(False)
        held.append(connection)
        with suppress(OSError):  # refused or cut: as good as held
            connection.connect(path)
            connection.send(HOSTILE[number % len(HOSTILE)])
        await asyncio.sleep(0.002)
    try:
        if (reason := await chaos.reason(member)) is not None:
            chaos.complaints.append(f"{member.place.id} did not answer among 300 others: {reason}")
        await asyncio.sleep(CALM)
    finally:
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
    "move a journal's folder away": move_journal,
    "flip a bit": flip_a_bit,
    "change a certificate": change_certificate,
    "revoke one": revoke_one,
    "hostile HTTP clients": hostile_clients,
    "lose answers": lose_answers,
    "delay by 300 ms": slow(0.3, math.inf),
    "16 kB/s": slow(0.05, 16e3),
}

DISTURBANCES = {
    "lose 60 % one way": ("netem", "loss", "60%"),
    "duplicate and reorder": ("netem", "delay", "20ms", "reorder", "50%", "duplicate", "30%"),
}
"""Not every kernel has these."""


def available() -> dict[str, Action]:
    """Return all actions that are possible here, and print which are not."""
    found = dict(ACTIONS)
    if reason := clocks.obstacle():
        print(f"left out: set a clock, since {reason}")
    else:
        found["set a clock"] = set_clock
    for what, how in DISTURBANCES.items():
        if knows(*how):
            found[what] = disturbance(*how)
        else:
            print(f"left out: {what}, since this kernel has no {how[0]}")
    return found
