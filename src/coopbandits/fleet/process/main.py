"""The process behind ``coopbandits agent``, from start to exit.

`serve` puts it together. SIGTERM and SIGINT, or a request of an operator, begin a `Drain`; a second
signal stops at once. SIGHUP has the configuration read again (`Reload`). Certificates of links and
the list of revoked ids are read again whenever their files change, without a signal.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import os
import resource
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from coopbandits.core.errors import InputError
from coopbandits.core.spelling import one_line
from coopbandits.fleet.address import Address
from coopbandits.fleet.api import ApiServer
from coopbandits.fleet.api.server import rehearse
from coopbandits.fleet.config import ApiTokens, NodeConfig
from coopbandits.fleet.config.changes import CONTENTS, Change, changes_of, contents, facts
from coopbandits.fleet.identity.files import read_token
from coopbandits.fleet.identity.tls import api_context
from coopbandits.fleet.logs import TEXT, JsonLines, LogEvent
from coopbandits.fleet.process.runtime import Runtime, make_runtime
from coopbandits.fleet.protocol.frames import NO_ENDPOINT, ApiEndpoint
from coopbandits.fleet.service import UnavailableError
from coopbandits.fleet.storage.disk import FileDisk, MemoryDisk, Rehearsal, in_use
from coopbandits.fleet.transport.sockets import Timing
from coopbandits.fleet.transport.tcp import MAX_CALLERS, listen_for

SIGNALS = (signal.SIGINT, signal.SIGTERM)

log = logging.getLogger(__name__)


def run_agent(config: NodeConfig, reread: Callable[[], NodeConfig] | None = None) -> int:
    """Run an agent until a signal stops it; return the exit status.

    `reread` returns the configuration as it is in its file now, for SIGHUP.
    """
    set_up_log(config)
    with asyncio.Runner(loop_factory=loop_factory(config)) as runner:
        return runner.run(serve(config, reread))


def loop_factory(config: NodeConfig) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return a factory for uvloop's event loop, or None for the standard one."""
    if not config.uvloop:
        return None
    import uvloop

    return uvloop.new_event_loop


async def serve(config: NodeConfig, reread: Callable[[], NodeConfig] | None = None) -> int:
    """Gossip and serve the API until a signal or a failure; return the exit status."""
    reserve_descriptors(config)
    loop, manager = asyncio.get_running_loop(), ServiceManager()
    stopped_early = asyncio.Event()  # by a signal during the start, when there is nothing to drain
    for number in SIGNALS:
        loop.add_signal_handler(number, stopped_early.set)
    runtime = make_runtime(config)
    drain = Drain(runtime, config.drain_seconds, partial(manager.notify, STOPPING))
    for number in SIGNALS:
        loop.add_signal_handler(number, drain.begin)
    api = make_api(config, runtime, drain)
    node = runtime.node
    node.endpoint_of = lambda name: endpoint_for(
        config, config.neighbors.get(name) or node.place_of(name)
    )
    watchdog = loop.create_task(manager.keep_alive())
    try:
        await runtime.start()
        await api.start()
        reload = Reload(config, reread or (lambda: config), runtime, api, drain, manager)
        loop.add_signal_handler(signal.SIGHUP, reload)
        gc.freeze()  # objects made so far live as long as the process: the collector skips them
        gc.set_threshold(700)  # short collections, so that no request waits for a long one
        log.info("agent %s serves at %s, after %d rounds", config.id, api.address, runtime.rounds)
        manager.notify(READY, f"STATUS=serves at {api.address}")
        await _first(stopped_early.wait(), drain.over.wait(), runtime.failed.wait(), api.background)
        if api.background.done():
            runtime.fail("the upkeep of its API", api.background.exception())
    finally:
        await drain.stop()
        await api.stop()
        await runtime.stop()
        watchdog.cancel()
    log.info("agent %s stopped after %d rounds", config.id, runtime.rounds)
    return int(runtime.failed.is_set())


def make_api(config: NodeConfig, runtime: Runtime, drain: Drain | None = None) -> ApiServer:
    """Return the HTTP server for the application."""
    return ApiServer(
        runtime.service,
        config.api,
        token=read_token(config.token_file) if config.token_file else None,
        scoped=read_scoped(config.api_tokens),
        tls=api_context(config.api_tls) if config.api_tls else None,
        limits=config.api_limits,
        drain=drain.request if drain else None,
    )


