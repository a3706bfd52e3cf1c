"""`coopbandits certs` as it is typed: requests, encrypted keys, and the commands in hints."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import pytest
from cryptography import x509

from coopbandits.cli import main
from coopbandits.cli.fleet import PASSPHRASE
from coopbandits.core.errors import InputError
from coopbandits.fleet.config import ClusterConfig, NodeConfig, TlsFiles
from coopbandits.fleet.config.check import find_warnings
from coopbandits.fleet.config.consistency import find_contradictions
from coopbandits.fleet.identity.certs import init_authority, issue, renew
from coopbandits.fleet.identity.notary import Notary
from coopbandits.fleet.identity.tls import Credentials, ExpiryWatch
from coopbandits.fleet.process.checkup import lasting

from ..fleet.identity.company import Company
from .calls import plain_terminal

SECRET = "correct horse"


def names_in(path: Path) -> list[str]:
    found = x509.load_pem_x509_certificate(path.read_bytes()).extensions
    names = found.get_extension_for_class(x509.SubjectAlternativeName).value
    return names.get_values_for_type(x509.DNSName)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder, which is empty."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(PASSPHRASE, raising=False)
    plain_terminal(monkeypatch)
    return tmp_path


def call(*words: str) -> tuple[int, str]:
    """Return status and output of a command."""
    with (
        redirect_stdout(io.StringIO()) as output,
        redirect_stderr(output),
        patch.object(sys, "argv", ["coopbandits", *words]),
        pytest.raises(SystemExit) as stop,
    ):
        main()
    assert stop.value.code is None or isinstance(stop.value.code, int)
    return stop.value.code or 0, output.getvalue()


def run(*words: str) -> str:
    status, output = call("certs", *words)
    assert status == 0, output
    return output


def test_a_key_that_is_made_on_its_machine_is_certified_without_leaving_it(place: Path) -> None:
    machine = place / "machine"
    run("init", "authority")
    asked = "request", "shop-1.example.org", "--out", str(machine), "--also", "shop-1"
    assert "shop-1.example.org-key.pem" in run(*asked)
    key = machine / "shop-1.example.org-key.pem"
    before = key.read_bytes()
    assert key.stat().st_mode & 0o777 == 0o600
    asked_for = (machine / "shop-1.example.org.csr").read_bytes()
    assert b"PRIVATE" not in asked_for
    (place / "shop-1.example.org.csr").write_bytes(asked_for)  # all that is copied
    sign = "sign", "authority", "shop-1.example.org.csr", "--out", "certificates"
    status, output = call("certs", *sign)
    assert status == 2
    assert "--also shop-1" in output
    run(*sign, "--also", "shop-1")
    assert sorted(each.name for each in (place / "certificates").iterdir()) == [
        "ca.pem", "shop-1.example.org.pem",
    ]  # fmt: skip
    for each in (place / "certificates").iterdir():
        (machine / each.name).write_bytes(each.read_bytes())
    files = machine / "ca.pem", machine / "shop-1.example.org.pem", key
    for node in ("shop-1", "shop-1.example.org"):
        Credentials(node, *files)
        Notary(node, files, ("test", 1), 4)
    # For a renewal the key stays, and the names of the certificate too.
    assert "-key.pem" not in run(*asked)
    assert key.read_bytes() == before
    run("renew", "authority", "--out", "certificates", "--all", "--days", "300")
    assert names_in(place / "certificates" / "shop-1.example.org.pem") == [
        "shop-1.example.org", "shop-1",
    ]  # fmt: skip


def test_openssl_signs_our_requests(place: Path) -> None:
    company = Company(place)
    company.make_root()
    run("request", "shop-1.example.org")
    done = subprocess.run(
        ["openssl", "x509", "-req", "-in", "shop-1.example.org.csr", "-CA", "root.pem", "-CAkey",
         "root.key", "-CAcreateserial", "-copy_extensions", "copy", "-out", "made.pem"],
        capture_output=True, check=False,
    )  # fmt: skip
    assert not done.returncode, done.stderr
    files = place / "root.pem", place / "made.pem", place / "shop-1.example.org-key.pem"
    Credentials("shop-1.example.org", *files)


@pytest.mark.parametrize(
    ("names", "file", "sentence"),
    [
        (["shop-2"], "shop-1.csr", "asks for the id 'shop-2'; name the file shop-2.csr"),
        (["shop-1", "shop-2"], "shop-1.csr", "also asks for the name 'shop-2'"),
        (["shop-1", "*.example.org"], "shop-1.csr", "'*.example.org' is not an agent's id"),
    ],
)
def test_a_request_gets_what_the_operator_means(
    place: Path, names: list[str], file: str, sentence: str
) -> None:
    """A machine writes its own request, and may ask for another's id."""
    run("init", "authority")
    company = Company(place / "machine")
    subprocess.run(
        ["openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
         "-subj", "/CN=shop-1", "-keyout", company.path("key"), "-out", place / file,
         "-addext", f"subjectAltName={','.join(f'DNS:{name}' for name in names)}"],
        capture_output=True, check=True,
    )  # fmt: skip
    status, output = call("certs", "sign", "authority", file)
    assert status == 2
    assert sentence in output
    assert not list((place / "authority").glob("shop*"))


