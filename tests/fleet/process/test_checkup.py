"""`coopbandits doctor NODE.toml` on agents that are well, and on ones that are not."""

from __future__ import annotations

import os
import socket
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from coopbandits.finding import BROKEN, NOTE, OK, Finding
from coopbandits.fleet.identity.certs import RENEW, init_authority, issue
from coopbandits.fleet.process import checkup
from coopbandits.fleet.process.embedded import LocalAgent

from .agents import Agent, agents, wait


def examine(agent: Agent) -> dict[str, Finding]:
    return {finding.what: finding for finding in checkup.findings(agent.path)}


def broken(agent: Agent) -> dict[str, Finding]:
    return {what: found for what, found in examine(agent).items() if found.state == BROKEN}


def test_two_agents_of_which_one_runs(tmp_path: Path, certificates: Path) -> None:
    with agents(tmp_path, certificates=certificates) as (alpha, beta):
        (tmp_path / "beta").mkdir(exist_ok=True)
        with LocalAgent(beta.path) as running:
            found = examine(alpha)
            assert [what for what, each in found.items() if each.state == BROKEN] == []
            assert found["configuration"].found == "agent alpha of cluster shop"
            assert "both certificates are valid" in found["neighbour beta"].found
            assert "days)" in found["authority"].found
            assert found["journal"].found == "none yet: the agent starts without memory"
            assert found["listens"].found.endswith("is free")
            assert not (alpha.folder / "memory").exists()  # it looked, and left nothing behind
            assert not (alpha.folder / "api").exists()

            with LocalAgent(alpha.path) as other:
                wait(lambda: other.health()["links"]["beta"] == "up")
                links = running.metrics()
                other.observe(other.choose().ticket, 1.0)
                found = examine(alpha)
                assert [what for what, each in found.items() if each.state == BROKEN] == []
                assert "both certificates are valid" in found["listens"].found
                assert "; rewards: 1; open tickets: 0" in found["journal"].found
                up = {metric.name: metric.samples for metric in links}["reconnects_total"]
                now = {metric.name: metric.samples for metric in running.metrics()}
                assert now["reconnects_total"] == up  # no link was touched
        found = broken(alpha)
        assert list(found) == ["neighbour beta"]
        assert "cannot be reached at 127.0.0.1:" in found["neighbour beta"].found
        assert found["neighbour beta"].mend.startswith("start it")


def test_neighbours_with_another_certificate(
    tmp_path: Path, certificates: Path, other_certificates: Path
) -> None:
    with agents(tmp_path, certificates=certificates) as (alpha, beta):
        beta.tables["tls"] = {
            key: path.replace(str(certificates), str(other_certificates))
            for key, path in beta.tables["tls"].items()
        }
        beta.write()
        with LocalAgent(beta.path):
            found = broken(alpha)["neighbour beta"]
            assert found.found.startswith("its certificate is invalid: ")
            # Where both trust the other's authority, but not the other way round:
            trusting = tmp_path / "trusting.pem"
            text = [
                (folder / "ca.pem").read_text() for folder in (certificates, other_certificates)
            ]
            trusting.write_text("".join(text))
            alpha.tables["tls"]["ca"] = str(trusting)
            alpha.write()
            found = broken(alpha)["neighbour beta"]
            assert found.found.startswith("it does not accept this agent's certificate: ")
        alpha.tables["neighbors"][0]["id"] = "gamma"
        alpha.write()
        with LocalAgent(beta.path):
            found = broken(alpha)["neighbour gamma"]
            assert found.found.endswith("is beta, not gamma")
            assert found.mend == "correct its address in [[neighbors]]"
        alpha.tables["neighbors"][0]["address"] = "nowhere.invalid:7400"
        alpha.write()
        assert "has no address" in broken(alpha)["neighbour gamma"].found


def test_certificates_that_expire_or_are_missing(tmp_path: Path) -> None:
    init_authority(tmp_path, days=5)
    issue(tmp_path, ["alpha"], days=3)
    agent = Agent(tmp_path / "alpha", certificates=tmp_path)
    found = examine(agent)
    assert found["certificate"].state == found["authority"].state == NOTE
    assert found["certificate"].mend == f"{RENEW}, and copy the files"
    assert "(3 days)" in found["certificate"].found
    (tmp_path / "alpha-key.pem").chmod(0o644)
    found = broken(agent)
    assert list(found) == ["certificate"]
    assert found["certificate"].mend.startswith("forbid it with: chmod o-r")


