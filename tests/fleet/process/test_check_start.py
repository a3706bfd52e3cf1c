"""`coopbandits agent --check` rejects exactly what a start rejects, and changes nothing on disk."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import os
import shutil
import signal
import socket
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from typer.testing import CliRunner

from coopbandits.cli import app
from coopbandits.core.errors import InputError
from coopbandits.fleet.config import read_config
from coopbandits.fleet.document.seal import to_json
from coopbandits.fleet.identity.certs import issue, make_authority, pem, pem_key, sign
from coopbandits.fleet.process import main
from coopbandits.fleet.process.embedded import LocalAgent
from coopbandits.fleet.process.main import ServiceManager, serve
from coopbandits.fleet.storage.disk import FileDisk
from coopbandits.fleet.storage.records import encode_mark, read_records

from ..document.made import signed, text
from .agents import PATIENCE, Agent

IN_USE = "is in use by another process"


@pytest.fixture(autouse=True)
def ends_once_it_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every start that succeeds end, as by an operator's signal."""

    def notify(_: ServiceManager, *lines: str) -> None:
        if lines[0] == main.READY:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(ServiceManager, "notify", notify)


class Setup(NamedTuple):
    """An agent that can start, and what holds its ports and locks until the end of a test."""

    agent: Agent
    certificates: Path
    held: contextlib.ExitStack

    @property
    def folder(self) -> Path:
        return self.agent.folder

    @property
    def journal(self) -> Path:
        return self.folder / "memory"

    def change(self, table: str, **settings: Any) -> None:
        self.agent.tables.setdefault(table, {}).update(settings)
        self.agent.write()

    def taken(self) -> str:
        """Return an address on which another process listens."""
        other = self.held.enter_context(socket.create_server(("127.0.0.1", 0)))
        return f"127.0.0.1:{other.getsockname()[1]}"

    def file(self, name: str, content: str | bytes = "", mode: int = 0o600) -> str:
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(mode)
        return name

    def run(self, *documents: bytes) -> None:
        """Start and stop the agent once, with some documents of its cluster."""
        with LocalAgent(self.agent.path, insecure=True) as agent:
            choice = agent.choose()
            agent.observe(choice.ticket, 1.0)
            for document in documents:
                agent.adopt(document)


Breakage = Callable[[Setup], None]


def started(path: Path) -> list[str]:
    """Return why a start is rejected; nothing if the agent serves."""
    try:
        config = read_config(path, now=time.time(), insecure=True)
        assert asyncio.run(asyncio.wait_for(serve(config), PATIENCE)) == 0
    except InputError as error:
        return str(error).splitlines()
    return []


def checked(path: Path) -> list[str]:
    """Return why the command rejects a file."""
    done = CliRunner().invoke(app, ["agent", "--check", "--insecure", str(path)])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    lines = done.stderr.splitlines()
    assert all(line.startswith("error: ") for line in lines), lines
    assert done.exit_code == int(bool(lines))
    return [line.removeprefix("error: ") for line in lines]


def on_disk(folder: Path) -> dict[str, tuple[Any, ...]]:
    """Return everything in a folder that a command could change."""
    found: dict[str, tuple[Any, ...]] = {}
    for path in (folder, *folder.rglob("*")):
        is_file = path.is_file() and os.access(path, os.R_OK)
        seen = path.lstat()
        facts = seen.st_ino, seen.st_mode, seen.st_size, seen.st_mtime_ns
        found[str(path)] = (*facts, path.read_bytes() if is_file else b"")
    return found


# What can be wrong


def another_cluster(setup: Setup) -> None:
    setup.run()
    setup.change("cluster", name="mill")


def another_epoch(setup: Setup) -> None:
    setup.run()
    setup.change("cluster", epoch=datetime(2026, 2, 1, tzinfo=UTC))


def an_epoch_in_the_future(setup: Setup) -> None:
    setup.change("cluster", epoch=datetime.now(UTC) + timedelta(days=1))


def a_policy_that_follows_from_max_agents(setup: Setup) -> None:
    setup.run()
    setup.change("cluster", max_agents=1500)


def other_rewards(setup: Setup) -> None:
    setup.run()
    setup.agent.tables["bandits"]["button"]["reward_range"] = [0.0, 2.0]
    setup.agent.write()


def an_arm_purged_while_chosen(setup: Setup) -> None:
    setup.agent.tables["bandits"]["button"]["arms"] = ["red", "blue", "green"]
    setup.agent.write()
    setup.run()
    setup.agent.tables["bandits"]["button"] |= {"arms": ["red", "blue"], "purged": ["green"]}
    setup.agent.write()


