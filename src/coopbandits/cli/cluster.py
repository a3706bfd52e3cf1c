"""`coopbandits cluster`: the signed document by which an operator changes a running fleet."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from coopbandits.cli.options import file
from coopbandits.cli.screen import say
from coopbandits.core.errors import InputError
from coopbandits.dashboard.targets import client_context, parse_target
from coopbandits.fleet.address import show_place
from coopbandits.fleet.client import Client, UnreachableError
from coopbandits.fleet.config import ClusterConfig, parse_config
from coopbandits.fleet.config.bandits import BanditConfig
from coopbandits.fleet.config.consistency import era_problems
from coopbandits.fleet.config.read import load, parse_bandits
from coopbandits.fleet.document.content import (
    Document,
    carry_problems,
    differences,
    read_document,
    unmentioned,
)
from coopbandits.fleet.document.seal import (
    load_document,
    load_signed,
    sign_file,
    signature_file,
    to_json,
)
from coopbandits.fleet.identity.files import read_token
from coopbandits.fleet.identity.operators import key_text, make_key, parse_key
from coopbandits.fleet.service import BanditState, UnavailableError

app = typer.Typer()
cluster = typer.Typer(
    help="Sign the document by which a running fleet is changed, and hand it over."
)
app.add_typer(cluster, name="cluster", no_args_is_help=True)

DocumentFile = Annotated[Path, typer.Argument(help="the document, a TOML file")]
TokenFile = Annotated[Path | None, file("the token of the agents' APIs")]
Ca = Annotated[Path | None, file("who has signed the certificates of their APIs")]
Certificate = Annotated[Path | None, file("certificate to show them")]
CertificateKey = Annotated[Path | None, file("its key")]

PATIENCE = 5.0
"""Seconds in which an agent answers."""

Running = Mapping[str, BanditState]
"""The bandits of an agent that make choices, by name."""


@cluster.command("keygen")
def keygen_command(
    path: Annotated[Path, typer.Argument(help="file for the private key")],
    force: Annotated[bool, typer.Option("--force", help="overwrite it")] = False,
) -> None:
    """Make an operator's key, and print the public half, which all nodes list as an operator."""
    typer.echo(key_text(make_key(path, force=force)))


@cluster.command("sign")
def sign_command(
    path: DocumentFile,
    key: Annotated[list[Path], typer.Option(help="an operator's private key; may be repeated")],
    node: Annotated[
        list[Path] | None, typer.Option(help="an agent's TOML file, to check against as well")
    ] = None,
) -> None:
    """Check a document and sign it; signatures of the same content by other keys are kept."""
    nodes = [parse_config(load(each), each, now=time.time(), insecure=True) for each in node or ()]
    document, signers = sign_file(path, key, nodes)
    typer.echo(f"{_told(document)}, signed by {len(signers)}: {signature_file(path)}")
    if document.retired:
        needed = " ".join(f"--retire {name}" for name in sorted(document.retired))
        typer.echo(
            f"it retires {', '.join(sorted(document.retired))}; where these run, `apply` needs "
            f"{needed}"
        )
    if document.operators and not set(document.operators) & set(signers):
        note = (
            "it names new operators, and none of them has signed it; agents refuse it until one has"
        )
        typer.echo(note, err=True)


@cluster.command("verify")
def verify_command(
    path: DocumentFile,
    operator: Annotated[
        list[str] | None, typer.Option(help="a key that must have signed, or any of several")
    ] = None,
) -> None:
    """Check a document and its signatures, as an agent does before it takes it."""
    signed, document = load_signed(path), load_document(path)
    known = [parse_key("--operator", text) for text in operator or ()]
    signers = [key for key, _ in signed.seal.signatures]
    if known and not set(known) & set(signers):
        raise InputError(f"none of the keys given has signed {path}; sign it with one of them")
    typer.echo(f"{_told(document)}, signed by {', '.join(map(key_text, signers))}")


