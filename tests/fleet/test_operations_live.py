"""A fleet under load, on which an operator makes every ordinary change, one after the other."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from shutil import copy
from typing import Any

import pytest
from typer.testing import CliRunner

from coopbandits.cli import app
from coopbandits.fleet.client import Client
from coopbandits.fleet.config import write_config
from coopbandits.fleet.local.faults import Dice
from coopbandits.fleet.service import BanditState, ExpiredTicketError, UnauthorizedError

from .load import HEAD, NAMES, TIMEOUT, Asynchronous, Blocking, Book, Row
from .process.agents import PATIENCE, Agent
from .test_changes_live import Totals, same
from .transport.nodes import places

BUTTON: dict[str, Any] = {
    "arms": ["red", "green"],
    "reward_range": [0.0, 1.0],
    "sticky_seconds": 600.0,
}
BANNER: dict[str, Any] = {"arms": ["a", "b", "c"], "sigma": 0.5, "policy": "flood-ucb"}
SEASON: dict[str, Any] = {"arms": ["winter", "spring"], "reward_range": [0.0, 1.0]}
SEARCH: dict[str, Any] = {
    "arms": ["old", "new"],
    "reward_range": [0.0, 1.0],
    "features": {"hour": [0, 24]},
}

FORWARD = TIMEOUT / 2
"""Seconds that an agent's call of another one may take."""

SLACK = 4.0
"""Seconds by which a busy machine may delay a thread."""

MAX_OPEN = 1000
"""So few that one application can lose all of them, and more than wait where nothing is lost."""


