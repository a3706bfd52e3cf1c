"""A live fleet with certificates of a company goes over to another root, without a restart."""

from __future__ import annotations

import contextlib
import http.client
import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from coopbandits.fleet.identity.certs import init_authority
from coopbandits.fleet.identity.certs import issue as make
from coopbandits.fleet.process.embedded import LocalAgent

from .identity.company import CA, Company
from .process.agents import Agent, pulls, wait
from .transport.nodes import places

IDS = ("a.shop.example.org", "b.shop.example.org", "c.shop.example.org")


def install(agent: Agent, company: Company, *roots: Company, renewed: bool) -> None:
    """Put files in the place of an agent's: each is whole at any time, and the key stays."""
    contents = {"ca.pem": b"".join(each.path("root.pem").read_bytes() for each in roots)}
    if renewed:
        parts = [company.path(f"{part}.pem").read_bytes() for part in (agent.name, "issuing")]
        contents["own.pem"] = b"".join(parts)
    for name, content in contents.items():
        (agent.folder / "new").write_bytes(content)
        (agent.folder / "new").replace(agent.folder / name)


def issue(folder: Path, keys: Path | None = None) -> Company:
    """Make a root, an intermediate, and a certificate of each agent, with several names."""
    company = Company(folder)
    company.make_root()
    company.sign("issuing", "root", CA)
    for name in IDS:
        if keys is not None:
            company.path(f"{name}.key").write_bytes((keys / f"{name}.key").read_bytes())
        company.agent(name, "issuing", name.upper(), name.partition(".")[0], "shop.example.org")
    return company


@contextlib.contextmanager
def fleet(folder: Path, old: Company) -> Iterator[list[Agent]]:
    """Yield three agents on a path, so that the outer ones know each other by signatures alone."""
    with places(*IDS) as at:
        agents = []
        for own, others in zip(IDS, (IDS[1:2], IDS[::2], IDS[1:2]), strict=True):
            agent = Agent(folder / own[0], own, str(at[own]), neighbors={o: at[o] for o in others})
            install(agent, old, old, renewed=True)
            (agent.folder / "key.pem").write_bytes(old.path(f"{own}.key").read_bytes())
            (agent.folder / "key.pem").chmod(0o600)
            agent.tables["tls"] = {"ca": "ca.pem", "certificate": "own.pem", "key": "key.pem"}
            agent.write()
            agents.append(agent)
        try:
            yield agents
        finally:
            for agent in agents:
                agent.kill()


def metric(agent: Agent, name: str) -> list[float]:
    """Return the values of a metric, as Prometheus reads them over the agent's Unix socket."""
    connection = http.client.HTTPConnection("localhost")
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(agent.folder / "api"))
    with contextlib.closing(connection):
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    line = re.compile(rf"^coopbandits_{name}(?:{{.*}})? (\S+)$", re.MULTILINE)
    return [float(value) for value in line.findall(text)]


def pull(agent: Agent, reward: float) -> None:
    with agent.client() as client:
        client.observe(client.choose().ticket, reward)


def known(agents: list[Agent]) -> list[float]:
    found = []
    for agent in agents:
        with agent.client() as client:
            found.append(pulls(client))
    return found


@pytest.mark.slow
def test_a_fleet_goes_over_to_another_root_without_a_restart(tmp_path: Path) -> None:
    """Old and new root in all CA files, then new certificates, then the new root alone."""
    old = issue(tmp_path / "old")
    new = issue(tmp_path / "new", keys=old.folder)
    with fleet(tmp_path, old) as agents:
        for agent in agents:
            agent.start()
            pull(agent, 1.0)
        wait(lambda: known(agents) == [3.0] * 3, "they do not learn from each other")
        processes = [agent.process.pid for agent in agents if agent.process]
        counted = 3.0
        for roots, company, renewed in (((old, new), old, False), ((old, new), new, True),
                                        ((new,), new, False)):  # fmt: skip
            for agent in agents:  # one machine after the other
                before = agent.told().count("certificate reloaded")
                install(agent, company, *roots, renewed=renewed)
                wait(lambda: agent.told().count("certificate reloaded") > before)  # noqa: B023
                pull(agents[0], 1.0)  # applications go on, the outer two stay quiet
                counted += 1.0
                wait(lambda: known(agents) == [counted] * 3, agent.told())  # noqa: B023
        for agent in agents:
            assert metric(agent, "reconnects_total") == [0.0] * len(agent.tables["neighbors"])
            assert metric(agent, "link_up") == [1.0] * len(agent.tables["neighbors"])
            assert not sum(metric(agent, "refused_frames_total"))
            (left,) = metric(agent, "certificate_expiry_seconds")
            assert 199 * 86400 < left < 201 * 86400
        assert [agent.process.pid for agent in agents if agent.process] == processes

        # New links, too: whoever starts now believes what the quiet ones said under the old root.
        agents[0].send(signal.SIGKILL)
        agents[0].end()
        for each in (agents[0].folder / "memory").iterdir():
            each.unlink()
        agents[0].start()
        wait(lambda: known(agents) == [counted] * 3, agents[0].told())
        assert not any(sum(metric(agent, "refused_frames_total")) for agent in agents)


def test_an_agent_warns_of_its_certificate_when_it_starts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    init_authority(tmp_path, days=12)  # which ends the link, before the certificate would
    make(tmp_path, ["alpha"], days=12)
    agent = Agent(tmp_path / "alpha", certificates=tmp_path)
    with LocalAgent(agent.path):
        pass
    (said,) = (text for text in caplog.messages if "days_left=12" in text)
    assert "coopbandits certs renew authority --out certificates" in said


def test_names_of_a_company_link_two_agents(tmp_path: Path) -> None:
    old = issue(tmp_path / "old")
    with fleet(tmp_path, old) as (a, b, _):
        for agent in (a, b):
            agent.start()
        pull(a, 1.0)
        wait(lambda: known([a, b]) == [1.0, 1.0], a.told())
