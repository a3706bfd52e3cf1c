"""An agent's configuration after reading and checking."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from coopbandits.fleet.address import Address
from coopbandits.fleet.identity.tls import TlsFiles

if TYPE_CHECKING:
    from coopbandits.fleet.config.bandits import BanditConfig

LISTEN = Address("0.0.0.0", 7400)  # noqa: S104  neighbours are on other machines

API = Address("127.0.0.1", 8400)

MOST_AGENTS = 1000
"""The most agents of a cluster that does not say."""

MOST_FLOODED = 200
"""A cluster that says it may have more agents floods only where a policy says so."""


@dataclass(frozen=True)
class ApiLimits:
    """What the API takes of applications, and from whom.

    Attributes
    ----------
    max_connections : int
        Open at once; one that only waits makes room for a new one.
    max_streams : int
        Pages that watch at once.
    max_header_bytes, max_body_bytes : int
        Of one request.
    header_timeout, body_timeout, idle_timeout : float
        Seconds for sending a request's headers, its body, and until the next request.
    hosts : tuple of str
        Names by which the agent may be called, besides its address and this machine's.
    origins : tuple of str
        Web pages that may ask, as their `Origin`.
    """

    max_connections: int = 256
    max_streams: int = 16
    max_header_bytes: int = 16_384
    max_body_bytes: int = 65_536
    header_timeout: float = 10.0
    body_timeout: float = 10.0
    idle_timeout: float = 60.0
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()


@dataclass(frozen=True)
class ClusterConfig:
    """Settings of the whole cluster, which must be equal on all agents.

    Attributes
    ----------
    name : str
        Its name.
    epoch : int
        Start of learning, in seconds since 1970; a new epoch starts from scratch.
    rounds_per_second : float
        The pace of gossip.
    max_pulls_per_second : float
        The most one agent can do per bandit; larger claims are not believed.
    max_agents : int or None
        The most agents there can be; None for `MOST_AGENTS`.
    signatures_per_second : float
        How often an agent signs, at most; never more than once per round.
    """

    name: str
    epoch: int
    rounds_per_second: float = 20.0
    max_pulls_per_second: float = 1000.0
    max_agents: int | None = None
    signatures_per_second: float = 4.0

    @property
    def most_agents(self) -> int:
        """The most agents there can be."""
        return MOST_AGENTS if self.max_agents is None else self.max_agents

    @property
    def floods(self) -> bool:
        """Whether a bandit without a policy floods: messages of floods grow with the agents."""
        return (self.max_agents or 0) <= MOST_FLOODED

    @property
    def hash(self) -> str:
        """Return a hexadecimal digest of all settings; agents compare it when they meet."""
        canonical = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return sha256(canonical.encode()).hexdigest()


@dataclass(frozen=True)
class DocumentConfig:
    """Whose documents an agent takes, besides those of operators whom such a document names.

    Attributes
    ----------
    operators : tuple of bytes
        Public keys of operators.
    file : Path or None
        A document that is read again when it changes; its signatures are in FILE.sig.
    """

    operators: tuple[bytes, ...] = ()
    file: Path | None = None


@dataclass(frozen=True)
class NodeConfig:
    """One agent's configuration.

    Attributes
    ----------
    cluster : ClusterConfig
        Settings shared by all agents.
    id : str
        The agent's name, as in its certificate.
    journal : Path
        Folder of its journal.
    neighbors : dict of str to Address
        Addresses of its neighbours, by id.
    auto : bool
        Whether it finds its neighbours itself instead.
    degree : int
        How many it looks for then.
    seeds : tuple of Address
        Where it looks first.
    advertise : Address or None
        Where others reach it; None for the host that it calls from, and the port of `listen`.
    listen : Address
        Where neighbours reach it.
    durability : {"process", "power"}
        Failures that acknowledged rewards survive: a process crash, or power loss too.
    api : Address or Path
        Where the application reaches it; a path is a Unix socket.
    token_file : Path or None
        Holds the token that the application must present.
    ticket_lifetime : float
        Seconds until a ticket expires.
    max_open_tickets : int
        How many may be open at once.
    silence : float
        Seconds until a silent neighbour counts as gone.
    uvloop : bool
        Whether to use uvloop's event loop.
    tls : TlsFiles or None
        For links between agents; None only on one machine with --insecure, where certificates
        are made up.
    revoked : Path or None
        File with the ids of agents that are no longer believed.
    log_level : {"debug", "info", "warning", "error"}
        The least that is logged.
    log_format : {"text", "json"}
        Whether a line of the log is a sentence or an object.
    drain_seconds : float
        How long open tickets are waited for when the agent is told to stop; 0 stops at once.
    ready_neighbors : int
        With fewer links than this the agent is not ready.
    api_tls : TlsFiles or None
        For the API; applications must then present a certificate.
    api_limits : ApiLimits
        What the API takes.
    bandits : dict of str to BanditConfig
        The bandits that its own file declares.
    document : DocumentConfig
        Who may change the cluster while it runs.
    """

    cluster: ClusterConfig
    id: str
    journal: Path
    neighbors: Mapping[str, Address]
    listen: Address = LISTEN
    durability: str = "process"
    api: Address | Path = API
    token_file: Path | None = None
    ticket_lifetime: float = 3600.0
    max_open_tickets: int = 10_000
    silence: float = 5.0
    uvloop: bool = False
    revoked: Path | None = None
    log_level: str = "info"
    log_format: str = "text"
    drain_seconds: float = 0.0
    ready_neighbors: int = 0
    tls: TlsFiles | None = None
    api_tls: TlsFiles | None = None
    api_limits: ApiLimits = ApiLimits()
    document: DocumentConfig = DocumentConfig()
    bandits: Mapping[str, BanditConfig] = field(default_factory=dict)
    auto: bool = False
    degree: int = 5
    seeds: tuple[Address, ...] = ()
    advertise: Address | None = None

    @property
    def most_links(self) -> int:
        """Return how many neighbours it may have at once."""
        return self.degree + 2 if self.auto else len(self.neighbors)
