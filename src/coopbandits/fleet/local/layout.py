"""The folder of a local fleet: certificates, and every agent's configuration and output.

::

    certificates/ca.pem, a00.pem, a00-key.pem, …
    a00/node.toml           its configuration
    a00/log.txt             its output
    a00/journal/            its journal
    a00/client.jsonl        rewards that it acknowledged to its application
    summary.json            the result

Ports are bound here while the fleet lives, without listening on them. So no other process gets one
while its agent is dead, but the agent itself can still listen on it.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from coopbandits.core.errors import InputError
from coopbandits.core.registry import parse_policy
from coopbandits.fleet.address import Address
from coopbandits.fleet.config import write_config
from coopbandits.fleet.config.consistency import MAX_SOCKET_PATH
from coopbandits.fleet.identity.certs import init_authority, issue
from coopbandits.fleet.local.settings import MOST_PULLS, Settings
from coopbandits.network import Network
from coopbandits.problems import BernoulliBandit

HOST = "127.0.0.1"

BANDIT = "local"
"""The bandit of a local fleet."""


class Place(NamedTuple):
    """The folder and addresses of one agent.

    Attributes
    ----------
    id : str
        Its name.
    folder : Path
        Its own folder.
    listen : Address
        Where neighbours reach it.
    api : str
        Where its application does.
    wrap : tuple of str
        What to put before the command that starts it.
    """

    id: str
    folder: Path
    listen: Address
    api: str
    wrap: tuple[str, ...] = ()

    @property
    def config(self) -> Path:
        """Return the path of its configuration."""
        return self.folder / "node.toml"


def names(num_agents: int) -> list[str]:
    """Return the ids of all agents."""
    return [f"a{agent:02d}" for agent in range(num_agents)]


def arm_names(num_arms: int) -> list[str]:
    """Return the names of all arms."""
    return [f"arm-{arm}" for arm in range(num_arms)]


def require_empty(folder: Path) -> None:
    """Refuse a folder that is not empty."""
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise InputError(f"{folder} exists and is not empty; name another folder")


@contextmanager
def prepared(folder: Path, settings: Settings) -> Iterator[list[Place]]:
    """Create certificates and folders, and reserve ports until the block ends."""
    with reserved(folder, names(settings.network.num_agents)) as places:
        yield places


@contextmanager
def reserved(folder: Path, ids: Sequence[str]) -> Iterator[list[Place]]:
    """Do the same for agents of these names."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {folder}: {error.strerror}") from None
    certificates = folder / "certificates"
    init_authority(certificates)
    issue(certificates, ids)
    with ExitStack() as held:
        yield [_place(folder / node, node, held) for node in ids]


def _place(folder: Path, node: str, held: ExitStack) -> Place:
    folder.mkdir()
    path = folder.absolute() / "api.sock"
    short = len(str(path).encode()) <= MAX_SOCKET_PATH
    return Place(
        node, folder, reserve_port(held), f"unix:{path}" if short else str(reserve_port(held))
    )


def reserve_port(held: ExitStack) -> Address:
    """Bind a free port until the stack is closed."""
    holder = held.enter_context(socket.socket())
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind((HOST, 0))
    return Address(*holder.getsockname()[:2])


def write_configs(
    places: Sequence[Place], settings: Settings, detours: Mapping[tuple[str, str], Address]
) -> None:
    """Write every agent's configuration.

    Parameters
    ----------
    places : sequence of Place
        The agents' places, in the order of the network.
    settings : Settings
        Settings of the run.
    detours : mapping
        Addresses of relays to dial instead of a neighbour, by (dialling id, dialled id).
    """
    write_tables(places, settings.network, shared_tables(settings), detours, settings.uvloop)


def write_tables(
    places: Sequence[Place],
    network: Network,
    shared: Mapping[str, Mapping[str, Any]],
    detours: Mapping[tuple[str, str], Address],
    uvloop: bool = False,
) -> None:
    """Write every agent's configuration around the tables that all share."""
    for agent, place in enumerate(places):
        others = [places[j] for j in network.neighbors(agent)]
        neighbors = [
            {"id": other.id, "address": str(detours.get((place.id, other.id), other.listen))}
            for other in others
        ]
        tables = {**shared, **_own_tables(place, uvloop), "neighbors": neighbors}
        place.config.write_text(write_config(tables), encoding="utf-8")


def shared_tables(settings: Settings) -> dict[str, dict[str, Any]]:
    """Return the tables that all agents share: the cluster, and its one bandit."""
    network, problem = settings.network, settings.problem
    bernoulli = isinstance(problem, BernoulliBandit)
    told = {"num_agents": network.num_agents, "lambda_bound": network.lambda2}
    policy: Any = parse_policy(settings.policy)  # it was accepted, so its agents have needs
    cluster = {
        "name": "local",
        "epoch": datetime.now(UTC).replace(microsecond=0),
        "rounds_per_second": settings.rounds_per_second,
        "max_pulls_per_second": MOST_PULLS,
    }
    bandit = {
        "arms": arm_names(problem.num_arms),
        "policy": settings.policy,
        **({"reward_range": [0.0, 1.0]} if bernoulli else {"sigma": problem.sigma}),
        **{key: value for key, value in told.items() if key in policy.needs},
    }
    return {"cluster": cluster, "bandits": {BANDIT: bandit}}


def _own_tables(place: Place, uvloop: bool) -> dict[str, dict[str, Any]]:
    certificates = Path("..") / "certificates"
    return {
        "node": {
            "id": place.id,
            "listen": str(place.listen),
            "journal": "journal",
            "api": place.api,
            "uvloop": uvloop,
        },
        "tls": {
            "ca": certificates / "ca.pem",
            "certificate": certificates / f"{place.id}.pem",
            "key": certificates / f"{place.id}-key.pem",
        },
    }
