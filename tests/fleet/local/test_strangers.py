"""Who knocks at a real agent without the right papers is refused, counted and logged."""

from __future__ import annotations

import asyncio
import re
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from coopbandits.fleet.identity.certs import init_authority, issue
from coopbandits.fleet.identity.tls import ALPN
from coopbandits.fleet.local.agents import Members, Place, prepared, write_configs
from coopbandits.fleet.local.settings import make_settings
from coopbandits.fleet.process.embedded import LocalAgent


def knock(place: Place, folder: Path | None, node: str = "") -> bytes:
    """Call with a certificate of a folder, with none, or without TLS; return what is answered."""
    address = (place.listen.host, place.listen.port)
    with socket.create_connection(address, timeout=5) as plain, suppress(OSError):
        if folder is None:
            plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
            return plain.recv(100)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols([ALPN])
        if node:
            context.load_cert_chain(folder / f"{node}.pem", folder / f"{node}-key.pem")
        with context.wrap_socket(plain) as secret:
            if node:
                secret.sendall(bytes([len(node)]) + node.encode())
            heard = b""
            while more := secret.recv(100):
                heard += more
            return heard
    return b""


async def wait_until(
    members: Members, true: Callable[[dict[str, Any]], bool], seconds: float = 10.0
) -> dict[str, Any]:
    """Return the first agent's health once something is true of it."""
    deadline = time.monotonic() + seconds
    while True:
        health: dict[str, Any] = (await members.ask("health"))["a00"]
        if true(health) or time.monotonic() > deadline:
            return health
        await asyncio.sleep(0.05)


async def require_refusals(
    places: list[Place], certificates: Path, forged: Path, old: Path
) -> None:
    async with Members(places[:1]) as members:
        attempts = [
            (None, ""), (certificates, ""), (forged, "a01"), (certificates, "a77"), (old, "a01"),
        ]  # fmt: skip
        for count, attempt in enumerate(attempts, start=1):
            answer = await asyncio.to_thread(knock, places[0], *attempt)
            assert answer in (b"", b"\x03a00"), "a stranger was welcomed"  # see Connection
            health = await wait_until(members, lambda h: h["refused_strangers"] >= count)  # noqa: B023  called in this turn of the loop
            assert health["refused_strangers"] == count
        health = await wait_until(members, lambda h: h["refused_frames"].get("hello", 0) > 0)
        assert health["refused_frames"]["hello"] >= 1
        assert health["links"]["a01"].startswith("down: ")
        assert health["rewards"] == 0
        # Not later: when both are stopped, a neighbour may be just about to dial, and hang up.
        log = (places[0].folder / "log.txt").read_text()
        assert log.count("WARNING refused peer=127.0.0.1:") == 4


def test_strangers_are_refused(tmp_path: Path) -> None:
    """No TLS, no certificate, a forged one, no neighbour's, an expired one, and another cluster."""
    settings = make_settings("path:2", "0.6,0.5")
    certificates, forged, old = (tmp_path / name for name in ("certificates", "forged", "old"))
    with prepared(tmp_path, settings) as places:
        write_configs(places, settings, {})
        issue(certificates, ["a77"])
        issue(certificates, ["a01"], old, days=1, now=datetime.now(UTC) - timedelta(days=10))
        init_authority(forged)
        issue(forged, ["a01"])
        other = places[1].config
        other.write_text(other.read_text().replace('name = "local"', 'name = "other"'))
        with LocalAgent(other):
            asyncio.run(require_refusals(places, certificates, forged, old))
    log = (tmp_path / "a00" / "log.txt").read_text()
    assert "certificate has expired" in log
    assert re.search("refused peer=a77 .*no neighbour", log)
    assert re.search("refused peer=a01 .*'other'.*'local'", log)
    assert "Traceback" not in log