@cluster.command("diff")
def diff_command(
    old: Annotated[str, typer.Argument(help="a document, or the address of an agent that has one")],
    new: DocumentFile,
    token_file: TokenFile = None,
    ca: Ca = None,
    certificate: Certificate = None,
    key: CertificateKey = None,
) -> None:
    """Show what a document changes: against another file, or against what runs on an agent.

    Lines begin with + for what is new or starts, ~ for what changes, - for what goes or stops, and
    = for bandits that the document does not mention, which continue.
    """
    before = load_document(Path(old)) if Path(old).exists() else None
    document = load_document(new)
    if before is not None:
        changes, same = differences(before, document), unmentioned(before, document)
        problems = list(carry_problems(before, document))
    else:
        (client,) = clients_of([old], token_file, (ca, certificate, key))
        held, running = _state_of(old, client)
        changes, same = _effects(document, running)
        changes = [*differences(held, document), *changes]
        problems = list(_carry_problems(document, running))
    typer.echo("\n".join([*(changes or ["nothing changes"]), *same]))
    if problems:
        raise InputError("\n".join(problems))


@cluster.command("apply")
def apply_command(
    path: DocumentFile,
    to: Annotated[list[str], typer.Option(help="an agent: http://host:port, https://…, unix:path")],
    retire: Annotated[
        list[str] | None,
        typer.Option(help="a running bandit that the document retires; may be repeated"),
    ] = None,
    token_file: TokenFile = None,
    ca: Ca = None,
    certificate: Certificate = None,
    key: CertificateKey = None,
) -> None:
    """Hand a signed document to one agent, which checks it and spreads it to all others.

    Every running bandit that it stops must be named by --retire.
    """
    signed = load_signed(path)
    document, confirmed = read_document(signed.content), set(retire or ())
    with ExitStack() as stack:
        clients = clients_of(to, token_file, (ca, certificate, key))
        agents = [(address, stack.enter_context(next(clients))) for address in to]
        # All agents are asked first: once one of them has the document, it reaches the others.
        stops: list[tuple[str, str]] = []
        for address, client in agents:
            try:
                running = _running(client)
            except (UnreachableError, UnavailableError) as error:
                raise InputError(f"{path} was not handed to {address}: {error}") from error
            stops += [
                (name, f"stops bandit {name} on {address}: {_state(running[name])}")
                for name in sorted(document.retired & running.keys())
            ]
        _require_confirmed(document, confirmed, stops)
        for _, line in stops:
            typer.echo(f"version {document.version} {line}")
        for address, client in agents:
            try:
                found = client.adopt(to_json(signed))
            except (UnreachableError, UnavailableError) as error:
                raise InputError(f"{path} was not handed to {address}: {error}") from error
            typer.echo(f"{found['id']} has version {found['version']}, {found['digest'][:12]}")


def _require_confirmed(
    document: Document, confirmed: set[str], stops: list[tuple[str, str]]
) -> None:
    """Reject a document that stops other bandits than an operator has confirmed."""
    problems = [
        f"version {document.version} {line}; add --retire {name} to confirm, or remove {name} from "
        "`retired`, and sign the document again"
        for name, line in stops
        if name not in confirmed
    ]
    stopping = {name for name, _ in stops}
    for name in sorted(confirmed - stopping):
        if name in document.retired:
            wrong = "no such bandit runs there; leave out the option"
        else:
            wrong = (
                f"`retired` in version {document.version} does not list it; list it there and sign "
                "the document again, or leave out the option"
            )
        problems.append(f"--retire is {name}, but {wrong}")
    if problems:
        raise InputError("\n".join(problems))


@cluster.command("status")
def status_command(
    agents: Annotated[list[str], typer.Argument(help="agents: http://host:port, unix:path, …")],
    token_file: TokenFile = None,
    ca: Ca = None,
    certificate: Certificate = None,
    key: CertificateKey = None,
) -> None:
    """Tell which version agents and their neighbours have; status 1 if not all have the same."""
    rows, problems = [], []
    clients = clients_of(agents, token_file, (ca, certificate, key))
    for address, client in zip(agents, clients, strict=True):
        try:
            with client:
                rows.append((client.cluster(), _policies(client)))
        except (UnreachableError, UnavailableError, InputError) as error:
            problems.append(f"{address}: {error}")  # what the others say is worth knowing still
    for row, bandits in rows:
        typer.echo(_row(row))
        for line in bandits:
            typer.echo(line)
    problems += [f"{row['id']}: {row['alarm']}" for row, _ in rows if row["alarm"]]
    if len({(row["version"], row["digest"]) for row, _ in rows}) > 1:
        problems.append("not all agents have the same document yet")
    if problems:
        raise typer.Exit(say("\n".join(problems), 1))