def read_scoped(tokens: ApiTokens) -> dict[str, frozenset[str]]:
    """Return what each token opens; a token in two files opens what both do."""
    found: dict[str, frozenset[str]] = {}
    for scope, path in tokens.by_scope().items():
        token = read_token(path)
        found[token] = found.get(token, frozenset()) | {scope}
    return found


def endpoint_for(config: NodeConfig, place: Address | None) -> ApiEndpoint:
    """Return the endpoint of this agent's API for a neighbour's page, if it can reach it."""
    api = config.api
    if isinstance(api, Path) or place is None or (api.is_loopback and not place.is_loopback):
        return NO_ENDPOINT
    return ApiEndpoint(api.port, config.api_tls is not None)


async def check_start(config: NodeConfig) -> None:
    """Raise the InputError of a start; nothing is written, dialled or accepted.

    The agent is assembled as for a start, on a copy of its journal in memory. That another process
    has locked the journal is reported last, so that a file can be checked beside its agent.
    """
    reserve_descriptors(config)
    files = Rehearsal()
    folder = FileDisk(config.journal, config.durability, files)
    try:
        data = folder.read()
    finally:
        folder.close()
    runtime = make_runtime(config, MemoryDisk(data, config.durability))
    api = make_api(config, runtime)
    if files.locked:
        raise in_use(config.journal)
    sockets = await listen_for(config.id, config.listen, Timing().connect)
    try:  # while the first address is held: the two may be the same
        made = [] if config.journal.exists() else [config.journal, *config.journal.parents]
        await rehearse(config.api, protected=api.protected, made=made)
    finally:
        for sock in sockets:
            sock.close()


async def _first(*waits: Awaitable[Any]) -> None:
    """Return when one of them is done; cancel the others, unless they are tasks of the caller's."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task, wait in zip(tasks, waits, strict=True):
        if task is not wait:
            task.cancel()


# Stopping

HAND_OVER_SECONDS = 2.0
"""For sending the last rewards to neighbours, beyond the deadline if need be; besides three rounds
and the interval between two signatures."""

LOOK_SECONDS = 0.02


class Drain:
    """Stops an agent without losing anything that others may need before it is back.

    From the first call on it makes no more choices and is not ready. Until a deadline it waits for
    the rewards of open tickets and, if rewards are known to no other agent, for a link. Then it
    waits until its neighbours have received what they lack. A second signal stops it at once; a
    second request may bring the deadline forward, but never postpones it.

    Parameters
    ----------
    runtime : Runtime
        The agent.
    seconds : float
        How long to wait for open tickets by default; 0 stops at once.
    begun : callable
        Called once, when it begins.

    Attributes
    ----------
    over : Event
        The process may end.
    """

    def __init__(self, runtime: Runtime, seconds: float, begun: Callable[[], None]) -> None:
        self.runtime, self.seconds, self._begun = runtime, seconds, begun
        self.over = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._deadline = math.inf  # of waiting for tickets and a link

    def begin(self) -> None:
        """Begin; the second time, stop at once."""
        if self._task is not None:
            log.warning("second stop signal: stopping now")
            self.over.set()
            return
        self._begun()
        loop = asyncio.get_running_loop()
        self._deadline = loop.time() + self.seconds
        self._task = loop.create_task(self._drain(self.seconds))

    def request(self, seconds: float | None) -> None:
        """Begin, with another deadline if given; once begun, the earliest deadline counts.

        So a repeated request changes nothing, and no caller postpones what another waits for.
        """
        if self._task is None:
            self.seconds = self.seconds if seconds is None else seconds
            self.begin()
        elif seconds is not None:
            now = asyncio.get_running_loop().time()
            if now + seconds >= self._deadline:
                left = max(0.0, self._deadline - now)
                log.info("already draining: ignoring %g s, %.1f s left", seconds, left)
                return
            log.info("draining for at most %g s from now on", seconds)
            self._deadline = now + seconds
            if seconds <= 0:
                self.over.set()

    async def _drain(self, seconds: float) -> None:
        try:
            if seconds > 0:
                await self._wait(seconds)
        finally:
            self.over.set()

    async def _wait(self, seconds: float) -> None:
        service, node = self.runtime.service, self.runtime.node
        service.draining = True
        open_tickets = node.bandits.open_tickets
        log.info("draining for at most %g s; open tickets: %d", seconds, open_tickets)
        node.events.note("draining", "stops soon, and makes no more choices")
        await self._until(lambda: not node.bandits.open_tickets, lambda: self._deadline)
        await self._until(
            lambda: node.is_linked() or not node.undelivered(), lambda: self._deadline
        )
        is_delivered = node.delivery_check()
        pace = node.in_force  # the document may have slowed it since the start
        allowed = HAND_OVER_SECONDS + 3.0 / pace.rounds + pace.interval
        deadline = asyncio.get_running_loop().time() + allowed
        if not await self._until(is_delivered, lambda: deadline):
            log.warning("stopping although not all neighbours have the last rewards")
        elif not node.is_linked() and (undelivered := node.undelivered()):
            log.warning(
                "stopping without a link: up to %d rewards since the start are in this journal "
                "alone; start the agent again to replicate them",
                undelivered,
            )
        left = node.bandits.open_tickets
        log.info("drained; %d tickets still open, kept in the journal", left)

    async def _until(self, holds: Callable[[], bool], deadline: Callable[[], float]) -> bool:
        """Wait until something holds, up to a deadline that may move; return whether it does."""
        loop = asyncio.get_running_loop()
        while not holds() and not self.runtime.failed.is_set() and loop.time() < deadline():
            await asyncio.sleep(LOOK_SECONDS)
        return holds()

    async def stop(self) -> None:
        """Cancel what is left of it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])


