"""`coopbandits agent`, `certs` and `fleet`: real agents, on many machines or on one."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from coopbandits.cli.operate import add_commands
from coopbandits.cli.options import file as existing
from coopbandits.cli.options import folder, real, whole
from coopbandits.cli.screen import GraphOption, say
from coopbandits.core.errors import InputError
from coopbandits.fleet.config import NodeConfig, read_config
from coopbandits.fleet.config.check import compare_files, explain
from coopbandits.fleet.config.values import LogFormat, LogLevel, read_value
from coopbandits.loading import part

app = typer.Typer()
fleet = typer.Typer(
    help="Back up, restore, drain and export agents; or run a local fleet of them, with faults."
)
app.add_typer(fleet, name="fleet")
add_commands(fleet)
certs = typer.Typer(help="Make the certificates by which agents recognise each other.")
app.add_typer(certs, name="certs", no_args_is_help=True)

Folder = Annotated[Path, typer.Argument(help="folder of the authority")]
Out = Annotated[
    Path | None, folder("folder of the certificates; beside the authority unless given")
]
Days = Annotated[int, whole("how long a certificate is valid")]
Duration = Annotated[str | None, typer.Option(help="how long to run, instead of --rounds")]
KillEvery = Annotated[str | None, typer.Option(help="kill an agent this often: 2s, 500ms, …")]
Pause = Annotated[str | None, typer.Option(help="suspend one for this long, repeatedly")]
Partition = Annotated[str | None, typer.Option(help="cut some off for this long, repeatedly")]
Force = Annotated[bool, typer.Option("--force", help="overwrite files")]
Also = Annotated[list[str] | None, typer.Option(help="a further name; may be repeated")]
PassphraseFile = Annotated[Path | None, existing("file with the passphrase of the authority's key")]

PASSPHRASE = "COOPBANDITS_CA_PASSPHRASE"  # noqa: S105  the name of a variable
"""The environment variable with the passphrase of the authority's key."""


@app.command("agent")
def agent_command(
    config: Annotated[list[Path], typer.Argument(help="a TOML file; several with --check")],
    check: Annotated[bool, typer.Option("--check", help="explain it; start nothing")] = False,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="accept a file without [tls], on one machine")
    ] = False,
    log_level: Annotated[
        str | None, typer.Option(help="debug, info, warning or error, instead of the file's")
    ] = None,
    log_format: Annotated[
        str | None, typer.Option(help="text or json, instead of the file's")
    ] = None,
) -> None:
    """Run one agent beside an application; with --check, explain its configuration."""
    told = {
        "log_level": log_level and read_value("--log-level", log_level, LogLevel),
        "log_format": log_format and read_value("--log-format", log_format, LogFormat),
    }
    if check:
        raise typer.Exit(_check(config, insecure=insecure))
    if len(config) > 1:
        raise InputError(f"an agent has one configuration file, but {len(config)} were given")
    instead: Any = {key: value for key, value in told.items() if value is not None}

    def read() -> NodeConfig:
        return replace(read_config(config[0], now=time.time(), insecure=insecure), **instead)

    raise typer.Exit(part("fleet.process.main").run_agent(read(), read))


def _check(paths: list[Path], *, insecure: bool) -> int:
    """Explain one file, or check that several fit together; return the exit status."""
    now = time.time()
    problems: list[str] = []
    try:
        if len(paths) == 1:
            config = read_config(paths[0], now=now, insecure=insecure)
            typer.echo(explain(config, now))
            asyncio.run(part("fleet.process.main").check_start(config))
        else:
            text, problems = compare_files(paths, now=now, insecure=insecure)
            if text:
                typer.echo(text)
    except InputError as error:
        problems = str(error).splitlines()
    if problems:
        return say("\n".join(f"error: {problem}" for problem in problems), 1)
    if len(paths) > 1:
        typer.echo("these nodes fit together")
    return 0


@fleet.callback(invoke_without_command=True)
def fleet_command(
    context: typer.Context,
    graph: GraphOption = "",
    means: Annotated[str, typer.Option(help="probability that each arm pays 1")] = "0.6,0.5x4",
    sigma: Annotated[
        float | None, real("Gaussian arms with this standard deviation instead")
    ] = None,
    policy: Annotated[str, typer.Option(help="one that can run in a fleet")] = "flood-ts",
    rounds: Annotated[int, whole("rounds of gossip")] = 400,
    seconds: Duration = None,
    rounds_per_second: Annotated[float, real("pace of gossip")] = 20.0,
    pulls_per_second: Annotated[float, real("pace of each application")] = 20.0,
    seed: Annotated[int, whole("seed of rewards and trouble")] = 0,
    kill_every: KillEvery = None,
    pause: Pause = None,
    partition: Partition = None,
    uvloop: Annotated[bool, typer.Option("--uvloop", help="agents use uvloop")] = False,
    out: Annotated[Path | None, folder("folder that keeps all files")] = None,
    dashboard: Annotated[bool, typer.Option("--dashboard", help="show it in a browser")] = False,
) -> None:
    """Run a local fleet of real agents, inject faults, and prove that no reward is lost."""
    if context.invoked_subcommand is not None:
        return
    if not graph:
        raise InputError("--graph is missing; give one, such as --graph cycle:8")
    playing, read = part("fleet.local.run"), part("fleet.local.settings")
    texts = {"kill_every": kill_every, "pause": pause, "partition": partition, "seconds": seconds}
    durations = {key: read.parse_seconds(text) for key, text in texts.items() if text is not None}
    settings = read.make_settings(
        graph,
        means,
        sigma=sigma,
        policy=policy,
        rounds=rounds,
        rounds_per_second=rounds_per_second,
        pulls_per_second=pulls_per_second,
        seed=seed,
        uvloop=uvloop,
        **durations,
    )
    from rich.console import Console  # imported late: agents do not need it

    try:
        outcome = playing.play(settings, out, Console(), _page() if dashboard else None)
    except part("fleet.local.agents").FleetError as error:
        raise typer.Exit(say(str(error), 1)) from None
    except KeyboardInterrupt:
        raise typer.Exit(say("interrupted: all agents were stopped", 130)) from None
    typer.echo(outcome.text)
    if not outcome.holds:
        say(f"conservation: {outcome.sentence}", 1)
    raise typer.Exit(130 if outcome.interrupted else int(not outcome.holds))


