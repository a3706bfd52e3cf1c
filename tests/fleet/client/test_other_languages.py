"""The client examples in Go, JavaScript and curl, with real agents and with failing ones."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from coopbandits.fleet.client import Client

from ..process.agents import PATIENCE, TOKEN, lonely
from .driving import answer, answering
from .test_default import REFUSALS

CLIENTS = Path(__file__).parents[3] / "examples" / "fleet" / "clients"
DEFAULT = "teal"
"""Not an option of any agent here, so that a default is recognised."""

Start = Callable[..., subprocess.Popen[str]]


def program(language: str, folder: Path) -> list[str]:
    """Return the command that runs an example; skip the test where the language is missing."""
    if language == "curl":
        needed, command = "curl", ["sh", str(CLIENTS / "client.sh")]
    elif language == "node":
        needed, command = "node", ["node", str(CLIENTS / "client.mjs")]
    else:
        needed, command = "go", [str(folder / "client")]
    if shutil.which(needed) is None:
        pytest.skip(f"{needed} is not installed, so its client example cannot run")
    if language == "go":
        environment = os.environ | {"GOCACHE": str(folder / "cache"), "GO111MODULE": "auto"}
        source = str(CLIENTS / "client.go")
        subprocess.run(["go", "vet", source], env=environment, check=True, timeout=500)
        subprocess.run(
            ["go", "build", "-o", command[0], source], env=environment, check=True, timeout=500
        )
    return command


GO = pytest.param("go", marks=pytest.mark.slow)  # it is compiled
SOME = pytest.mark.parametrize("start", ["curl", "node", GO], indirect=True)
MANY = pytest.mark.parametrize(
    "start", ["curl", pytest.param("node", marks=pytest.mark.slow), GO], indirect=True
)


@pytest.fixture(scope="module")
def start(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Start:
    """Start a client that makes one choice and submits its reward."""
    command = program(request.param, tmp_path_factory.mktemp("client"))

    def start(address: str, **environment: str) -> subprocess.Popen[str]:
        settings = {"AGENT": address, "DEFAULT": DEFAULT, "TIMEOUT": str(PATIENCE)} | environment
        return subprocess.Popen(
            command, env=os.environ | settings, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    return start


def ended(client: subprocess.Popen[str]) -> tuple[str, int]:
    """Return the option that a client printed, and its exit status."""
    arm, errors = client.communicate(timeout=PATIENCE)
    print(errors)
    return arm.strip(), client.returncode


@contextmanager
def agent(folder: Path) -> Iterator[str]:
    """Run an agent whose options are red and blue; yield the address of its API."""
    with lonely(folder, api="127.0.0.1:0") as made:
        made.write_token(TOKEN)
        made.start()
        yield re.findall(r"serves at (\S+),", made.told())[-1]


Reply = Callable[[str, Callable[[], bytes]], bytes]
"""Returns what is sent back: gets a path, and what asks the agent and returns its answer."""


@contextmanager
def between(address: str, reply: Reply) -> Iterator[str]:
    """Put a server between a client and its agent; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))

            def ask() -> bytes:
                headers = {name.lower(): value for name, value in self.headers.items()}
                with closing(HTTPConnection(address, timeout=PATIENCE)) as agent:
                    agent.request("POST", self.path, body, headers | {"host": address})
                    found = agent.getresponse()
                    return answer(f"{found.status} {found.reason}", found.read())

            self.wfile.write(reply(self.path, ask))
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def counted(address: str) -> list[tuple[int, float]]:
    """Return how many rewards of the agent's application count, and their sum."""
    with Client(address, TOKEN, PATIENCE, bandit="button") as client:
        return [(arm.own_pulls, arm.own_reward) for arm in client.arms() if arm.own_pulls]


@SOME
def test_a_client_chooses_and_its_reward_counts(start: Start, tmp_path: Path) -> None:
    with agent(tmp_path) as address:
        arm, status = ended(start(address, TOKEN=TOKEN))
        assert (arm in ("red", "blue"), status) == (True, 0)
        assert counted(address) == [(1, 1.0)]
        assert ended(start(address, TOKEN="not-the-right-token")) == (DEFAULT, 0)
        assert ended(start(address, TOKEN=TOKEN, BANDIT="unknown")) == (DEFAULT, 0)
        assert counted(address) == [(1, 1.0)]


@MANY
def test_a_reward_whose_answer_is_lost_counts_once(start: Start, tmp_path: Path) -> None:
    failures = [
        b"",
        b"cut off",
        answer("503 Service Unavailable", b'{"error": "no", "reason": "draining"}'),
        answer("429 Too Many Requests", b'{"error": "no"}'),
    ]
    observed = 0

    def reply(path: str, ask: Callable[[], bytes]) -> bytes:
        nonlocal observed
        if path.endswith("/choose") or observed == len(failures):
            return ask()
        observed += 1
        # Of the second one, the reward is counted, and the client cannot know.
        return ask()[:20] if observed == 2 else failures[observed - 1]

    with agent(tmp_path) as address:
        with between(address, reply) as relay:
            arm, status = ended(start(relay, TOKEN=TOKEN))
            assert (arm in ("red", "blue"), status) == (True, 0)
        assert observed == len(failures)
        assert counted(address) == [(1, 1.0)]


@MANY
def test_a_reward_that_is_rejected_is_submitted_once(start: Start) -> None:
    paths: list[str] = []

    def reply(path: str, _: Callable[[], bytes]) -> bytes:
        paths.append(path.rpartition("/")[2])
        if paths == ["choose"]:
            return answer("200 OK", b'{"ticket": "x", "arm": "red"}')
        return answer("410 Gone", b'{"error": "the ticket has expired"}')

    with between("", reply) as address:
        assert ended(start(address)) == ("red", 1)
    assert paths == ["choose", "observe"]


@MANY
def test_every_refusal_is_a_default(start: Start) -> None:
    for refusal, (_, reply) in REFUSALS.items():
        with answering(lambda _, reply=reply: reply) as address:  # type: ignore[misc]
            assert ended(start(address)) == (DEFAULT, 0), refusal


@MANY
def test_an_agent_that_hangs_or_is_away_is_a_default(start: Start) -> None:
    with answering(lambda _: None) as address:
        assert ended(start(address, TIMEOUT="0.2")) == (DEFAULT, 0)
    assert ended(start("127.0.0.1:1")) == (DEFAULT, 0)
