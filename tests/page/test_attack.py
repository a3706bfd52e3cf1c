"""A hostile web page on this machine against the page of a real agent, in a real browser."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from coopbandits.fleet.local.agents import Members, prepared, reserve_port, write_configs
from coopbandits.fleet.local.settings import make_settings

from .browser import REBOUND, Browser

pytestmark = pytest.mark.plays

# Tries to read, to frame, to hold on to, to change and to use up what is served at `target`.
ATTACK = """
const failed = (error) => error.name;
const settled = async (name, attempt) => [name, await attempt.catch(failed)];
const kind = (answer) => answer.type;
const blind = (path, more) => fetch(target + path, { mode: "no-cors", ...more }).then(kind);
const post = (path, body) => blind(path, { method: "POST", body });
const loaded = (tag, path) => new Promise((done) => {
  const node = document.createElement(tag);
  node.onload = () => done("loaded");
  node.onerror = () => done("refused");
  node.src = target + path;
  document.body.append(node);
});
const stream = () => new Promise((done) => {
  const source = new EventSource(target + "ui/events");
  source.addEventListener("scene", () => done("read"));
  source.onerror = () => { source.close(); done("refused"); };
});
const images = Array.from({ length: 30 }, (_, n) => `ui/events?${n}`);
window.attack = async () => Object.fromEntries(await Promise.all([
  settled("fetch", fetch(target + "ui/state").then((answer) => answer.text())),
  settled("blind fetch", blind("ui/state")),
  settled("stream", stream()),
  settled("image", loaded("img", "ui/icon.svg")),
  settled("streams as images", Promise.all(images.map((path) => loaded("img", path)))),
  settled("script", loaded("script", "ui/main.js")),
  settled("data as a script", loaded("script", "ui/state")),
  settled("choose", post("choose", "{}")),
  settled("observe", post("observe", '{"ticket": "ticket-1", "reward": 1}')),
]));
"""


@contextmanager
def hostile_page(target: str) -> Iterator[str]:
    """Serve the attack from another port of this machine, and so from another origin."""
    page = f"<!doctype html><body><script>const target = '{target}';{ATTACK}</script></body>"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real agent without neighbours; returns where its API is."""
    settings = make_settings("path:1", "0.1,0.9")
    with prepared(tmp_path_factory.mktemp("agent"), settings) as places, ExitStack() as held:
        place = places[0]._replace(api=str(reserve_port(held)))
        write_configs([place], settings, {})

        begun: Future[Callable[[], object]] = Future()

        async def live() -> None:
            over = asyncio.Event()
            async with Members([place]):
                loop = asyncio.get_running_loop()
                begun.set_result(partial(loop.call_soon_threadsafe, over.set))
                await over.wait()

        thread = threading.Thread(target=lambda: asyncio.run(live()))
        thread.start()
        end = begun.result(60)
        yield place.api
        end()
        thread.join(60)


def asked(agent: str, path: str) -> str:
    with urllib.request.urlopen(f"http://{agent}{path}", timeout=10) as answer:
        return str(answer.read().decode())


@pytest.fixture
def attacker(browser: Browser, agent: str) -> Iterator[Any]:
    """A tab with the hostile page, in the browser of somebody who watches the agent."""
    tab = browser.started.new_context().new_page()
    with hostile_page(f"http://{agent}/") as address:
        tab.goto(address)
        yield tab


def test_nothing_is_read_changed_or_used_up(attacker: Any, agent: str) -> None:
    found = attacker.evaluate("window.attack()")
    assert found.pop("streams as images") == ["refused"] * 30
    assert found == {
        "fetch": "TypeError", "blind fetch": "TypeError", "stream": "refused", "image": "refused",
        "script": "refused", "data as a script": "refused", "choose": "opaque",
        "observe": "opaque",
    }  # fmt: skip
    state = json.loads(asked(agent, "/ui/state"))
    assert (state["choices"], state["rewards"], state["open_tickets"]) == (0, 0, 0)
    refused = re.findall(
        r'requests_total{path="(\S+)",status="403"} (\d+)', asked(agent, "/metrics")
    )
    assert dict(refused) == {
        "/choose": "1", "/observe": "1", "/ui/state": "1", "/ui/events": "31",
    }  # fmt: skip


def test_it_is_shown_in_no_frame_and_held_by_no_window(attacker: Any, agent: str) -> None:
    target = f"http://{agent}/ui/"
    attacker.evaluate(
        "url => new Promise(done => { const frame = document.createElement('iframe');"
        " frame.onload = done; frame.src = url; document.body.append(frame); })",
        target,
    )
    assert [frame.url for frame in attacker.frames[1:]] == ["chrome-error://chromewebdata/"]
    with attacker.context.expect_page() as opened:
        attacker.evaluate("url => { window.held = window.open(url); }", target)
    opened.value.wait_for_function("document.title.includes('coopbandits')")
    assert attacker.evaluate("window.held.closed")  # to its opener; it is open
    assert opened.value.evaluate("window.opener") is None


def test_a_name_that_was_made_to_point_here_gets_nothing(browser: Browser, agent: str) -> None:
    """DNS rebinding: to the browser it is the attacker's own origin, so only we can refuse."""
    tab = browser.started.new_context().new_page()
    port = agent.rpartition(":")[2]
    for path in ("ui/", "ui/main.js", "ui/state", "ui/events"):
        answer = tab.goto(f"http://{REBOUND}:{port}/{path}")
        assert answer.status == 421, path
        assert f"host '{REBOUND}" in answer.text()
