"""`coopbandits doctor NODE.toml`: checks everything that an agent needs of its machine.

Neighbours are checked with a TLS handshake that offers another protocol than the agents'. So the
neighbour proves its identity, checks this certificate and then hangs up: no link is made, and none
is replaced. Its log says that a caller with this agent's name does not speak its protocol.
"""

from __future__ import annotations

import asyncio
import ctypes
import fcntl
import os
import resource
import shutil
import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from coopbandits.core.errors import InputError
from coopbandits.finding import BROKEN, NOTE, OK, Finding
from coopbandits.fleet.address import Address, show_place
from coopbandits.fleet.api.server import rehearse as rehearse_api
from coopbandits.fleet.config import NodeConfig, TlsFiles, parse_config
from coopbandits.fleet.config.read import credentials_of, load, require_uvloop
from coopbandits.fleet.identity.certs import NEW_AUTHORITY, RENEW
from coopbandits.fleet.identity.chains import read_certificates, read_holder
from coopbandits.fleet.identity.files import read_token
from coopbandits.fleet.identity.names import read_revoked
from coopbandits.fleet.identity.tls import (
    DAY,
    SOON_DAYS,
    Credentials,
    api_context,
    reason_of,
    validity,
)
from coopbandits.fleet.process.backup import opened, read, summary
from coopbandits.fleet.process.main import descriptors_needed
from coopbandits.fleet.transport.sockets import listen, resolve

SPARE_BYTES = 1 << 26
"""Space for events, besides a second copy of the journal."""

SLOW_SYNC = 0.05
"""Seconds of a sync that get a note: with durability "power", every reward waits for one."""

TIME_ERROR = 5
"""The result of adjtimex(2) if the clock is not synchronised."""

SET_CLOCK = "run a time service: timedatectl set-ntp true, or chrony"


def findings(path: Path) -> Iterator[Finding]:
    """Check everything that a configuration needs, in the order in which to fix it."""
    now = time.time()
    try:
        config = parse_config(load(path), path, now=now, insecure=True)
    except InputError as error:
        yield from (_broken("configuration", line) for line in str(error).splitlines())
        return
    yield Finding("configuration", f"agent {config.id} of cluster {config.cluster.name}")
    yield clock(config, now)
    credentials = None
    try:
        credentials = credentials_of(config)
        if config.tls is None:
            throwaway = "generated at every start: suitable for trials on one machine only"
            yield Finding("certificate", throwaway, NOTE)
        else:
            yield lasting("certificate", credentials.expires, now, RENEW)
            yield lasting("authority", authority_ends(config.tls), now, NEW_AUTHORITY)
    except InputError as error:
        yield _broken("certificate", str(error))
    yield from secrets(config, now)
    yield from disk(config, now)
    yield open_files(config)
    running = is_running(config)
    yield from ports(config, credentials, running=running)
    if credentials is not None:
        yield from neighbors(config, credentials)


def clock(config: NodeConfig, now: float) -> Finding:
    """Check that the clock is synchronised, and was not set back."""
    shown = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    newest = 0.0
    for path in (config.journal / "journal", *(config.tls or ())):
        with suppress(OSError):
            newest = max(newest, path.stat().st_mtime)
    if newest > now + 60:
        found = f"{shown}, {newest - now:.0f} s before a file of this agent was written"
        return Finding("clock", found, BROKEN, SET_CLOCK)
    if _is_unsynchronised():
        return Finding("clock", f"{shown}, but it is not synchronised", NOTE, SET_CLOCK)
    return Finding("clock", shown)


def _is_unsynchronised() -> bool:
    try:
        ask = ctypes.CDLL(None).adjtimex
    except (OSError, AttributeError):  # only Linux has it
        return False
    return int(ask(ctypes.create_string_buffer(1024))) == TIME_ERROR


def lasting(what: str, ends: float, now: float, command: str) -> Finding:
    """Check how long a certificate is valid."""
    left = (ends - now) / DAY
    day = datetime.fromtimestamp(ends, UTC).strftime("%Y-%m-%d")
    state = OK if left >= SOON_DAYS else NOTE
    mend = "" if state == OK else f"{command}, and copy the files"
    return Finding(what, f"valid until {day} ({left:.0f} days)", state, mend)


