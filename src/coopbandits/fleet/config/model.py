"""An agent's configuration after reading and checking."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from coopbandits.core.aggregate.ticks import DISCOUNT, HALF_LIFE
from coopbandits.core.policy import Policy
from coopbandits.core.registry import parse_policy
from coopbandits.fleet.address import Address
from coopbandits.fleet.config.bandits import PLAIN, BanditConfig, plain_bandit
from coopbandits.fleet.config.eligibility import Traits, traits_of, with_settings
from coopbandits.fleet.config.features import Encoder, Feature
from coopbandits.fleet.config.rewards import RewardScale, reward_scale

LISTEN = Address("0.0.0.0", 7400)  # noqa: S104  neighbours are on other machines

API = Address("127.0.0.1", 8400)


class TlsFiles(NamedTuple):
    """Files in PEM format: the trusted authority, the own certificate, and its key."""

    ca: Path
    certificate: Path
    key: Path


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
    """Settings that must be equal on all agents of a cluster.

    Attributes
    ----------
    name : str
        Its name.
    epoch : int
        Start of learning, in seconds since 1970; a new epoch starts from scratch.
    arms : tuple of str
        The options to choose from; none where bandits have sections of their own.
    policy : str
        The spelling of a policy that can run in a fleet; see `eligibility`.
    reward_range : (float, float) or None
        Lowest and highest reward.
    sigma : float or None
        σ of the rewards, in their own unit. At least one of the two is given.
    num_agents : int, "estimate" or None
        N, if the policy needs it.
    lambda_bound : float, "estimate" or None
        An upper bound on λ, if the policy needs it.
    half_life : float or None
        Seconds after which a pull counts half; None for ever the same.
    rounds_per_second : float
        The pace of gossip.
    max_pulls_per_second : float
        The most one agent can do; larger claims are not believed.
    max_agents : int
        The most agents there can be.
    signatures_per_second : float
        How often an agent signs, at most; never more than once per round.
    features : tuple of Feature or None
        What applications tell of a request, if the policy looks at it.
    """

    name: str
    epoch: int
    arms: tuple[str, ...]
    policy: str = "flood-ts"
    reward_range: tuple[float, float] | None = None
    sigma: float | None = None
    num_agents: int | str | None = None
    lambda_bound: float | str | None = None
    half_life: float | None = None
    rounds_per_second: float = 20.0
    max_pulls_per_second: float = 1000.0
    max_agents: int = 1000
    signatures_per_second: float = 4.0
    features: tuple[Feature, ...] | None = None

    def policy_object(self) -> Policy:
        """Return the policy, with "estimate" passed on where configured, and what it forgets."""
        asked = {key: getattr(self, key) for key in ("num_agents", "lambda_bound")}
        words = {key: value for key, value in asked.items() if isinstance(value, str)}
        forgetting = {} if self.half_life is None else {"discount": DISCOUNT}
        made: Policy = with_settings(parse_policy(self.policy), words | forgetting)
        return made.suited(self.family)

    @property
    def family(self) -> str:
        """The rewards' family, where the policy leaves it open.

        A range alone says as little as Bernoulli rewards do; σ says more, and the Gaussian family
        is the one that uses it.
        """
        return "gaussian" if self.reward_range is None or self.sigma is not None else "bernoulli"

    @property
    def tick(self) -> float:
        """Return the seconds by which agents count the time where they forget; else 0."""
        return (self.half_life or 0.0) / HALF_LIFE

    @cached_property
    def traits(self) -> Traits:
        """Return what the policy declares."""
        return traits_of(self.policy_object())

    @property
    def mode(self) -> str:
        """Return "synchronous" or "robust"."""
        return self.traits.mode

    @property
    def told_num_agents(self) -> int | None:
        """Return N for the agent's view; None if it is estimated or not needed."""
        return None if isinstance(self.num_agents, str) else self.num_agents

    @property
    def told_lambda_bound(self) -> float | None:
        """Return the bound for the agent's view; None if it is estimated or not needed."""
        return None if isinstance(self.lambda_bound, str) else self.lambda_bound

    @property
    def scale(self) -> RewardScale:
        """Return the map from rewards to the agent's scale, with σ."""
        return reward_scale(self.reward_range, self.sigma)

    @cached_property
    def encoder(self) -> Encoder:
        """Return what turns contexts into numbers."""
        return Encoder(self.features)

    @property
    def hash(self) -> str:
        """Return a hexadecimal digest of all settings; agents compare it when they meet."""
        settings = asdict(self) | {"policy": parse_policy(self.policy).suited(self.family).spelling}
        canonical = json.dumps(settings, sort_keys=True, separators=(",", ":"))
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
    declared : dict of str to BanditConfig
        Bandits declared by sections of their own; none where [cluster] declares the only one.
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
    declared: Mapping[str, BanditConfig] = field(default_factory=dict)
    auto: bool = False
    degree: int = 5
    seeds: tuple[Address, ...] = ()
    advertise: Address | None = None

    @property
    def bandits(self) -> Mapping[str, BanditConfig]:
        """All bandits: those declared by sections, or the one that [cluster] declares."""
        return self.declared or {PLAIN: plain_bandit(self.cluster)}

    @property
    def most_links(self) -> int:
        """Return how many neighbours it may have at once."""
        return self.degree + 2 if self.auto else len(self.neighbors)
