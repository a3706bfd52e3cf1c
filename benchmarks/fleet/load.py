"""Load over HTTP: as much as goes, by wrk where it is installed, and arrivals at a given rate.

Pulls are made in turn: a choice, then its reward; each is a request. Where requests arrive by a
clock, time runs from when one was due, not from when it could be sent: a server that falls behind
does not slow its clients down.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
import selectors
import shutil
import subprocess
import time
from collections import deque
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from benchmarks.fleet.processes import cpu_seconds
from benchmarks.fleet.servers import Server
from coopbandits.core.draws import uniform_of, word_at
from coopbandits.fleet.local.agents import HOST, FleetError

NO_WRK = "wrk is not installed: the load over HTTP is made by the benchmark itself, and weaker"

LUA = """
local kind = {["Content-Type"] = "application/json"}
local first, last, tickets, choose = 1, 0, {}, nil

function init(arguments)
  if arguments[1] then choose = wrk.format("GET", arguments[1])
  else choose = wrk.format("POST", "/bandits/load/choose", kind) end
end

function request()
  if first > last then return choose end
  local ticket = tickets[first]
  tickets[first], first = nil, first + 1
  local body = '{"ticket":"' .. ticket .. '","reward":1.0}'
  return wrk.format("POST", "/bandits/load/observe", kind, body)
end

function response(status, headers, body)
  local ticket = body:match('"ticket":"([^"]+)"')
  if ticket and not body:find('"duplicate"', 1, true) then
    last = last + 1
    tickets[last] = ticket
  end
end

function done(summary, latency)
  local errors, failed = summary.errors, 0
  for _, kind in ipairs({"connect", "read", "write", "status", "timeout"}) do
    failed = failed + errors[kind]
  end
  print(string.format('{"requests":%d,"seconds":%f,"failed":%d,"p50":%f,"p99":%f}',
    summary.requests, summary.duration / 1e6, failed,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3))
end
"""

CHOOSE = (
    b"POST /bandits/load/choose HTTP/1.1\r\nhost: localhost\r\n"
    b"content-type: application/json\r\ncontent-length: 0\r\n\r\n"
)
OBSERVE = CHOOSE.replace(b"/choose", b"/observe").replace(b"length: 0", b"length: %d")
_LENGTH = re.compile(rb"content-length: (\d+)", re.IGNORECASE)


class Load(NamedTuple):
    """What a server did under load.

    Attributes
    ----------
    requests, failed : int
        Requests answered, and those of them that were not answered well.
    seconds, cpu : float
        Time by the clock, and CPU time of the server.
    p50, p99 : float
        Milliseconds to an answer.
    """

    requests: int
    failed: int
    seconds: float
    cpu: float
    p50: float
    p99: float

    @property
    def per_second(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds

    @property
    def per_cpu_second(self) -> float:
        """Requests per second of the server's CPU time."""
        return self.requests / max(self.cpu, 1e-9)


def saturate(server: Server, connections: int, seconds: float, path: str = "") -> Load:
    """Ask as fast as answers come: pull, or get what is at a path."""
    before = cpu_seconds(server.pid)
    if wrk := shutil.which("wrk"):
        found = _run_wrk(wrk, server, connections, seconds, path)
    else:
        found = asyncio.run(Closed(seconds, path).play(server, connections))
    return _checked(found._replace(cpu=cpu_seconds(server.pid) - before))


def arrive(server: Server, rate: float, connections: int, seconds: float, path: str = "") -> Load:
    """Ask at random times, so many a second on average, whatever the server does."""
    before = cpu_seconds(server.pid)
    with asyncio.Runner(loop_factory=_punctual) as runner:
        found = runner.run(Open(rate, seconds, path).play(server, connections))
    return _checked(found._replace(cpu=cpu_seconds(server.pid) - before))