def fixed_arms_that_change(setup: Setup) -> None:
    bandit = setup.agent.tables["bandits"]["button"]
    bandit |= {"policy": "dec-ts", "num_agents": 1}
    setup.agent.write()
    setup.run()
    bandit["arms"] = ["red", "blue", "green"]
    setup.agent.write()


def a_document_at_another_pace(setup: Setup) -> None:
    setup.change("document", operators=[text(1)])
    setup.run(to_json(signed(1, settings={"rounds_per_second": 1.0})))
    setup.agent.tables["bandits"]["page"] = {
        "arms": ["a", "b"], "reward_range": [0.0, 1.0], "half_life": "30s",
    }  # fmt: skip
    setup.agent.write()


def a_document_of_another_bandit_with_the_number(setup: Setup) -> None:
    setup.change("document", operators=[text(1)])
    bandit = {"arms": ["a", "b"], "reward_range": [0.0, 1.0], "number": 7}
    setup.run(to_json(signed(1, bandits={"page": bandit})))
    setup.agent.tables["bandits"]["other"] = bandit
    setup.agent.write()


def a_damaged_journal(setup: Setup) -> None:
    setup.run()
    data = bytearray((setup.journal / "journal").read_bytes())
    data[len(data) // 3] ^= 255
    (setup.journal / "journal").write_bytes(data)


def an_empty_journal(setup: Setup) -> None:
    setup.run()
    (setup.journal / "journal").write_bytes(b"")


def a_file_instead_of_the_folder(setup: Setup) -> None:
    setup.file("memory")


def a_file_above_the_folder(setup: Setup) -> None:
    setup.file("file")
    setup.change("node", journal="file/memory")


def a_dangling_link_instead_of_the_folder(setup: Setup) -> None:
    setup.journal.symlink_to(setup.folder / "nowhere")


def a_name_that_is_too_long(setup: Setup) -> None:
    setup.change("node", journal="x" * 300)


def a_folder_instead_of_the_lock(setup: Setup) -> None:
    (setup.journal / "lock").mkdir(parents=True)


def a_folder_instead_of_the_journal(setup: Setup) -> None:
    (setup.journal / "journal").mkdir(parents=True)


def a_locked_journal(setup: Setup) -> None:
    setup.run()
    setup.held.callback(FileDisk(setup.journal).close)


def a_locked_journal_of_another_cluster(setup: Setup) -> None:
    another_cluster(setup)
    setup.held.callback(FileDisk(setup.journal).close)


def one_port_for_both(setup: Setup) -> None:
    setup.change("node", listen="127.0.0.1:7403", api="127.0.0.1:7403")


def one_port_on_all_addresses(setup: Setup) -> None:
    certify(setup)
    setup.change("node", listen="0.0.0.0:7403", api="127.0.0.1:7403")


def one_port_by_another_name(setup: Setup) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    setup.change("node", listen=f"127.0.0.1:{port}", api=f"localhost:{port}")


def a_taken_port(setup: Setup) -> None:
    setup.change("node", listen=setup.taken())


def a_taken_port_of_the_api(setup: Setup) -> None:
    setup.change("node", api=setup.taken())


def an_address_of_another_machine(setup: Setup) -> None:
    certify(setup)
    setup.change("node", listen="192.0.2.1:0")


def a_file_instead_of_the_socket(setup: Setup) -> None:
    setup.change("node", api=f"unix:{setup.file('page')}")


def the_socket_of_another_process(setup: Setup) -> None:
    other = setup.held.enter_context(socket.socket(socket.AF_UNIX))
    other.bind(str(setup.folder / "api"))
    other.listen()


def no_folder_for_the_socket(setup: Setup) -> None:
    setup.change("node", api="unix:nowhere/api")


def a_file_above_the_socket(setup: Setup) -> None:
    setup.file("file")
    setup.change("node", api="unix:file/api")


def the_folder_of_the_journal_as_socket(setup: Setup) -> None:
    setup.change("node", api="unix:memory")


def no_token(setup: Setup) -> None:
    setup.change("node", token_file="nowhere")


def a_readable_token(setup: Setup) -> None:
    setup.change("node", token_file=setup.file("token", "0123456789abcdef", 0o644))


def a_short_token_of_a_bandit(setup: Setup) -> None:
    setup.agent.tables["bandits"]["button"]["token_file"] = setup.file("token", "short")
    setup.agent.write()


def ids_that_are_none(setup: Setup) -> None:
    setup.change("node", revoked=setup.file("revoked", "shop 2\n"))


def an_unknown_default(setup: Setup) -> None:
    setup.change("node", default_bandit="buton")


def too_many_connections(setup: Setup) -> None:
    setup.change("api_limits", max_connections=1_000_000)


def certify(setup: Setup) -> dict[str, str]:
    """Give the agent certificates, in its own folder; return their paths."""
    for name in ("ca.pem", "alpha.pem", "alpha-key.pem"):
        shutil.copy(setup.certificates / name, setup.folder / name)
    files = {"ca": "ca.pem", "certificate": "alpha.pem", "key": "alpha-key.pem"}
    setup.change("tls", **files)
    return files


def no_key(setup: Setup) -> None:
    certify(setup)
    (setup.folder / "alpha-key.pem").unlink()


def a_readable_key(setup: Setup) -> None:
    certify(setup)
    (setup.folder / "alpha-key.pem").chmod(0o644)


def another_key(setup: Setup) -> None:
    certify(setup)
    setup.file("alpha-key.pem", (setup.certificates / "beta-key.pem").read_bytes())


def an_encrypted_key(setup: Setup) -> None:
    certify(setup)
    key = serialization.load_pem_private_key((setup.folder / "alpha-key.pem").read_bytes(), None)
    locked = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    setup.file("alpha-key.pem", locked)


def a_key_that_cannot_sign_entries(setup: Setup) -> None:
    certify(setup)
    now = datetime.now(UTC)
    authority = make_authority("another", now, now + timedelta(days=1))
    setup.file("ca.pem", pem(authority.certificate))
    key = ec.generate_private_key(ec.SECP384R1())
    setup.file("alpha-key.pem", pem_key(key))
    made = sign(authority, "alpha", key.public_key(), now, timedelta(days=1))
    setup.file("alpha.pem", pem(made))


def the_certificate_of_another_agent(setup: Setup) -> None:
    certify(setup)
    for name in (".pem", "-key.pem"):
        setup.file(f"alpha{name}", (setup.certificates / f"beta{name}").read_bytes())


def another_authority(setup: Setup) -> None:
    certify(setup)
    setup.file("ca.pem", (setup.folder / "alpha.pem").read_bytes())


def an_expired_certificate(setup: Setup) -> None:
    certify(setup)
    before = datetime.now(UTC) - timedelta(days=9)
    issue(setup.certificates, ["alpha"], setup.folder, days=1, now=before, force=True)


def certificates_of_the_api_that_do_not_fit(setup: Setup) -> None:
    files = certify(setup)
    del setup.agent.tables["tls"]
    setup.change("api_tls", **files)
    setup.file("alpha-key.pem", (setup.certificates / "beta-key.pem").read_bytes())


BREAKAGES: tuple[Breakage, ...] = (
    another_cluster, another_epoch, an_epoch_in_the_future, other_rewards,
    an_arm_purged_while_chosen, fixed_arms_that_change, a_document_at_another_pace,
    a_document_of_another_bandit_with_the_number, a_damaged_journal, an_empty_journal,
    a_file_instead_of_the_folder, a_file_above_the_folder, a_dangling_link_instead_of_the_folder,
    a_name_that_is_too_long, a_folder_instead_of_the_lock, a_folder_instead_of_the_journal,
    a_locked_journal, one_port_for_both, one_port_on_all_addresses, one_port_by_another_name,
    a_taken_port, a_taken_port_of_the_api, an_address_of_another_machine,
    a_file_instead_of_the_socket, the_socket_of_another_process, no_folder_for_the_socket,
    a_file_above_the_socket, the_folder_of_the_journal_as_socket, no_token, a_readable_token,
    a_short_token_of_a_bandit, ids_that_are_none, an_unknown_default, no_key, a_readable_key,
    another_key, an_encrypted_key, a_key_that_cannot_sign_entries,
    the_certificate_of_another_agent, another_authority, an_expired_certificate,
    certificates_of_the_api_that_do_not_fit,
)  # fmt: skip


def nothing(_: Setup) -> None:
    pass


def run_before(setup: Setup) -> None:
    setup.run()


def a_torn_journal(setup: Setup) -> None:
    setup.run()
    journal = setup.journal / "journal"
    data = journal.read_bytes()
    journal.write_bytes(data + encode_mark(read_records(data).sequence + 1)[:8])


def the_socket_of_an_ended_process(setup: Setup) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(setup.folder / "api"))