def test_all_files_that_are_missing_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent(tmp_path / "alpha", token_file="no-token", revoked="no-ids", uvloop=True)
    gone = {"ca": "no-ca", "certificate": "no-certificate", "key": "no-key"}
    agent.tables["bandits"]["button"]["token_file"] = "no-other"
    agent.tables["api_tls"] = gone
    agent.write()
    monkeypatch.setattr("coopbandits.fleet.config.read.find_spec", lambda _: None)
    found = [each for each in checkup.findings(agent.path) if each.state == BROKEN]
    assert {each.what for each in found} == {"file"}
    for name in ("no-token", "no-other", "no-key", "no-ids", "uvloop"):
        assert sum(name in each.found for each in found) == 1, name
    assert len(found) == 5
    for name in ("no-token", "no-other"):
        (agent.folder / name).write_text("0123456789abcdef")
        (agent.folder / name).chmod(0o600)
    examined = examine(agent)
    assert examined["token"].found.endswith("no-token")
    assert examined["token of button"].found.endswith("no-other")


@pytest.mark.parametrize(
    ("from_now", "state", "told"),
    [
        (-2000, BROKEN, " expired on "),
        (5, BROKEN, " is not valid before "),
        (-80, NOTE, "(10 days)"),
        (0, OK, "(90 days)"),
    ],
)
def test_the_dates_of_the_certificate_of_the_api(
    tmp_path: Path, from_now: int, state: str, told: str
) -> None:
    begins = datetime.now(UTC) + timedelta(days=from_now, hours=1)
    init_authority(tmp_path)
    issue(tmp_path, ["alpha"], days=90, now=begins)
    agent = Agent(tmp_path / "alpha", certificates=tmp_path)
    agent.tables["api_tls"] = agent.tables.pop("tls")
    agent.write()
    found = examine(agent)["certificate of the API"]
    assert (found.state, bool(found.mend)) == (state, state != OK)
    assert told in found.found


def test_disk_ports_clock_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent(tmp_path / "alpha")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        agent.write(listen=f"127.0.0.1:{taken.getsockname()[1]}")
        agent.write_token("short")
        (agent.folder / "api").write_text("no socket")
        found = broken(agent)
        assert list(found) == ["file", "listens", "API"]
        assert found["listens"].found.endswith("Address already in use")
        assert "holds 5 characters" in found["file"].found
        assert found["API"].found.endswith("exists and is not a socket")
    (agent.folder / "api").unlink()
    (agent.folder / "token").unlink()
    agent.tables["node"] |= {"listen": "127.0.0.1:0", "durability": "power"}
    del agent.tables["node"]["token_file"]
    agent.write()
    with LocalAgent(agent.path, insecure=True):
        pass
    journal = agent.folder / "memory" / "journal"
    os.utime(journal, (time.time() + 3600,) * 2)
    monkeypatch.setattr(checkup, "SLOW_SYNC", 0.0)
    monkeypatch.setattr(checkup, "SPARE_BYTES", 1 << 60)
    found = examine(agent)
    assert [what for what, each in found.items() if each.state == BROKEN] == ["clock", "room"]
    assert found["room"].mend == "free space on that disk"
    assert found["disk"].state == NOTE
    data = bytearray(journal.read_bytes())
    data[60] ^= 1
    journal.write_bytes(data)
    assert "damaged" in broken(agent)["journal"].found


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    agent = Agent(tmp_path / "alpha", journal="/proc/coopbandits")  # root may write elsewhere
    found = broken(agent)
    assert list(found) == ["disk"]
    assert found["disk"].found.startswith("/proc cannot be written: ")


def test_a_folder_that_cannot_even_be_looked_at(tmp_path: Path) -> None:
    for name in ("x" * 300, "loop/memory"):
        (tmp_path / "alpha").mkdir(exist_ok=True)
        loop = tmp_path / "alpha" / "loop"
        if not loop.is_symlink():
            loop.symlink_to(loop)
        agent = Agent(tmp_path / "alpha", journal=name)
        found = broken(agent)
        assert list(found) == ["disk"]
        assert f"{name} cannot be written: " in found["disk"].found
        assert found["disk"].mend


def test_a_bad_file_is_all_that_is_told(tmp_path: Path) -> None:
    agent = Agent(tmp_path / "alpha", ready_neighbors=2, silence=-1.0)
    found = list(checkup.findings(agent.path))
    assert [each.what for each in found] == ["configuration"]
    assert found[0].state == BROKEN
    agent.tables["node"]["silence"] = 1.0
    agent.write()
    (only,) = checkup.findings(agent.path)
    assert "so the agent would never be ready" in only.found
    assert only.mend == "lower it or list more"


def test_what_a_machine_may_lack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent = Agent(tmp_path / "alpha")
    monkeypatch.setattr("resource.getrlimit", lambda _: (10, 20))
    assert "and 20 allowed" in broken(agent)["open files"].found
    monkeypatch.setattr(checkup, "_is_unsynchronised", lambda: True)
    assert examine(agent)["clock"].mend.startswith("run a time service")
    monkeypatch.setattr(checkup, "_is_unsynchronised", lambda: False)
    assert examine(agent)["clock"].state == OK