def _page() -> Any:
    """Return what shows a fleet beside it."""
    told = part("cli.dashboard").tell_address
    return partial(part("dashboard.watch").shown_beside, told)


@certs.command("init")
def init_command(
    folder: Folder,
    days: Annotated[int, whole("how long the authority is valid")] = 3650,
    force: Force = False,
    encrypt: Annotated[
        bool, typer.Option("--encrypt", help=f"encrypt the key; asks, or reads {PASSPHRASE}")
    ] = False,
    passphrase_file: PassphraseFile = None,
) -> None:
    """Make an authority: ca.pem for all machines, ca-key.pem for none of them."""
    secret = b""
    if encrypt or passphrase_file is not None:
        secret = _passphrase(passphrase_file, twice=True)
    make = part("fleet.identity.certs").init_authority
    _tell(make(folder, days=days, force=force, passphrase=secret))


@certs.command("issue")
def issue_command(
    folder: Folder,
    ids: Annotated[list[str], typer.Argument(help="names of agents, as in their configuration")],
    out: Out = None,
    days: Days = 90,
    force: Force = False,
    passphrase_file: PassphraseFile = None,
) -> None:
    """Make a certificate and a key for every agent named."""
    ask = partial(_passphrase, passphrase_file)
    make = part("fleet.identity.certs").issue
    _tell(make(folder, ids, out, days=days, force=force, passphrase=ask))


@certs.command("request")
def request_command(
    id: Annotated[str, typer.Argument(help="the agent's id, as in its configuration")],  # noqa: A002  its name in help
    out: Annotated[Path, folder("folder to write to")] = Path(),
    also: Also = None,
    force: Annotated[bool, typer.Option("--force", help="replace a key that exists")] = False,
) -> None:
    """Make a key on this machine, where it stays, and a request to certify it."""
    _tell(part("fleet.identity.certs").request(id, out, also or (), force=force))


@certs.command("sign")
def sign_command(
    folder: Folder,
    requests: Annotated[list[Path], typer.Argument(help="files ID.csr, made by certs request")],
    out: Out = None,
    also: Annotated[
        list[str] | None, typer.Option(help="a further name that they may have; may be repeated")
    ] = None,
    days: Days = 90,
    force: Force = False,
    passphrase_file: PassphraseFile = None,
) -> None:
    """Sign requests for certificates."""
    settings: Any = {"days": days, "force": force}
    settings["passphrase"] = partial(_passphrase, passphrase_file)
    _tell(part("fleet.identity.certs").sign_requests(folder, requests, out, also or (), **settings))


@certs.command("renew")
def renew_command(
    folder: Folder,
    out: Out = None,
    within_days: Annotated[int, whole("renew what expires within these days")] = 30,
    everything: Annotated[bool, typer.Option("--all", help="all of them")] = False,
    days: Days = 90,
    passphrase_file: PassphraseFile = None,
) -> None:
    """Make new certificates for the keys whose certificates expire soon."""
    settings: Any = {"within_days": within_days, "everything": everything, "days": days}
    settings["passphrase"] = partial(_passphrase, passphrase_file)
    _tell(part("fleet.identity.certs").renew(folder, out, **settings))


def _passphrase(file: Path | None, *, twice: bool = False) -> bytes:
    """Return the passphrase of the authority's key: from a file, the environment or a prompt.

    Command lines are visible to other users of the machine, so no option holds it.
    """
    if file is not None:
        found: bytes = part("fleet.identity.files").read_secret(file).strip(b"\r\n")
        where = f"the file {file}"
    elif PASSPHRASE in os.environ:
        found, where = os.environ[PASSPHRASE].encode(), PASSPHRASE
    elif sys.stdin.isatty():
        asked = "passphrase of the authority's key"
        return str(typer.prompt(asked, hide_input=True, confirmation_prompt=twice)).encode()
    else:
        raise InputError(
            "the authority's key is encrypted, and there is no terminal to ask for its passphrase; "
            f"give --passphrase-file, or set {PASSPHRASE}"
        )
    if not found:
        raise InputError(f"{where} holds no passphrase; write it there")
    return found


def _tell(paths: list[Path]) -> None:
    typer.echo("\n".join(f"written: {path}" for path in paths) or "nothing had to be written")