def a_socket_in_the_folder_of_the_journal(setup: Setup) -> None:
    setup.change("node", api="unix:memory/api")


def with_certificates(setup: Setup) -> None:
    certify(setup)
    setup.run()


def a_document_that_declares_a_bandit(setup: Setup) -> None:
    setup.change("document", operators=[text(1)])
    bandit = {"arms": ["a", "b"], "reward_range": [0.0, 1.0]}
    setup.run(to_json(signed(1, bandits={"page": bandit})))


WHOLE: tuple[Breakage, ...] = (
    nothing, run_before, a_torn_journal, the_socket_of_an_ended_process,
    a_socket_in_the_folder_of_the_journal, with_certificates, a_document_that_declares_a_bandit,
    a_policy_that_follows_from_max_agents,
)  # fmt: skip


@contextlib.contextmanager
def setup_in(folder: Path, certificates: Path) -> Iterator[Setup]:
    with contextlib.ExitStack() as held:
        yield Setup(Agent(folder / "alpha"), certificates, held)


def name_of(breakage: Breakage) -> str:
    return breakage.__name__


@pytest.mark.parametrize("breakage", BREAKAGES, ids=name_of)
def test_what_a_start_rejects_the_check_rejects_with_the_same_words(
    breakage: Breakage, tmp_path: Path, certificates: Path
) -> None:
    with setup_in(tmp_path, certificates) as setup:
        breakage(setup)
        before = on_disk(setup.folder)
        found = checked(setup.agent.path)
        assert on_disk(setup.folder) == before
        assert found
        assert started(setup.agent.path) == found


