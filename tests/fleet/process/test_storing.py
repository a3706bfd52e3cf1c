"""A running agent and its disk: shared syncs, a journal that is taken away, a disk that is full."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from coopbandits.fleet.address import Address
from coopbandits.fleet.api.app import Api
from coopbandits.fleet.api.messages import Answer
from coopbandits.fleet.api.site import Request
from coopbandits.fleet.config import NodeConfig
from coopbandits.fleet.process.runtime import Runtime
from coopbandits.fleet.service import Receipt, UnavailableError, UnknownTicketError
from coopbandits.fleet.storage.disk import FileDisk, OperatingSystem
from coopbandits.fleet.storage.replica import Replica
from coopbandits.fleet.transport.memory import MemoryNetwork

from ..bandits import only


def config_of(name: str, rounds_per_second: float = 0.01, **node: Any) -> NodeConfig:
    bandit = only(
        arms=("a", "b"), sigma=1.0, epoch=1_790_000_000, rounds_per_second=rounds_per_second
    )
    node.setdefault("neighbors", {})
    bandits = {bandit.name: bandit}
    node.setdefault("default_bandit", bandit.name)
    return NodeConfig(bandit.cluster, name, Path("unused"), bandits=bandits, **node)


CONFIG = config_of("alpha", max_open_tickets=20_000)
CALLERS = 64


class Watched(OperatingSystem):
    """The real calls; syncs are counted, can be held up, and can fail."""

    def __init__(self) -> None:
        self.syncs = self.writes = 0
        self.gate = threading.Event()
        self.gate.set()
        self.error: OSError | None = None

    def write(self, file: int, data: bytes) -> int:
        self.writes += 1
        return super().write(file, data)

    def sync(self, file: int) -> None:
        self.gate.wait(30)
        self.syncs += 1
        if self.error:
            raise self.error
        super().sync(file)


@asynccontextmanager
async def running(
    folder: Path,
    durability: str = "power",
    files: OperatingSystem | None = None,
    config: NodeConfig = CONFIG,
    network: MemoryNetwork | None = None,
) -> AsyncIterator[Runtime]:
    disk = FileDisk(folder, durability, files)
    transport = (network or MemoryNetwork()).transport(config.id, config.neighbors)
    runtime = Runtime(config, disk, transport)
    await runtime.start()
    try:
        yield runtime
    finally:
        await runtime.stop()


async def until(holds: Callable[[], bool], seconds: float = 90.0) -> float:
    """Wait for a condition; return how long it took."""
    begun = time.monotonic()
    while not holds():
        assert time.monotonic() - begun < seconds
        await asyncio.sleep(0.01)
    return time.monotonic() - begun


async def stored(runtime: Runtime) -> None:
    """Return once all so far is on disk; raise what the service tells otherwise."""
    waiter = asyncio.get_running_loop().create_future()
    runtime.service.stored(waiter.set_result)
    error = await waiter
    if error is not None:
        raise error


async def pull(runtime: Runtime, reward: float = 0.5) -> Receipt:
    choice = runtime.service.bandit("only").choose()
    await stored(runtime)
    receipt = runtime.service.bandit("only").observe(choice.ticket, reward)
    await stored(runtime)
    return receipt


def rewards(runtime: Runtime) -> int:
    return runtime.node.bandits.rewards


def replica_of(runtime: Runtime) -> Replica:
    (found,) = runtime.node.bandits.replicas.values()
    return found


def test_all_that_wait_share_a_sync(tmp_path: Path) -> None:
    async def play() -> None:
        async with running(tmp_path, files=(files := Watched())) as runtime:
            before = files.syncs
            for _ in range(5):
                await asyncio.gather(*(pull(runtime) for _ in range(CALLERS)))
            assert files.syncs - before <= 5 * 2 * 3, "640 events, with two syncs a turn or a few"
        async with running(tmp_path) as runtime:
            assert rewards(runtime) == 5 * CALLERS

    asyncio.run(play())


def test_who_waits_is_told_where_a_state_cannot_be_exported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As by a policy of one's own; it is no trouble of the disk, and so the agent ends."""

    def broken() -> dict[str, object]:
        raise RuntimeError("this should not have happened")

    async def play() -> None:
        async with running(tmp_path) as runtime:
            await pull(runtime)
            late = runtime.service.bandit("only").choose()
            runtime.node.bandits.journal.rewrite(broken)
            with pytest.raises(UnavailableError, match="writing its journal"):
                await asyncio.wait_for(stored(runtime), 90)
            await asyncio.wait_for(runtime.failed.wait(), 90)
            with pytest.raises(UnavailableError, match=r"\blog\b"):
                runtime.service.bandit("only").observe(late.ticket, 0.5)
        async with running(tmp_path) as runtime:
            assert rewards(runtime) == 1

    asyncio.run(play())
    assert caplog.text.count("failed in writing its journal and stops") == 1