class Fleet:
    """Six agents on a ring, and their operator, who has the command line and an editor."""

    def __init__(self, folder: Path, at: dict[str, Any]) -> None:
        self.folder, self.dice, self.rows = folder, Dice(4, 0), list[Row]()
        self.authority, self.made = folder / "authority", folder / "certificates"
        self.admin, self.choose = folder / "admin-token", folder / "choose-token"
        self.metrics = folder / "metrics-token"
        for path in (self.admin, self.choose, self.metrics):
            self.write_token(path, f"the-first-{path.name}")
        self.run("certs", "init", self.authority)
        self.run("certs", "issue", self.authority, *NAMES, "--out", self.made)
        self.key, self.version = folder / "operator.key", 0
        operator = self.run("cluster", "keygen", self.key).strip()
        self.agents: dict[str, Agent] = {}
        for name, before, after in zip(
            NAMES, NAMES[-1:] + NAMES[:-1], NAMES[1:] + NAMES[:1], strict=True
        ):
            neighbors = {before: at[before], after: at[after]}
            agent = Agent(folder / name, name, str(at[name]), neighbors=neighbors)
            agent.tables |= {
                "cluster": {"name": "shop", "epoch": datetime(2026, 1, 31, tzinfo=UTC)},
                "bandits": {"button": BUTTON, "banner": BANNER, "season": SEASON},
                "document": {"operators": [operator]},
                "api": {
                    "choose_token_file": str(self.choose),
                    "admin_token_file": str(self.admin),
                },
                "tls": {
                    "ca": "ca.pem",
                    "certificate": f"{name}.pem",
                    "key": f"{name}-key.pem",
                },
            }
            agent.write(max_open_tickets=MAX_OPEN, forward_seconds=FORWARD)
            self.install(name, self.made / "ca.pem")
            self.install(name, self.made / f"{name}.pem")
            self.install(name, self.made / f"{name}-key.pem")
            self.agents[name] = agent
        self.book = Book(folder, self.choose.read_text())

    # What an operator does

    def run(self, *words: object, status: int = 0) -> str:
        """Run a command; return what it prints."""
        done = CliRunner().invoke(app, [str(word) for word in words])
        output = f"{done.output}{done.exception or ''}"
        assert (done.exit_code == 0) == (status == 0), (words, output)
        return output

    def write_token(self, path: Path, token: str) -> None:
        path.write_text(token)
        path.chmod(0o600)

    def install(self, name: str, path: Path, to: str = "") -> None:
        """Copy a file to the machine of an agent, where it appears as a whole."""
        target = self.folder / name / (to or path.name)
        copy(path, target.with_suffix(".new"))
        target.with_suffix(".new").replace(target)

    def address(self, name: str) -> str:
        return f"unix:{self.folder / name / 'api'}"

    def sign(self, bandits: dict[str, Any], retired: tuple[str, ...] = ()) -> Path:
        """Write the next document and sign it."""
        self.version += 1
        path, head = self.folder / "cluster.toml", {"name": "shop", "version": self.version}
        above = f"retired = {list(retired)}\n" if retired else ""
        path.write_text(above + write_config({"cluster": head, "bandits": bandits}))
        nodes = [word for name in NAMES[:2] for word in ("--node", self.agents[name].path)]
        self.run("cluster", "sign", path, "--key", self.key, *nodes)
        return path

    def apply(self, path: Path, *options: str, status: int = 0) -> str:
        to = self.address(self.dice.pick(NAMES))
        known = "--token-file", self.admin
        self.run("cluster", "diff", to, path, *known)
        return self.run("cluster", "apply", path, "--to", to, *known, *options, status=status)

    def start(self, *names: str) -> None:
        threads = [threading.Thread(target=self.agents[name].start) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def restart(self, *names: str) -> None:
        """Stop agents by SIGTERM, and start them again."""
        for name in names:
            self.agents[name].send(signal.SIGTERM)
        for name in names:
            assert self.agents[name].end() == 0, self.agents[name].told()
        self.start(*names)

    def reload(self, name: str, answer: str = "the configuration was reloaded") -> None:
        """Send SIGHUP, and wait for what the log says of it."""
        agent = self.agents[name]
        before = agent.told().count(answer)
        agent.send(signal.SIGHUP)
        self.until(lambda: agent.told().count(answer) > before, f"{name} does not log {answer!r}")

    # What can be seen of it

    def client(self, name: str) -> Client:
        return self.agents[name].client(self.admin.read_text())

    def learned(self, name: str, kind: str = "") -> Totals:
        """Return pulls and rewards by bandit and arm: of the network, or an agent's own."""
        with self.client(name) as client:
            exported = client.export()["bandits"]
        found = {}
        for bandit, output in exported.items():
            for arm in output["arms"]:
                if kind == "own" and arm["own_pulls"]:
                    found[bandit, arm["arm"]] = arm["own_pulls"], arm["own_reward"]
                elif not kind and arm["pulls"]:
                    found[bandit, arm["arm"]] = arm["pulls"], arm["pulls"] * arm["mean"]
        return found

    def bandits(self, name: str) -> dict[str, BanditState]:
        with self.client(name) as client:
            return {state.name: state for state in client.bandits()}

    def everywhere(self, condition: Callable[[dict[str, BanditState]], object]) -> bool:
        return all(condition(self.bandits(name)) for name in NAMES)

    def has_version(self) -> bool:
        found = set()
        for name in NAMES:
            with self.client(name) as client:
                found.add(client.cluster()["version"])
        return found == {self.version}

    def is_linked(self) -> bool:
        for name in NAMES:
            with self.client(name) as client:
                if any(state != "up" for state in client.health()["links"].values()):
                    return False
        return True

    def logs(self) -> str:
        return "\n".join(agent.told() for agent in self.agents.values())

    def until(self, condition: Callable[[], object], otherwise: str) -> None:
        end = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > end:
                pytest.fail(
                    "\n".join([self.logs(), *map(str, self.rows), *self.book.errors, otherwise])
                )
            time.sleep(0.05)

    def counts_all(self, known: Totals) -> bool:
        """Whether every agent counts at least some rewards that were acknowledged."""
        for name in NAMES:
            found = self.learned(name)
            if any(found.get(arm, (0, 0.0))[0] < pulls for arm, (pulls, _) in known.items()):
                return False
        return True

    @contextmanager
    def change(self, what: str) -> Iterator[Row]:
        """Measure a change until all agents agree; then kill one of them, and measure that."""
        row = self.book.row = Row(what)
        self.rows.append(row)
        began = time.monotonic()
        yield row
        known = self.book.totals()
        self.until(lambda: self.counts_all(known), f"{what}: not all agents count {known}")
        row.agreed = time.monotonic() - began
        victim, killed = self.dice.pick(NAMES), time.monotonic()
        self.agents[victim].kill()
        self.start(victim)
        self.until(self.is_linked, f"{what}: not all links are up")
        row.back, row.seconds = time.monotonic() - killed, time.monotonic() - began
        print(row)


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with places(*NAMES) as at:
        made = Fleet(tmp_path, at)
        try:
            yield made
        finally:
            made.book.over.set()
            for agent in made.agents.values():
                agent.kill()


def add_a_bandit(fleet: Fleet) -> None:
    fleet.book.bandits.append("search")  # the new release of the application is there first
    fleet.apply(fleet.sign({"search": SEARCH}))
    fleet.until(fleet.has_version, "not all have the document")
    running = {"button", "banner", "season", "search"}
    assert fleet.everywhere(lambda had: {n for n, b in had.items() if not b.retired} == running)


def retire_a_bandit(fleet: Fleet) -> None:
    path = fleet.sign({}, retired=("season",))
    output = fleet.apply(path, status=1)
    assert "add --retire season to confirm" in " ".join(output.split())
    assert fleet.everywhere(lambda had: not had["season"].retired)
    fleet.apply(path, "--retire", "season")
    fleet.until(lambda: fleet.everywhere(lambda had: had["season"].retired), "it is not retired")
    fleet.book.bandits.remove("season")


def change_arms(fleet: Fleet) -> None:
    button, banner = BUTTON | {"arms": ["red", "green", "blue"]}, BANNER | {"arms": ["a", "c"]}
    fleet.apply(fleet.sign({"button": button, "banner": banner}))
    fleet.until(
        lambda: fleet.everywhere(
            lambda had: (had["button"].arms, had["banner"].arms) == (button["arms"], banner["arms"])
        ),
        "not all have the arms",
    )


def policies(had: dict[str, BanditState]) -> dict[str, tuple[str, int]]:
    return {name: (state.policy, state.era) for name, state in had.items()}


def raise_max_agents(fleet: Fleet) -> None:
    before = policies(fleet.bandits(NAMES[0]))
    assert before["button"][0].startswith("flood-ts")
    for name in NAMES:
        agent = fleet.agents[name]
        agent.tables["cluster"]["max_agents"] = 1500
        agent.write()
        fleet.restart(name)
    fleet.until(fleet.is_linked, "not all links are up")
    assert fleet.everywhere(lambda had: policies(had) == before)


def migrate(fleet: Fleet) -> None:
    more = {"arms": ["red", "green", "blue"], "policy": "ledger-ts", "era": 1}
    fleet.apply(fleet.sign({"button": BUTTON | more}))
    fleet.until(
        lambda: fleet.everywhere(lambda had: policies(had)["button"] == ("ledger-ts", 1)),
        "not all have the policy",
    )


def lose_rewards(fleet: Fleet) -> None:
    """An application that submits no rewards, beside those that do."""
    name = NAMES[2]
    with Client(
        fleet.address(name), fleet.book.token, TIMEOUT, default="a", bandit="banner"
    ) as client:
        tickets = [client.choose().ticket for _ in range(MAX_OPEN + 100)]
        assert not any(client.defaults.values())
        with pytest.raises(ExpiredTicketError, match="was abandoned"):
            client.observe(tickets[0], 1.0)
        state = client.health()["bandits"]["banner"]
        assert state["open_tickets"] <= MAX_OPEN
        assert state["abandoned_tickets"] >= 100


def await_reload(fleet: Fleet, name: str, *paths: Path) -> None:
    """Copy files to an agent, which uses them without a signal."""
    agent = fleet.agents[name]
    before = agent.told().count("certificate reloaded")
    for path in paths:
        fleet.install(name, path, "ca.pem" if path.name in ("both.pem", "ca.pem") else "")
    fleet.until(lambda: agent.told().count("certificate reloaded") > before, "it is not reloaded")


def renew_certificates(fleet: Fleet) -> None:
    fleet.run("certs", "renew", fleet.authority, "--out", fleet.made, "--all", "--days", 60)
    for name in NAMES:
        await_reload(fleet, name, fleet.made / f"{name}.pem")


def change_the_authority(fleet: Fleet) -> None:
    new, both = fleet.folder / "new-authority", fleet.folder / "both.pem"
    fleet.run("certs", "init", new)
    old, fleet.authority = fleet.authority, new
    both.write_bytes((old / "ca.pem").read_bytes() + (new / "ca.pem").read_bytes())
    for name in NAMES:
        await_reload(fleet, name, both)
    for name in NAMES:
        fleet.run("certs", "request", name, "--out", fleet.folder / name)  # its key stays
        csr = fleet.folder / name / f"{name}.csr"
        fleet.run("certs", "sign", new, csr, "--out", new)
        await_reload(fleet, name, new / f"{name}.pem")
    for name in NAMES:
        await_reload(fleet, name, new / "ca.pem")


def change_tokens(fleet: Fleet) -> None:
    """Another token for applications, which get it last, and one for monitoring."""
    fleet.write_token(fleet.choose, "the-second-choose-token")
    for name in NAMES:
        agent = fleet.agents[name]
        agent.tables["api"]["metrics_token_file"] = str(fleet.metrics)
        agent.write()
        fleet.reload(name)
    for name in NAMES:
        with fleet.agents[name].client(fleet.metrics.read_text()) as client:
            assert client.health()["id"] == name
            with pytest.raises(UnauthorizedError, match="scope metrics"):
                client.bandit("button").choose()
        with fleet.client(name) as client, pytest.raises(UnauthorizedError, match="scope admin"):
            client.bandit("button").choose()
    fleet.book.token = fleet.choose.read_text()


def reload_broken_files(fleet: Fleet) -> None:
    for name, wrong in zip(NAMES, ("[node", "surprise = 1\n", "\udcff"), strict=False):
        agent = fleet.agents[name]
        whole = agent.path.read_text()
        agent.path.write_bytes((wrong + whole).encode(errors="surrogateescape"))
        had = fleet.bandits(name)
        fleet.reload(name, "nothing was reloaded")
        fleet.run("agent", "--check", agent.path, status=1)
        assert fleet.bandits(name).keys() == had.keys()
        agent.path.write_text(whole)
        fleet.reload(name)


def drain_an_agent(fleet: Fleet) -> None:
    name = fleet.dice.pick(NAMES)
    fleet.run("fleet", "drain", fleet.agents[name].path, "--seconds", 3)
    assert fleet.agents[name].end() == 0, fleet.agents[name].told()
    fleet.start(name)
    fleet.until(fleet.is_linked, "not all links are up")


def restart_all(fleet: Fleet) -> None:
    fleet.restart(*NAMES)
    fleet.until(fleet.is_linked, "not all links are up")


CHANGES: dict[str, Callable[[Fleet], None]] = {
    "none": lambda _: time.sleep(3.0),
    "add a bandit (first document)": add_a_bandit,
    "retire a bandit (--retire)": retire_a_bandit,
    "change arms": change_arms,
    "max_agents 1500, one by one": raise_max_agents,
    "flood-ts -> ledger-ts (era 1)": migrate,
    "lose rewards": lose_rewards,
    "renew certificates": renew_certificates,
    "change the authority": change_the_authority,
    "change tokens and scopes": change_tokens,
    "reload broken files": reload_broken_files,
    "drain and restart an agent": drain_an_agent,
    "restart all agents": restart_all,
}


@pytest.mark.slow
def test_no_change_of_a_fleet_reaches_its_applications_as_an_error(fleet: Fleet) -> None:
    fleet.start(*NAMES)
    fleet.until(fleet.is_linked, "not all links are up")
    book = fleet.book
    applications = Blocking(book), Asynchronous(book)
    print(HEAD)
    for what, make in CHANGES.items():
        with fleet.change(what):
            make(fleet)

    book.over.set()
    fleet.until(lambda: book.is_settled, "not every reward has an answer")
    for application in applications:
        application.end()
    ended, expected = time.monotonic(), book.totals()
    fleet.until(
        lambda: all(same(fleet.learned(name), expected) for name in NAMES),
        f"not all count {expected}",
    )
    settled = time.monotonic() - ended
    own: Totals = {}
    for name in NAMES:
        for arm, (pulls, rewards) in fleet.learned(name, "own").items():
            had = own.get(arm, (0, 0.0))
            own[arm] = had[0] + pulls, had[1] + rewards
    status = fleet.run("cluster", "status", *map(fleet.address, NAMES), "--token-file", fleet.admin)
    print("\n".join(f"{b:8}{a:8}{n:7}{r:10}" for (b, a), (n, r) in sorted(expected.items())))
    print(
        f"{book.counts}; rewards acknowledged: {len(book.tickets)}; longest calls: {book.longest}; "
        f"all agents count these {settled:.1f} s after the load\n{status}"
    )
    assert not book.errors, "\n".join(book.errors)
    assert same(own, expected)
    assert book.counts["twice"] == book.counts["moved"] == 0
    assert book.counts["elsewhere"] > 0
    assert sum(row.abandoned for row in fleet.rows if row.change != "lose rewards") == 0
    assert max(book.longest.values()) < TIMEOUT + SLACK
    assert "Traceback" not in fleet.logs()