def authority_ends(files: TlsFiles) -> float:
    """Return the time at which the last trusted authority expires."""
    return max(each.not_valid_after_utc.timestamp() for each in read_certificates(files.ca))


def secrets(config: NodeConfig, now: float) -> Iterator[Finding]:
    """Check the other files that the configuration names; each failure is reported."""
    for check in _checks(config, now):
        try:
            yield check()
        except InputError as error:
            yield _broken("file", str(error))


def _checks(config: NodeConfig, now: float) -> Iterator[Callable[[], Finding]]:
    """Yield checks that raise InputError for what an agent would reject at its start."""
    if config.token_file is not None:
        yield partial(_token, "token", config.token_file)
    for scope, path in config.api_tokens.by_scope().items():
        yield partial(_token, f"token to {scope}" if scope == "choose" else f"{scope} token", path)
    for bandit in config.bandits.values():
        if bandit.token_file is not None:
            yield partial(_token, f"token of {bandit.name}", bandit.token_file)
    if config.api_tls is not None:
        yield partial(_api_certificate, config.api_tls, now)
    if config.revoked is not None:
        revoked = config.revoked
        yield lambda: Finding("revoked ids", f"{len(read_revoked(revoked))}")
    if config.uvloop:
        yield partial(_uvloop, config)


def _token(what: str, path: Path) -> Finding:
    read_token(path)
    return Finding(what, str(path))


def _api_certificate(files: TlsFiles, now: float) -> Finding:
    """Check that clients accept it; an agent starts with an expired one as well."""
    api_context(files)
    begins, ends = validity(files.certificate)
    what, day = "certificate of the API", f"{datetime.fromtimestamp(begins, UTC):%Y-%m-%d}"
    if now < begins:
        found = f"{files.certificate} is not valid before {day}"
        return Finding(what, found, BROKEN, f"issue another, or set the clock: {SET_CLOCK}")
    day, left = f"{datetime.fromtimestamp(ends, UTC):%Y-%m-%d}", (ends - now) / DAY
    if left <= 0:
        found = f"{files.certificate} expired on {day}, and clients reject it"
        return Finding(what, found, BROKEN, "renew it, and restart the agent")
    soon = left < SOON_DAYS
    found = f"{files.certificate} is valid until {day} ({left:.0f} days)"
    return Finding(what, found, NOTE if soon else OK, "renew it" if soon else "")


def _uvloop(config: NodeConfig) -> Finding:
    require_uvloop(config)
    return Finding("uvloop", "installed")


def disk(config: NodeConfig, now: float) -> Iterator[Finding]:
    """Check the journal and its folder."""
    file = config.journal / "journal"
    folder = config.journal
    try:
        size = 0
        with suppress(FileNotFoundError, NotADirectoryError):
            size = file.stat().st_size
        folder = next(place for place in (folder, *folder.parents) if place.exists())
        took = _time_sync(folder)
    except OSError as error:
        mend = f"make it writable, or name another folder: chown {os.getuid()} {folder}"
        yield Finding("disk", f"{folder} cannot be written: {error.strerror}", BROKEN, mend)
        return
    slow = took > SLOW_SYNC and config.durability == "power"
    mend = "use a faster disk, or durability = 'process'" if slow else ""
    yield Finding("disk", f"{folder}: a sync takes {1e3 * took:.1f} ms", NOTE if slow else OK, mend)
    free, needed = shutil.disk_usage(folder).free, 2 * size + SPARE_BYTES
    room = f"{free / 1e6:.0f} MB are free, and {needed / 1e6:.0f} MB needed"
    short = free < needed
    yield Finding("room", room, BROKEN if short else OK, "free space on that disk" if short else "")
    if not size:
        yield Finding("journal", "none yet: the agent starts without memory")
        return
    try:
        bandits = opened(config, read(file), now)
        yield Finding("journal", f"{size} bytes: {summary(config, bandits)}")
    except InputError as error:
        yield _broken("journal", str(error))


def _time_sync(folder: Path) -> float:
    with tempfile.NamedTemporaryFile(dir=folder, prefix="doctor-") as file:
        file.write(bytes(4096))
        file.flush()
        began = time.perf_counter()
        os.fdatasync(file.fileno())
        return time.perf_counter() - began


