"""A server of the page for tests: real sockets, and a fleet that is made up.

Numbers of the made-up fleet are functions of time alone, so that tests know what must be shown.
"""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from coopbandits.page import assets

Events = Iterator[tuple[str, Any]]


class MadeUpFleet:
    """Agents in a ring with chords that come to prefer the second option."""

    def __init__(self, agents: int = 8, arms: int = 4, per_second: float = 5.0) -> None:
        self.period = 1.0 / per_second
        self.names = [f"shop-{i + 1}" for i in range(agents)]
        self.arms = [f"{colour} button" for colour in ("blue", "red", "green", "grey")][:arms]
        self.arms += [f"option {k}" for k in range(len(self.arms), arms)]
        chords = [(i, (i + 7) % agents) for i in range(0, agents, 3)] if agents > 14 else []
        ring = [(i, (i + 1) % agents) for i in range(agents)]
        self.links = sorted({(min(pair), max(pair)) for pair in (*ring, *chords)})
        self.down: set[int] = set()
        self.versions = ["0.2.0"]
        self.extra_events: list[dict[str, Any]] = []
        self.silent = threading.Event()
        self.born = time.time()

    def scene(self) -> dict[str, Any]:
        agents = [{"name": name, "policy": "tree-ts"} for name in self.names]
        return {
            "version": 1, "source": "fleet", "title": "shop", "bandits": [""], "arms": self.arms,
            "agents": agents, "links": self.links, "t": time.time(),
        }  # fmt: skip

    def history(self) -> dict[str, Any]:
        now = time.time()
        times = [now - 120 + step for step in range(120)]
        alls = [self.everyone(step / 120) for step in range(120)]
        columns = {key: [each[key] for each in alls] for key in ("share", "mean", "low", "high")}
        return {
            "t": times, **columns,
            "pulls_per_second": [each["pulls_per_second"] for each in alls],
            "disagree": [each["disagree"] for each in alls],
            "events": [
                {"seq": seq, "t": now - ago, "kind": kind, "agent": agent, "text": text}
                for seq, ago, kind, agent, text in (
                    (1, 90, "started", 0, "shop-1 plays its first round"),
                    (2, 40, "down", 2, "shop-3 does not answer: connection refused"),
                    (3, 36, "up", 2, "shop-3 answers again"),
                )
            ],
        }  # fmt: skip

    def everyone(self, done: float) -> dict[str, Any]:
        arms = len(self.arms)
        mean = [0.3 + 0.2 * (k == 1) - 0.02 * k for k in range(arms)]
        mean = [value + 0.03 * math.sin(9 * done + k) for k, value in enumerate(mean)]
        half = [0.02 + 0.3 * math.exp(-4 * done) / (1 + (k == 1)) for k in range(arms)]
        won = 0.9 / (1 + math.exp(6 - 14 * done))
        rest = (1 - won) / arms
        share = [rest + won * (k == 1) for k in range(arms)]
        return {
            "share": share, "mean": mean,
            "low": [m - h for m, h in zip(mean, half, strict=True)],
            "high": [m + h for m, h in zip(mean, half, strict=True)],
            "ahead": 1, "sure": min(0.9995, 0.4 + 0.7 * done), "disagree": 1 - won,
            "pulls_per_second": 90 + 6 * math.sin(20 * done), "rounds_per_second": 20.0,
            "tickets": 12, "up": len(self.names) - len(self.down), "document": None,
            "versions": sorted({self.version_of(i) for i in range(len(self.names))}),
        }  # fmt: skip

    def version_of(self, agent: int) -> str:
        return self.versions[agent % len(self.versions)]

    def agents(self, step: int) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for i in range(len(self.names)):
            everyone = self.everyone(min(1.0, 0.7 + (step + i % 5) / 200))
            arm = 1 if (7 * i + step // 8) % 11 else (i + step // 8) % len(self.arms)
            up = i not in self.down
            found[str(i)] = {
                "up": up, "why": "" if up else "connection refused", "arm": arm,
                "round": 4000 + 4 * step, "rounds_per_second": 20.0 + i % 3,
                "pulls_per_second": 11.0 + (i + step) % 3, "tickets": (i + step) % 4,
                "document": None, "version": self.version_of(i),
                **{key: everyone[key] for key in ("share", "mean", "low", "high")},
            }  # fmt: skip
        return found

    def delta(self, step: int) -> dict[str, Any]:
        states = {
            f"{a}-{b}": {
                "state": "down" if {a, b} & self.down else "up",
                "per_second": 10.0 + 5 * ((a + b) % 4), "why": "",
            }
            for a, b in self.links
        }  # fmt: skip
        return {
            "t": time.time(), "agents": self.agents(step), "links": states,
            "all": self.everyone(min(1.0, 0.75 + step / 400)), "events": self.extra_events,
        }  # fmt: skip

    def events(self) -> Events:
        yield "scene", self.scene()
        yield "history", self.history()
        step = 0
        while True:
            if not self.silent.is_set():
                yield "delta", self.delta(step)
            step += 1
            time.sleep(self.period)


class Handler(BaseHTTPRequestHandler):
    """Serves what its server holds."""

    server: PageServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        self.server.asked.append(self.path)
        if path == "/ui/events":
            self.stream()
        elif asset := assets.find(path.removeprefix("/ui/")):
            self.answer(200, asset.kind, asset.body)
        elif path.startswith("/ui/") and (found := self.server.data(path, query)) is not None:
            self.answer(200, b"application/json", json.dumps(found).encode())
        else:
            self.answer(404, b"text/plain", b"nothing here")

    def allowed(self) -> bool:
        token = self.server.token
        if token is None or self.headers.get("authorization") == f"Bearer {token}":
            return True
        self.answer(401, b"text/plain", b"a token is needed")
        return False

    def answer(self, status: int, kind: bytes, body: bytes) -> None:
        self.head(status, kind, len(body))
        self.wfile.write(body)

    def head(self, status: int, kind: bytes, length: int | None) -> None:
        self.send_response(status)
        self.send_header("content-type", kind.decode())
        if length is None:
            self.send_header("connection", "close")
            self.close_connection = True
        else:
            self.send_header("content-length", str(length))
        for name, value in assets.HEADERS:
            self.send_header(name.decode(), value.decode())
        self.end_headers()

    def stream(self) -> None:
        if not self.allowed():
            return
        if self.server.refusal:
            body = json.dumps({"error": self.server.refusal}).encode()
            self.answer(503, b"application/json", body)
            return
        self.head(200, b"text/event-stream", None)
        try:
            for kind, data in self.server.events():
                if self.server.closing.is_set():
                    return
                self.wfile.write(f"event: {kind}\ndata: {json.dumps(data)}\n\n".encode())
                self.wfile.flush()
        except OSError:
            pass  # nobody reads any longer


class PageServer(ThreadingHTTPServer):
    """The page and its data on a free port."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(
        self,
        events: Callable[[], Events],
        data: Callable[[str, str], Any] = lambda path, query: None,
        token: str | None = None,
        port: int = 0,
    ) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.events, self.data, self.token = events, data, token
        self.asked: list[str] = []
        self.refusal = ""
        self.closing = threading.Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/ui/"


@contextmanager
def serving(server: PageServer) -> Iterator[PageServer]:
    """Serve in a thread; afterwards nobody listens, and open streams end."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        thread.join()
        server.server_close()