# A changed configuration

LIVE = frozenset(
    f"[node] {key}"
    for key in (
        "token_file", "revoked", "log_level", "log_format", "drain_seconds", "ready_neighbors",
        "default_bandit",
    )
)  # fmt: skip
"""What may change without a restart, besides bandits; of files named elsewhere, their contents."""


class Reload:
    """Reads an agent's configuration again and applies all changes of it, or none.

    Parameters
    ----------
    config : NodeConfig
        What it runs with.
    reread : callable
        Reads the configuration's file, and checks the files that it names.
    runtime, api, drain : Runtime, ApiServer and Drain
        What a change applies to.
    manager : ServiceManager
        Notified before and after.
    """

    def __init__(
        self,
        config: NodeConfig,
        reread: Callable[[], NodeConfig],
        runtime: Runtime,
        api: ApiServer,
        drain: Drain,
        manager: ServiceManager,
    ) -> None:
        self.config, self.reread = config, reread
        self.facts = facts(config) | contents(config)
        self.runtime, self.api, self.drain, self.manager = runtime, api, drain, manager

    def __call__(self) -> str:
        """Apply all changes, or none; return the result in a sentence."""
        self.manager.notify_reloading()
        try:
            found = self.reread()
            after = facts(found) | contents(found)
            changes = list(changes_of(self.facts, after))
            require_live(self.config, found, changes)
            token = read_token(found.token_file) if found.token_file else None
            scoped = read_scoped(found.api_tokens)
            tokens = {
                name: read_token(each.token_file)
                for name, each in found.bandits.items()
                if each.token_file is not None
            }
            tls = api_context(found.api_tls) if found.api_tls else None
            if found.bandits != self.config.bandits:
                self.runtime.take(found.bandits)
        except (InputError, UnavailableError) as error:
            reason = "; ".join(str(error).splitlines())
            sentence = f"nothing was reloaded: {reason}"
            log.error(LogEvent("nothing was reloaded", reason=reason))
        except Exception as error:  # a bug in reading a file must not end a healthy agent
            reason = f"{one_line(error)}; look at the file, and at the log"
            sentence = f"nothing was reloaded: {reason}"
            log.exception(LogEvent("nothing was reloaded", reason=reason))
        else:  # from here on nothing can fail
            self.config, self.facts = found, after
            set_up_log(found)
            self.drain.seconds = found.drain_seconds
            service = self.runtime.service
            service.config, service.ready_neighbors = found, found.ready_neighbors
            self.runtime.shell.revoked.follow(found.revoked)
            self.api.renew(token, tls, scoped)
            service.renew_tokens(tokens)
            sentence = "the configuration was reloaded"
            listed = [str(change) for change in changes] or ["none"]
            log.info(LogEvent("the configuration was reloaded", changes=listed))
        self.runtime.node.events.note("reload", sentence, apart=0.0)
        self.manager.notify(READY, f"STATUS={sentence}")
        return sentence