def open_files(config: NodeConfig) -> Finding:
    """Check how many files a process may open."""
    needed, (_, hard) = descriptors_needed(config), resource.getrlimit(resource.RLIMIT_NOFILE)
    found = f"{needed} are needed, and {hard} allowed"
    if hard != resource.RLIM_INFINITY and hard < needed:
        return Finding("open files", found, BROKEN, f"ulimit -n {needed}, or LimitNOFILE=")
    return Finding("open files", found)


def is_running(config: NodeConfig) -> bool:
    """Return whether a process has locked the journal's folder."""
    try:
        with (config.journal / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def ports(
    config: NodeConfig, credentials: Credentials | None, *, running: bool
) -> Iterator[Finding]:
    """Check that the agent listens, or can."""
    if running:
        if not config.listen.port:
            yield Finding("listens", f"{config.listen}, at the port in the agent's log")
        elif credentials is not None:
            yield reach("listens", config.id, _reachable(config.listen), credentials)
        yield Finding("API", f"{show_place(config.api)}, of the running agent")
        return
    try:
        for sock in listen(asyncio.run(resolve(config.listen))):
            sock.close()
        yield Finding("listens", f"{config.listen} is free")
    except OSError as error:
        mend = "stop the process that uses it, or choose another address in [node] listen"
        yield Finding("listens", f"{config.listen}: {error.strerror}", BROKEN, mend)
    try:
        asyncio.run(rehearse_api(config.api, protected=True))
        yield Finding("API", f"{show_place(config.api)} is free")
    except InputError as error:
        yield _broken("API", str(error))


def _reachable(place: Address) -> Address:
    """Return an address to dial an agent that listens on all interfaces."""
    everywhere = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  compared, not listened on
    return place._replace(host=everywhere.get(place.host, place.host))


def neighbors(config: NodeConfig, credentials: Credentials) -> Iterator[Finding]:
    """Try to reach all neighbours, several at a time."""

    def try_one(name: str) -> Finding:
        return reach(f"neighbour {name}", name, config.neighbors[name], credentials)

    with ThreadPoolExecutor(8) as pool:
        yield from pool.map(try_one, config.neighbors)


def _broken(what: str, sentence: str) -> Finding:
    """Return a finding from an error message: what to do follows its last semicolon."""
    found, _, mend = sentence.rpartition("; ")
    return Finding(what, found or sentence, BROKEN, mend if found else "")


PROTOCOL = "coopbandits/doctor"

PATIENCE = 3.0
"""Seconds for connecting, and for each step of the handshake."""


def reach(what: str, name: str, place: Address, credentials: Credentials) -> Finding:
    """Try to reach an agent."""
    try:
        with socket.create_connection(place, timeout=PATIENCE) as plain:
            return _shake_hands(what, name, place, plain, credentials)
    except socket.gaierror as error:
        found = f"its host {place.host} has no address: {error.strerror}"
        return Finding(what, found, BROKEN, "correct its address in [[neighbors]], or the DNS")
    except OSError as error:
        found = f"cannot be reached at {place}: {reason_of(error)}"
        return Finding(what, found, BROKEN, "start it; else look at its listen, and at firewalls")


def _shake_hands(
    what: str, name: str, place: Address, plain: socket.socket, credentials: Credentials
) -> Finding:
    context = credentials.contexts().client
    context.set_alpn_protocols([PROTOCOL])
    try:
        with context.wrap_socket(plain) as secure:
            found = read_holder(secure.getpeercert(binary_form=True)).names
            if name not in found:
                there = f"the agent at {place} is {', '.join(sorted(found))}, not {name}"
                return Finding(what, there, BROKEN, "correct its address in [[neighbors]]")
            # With TLS 1.3 an alert that rejects our certificate comes after the handshake.
            with suppress(ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError):
                secure.recv(1)
    except InputError as error:
        return Finding(what, f"it has {error}", BROKEN, "issue another, in its id")
    except ssl.SSLCertVerificationError as error:
        wrong = f"its certificate is invalid: {reason_of(error)}"
        return Finding(what, wrong, BROKEN, f"renew it: {RENEW}")
    except ssl.SSLError as error:
        wrong = f"it does not accept this agent's certificate: {reason_of(error)}"
        mend = "use one authority for all agents, and check its clock"
        return Finding(what, wrong, BROKEN, mend)
    return Finding(what, f"answers at {place}; both certificates are valid")