def test_nobody_is_told_before_the_sync_and_the_loop_goes_on(tmp_path: Path) -> None:
    async def play() -> None:
        async with running(tmp_path, files=(files := Watched())) as runtime:
            files.gate.clear()
            tasks = [asyncio.ensure_future(pull(runtime)) for _ in range(3)]
            await until(lambda: files.writes >= 2 and bool(replica_of(runtime).tickets.open))
            for _ in range(20):
                await asyncio.sleep(0.01)
                assert not any(task.done() for task in tasks)
            late = asyncio.ensure_future(pull(runtime))
            copy = shutil.copytree(tmp_path, tmp_path.with_name("copy"))
            files.gate.set()
            assert [receipt.duplicate for receipt in await asyncio.gather(*tasks, late)] == [
                False
            ] * 4
        async with running(copy) as runtime:  # a crash between write and sync
            assert rewards(runtime) == 0

    asyncio.run(play())


def test_a_sync_that_fails_is_503_for_all_that_wait_and_then_all_goes_on(tmp_path: Path) -> None:
    async def play() -> None:
        async with running(tmp_path, files=(files := Watched())) as runtime:
            choices = [runtime.service.bandit("only").choose() for _ in range(3)]
            await stored(runtime)
            files.error = OSError(5, "Input/output error")
            for choice in choices:
                runtime.service.bandit("only").observe(choice.ticket, 0.5)
            with pytest.raises(UnavailableError, match="Input/output error"):
                await stored(runtime)
            assert "Input/output error" in (runtime.service.ready() or "")
            with pytest.raises(UnavailableError, match="not counted"):
                runtime.service.bandit("only").observe(choices[0].ticket, 0.5)
            files.error = None
            await until(lambda: runtime.service.ready() is None)
            for choice in choices:
                runtime.service.bandit("only").observe(choice.ticket, 0.5)
            await stored(runtime)
            assert rewards(runtime) == 3
        async with running(tmp_path) as runtime:
            assert rewards(runtime) == 3

    asyncio.run(play())


async def post_choose(api: Api) -> tuple[int, bytes]:
    """Ask without a socket; return the status and the body."""
    waiter: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
    request = Request(b"POST", api.locate(b"/choose"), [], {}, "1.1", lasting=True)
    api.serve(request, waiter.set_result)
    answer = await waiter
    return answer.status, answer.body


def test_a_request_is_answered_after_its_sync(tmp_path: Path) -> None:
    async def play() -> None:
        async with running(tmp_path, files=(files := Watched())) as runtime:
            api = Api(runtime.service)
            files.gate.clear()
            answers = [asyncio.ensure_future(post_choose(api)) for _ in range(3)]
            await until(lambda: len(replica_of(runtime).tickets.open) == 3)
            await asyncio.sleep(0.1)
            assert not any(answer.done() for answer in answers)
            files.gate.set()
            assert [status for status, _ in await asyncio.gather(*answers)] == [200] * 3
            files.error = OSError(5, "Input/output error")
            status, body = await post_choose(api)
            assert (status, b"Input/output error" in body) == (503, True)
            assert runtime.service.bandit("only").arms()

    asyncio.run(play())


def test_neighbours_are_told_nothing_that_a_loss_of_power_could_undo(tmp_path: Path) -> None:
    place = Address("127.0.0.1", 1)
    alpha = config_of("alpha", 50.0, neighbors={"beta": place})
    beta = config_of("beta", 50.0, neighbors={"alpha": place})

    async def play() -> None:
        network, files = MemoryNetwork(), Watched()
        async with (
            running(tmp_path / "a", files=files, config=alpha, network=network) as one,
            running(tmp_path / "b", "process", config=beta, network=network) as other,
        ):
            await until(lambda: other.node.peers["alpha"].met)

            def known() -> float:
                """Return the pulls of alpha that beta knows of."""
                counts = replica_of(other).agent.estimate().counts
                return float(counts.sum()) - rewards(other)

            def more_rounds() -> bool:
                other.service.bandit("only").observe(
                    other.service.bandit("only").choose().ticket, 0.5
                )
                return other.rounds > rounds + 10

            files.gate.clear()
            waiting = asyncio.ensure_future(pull(one))
            rounds = other.rounds
            await until(more_rounds)
            assert (known(), waiting.done()) == (0.0, False)
            files.gate.set()
            await waiting
            await until(lambda: known() == 1.0)

    asyncio.run(play())