def require_live(before: NodeConfig, after: NodeConfig, changes: Iterable[Change]) -> None:
    """Reject changes that require a restart."""
    # Whether a token is needed decides who may call what.
    locks = before.needs_token != after.needs_token
    if fixed := [str(each) for each in changes if _takes_restart(each, locks)]:
        raise InputError(f"{'; '.join(fixed)}: this takes a restart; undo it, or restart the agent")


def _takes_restart(change: Change, locks: bool) -> bool:
    if change.place.startswith("[bandits.") or change.place.endswith(CONTENTS):
        return False
    if change.place == "[node] token_file" or change.place.startswith("[api] "):
        return locks
    return change.place not in LIVE


# The service manager

READY, STOPPING, WATCHDOG = "READY=1", "STOPPING=1", "WATCHDOG=1"


class ServiceManager:
    """Sends systemd's notifications, to a process that was started by systemd or the like.

    systemd names a datagram socket in `NOTIFY_SOCKET`, and in `WATCHDOG_USEC` how often it expects
    a sign of life. Without these variables nothing is sent.

    Parameters
    ----------
    environment : mapping
        The variables of the process.

    Attributes
    ----------
    interval : float
        Seconds between two signs of life, half of what is expected; 0 for none.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        place = environment.get("NOTIFY_SOCKET", "")
        self._place = "\0" + place[1:] if place.startswith("@") else place
        meant = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        expected = environment.get("WATCHDOG_USEC", "")
        is_watched = place and meant and expected.isascii() and expected.isdigit()
        self.interval = int(expected) / 2e6 if is_watched else 0.0

    def notify(self, *lines: str) -> None:
        """Send lines; failing to do so is logged, and does not stop the agent."""
        if not self._place:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                sock.setblocking(False)
                sock.sendto("\n".join(lines).encode(), self._place)
        except OSError as error:
            log.warning(
                LogEvent("cannot notify the service manager", notification=lines[0], reason=error)
            )

    def notify_reloading(self) -> None:
        """Announce a reload; systemd compares the time with its own clock."""
        self.notify("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    async def keep_alive(self) -> None:
        """Send signs of life, which stop as soon as the event loop hangs."""
        while self.interval:
            self.notify(WATCHDOG)
            await asyncio.sleep(self.interval)


# The log


def set_up_log(config: NodeConfig) -> None:
    """Log to standard error, at the configuration's level and in its format."""
    handler = logging.StreamHandler(sys.stderr)
    as_json = config.log_format == "json"
    handler.setFormatter(JsonLines(config.id) if as_json else logging.Formatter(TEXT))
    logging.basicConfig(handlers=[handler], level=config.log_level.upper(), force=True)


# File descriptors: a budget for applications and one for neighbours, so that neither starves

OWN = 48
"""For the journal, the event loop, listening sockets, logs and libraries; about 20 are in use."""

PER_NEIGHBOR = 3
"""A link, one that it replaces, and one that is being dialled."""


def descriptors_needed(config: NodeConfig) -> int:
    """Return the sum of an agent's budgets of descriptors."""
    neighbors = MAX_CALLERS + PER_NEIGHBOR * config.most_links
    return OWN + neighbors + config.api_limits.max_connections


def reserve_descriptors(config: NodeConfig) -> None:
    """Raise this process's limit if it is too low.

    Raises
    ------
    InputError
        The system does not allow it.
    """
    needed = descriptors_needed(config)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    except (OSError, ValueError) as error:
        raise InputError(
            f"this process may open {soft} files, but {config.api_limits.max_connections} "
            f"connections of applications and {config.most_links} neighbours take {needed}; "
            "raise the limit (LimitNOFILE, ulimit -n), or lower max_connections in [api_limits]"
        ) from error
