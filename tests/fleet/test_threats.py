"""What an outsider, another user and a browser try at real agents, and what comes of it."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from coopbandits.fleet.client import Client
from coopbandits.fleet.identity.tls import ALPN
from coopbandits.fleet.local.agents import BANDIT, Members, Place, prepared, write_configs
from coopbandits.fleet.local.settings import make_settings
from coopbandits.fleet.process.embedded import LocalAgent

NOBODY = 65534
SOON = 30.0
"""Seconds in which an application must be answered, whatever others do, on a busy machine too."""

KNOCKS, PULLS = 50, 10


def knocking(place: Place) -> None:
    """Shake hands with an agent without a certificate; it may refuse at any point."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols([ALPN])
    with (
        suppress(OSError),
        socket.create_connection(place.listen, timeout=5) as plain,
        context.wrap_socket(plain) as secret,
    ):
        assert not secret.recv(1), "a stranger was welcomed"


class Attack(threading.Thread):
    """Knocks at an agent again and again, until it is told to stop."""

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place, self.knocks, self.is_over = place, 0, False

    def run(self) -> None:
        while not self.is_over:
            knocking(self.place)
            self.knocks += 1


async def play_beside(places: list[Place], attack: Attack) -> list[float]:
    """Return how long an application waited for each pull while an attack goes on."""
    async with Members(places[:1]):
        waited: list[float] = []

        def pull(client: Client) -> None:
            choice = client.choose()
            client.observe(choice.ticket, 1.0)

        with Client(places[0].api, bandit=BANDIT) as client:
            async with asyncio.timeout(90):
                while client.health()["links"] != {"a01": "up"}:
                    await asyncio.sleep(0.05)
            attack.start()
            try:
                while len(waited) < PULLS or attack.knocks < KNOCKS:
                    begun = time.monotonic()
                    await asyncio.to_thread(pull, client)
                    waited.append(time.monotonic() - begun)
            finally:
                attack.is_over = True
                await asyncio.to_thread(attack.join)
            assert client.health()["links"] == {"a01": "up"}
            assert client.health()["refused_strangers"] == attack.knocks
        return waited


def test_handshakes_without_end_keep_nobody_from_pulling_or_gossiping(tmp_path: Path) -> None:
    settings = make_settings("path:2", "0.6,0.5")
    with prepared(tmp_path, settings) as places:
        write_configs(places, settings, {})
        with LocalAgent(places[1].config):
            waited = asyncio.run(play_beside(places, Attack(places[0])))
    assert max(waited) < SOON
    assert len((tmp_path / "a00" / "log.txt").read_text().splitlines()) < 30


@contextmanager
def another_user() -> Iterator[None]:
    """Do what follows as a user who is in none of our groups."""
    groups, group, user = os.getgroups(), os.getegid(), os.geteuid()
    os.setgroups([])
    os.setegid(NOBODY)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)
        os.setegid(group)
        os.setgroups(groups)


def permitted(journal: Path, api: Path, own: Path) -> set[str]:
    """Return which attempts succeed."""
    with socket.socket(socket.AF_UNIX) as caller:
        attempts: dict[str, Callable[[], object]] = {
            "list": lambda: list(journal.iterdir()),
            "read": (journal / "journal").read_bytes,
            "write": lambda: (journal / "new").write_text(""),
            "connect": lambda: caller.connect(str(api)),
            "read a file for all": own.read_text,
        }
        found = set()
        for name, attempt in attempts.items():
            with suppress(PermissionError):
                attempt()
                found.add(name)
        return found


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may act as another user")
def test_other_users_read_no_journal_and_reach_no_socket() -> None:
    """Folders above are open to all: nothing but the agent's own care keeps others out."""
    settings = make_settings("path:1", "0.6,0.5")
    with tempfile.TemporaryDirectory(prefix="cb-") as made, ExitStack() as stack:
        (place,) = stack.enter_context(prepared(Path(made, "fleet"), settings))
        write_configs([place], settings, {})
        own = Path(made, "own")
        own.write_text("")
        for path in (Path(made), Path(made, "fleet"), place.folder, own):
            path.chmod(0o755)

        async def scenario() -> set[str]:
            async with Members([place]):
                with another_user():
                    return permitted(
                        place.folder / "journal", Path(place.api.removeprefix("unix:")), own
                    )

        assert asyncio.run(scenario()) == {"read a file for all"}