def test_requests_that_cannot_be_signed(place: Path) -> None:
    run("init", "authority")
    run("request", "shop-1")
    good = (place / "shop-1.csr").read_text()
    lines = good.splitlines()
    lines[4] = lines[4][:-4] + ("AAAA" if not lines[4].endswith("AAAA") else "BBBB")
    subprocess.run(
        ["openssl", "req", "-new", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=shop-1",
         "-addext", "subjectAltName=DNS:shop-1", "-keyout", "rsa.key", "-out", "rsa.csr"],
        capture_output=True, check=True,
    )  # fmt: skip
    for content, sentence in (
        ("nothing", "not a request"),
        ("\n".join(lines) + "\n", "shop-1.csr"),
        ((place / "rsa.csr").read_text(), "P-256"),
    ):
        (place / "shop-1.csr").write_text(content)
        status, output = call("certs", "sign", "authority", "shop-1.csr")
        assert status == 2
        assert sentence in output
    assert call("certs", "sign", "authority", "none.csr")[0] == 2
    assert not (place / "authority" / "shop-1.pem").exists()


def test_an_encrypted_authority_opens_by_a_file_or_the_environment(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = place / "secret"
    secret.write_text(f"{SECRET}\n")
    secret.chmod(0o600)
    run("init", "authority", "--passphrase-file", "secret")
    assert "ENCRYPTED" in (place / "authority" / "ca-key.pem").read_text()
    status, output = call("certs", "issue", "authority", "shop-1")
    assert status == 2
    assert PASSPHRASE in output
    assert "--passphrase-file" in output
    run("issue", "authority", "shop-1", "--passphrase-file", "secret")
    monkeypatch.setenv(PASSPHRASE, SECRET)
    run("renew", "authority", "--all")
    run("request", "shop-2")
    run("sign", "authority", "shop-2.csr")
    monkeypatch.setenv(PASSPHRASE, "wrong")
    status, output = call("certs", "issue", "authority", "shop-3")
    assert status == 2
    assert "cannot decrypt" in output
    assert "wrong" not in output
    assert not (place / "authority" / "shop-3.pem").exists()
    monkeypatch.setenv(PASSPHRASE, "")
    assert "holds no passphrase" in call("certs", "issue", "authority", "shop-3")[1]
    secret.chmod(0o644)
    options = "issue", "authority", "shop-3", "--passphrase-file", "secret"
    assert "world-readable" in call("certs", *options)[1]


ENTER_TERMINAL = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from coopbandits.cli import main
main()
"""


def typed(command: list[str], *answers: str) -> tuple[int, str]:
    """Run a command at a terminal, and answer its prompts; return its status and what it shows."""
    ours, theirs = pty.openpty()
    whole = [sys.executable, "-c", ENTER_TERMINAL, *command]
    with subprocess.Popen(
        whole, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
    ) as process:
        os.close(theirs)
        shown, waiting = b"", list(answers)
        while select.select([ours], [], [], 60.0)[0]:
            try:
                more = os.read(ours, 1000)
            except OSError:  # how Linux reports that the process is gone
                break
            if not more:
                break
            shown += more
            if waiting and shown.endswith(b": "):  # the space comes once it does not echo
                os.write(ours, waiting.pop(0).encode() + b"\n")
                shown += b"|"
        os.close(ours)
    assert not waiting, shown
    return process.returncode, shown.decode()


def test_a_passphrase_is_asked_for_at_a_terminal(place: Path) -> None:
    status, shown = typed(["certs", "init", "authority", "--encrypt"], SECRET, SECRET)
    assert status == 0, shown
    assert SECRET not in shown
    status, shown = typed(["certs", "issue", "authority", "shop-1"], SECRET)
    assert status == 0, shown
    assert (place / "authority" / "shop-1.pem").exists()


# Hints

COMMAND = re.compile(r"coopbandits (certs [^`;,)]*)")


def commands_in(sentence: str) -> Iterator[list[str]]:
    """Yield the commands in a sentence, as they would be copied from it."""
    for found in COMMAND.findall(sentence):
        yield shlex.split(found.rstrip(". "))


def error_of(*check: object) -> str:
    function, *arguments = check
    with pytest.raises(InputError) as caught:
        function(*arguments)  # type: ignore[operator]
    return str(caught.value)


def hints(place: Path, caplog: pytest.LogCaptureFixture) -> Iterator[str]:
    """Yield sentences that print commands, each from where it is printed."""
    folder, now = place / "certificates", datetime.now(UTC)
    files = TlsFiles(folder / "ca.pem", folder / "shop-1.pem", folder / "shop-1-key.pem")
    cluster, journal = ClusterConfig("shop", 0), place / "journal"
    bare = NodeConfig(cluster, "shop-1", journal, {}, auto=True)
    yield from find_contradictions(bare, time.time(), insecure=False)
    yield error_of(Credentials, "shop-9", *files)
    issue(place / "authority", ["shop-1"], folder, days=20, force=True)
    soon = NodeConfig(cluster, "shop-1", journal, {}, tls=files)
    yield from find_warnings(soon, time.time())
    credentials = Credentials("shop-1", *files)
    ExpiryWatch(credentials).look(time.time())
    yield caplog.text
    for command in ("RENEW", "NEW_AUTHORITY"):
        text = getattr(sys.modules["coopbandits.fleet.identity.certs"], command)
        yield lasting("certificate", time.time() + 86400, time.time(), text).mend
    issue(place / "authority", ["shop-1"], folder, days=1, now=now - timedelta(days=2), force=True)
    yield error_of(Credentials, "shop-1", *files)
    yield error_of(renew, place / "nowhere")
    (place / "none").mkdir()
    yield error_of(renew, place / "authority", place / "none")
    foreign = Company(place / "company")
    foreign.make_root()
    foreign.agent("shop-1", "root", "shop-1")
    theirs = foreign.path("root.pem"), foreign.path("shop-1.pem"), folder / "shop-1-key.pem"
    yield error_of(Notary, "shop-1", (files.ca, *theirs[1:]), ("test", 1), 4)


def test_the_commands_that_hints_print_work_as_they_stand(
    place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """In the folder with the authority, laid out as on the page about deployment."""
    init_authority(place / "authority")
    issue(place / "authority", ["shop-1"], place / "certificates")
    tried = set()
    for sentence in [*hints(place, caplog)]:
        for command in commands_in(sentence):
            tried.add(command[1])
            if command[1] == "init" and (place / command[2]).exists():
                command[2] = f"{command[2]}-{len(tried)}-{time.monotonic_ns()}"
            status, output = call(*command)
            assert status == 0, f"{sentence}\n{command}\n{output}"
    assert tried == {"init", "issue", "renew"}