@pytest.mark.parametrize("whole", WHOLE, ids=name_of)
def test_what_the_check_accepts_starts(whole: Breakage, tmp_path: Path, certificates: Path) -> None:
    with setup_in(tmp_path, certificates) as setup:
        whole(setup)
        before = on_disk(setup.folder)
        assert checked(setup.agent.path) == []
        assert on_disk(setup.folder) == before
        assert started(setup.agent.path) == []


@pytest.mark.slow
def test_the_check_and_a_start_agree_about_all_pairs(certificates: Path) -> None:
    """Two changes may hide each other or add up, and the order of the checks counts.

    Beside a locked journal the check may find more than the start.
    """
    pairs = list(itertools.combinations((*BREAKAGES, *WHOLE), 2))
    rejected = 0
    for one, other in pairs:
        with (
            tempfile.TemporaryDirectory() as folder,
            setup_in(Path(folder), certificates) as setup,
        ):
            try:
                one(setup)
                other(setup)
            except (InputError, OSError):  # the second needs a start that the first prevents
                continue
            before = on_disk(setup.folder)
            found = checked(setup.agent.path)
            assert on_disk(setup.folder) == before, (one, other)
            told = started(setup.agent.path)
            assert found == told or (found and IN_USE in "".join(told)), (one, other)
            rejected += bool(told)
    print(f"{rejected} pairs of {len(pairs)} rejected alike")
    assert rejected > len(pairs) / 2


def test_a_file_can_be_checked_beside_its_agent(tmp_path: Path, certificates: Path) -> None:
    """All but the lock is checked, which is reported last."""
    with setup_in(tmp_path, certificates) as setup:
        a_locked_journal_of_another_cluster(setup)
        (found,) = checked(setup.agent.path)
        assert "belongs to another configuration" in found
        setup.change("cluster", name="shop")
        (found,) = checked(setup.agent.path)
        assert IN_USE in found


def test_descriptors(tmp_path: Path, certificates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reject(*_: object) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr("resource.getrlimit", lambda _: (100, 100))
    monkeypatch.setattr("resource.setrlimit", reject)
    with setup_in(tmp_path, certificates) as setup:
        (found,) = checked(setup.agent.path)
        assert "this process may open 100 files" in found
        assert started(setup.agent.path) == [found]


# Permissions, which bind other users than root

PERMISSIONS: dict[str, Callable[[Setup], Path]] = {
    "above the journal": lambda setup: setup.folder,
    "journal folder": lambda setup: setup.journal,
    "journal": lambda setup: setup.journal / "journal",
    "lock": lambda setup: setup.journal / "lock",
    "token": lambda setup: setup.folder / "token",
    "socket's folder": lambda setup: setup.folder / "run",
}


@contextlib.contextmanager
def as_user(folder: Path) -> Iterator[None]:
    """Be a user whom permissions bind, the owner of everything in a folder."""
    if os.geteuid() != 0:
        yield
        return
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 65534, 65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("what", PERMISSIONS)
def test_permissions(what: str, certificates: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, setup_in(Path(folder), certificates) as setup:
        certify(setup)  # throw-away certificates need a folder for temporary files
        (setup.folder / "run").mkdir()
        setup.change("node", token_file=setup.file("token", "0123456789abcdef"), api="unix:run/api")
        for path in (setup.agent.path, setup.folder):  # another user may be unable to import
            assert checked(path) == started(path)
        if what == "above the journal":
            shutil.rmtree(setup.journal)
        with as_user(Path(folder)):
            assert checked(setup.agent.path) == []
            place = PERMISSIONS[what](setup)
            if what == "journal folder":
                (place / "lock").unlink()  # otherwise nothing must be made there to start
            place.chmod(0o500 if stat.S_ISDIR(place.stat().st_mode) else 0)
            try:
                found = checked(setup.agent.path)
                assert os.strerror(errno.EACCES) in "".join(found)
                assert started(setup.agent.path) == found
            finally:
                place.chmod(0o700)