def test_tickets_that_expire_together_are_one_record_and_one_sync(tmp_path: Path) -> None:
    async def play() -> None:
        async with running(tmp_path, files=(files := Watched())) as runtime:
            replica = replica_of(runtime)
            for _ in range(1500):
                runtime.service.bandit("only").choose()
            await stored(runtime)
            writes, syncs, appended = files.writes, files.syncs, replica.journal.appended
            assert replica.expire(runtime.clock() + 4000.0) == 1500
            assert replica.journal.appended - appended == 1
            await stored(runtime)
            assert (files.writes - writes, files.syncs - syncs) == (1, 1)
            assert replica.agent.open_pulls.sum() == 0
        async with running(tmp_path) as runtime:
            assert not replica_of(runtime).tickets.open

    asyncio.run(play())


@pytest.mark.parametrize("slow", ["sync", "sync_folder"])
def test_a_snapshot_that_takes_the_disk_seconds_keeps_nobody_waiting(
    tmp_path: Path, slow: str
) -> None:
    files = Watched()
    folders = threading.Event()
    folders.set()

    def sync_folder(path: Path) -> None:
        folders.wait(30)
        OperatingSystem.sync_folder(files, path)

    files.sync_folder = sync_folder  # type: ignore[method-assign]  # fails now
    gate = files.gate if slow == "sync" else folders

    async def play() -> None:
        async with running(tmp_path, "process", files) as runtime:
            journal = runtime.node.bandits.journal
            journal.long_bytes, journal.long_growth = 1000, 1
            gate.clear()
            while not journal.is_long:
                await pull(runtime)
            await until(lambda: (tmp_path / "journal.new").exists() or not journal.is_long)
            for _ in range(50):
                begun = time.monotonic()
                await pull(runtime)
                assert time.monotonic() - begun < 20.0  # the gate opens after 30
            gate.set()
            await until(lambda: not (tmp_path / "journal.new").exists())
            await pull(runtime)
            pulled = rewards(runtime)
        async with running(tmp_path) as runtime:
            assert rewards(runtime) == pulled

    asyncio.run(play())


def test_a_folder_that_cannot_be_synced_after_a_snapshot_is_told_and_mended(tmp_path: Path) -> None:
    class Unsynced(OperatingSystem):
        failing = False

        def sync_folder(self, path: Path) -> None:
            if self.failing:
                raise OSError(5, "Input/output error")
            super().sync_folder(path)

    async def play() -> None:
        files = Unsynced()
        async with running(tmp_path, "process", files) as runtime:
            journal = runtime.node.bandits.journal
            await pull(runtime)
            files.failing = True
            runtime.node.bandits.compact()
            await until(lambda: "Input/output error" in journal.trouble)
            with pytest.raises(UnavailableError, match="Input/output error"):
                runtime.service.bandit("only").choose()
            files.failing = False
            await until(lambda: not journal.trouble)
            await pull(runtime)
        async with running(tmp_path) as runtime:
            assert rewards(runtime) == 2

    asyncio.run(play())


def removed(folder: Path) -> None:
    shutil.rmtree(folder)


def replaced(folder: Path) -> None:
    copy = shutil.copytree(folder, folder.with_name("copy"))
    folder.rename(folder.with_name("away"))
    copy.rename(folder)


def file_replaced(folder: Path) -> None:
    shutil.copy(folder / "journal", folder / "other")
    (folder / "other").replace(folder / "journal")


def truncated(folder: Path) -> None:
    os.truncate(folder / "journal", 30)


@pytest.mark.parametrize("take_away", [removed, replaced, file_replaced, truncated])
@pytest.mark.parametrize("durability", ["process", "power"])
def test_a_journal_that_is_taken_away_is_noticed_within_a_second(
    tmp_path: Path, durability: str, take_away: Callable[[Path], None]
) -> None:
    async def play() -> None:
        folder = tmp_path / "memory"
        async with running(folder, durability) as runtime:
            await pull(runtime)
            left = runtime.service.bandit("only").choose()
            await stored(runtime)
            take_away(folder)
            assert await until(lambda: runtime.service.ready() is not None) < 1.0
            assert "removed or replaced" in (runtime.service.ready() or "")
            found = sorted((path, path.read_bytes()) for path in folder.glob("*"))
            with pytest.raises(UnavailableError, match="removed or replaced"):
                runtime.service.bandit("only").choose()
            with pytest.raises(UnavailableError, match=r"removed or replaced.*not counted"):
                runtime.service.bandit("only").observe(left.ticket, 0.5)
            await asyncio.sleep(1.2)  # a beat or more
            assert runtime.service.ready() is not None
            assert sorted((path, path.read_bytes()) for path in folder.glob("*")) == found

    asyncio.run(play())