def _punctual() -> asyncio.AbstractEventLoop:
    """Return an event loop whose timers are not rounded to milliseconds, as those of epoll are."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


def _checked(load: Load) -> Load:
    if load.failed or not load.requests:
        raise FleetError(f"{load.failed} of {load.requests} requests under load failed")
    return load


def _run_wrk(wrk: str, server: Server, connections: int, seconds: float, path: str) -> Load:
    with TemporaryDirectory(prefix="coopbandits-") as folder:
        script = Path(folder) / "pull.lua"
        script.write_text(LUA)
        command = [
            wrk, "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "-s", str(script),
            f"http://{HOST}:{server.port}", "--", *filter(None, [path]),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  our own
    told = done.stdout.strip().rpartition("\n")[2]
    if done.returncode or not told.startswith("{"):
        raise FleetError(f"wrk failed: {(done.stderr or done.stdout).strip()}")
    return Load(cpu=0.0, **json.loads(told))


class Caller(asyncio.Protocol):
    """One connection, with one request at a time."""

    def __init__(self, answered: Callable[[Caller, bytes | None], None]) -> None:
        self.answered, self._heard = answered, b""
        self.due = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = transport

    def ask(self, request: bytes, due: float) -> None:
        """Send a request that was due at some time."""
        self.due = due
        self.transport.write(request)  # type: ignore[attr-defined]  # connected

    def data_received(self, data: bytes) -> None:
        """Tell of an answer once it is whole: its body, or None for an error."""
        self._heard += data
        head, end, body = self._heard.partition(b"\r\n\r\n")
        if end and len(body) >= int(_LENGTH.findall(head)[0]):
            self._heard = b""
            self.answered(self, body if head.startswith(b"HTTP/1.1 200") else None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Do nothing: what is missing is noticed at the end."""


class Closed:
    """Each connection asks again when it is answered."""

    def __init__(self, seconds: float, path: str = "") -> None:
        self.seconds, self.path = seconds, path
        self.tickets: deque[str] = deque()
        self.times: list[float] = []
        self.failed = self.asked = 0
        self.until = 0.0

    async def play(self, server: Server, connections: int) -> Load:
        """Put a server under load."""
        loop = asyncio.get_running_loop()
        callers = [
            (await loop.create_connection(lambda: Caller(self.answered), HOST, server.port))[1]
            for _ in range(connections)
        ]
        began = time.perf_counter()
        self.until = began + self.seconds
        self.begin(callers)
        while len(self.times) < self.asked or time.perf_counter() < self.until:
            await asyncio.sleep(0.05)
            if time.perf_counter() > self.until + 30.0:
                raise FleetError("requests under load were not answered for 30 s")
        taken = time.perf_counter() - began
        for caller in callers:
            caller.transport.close()
        p50, p99 = np.percentile(self.times, [50, 99])
        return Load(len(self.times), self.failed, taken, 0.0, 1e3 * float(p50), 1e3 * float(p99))

    def begin(self, callers: list[Caller]) -> None:
        """Send the first requests."""
        for caller in callers:
            self.ask(caller, time.perf_counter())

    def ask(self, caller: Caller, due: float) -> None:
        """Send the next request: a reward if a choice waits for it."""
        self.asked += 1
        if self.path:
            caller.ask(b"GET %s HTTP/1.1\r\nhost: localhost\r\n\r\n" % self.path.encode(), due)
        elif self.tickets:
            body = b'{"ticket":"%s","reward":1.0}' % self.tickets.popleft().encode()
            caller.ask(OBSERVE % len(body) + body, due)
        else:
            caller.ask(CHOOSE, due)

    def answered(self, caller: Caller, body: bytes | None) -> None:
        """Note an answer, and ask again."""
        now = time.perf_counter()
        self.times.append(now - caller.due)
        if body is None:
            self.failed += 1
        elif not self.path and b"duplicate" not in body:
            self.tickets.append(json.loads(body)["ticket"])
        self.go_on(caller, now)

    def go_on(self, caller: Caller, now: float) -> None:
        """Use a connection again."""
        if now < self.until:
            self.ask(caller, now)


class Open(Closed):
    """Requests arrive by a clock, and wait if all connections are in use."""

    def __init__(self, rate: float, seconds: float, path: str = "") -> None:
        super().__init__(seconds, path)
        self.rate = rate
        self.waiting: deque[float] = deque()
        self.free: deque[Caller] = deque()

    def begin(self, callers: list[Caller]) -> None:
        """Start the clock."""
        self.free.extend(callers)
        self.next, self.arrivals = time.perf_counter(), self._arrivals()
        self._tick()

    def _arrivals(self) -> Iterator[float]:
        for number in count():
            yield -math.log(uniform_of(word_at(0, number))) / self.rate

    def _tick(self) -> None:
        now = time.perf_counter()
        while self.next <= now and self.next < self.until:
            self.waiting.append(self.next)
            self.next += next(self.arrivals)
        self._dispatch()
        if self.next < self.until:
            asyncio.get_running_loop().call_later(self.next - now, self._tick)

    def _dispatch(self) -> None:
        while self.waiting and self.free:
            self.ask(self.free.popleft(), self.waiting.popleft())

    def go_on(self, caller: Caller, now: float) -> None:
        """Use a connection for what waits, or for what comes."""
        del now
        self.free.append(caller)
        self._dispatch()
