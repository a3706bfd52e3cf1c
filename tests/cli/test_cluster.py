"""`coopbandits cluster` as it is typed."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from .calls import Call, refused

TEXT = '[cluster]\nversion = {version}\nname = "shop"\n'


@pytest.fixture
def key(call: Call, tmp_path: Path) -> Path:
    path = tmp_path / "operator.key"
    outcome = call("cluster", "keygen", str(path))
    assert outcome.status == 0
    assert outcome.out.startswith("ed25519:")
    return path


@pytest.fixture
def document(call: Call, key: Path, tmp_path: Path) -> Path:
    path = tmp_path / "cluster.toml"
    path.write_text(TEXT.format(version=1))
    outcome = call("cluster", "sign", str(path), "--key", str(key))
    assert outcome.out == f"version 1 of shop, signed by 1: {path}.sig\n"
    return path


def test_a_document_is_verified(call: Call, document: Path, key: Path, tmp_path: Path) -> None:
    outcome = call("cluster", "verify", str(document))
    assert outcome.out.startswith("version 1 of shop, signed by ed25519:")
    other = call("cluster", "keygen", str(tmp_path / "other.key")).out.strip()
    check = ("cluster", "verify", str(document), "--operator", other)
    assert "keys given" in refused(call(*check))
    own = outcome.out.split()[-1]
    assert call(*check, "--operator", own).status == 0
    document.write_text(TEXT.format(version=2))
    assert "ed25519:" in refused(call("cluster", "verify", str(document)))
    assert "exists" in refused(call("cluster", "keygen", str(key)))


def test_a_wrong_document_is_refused_with_all_its_problems(
    call: Call, key: Path, tmp_path: Path
) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text("[cluster]\nversion = 0\n[settings]\narms = 3\n")
    outcome = call("cluster", "sign", str(path), "--key", str(key))
    assert outcome.status == 2
    assert outcome.err.count("error: document: ") == len(outcome.err.splitlines()) == 3
    assert not path.with_name("wrong.toml.sig").exists()


def test_a_signature_tells_which_bandits_are_retired(call: Call, document: Path, key: Path) -> None:
    document.write_text('retired = ["page", "banner"]\n' + TEXT.format(version=2))
    outcome = call("cluster", "sign", str(document), "--key", str(key))
    assert outcome.out.splitlines()[1:] == [
        "it retires banner, page; where these run, `apply` needs --retire banner --retire page"
    ]


def test_a_document_is_compared_with_one_that_declared_more(
    call: Call, document: Path, tmp_path: Path
) -> None:
    new = tmp_path / "new.toml"
    document.write_text(TEXT.format(version=1) + "[bandits.banner]\n[bandits.page]\n")
    new.write_text('retired = ["page"]\n' + TEXT.format(version=2))
    outcome = call("cluster", "diff", str(document), str(new))
    assert outcome.out.splitlines() == [
        "~ [cluster] version: 1 -> 2",
        "+ retired page",
        "= bandit banner is not mentioned and continues",
    ]


def test_two_documents_are_compared(call: Call, document: Path, tmp_path: Path) -> None:
    new = tmp_path / "new.toml"
    new.write_text(TEXT.format(version=2) + 'revoked = ["a"]\n')
    outcome = call("cluster", "diff", str(document), str(new))
    assert outcome.out == "~ [cluster] version: 1 -> 2\n+ revoked a\n"
    assert call("cluster", "diff", str(new), str(new)).out == "nothing changes\n"


def answering(status: int, body: bytes) -> ThreadingHTTPServer:
    """Return a server that gives everybody the same answer."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815  the library's name

        def log_message(self, *_: object) -> None:
            pass

    return ThreadingHTTPServer(("127.0.0.1", 0), Handler)


Serve = Callable[[int, bytes], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Return what starts a server, and returns its address."""
    with ExitStack() as stack:

        def start(status: int, body: bytes) -> str:
            server = stack.enter_context(answering(status, body))
            threading.Thread(target=server.serve_forever, daemon=True).start()
            stack.callback(server.shutdown)
            return f"http://127.0.0.1:{server.server_port}"

        yield start


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Return an address at which nobody answers."""
    monkeypatch.setattr("coopbandits.cli.cluster.PATIENCE", 0.3)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


FULL = b'{"error": "the journal cannot be written"}'


def test_an_agent_that_does_not_answer_or_cannot_store(
    call: Call, document: Path, serve: Serve, nobody: str
) -> None:
    full = serve(503, FULL)
    for address, why in ((nobody, "no agent answered at "), (full, "the journal cannot be ")):
        message = refused(call("cluster", "apply", str(document), "--to", address))
        assert str(document) in message and address in message and why in message
        message = refused(call("cluster", "diff", address, str(document)))
        assert address in message and why in message


ROW = b'{"id": "shop-3", "version": 0, "digest": "", "neighbors": {}, "alarm": "", "content": null}'


def test_the_status_of_others_is_told_whatever_one_answers(
    call: Call, serve: Serve, nobody: str
) -> None:
    closed, full = serve(401, b'{"error": "a token is needed"}'), serve(503, FULL)
    outcome = call("cluster", "status", closed, full, nobody, serve(200, ROW))
    assert outcome.status == 1
    assert outcome.out == "shop-3: no document; neighbours: none\n"
    lines = outcome.err.splitlines()
    assert lines[:2] == [
        f"{closed}: a token is needed",
        f"{full}: the journal cannot be written",
    ]
    assert lines[2].startswith(f"{nobody}: no agent answered at ")