def _policies(client: Client) -> list[str]:
    """Return a line for the policy of every bandit; none if the agent does not tell."""
    with suppress(UnreachableError, UnavailableError, InputError):
        shown = _running(client).values()
        return [f"  bandit {each.name}: {each.policy}, era {each.era}" for each in shown]
    return []


def _row(row: dict[str, Any]) -> str:
    told = [
        f"{name} {'takes none' if version is None else version}"
        for name, version in row["neighbors"].items()
    ]
    has = f"version {row['version']}, {row['digest'][:12]}" if row["version"] else "no document"
    return f"{row['id']}: {has}; neighbours: {', '.join(told) or 'none'}"


def _told(document: Document) -> str:
    return f"version {document.version} of {document.name}"


def _state_of(address: str, client: Client) -> tuple[Document | None, Running]:
    """Return the document that an agent has, and the bandits that run there."""
    try:
        with client:
            content, running = client.cluster()["content"], _running(client)
    except (UnreachableError, UnavailableError) as error:
        raise InputError(f"{address} did not report what it runs: {error}") from error
    return None if content is None else read_document(content.encode()), running


def _running(client: Client) -> Running:
    return {state.name: state for state in client.bandits() if not state.retired}


def _effects(document: Document, running: Running) -> tuple[list[str], list[str]]:
    """Return lines for the bandits that start, change or stop, and for those not mentioned."""
    changes, same = [], []
    # What a section leaves out is the same in all clusters, but for the policy.
    declared = parse_bandits(document.bandits, ClusterConfig("", 0))
    for name in sorted(declared.keys() | running.keys()):
        state, bandit = running.get(name), declared.get(name)
        if state is None:
            arms = [arm.name for arm in declared[name].arms]
            changes.append(f"+ bandit {name} starts: arms {', '.join(arms)}")
        elif bandit is not None:
            facts = _changed_facts(state, bandit, has_policy="policy" in document.bandits[name])
            changes += [f"~ bandit {name} {fact}" for fact in facts]
        elif name in document.retired:
            changes.append(f"- bandit {name} stops: {_state(state)}")
        else:
            same.append(f"= bandit {name} is not mentioned and continues")
    return changes, same


def _carry_problems(document: Document, running: Running) -> Iterator[str]:
    """Yield a sentence for every running bandit that cannot go on as a document declares it."""
    for name, bandit in parse_bandits(document.bandits, ClusterConfig("", 0)).items():
        state = running.get(name)
        if state is not None and not bandit.is_implied:
            yield from era_problems(replace(bandit, policy=state.policy, era=state.era), bandit)


def _changed_facts(state: BanditState, bandit: BanditConfig, *, has_policy: bool) -> Iterator[str]:
    """Yield what a declaration changes of a running bandit, as far as its agent tells."""
    frozen = [arm.name for arm in bandit.arms if arm.frozen]
    facts: list[tuple[str, object, object]] = [
        ("arms", ", ".join(state.arms), ", ".join(arm.name for arm in bandit.arms)),
        ("pinned", state.pinned or "none", bandit.pinned or "none"),
        ("frozen", ", ".join(state.frozen) or "none", ", ".join(frozen) or "none"),
    ]
    if has_policy:
        facts += [("policy", state.policy, bandit.policy), ("era", state.era, bandit.era)]
    for key, was, now in facts:
        if was != now:
            yield f"{key}: {was} -> {now}"


def _state(state: BanditState) -> str:
    return (
        f"arms {', '.join(state.arms)}; rewards counted: {state.rewards}; "
        f"open tickets: {state.open_tickets}"
    )


def clients_of(
    addresses: list[str], token_file: Path | None, files: tuple[Path | None, ...]
) -> Iterator[Client]:
    """Yield a client for each of some agents."""
    token = read_token(token_file) if token_file else None
    targets = [parse_target(address) for address in addresses]
    secure = any(target.secure for target in targets) or any(files)
    tls = client_context(*files) if secure else None
    for target in targets:
        place = show_place(target.place)
        yield Client(place, token, PATIENCE, tls if target.secure else None, connections=1)
