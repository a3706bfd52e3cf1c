"""An agent's configuration, as tables of its file; what all agents share is in `bandits`.

The types of the fields say how their keys are read: see `values`. ``[node] neighbors`` is the only
key that is not a field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated

from msgspec import Meta

from coopbandits.fleet.address import Address
from coopbandits.fleet.config.bandits import BanditConfig, ClusterConfig
from coopbandits.fleet.config.values import (
    ApiAddress,
    Auto,
    BanditName,
    Count,
    CountFromZero,
    DialAddress,
    Durability,
    FilePath,
    Flag,
    Hosts,
    ListenAddress,
    LogFormat,
    LogLevel,
    NodeId,
    NotNegative,
    Operators,
    Origins,
    Positive,
    Seeds,
    Table,
    table_of,
)
from coopbandits.fleet.identity.tls import TlsFiles

LISTEN = Address("0.0.0.0", 7400)  # noqa: S104  neighbours are on other machines

API = Address("127.0.0.1", 8400)

MAX_CONNECTIONS = 1_000_000
"""About as many files as Linux lets a process open."""

Connections = Annotated[
    int,
    Meta(ge=1, le=MAX_CONNECTIONS, description=f"a whole number from 1 to {MAX_CONNECTIONS}"),
]

Degree = Annotated[int, Meta(ge=3, le=50, description="a whole number from 3 to 50")]


@dataclass(frozen=True)
class ApiLimits:
    """Limits of the API, and who may call it.

    Attributes
    ----------
    max_connections : int
        Open at once; an idle one makes room for a new one.
    max_streams : int
        Open event streams, of pages that watch the agent.
    max_header_bytes, max_body_bytes : int
        Of one request.
    header_timeout, body_timeout, idle_timeout : float
        Seconds for sending a request's headers, its body, and until the next request.
    hosts : tuple of str
        Accepted names of the agent in `Host`, besides its address and this machine's.
    origins : tuple of str
        Accepted web pages in `Origin`.
    """

    max_connections: Connections = 256
    max_streams: Count = 16
    max_header_bytes: Count = 16_384
    max_body_bytes: Count = 65_536
    header_timeout: Positive = 10.0
    body_timeout: Positive = 10.0
    idle_timeout: Positive = 60.0
    hosts: Hosts = ()
    origins: Origins = ()


@dataclass(frozen=True)
class ApiTokens:
    """Files with tokens that open a part of the API each, besides the token that opens all of it.

    Attributes
    ----------
    choose_token_file : Path or None
        For applications: choices, rewards, and what is known of options.
    metrics_token_file : Path or None
        For monitoring: metrics, health and the page.
    admin_token_file : Path or None
        For operators: draining, the cluster's document, exports and the page.
    """

    choose_token_file: FilePath | None = None
    metrics_token_file: FilePath | None = None
    admin_token_file: FilePath | None = None

    def by_scope(self) -> dict[str, Path]:
        """Return the files that are named, by what their tokens open."""
        files = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name.removesuffix("_token_file"): path for name, path in files.items() if path}


@dataclass(frozen=True)
class DocumentConfig:
    """Whose documents an agent accepts, until a document names other operators.

    Attributes
    ----------
    operators : tuple of bytes
        Public keys of operators.
    file : Path or None
        A document that is read again when it changes; its signatures are in FILE.sig.
    """

    operators: Operators = ()
    file: FilePath | None = None


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
    listen : Address
        Where neighbours reach it.
    durability : {"process", "power"}
        Failures that acknowledged rewards survive: a process crash, or power loss too.
    api : Address or Path
        Where the application reaches it; a path is a Unix socket.
    default_bandit : str or None
        The bandit of calls that name none; without one, they are errors.
    token_file : Path or None
        Holds the token that opens the whole API.
    ticket_lifetime : float
        Seconds until a ticket expires.
    max_open_tickets : int
        Maximum number of open tickets of a bandit; a further one abandons the oldest.
    max_forwarded_calls : int
        Maximum number of calls of other agents that wait for an answer.
    forward_seconds : float
        Seconds to wait for one.
    silence : float
        Seconds until a silent neighbour counts as gone.
    uvloop : bool
        Whether to use uvloop's event loop.
    revoked : Path or None
        File with the ids of agents that are no longer trusted.
    log_level : {"debug", "info", "warning", "error"}
        The lowest level that is logged.
    log_format : {"text", "json"}
        Whether a line of the log is a sentence or an object.
    drain_seconds : float
        How long to wait for open tickets before a stop; 0 stops at once.
    ready_neighbors : int
        With fewer links than this the agent is not ready.
    tls : TlsFiles or None
        For links between agents; None only on one machine with --insecure, with throw-away
        certificates.
    api_tls : TlsFiles or None
        For the API; applications must then present a certificate.
    api_tokens : ApiTokens
        Tokens that open a part of the API each.
    api_limits : ApiLimits
        Limits of the API.
    document : DocumentConfig
        Who may change the cluster while it runs.
    bandits : dict of str to BanditConfig
        The bandits that its own file declares.
    auto : bool
        Whether it discovers its neighbours.
    degree : int
        Number of neighbours to discover.
    seeds : tuple of Address
        Where discovery starts.
    advertise : Address or None
        Where others reach it; None for the host that it calls from, and the port of `listen`.
    """

    cluster: ClusterConfig
    id: NodeId
    journal: FilePath
    neighbors: Mapping[str, Address]
    listen: ListenAddress = LISTEN
    durability: Durability = "process"
    api: ApiAddress = API
    default_bandit: BanditName | None = None
    token_file: FilePath | None = None
    ticket_lifetime: Positive = 3600.0
    max_open_tickets: Count = 10_000
    max_forwarded_calls: CountFromZero = 1000
    forward_seconds: Positive = 1.5
    silence: Positive = 5.0
    uvloop: Flag = False
    revoked: FilePath | None = None
    log_level: LogLevel = "info"
    log_format: LogFormat = "text"
    drain_seconds: NotNegative = 0.0
    ready_neighbors: CountFromZero = 0
    tls: TlsFiles | None = None
    api_tls: TlsFiles | None = None
    api_tokens: ApiTokens = ApiTokens()
    api_limits: ApiLimits = ApiLimits()
    document: DocumentConfig = DocumentConfig()
    bandits: Mapping[str, BanditConfig] = field(default_factory=dict)
    auto: bool = False
    degree: Degree = 5
    seeds: Seeds = ()
    advertise: DialAddress | None = None

    @property
    def needs_token(self) -> bool:
        """Whether requests to the API must show a token."""
        return self.token_file is not None or bool(self.api_tokens.by_scope())

    @property
    def most_links(self) -> int:
        """Maximum number of neighbours."""
        return self.degree + 2 if self.auto else len(self.neighbors)


_NODE = table_of(NodeConfig)
NODE = Table({**_NODE.types, "neighbors": Auto}, _NODE.required)

API_TOKENS = table_of(ApiTokens)

API_LIMITS = table_of(ApiLimits)

DOCUMENT = table_of(DocumentConfig)

TLS = Table(dict.fromkeys(TlsFiles._fields, FilePath), TlsFiles._fields)
