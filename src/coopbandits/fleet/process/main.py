"""The process behind ``coopbandits agent``, from start to signal."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from secrets import randbits
from typing import Any

from coopbandits.fleet.address import Address
from coopbandits.fleet.api import ApiServer
from coopbandits.fleet.config import NodeConfig
from coopbandits.fleet.config.read import credentials_of
from coopbandits.fleet.identity.files import read_token
from coopbandits.fleet.identity.tls import api_context
from coopbandits.fleet.process.assemble import make_members
from coopbandits.fleet.process.descriptors import reserve_descriptors
from coopbandits.fleet.process.draining import Drain
from coopbandits.fleet.process.logs import set_up_log
from coopbandits.fleet.process.notify import READY, STOPPING, ServiceManager
from coopbandits.fleet.process.reload import Reload
from coopbandits.fleet.process.runtime import Runtime
from coopbandits.fleet.protocol.frames import NO_ENDPOINT, ApiEndpoint
from coopbandits.fleet.storage.disk import FileDisk
from coopbandits.fleet.transport.tcp import OpenTransport, TcpTransport

SIGNALS = (signal.SIGINT, signal.SIGTERM)

log = logging.getLogger(__name__)


def make_runtime(config: NodeConfig) -> Runtime:
    """Return an agent with its journal on disk and its neighbours on the network."""
    credentials = credentials_of(config)
    if config.auto:
        transport: TcpTransport = OpenTransport(config.id, config.listen, credentials)
    else:
        transport = TcpTransport(config.id, config.listen, config.neighbors, credentials)
    disk = FileDisk(config.journal, config.durability)
    try:
        runtime = Runtime(config, disk, transport)
        if isinstance(transport, OpenTransport):
            node = runtime.node
            node.members = make_members(
                config, node, lambda: randbits(64), lambda: transport.address.port
            )
    except BaseException:
        disk.close()
        raise
    credentials.report = runtime.node.events.note
    return runtime


def make_api(config: NodeConfig, runtime: Runtime, drain: Drain | None = None) -> ApiServer:
    """Return the HTTP server for the application."""
    return ApiServer(
        runtime.service,
        config.api,
        token=read_token(config.token_file) if config.token_file else None,
        tls=api_context(config.api_tls) if config.api_tls else None,
        limits=config.api_limits,
        drain=drain.ask if drain else None,
    )


def endpoint_for(config: NodeConfig, place: Address | None) -> ApiEndpoint:
    """Return what a neighbour at a place is told of this agent's API, if it can reach it."""
    api = config.api
    if isinstance(api, Path) or place is None or (api.is_loopback and not place.is_loopback):
        return NO_ENDPOINT
    return ApiEndpoint(api.port, config.api_tls is not None)


def run_agent(config: NodeConfig, reread: Callable[[], NodeConfig] | None = None) -> int:
    """Run an agent until a signal stops it; return the exit status.

    `reread` returns the configuration as it is in its file by then, for whoever sends SIGHUP.
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
    """Gossip and serve the API until a signal comes or something fails; return the exit status."""
    reserve_descriptors(config)
    loop, manager = asyncio.get_running_loop(), ServiceManager()
    early = asyncio.Event()
    for number in SIGNALS:
        loop.add_signal_handler(number, early.set)
    runtime = make_runtime(config)
    drain = Drain(runtime, config.drain_seconds, partial(manager.tell, STOPPING))
    for number in SIGNALS:
        loop.add_signal_handler(number, drain.begin)
    api = make_api(config, runtime, drain)
    node = runtime.node
    node.endpoint_of = lambda name: endpoint_for(
        config, config.neighbors.get(name) or node.place_of(name)
    )
    watchdog = loop.create_task(manager.keep_telling())
    try:
        await runtime.start()
        await api.start()
        reload = Reload(config, reread or (lambda: config), runtime, api, drain)
        loop.add_signal_handler(signal.SIGHUP, told(manager, reload))
        gc.freeze()  # objects made so far live as long as the process: spare the collector them
        gc.set_threshold(700)  # little at a time, so that no request waits for it
        log.info("agent %s serves at %s, after %d rounds", config.id, api.address, runtime.rounds)
        manager.tell(READY, f"STATUS=serves at {api.address}")
        await _first(early.wait(), drain.over.wait(), runtime.failed.wait(), api.background)
        if api.background.done():
            runtime.fail("the upkeep of its API", api.background.exception())
    finally:
        await drain.stop()
        await api.stop()
        await runtime.stop()
        watchdog.cancel()
    log.info("agent %s stopped after %d rounds", config.id, runtime.rounds)
    return int(runtime.failed.is_set())


def told(manager: ServiceManager, reload: Callable[[], str]) -> Callable[[], None]:
    """Return what reloads, and says so to the service manager before and after."""

    def tell() -> None:
        manager.tell_reloading()
        manager.tell(READY, f"STATUS={reload()}")

    return tell


async def _first(*waits: Awaitable[Any]) -> None:
    """Return when one of them is over; the others go on, or are collected."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task, wait in zip(tasks, waits, strict=True):
        if task is not wait:
            task.cancel()
