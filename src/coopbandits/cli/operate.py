"""`coopbandits fleet drain`, `backup`, `restore`, `export`: done to one agent."""

from __future__ import annotations

import ssl
import time
from pathlib import Path
from typing import Annotated

import typer

from coopbandits.cli.options import file as existing
from coopbandits.cli.options import real
from coopbandits.core.errors import InputError
from coopbandits.fleet.address import show_place
from coopbandits.fleet.config import NodeConfig, parse_config
from coopbandits.fleet.config.read import load
from coopbandits.fleet.identity.files import read_token
from coopbandits.fleet.identity.tls import reason_of
from coopbandits.loading import part

Node = Annotated[Path, typer.Argument(help="the agent's TOML file")]


def add_commands(fleet: typer.Typer) -> None:
    """Add all of them to a group."""
    fleet.command("drain")(drain_command)
    fleet.command("backup")(backup_command)
    fleet.command("restore")(restore_command)
    fleet.command("export")(export_command)


def drain_command(
    node: Node,
    seconds: Annotated[
        float | None,
        real(
            "wait so long for open tickets, instead of drain_seconds; the earliest deadline counts"
        ),
    ] = None,
) -> None:
    """Stop an agent in order: no more choices, then the rewards of open tickets, then goodbye."""
    config = _read(node)
    token_file = config.token_file or config.api_tokens.admin_token_file
    client = part("fleet.client").Client(
        show_place(config.api),
        read_token(token_file) if token_file else None,
        tls=_tls(config),
    )
    try:
        with client:
            client.drain(seconds)
    except (ConnectionError, part("fleet.service").UnavailableError) as error:
        raise InputError(f"{config.id} was not told: {error}") from error
    typer.echo(f"{config.id} makes no more choices, and stops when it is done")


def _tls(config: NodeConfig) -> ssl.SSLContext | None:
    """Return TLS for a client that shows the certificate of the API itself."""
    if config.api_tls is None:
        return None
    try:
        context = ssl.create_default_context(cafile=str(config.api_tls.ca))
        context.check_hostname = False  # the address is the agent's own, whatever its name
        # Without a password OpenSSL would prompt at the terminal; "" makes it fail instead.
        context.load_cert_chain(config.api_tls.certificate, config.api_tls.key, password="")
    except OSError as error:  # which does not name the file
        names = ", ".join(map(str, config.api_tls))
        raise InputError(
            f"[api_tls] {names} cannot be used: {reason_of(error)}; give an authority, a "
            "certificate and its key in PEM format"
        ) from error
    return context


def backup_command(
    node: Node, file: Annotated[Path, typer.Argument(help="a file that does not exist yet")]
) -> None:
    """Copy an agent's journal while it runs."""
    typer.echo(part("fleet.process.backup").back_up(_read(node), file, time.time()))


def restore_command(
    node: Node,
    file: Annotated[Path, typer.Argument(help="what `coopbandits fleet backup` has written")],
    replace: Annotated[
        bool, typer.Option("--replace", help="even if there is a journal, which is kept beside it")
    ] = False,
) -> None:
    """Put a backup in the place of a lost journal; nothing is counted twice."""
    restore = part("fleet.process.backup").restore
    typer.echo(restore(_read(node), file, time.time(), replace=replace))


def export_command(
    source: Annotated[
        str, typer.Argument(help="an agent: http://host:port, unix:path, …, or its TOML file")
    ],
    file: Annotated[Path, typer.Argument(help="what to write: NAME.json, .csv or .parquet")],
    token_file: Annotated[Path | None, existing("the token of the agent's API")] = None,
    ca: Annotated[Path | None, existing("who has signed the certificate of its API")] = None,
    certificate: Annotated[Path | None, existing("certificate to show it")] = None,
    key: Annotated[Path | None, existing("its key")] = None,
) -> None:
    """Write everything learned, of all bandits: by a running agent, or by an agent's journal."""
    backup = part("fleet.process.backup")
    backup.require_format(file)
    if source.endswith(".toml"):
        told = backup.export_journal(_read(Path(source)), time.time())
    else:
        files = (ca, certificate, key)
        (client,) = part("cli.cluster").clients_of([source], token_file, files)
        try:
            with client:
                told = client.export()
        except (ConnectionError, part("fleet.service").UnavailableError) as error:
            raise InputError(f"nothing was exported: {error}") from error
    typer.echo(backup.write_export(told, file))


def _read(node: Path) -> NodeConfig:
    """Read what a file says, without looking at certificates."""
    return parse_config(load(node), node, now=time.time(), insecure=True)