def test_a_folder_that_is_put_back_is_gone_on_with(tmp_path: Path) -> None:
    async def play() -> None:
        folder, away = tmp_path / "memory", tmp_path / "away"
        async with running(folder) as runtime:
            await pull(runtime)
            folder.rename(away)
            await until(lambda: runtime.service.ready() is not None)
            away.rename(folder)
            await until(lambda: runtime.service.ready() is None)
            await pull(runtime)
            (folder / "journal").unlink()  # its folder and lock are there, so it is written anew
            await until(lambda: runtime.service.ready() is not None)
            await until(lambda: runtime.service.ready() is None)
        async with running(folder) as runtime:
            assert rewards(runtime) == 2

    asyncio.run(play())


@pytest.fixture
def tiny(tmp_path: Path) -> Iterator[Path]:
    """A disk of 128 kB."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    mount = shutil.which("mount")
    if mount is None:
        pytest.skip("there is no mount here")
    command = [mount, "-t", "tmpfs", "-o", "size=128k", "none", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Fill a disk to the last byte."""
    with (rest := folder / "rest").open("wb", buffering=0) as file:
        try:
            while file.write(bytes(512)) == 512:
                pass
        except OSError:
            pass
    return rest


@pytest.mark.parametrize("durability", ["process", "power"])
@pytest.mark.parametrize("known", [True, False], ids=["restart", "first start"])
def test_an_agent_starts_on_a_full_disk_and_goes_on_when_there_is_room(
    tiny: Path, durability: str, known: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> None:
        folder = tiny / "memory"
        folder.mkdir()
        if known:
            async with running(folder, durability) as runtime:
                for _ in range(20):
                    await pull(runtime)
                left = runtime.service.bandit("only").choose()
                await stored(runtime)
        rest = fill(tiny)
        async with running(folder, durability) as runtime:
            assert "/choose is read-only" in caplog.text
            assert "No space left on device" in caplog.text
            sentence = runtime.service.ready() or ""
            assert "No space left on device" in sentence
            choice = runtime.service.bandit("only").choose()
            await stored(runtime)
            assert (choice.ticket, choice.arm in "ab") == ("", True)
            assert not runtime.service.bandit("only").choose(["b"]).ticket
            with pytest.raises(UnknownTicketError):
                runtime.service.bandit("only").observe(choice.ticket, 0.5)
            assert runtime.service.metrics()
            assert replica_of(runtime).agent.open_pulls.sum() == known
            rest.unlink()
            await until(lambda: runtime.service.ready() is None)
            if known:
                runtime.service.bandit("only").observe(left.ticket, 0.5)
            await pull(runtime)
        async with running(folder, durability) as runtime:
            assert rewards(runtime) == (22 if known else 1)

    asyncio.run(play())


def test_a_disk_that_fills_up_under_load_loses_nothing(tiny: Path) -> None:
    async def play() -> None:
        told, rest = 0, tiny / "rest"
        for durability in ("process", "power", "process"):
            rest.unlink(missing_ok=True)
            async with running(tiny / "memory", durability) as runtime:
                assert rewards(runtime) >= told
                told = rewards(runtime)
                fill(tiny)
                with pytest.raises(UnavailableError, match="No space left"):
                    while True:
                        await pull(runtime)
                        told += 1
                copy = (tiny / "memory" / "journal").read_bytes()
                folder = tiny.with_name(f"copy-{told}")
                folder.mkdir()
                (folder / "journal").write_bytes(copy)
                async with running(folder, durability) as other:  # as after a kill at this instant
                    assert told <= rewards(other) <= told + 1

    asyncio.run(play())


def test_an_older_journal_that_is_put_back_gives_no_ticket_twice(tmp_path: Path) -> None:
    async def play() -> None:
        folder, copy = tmp_path / "memory", tmp_path / "copy"
        async with running(folder, "process") as runtime:
            kept = runtime.service.bandit("only").choose(["a"])
            runtime.shell.settle()
            shutil.copytree(folder, copy)
            lost = [runtime.service.bandit("only").choose(["a"]).ticket for _ in range(10)]
        shutil.rmtree(folder)
        copy.rename(folder)
        async with running(folder, "process") as runtime:
            fresh = [runtime.service.bandit("only").choose(["b"]).ticket for _ in range(10)]
            assert not set(lost) & set(fresh)
            for ticket in lost:
                with pytest.raises(UnknownTicketError, match="lost the memory"):
                    runtime.service.bandit("only").observe(ticket, 1.0)
            runtime.service.bandit("only").observe(kept.ticket, 1.0)
            assert [arm.own_pulls for arm in runtime.service.bandit("only").arms()] == [1, 0]

    asyncio.run(play())
