"""What an agent reports to the page, as plain data: `GET /ui/state`."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ArmState:
    """What an agent knows of one arm.

    Attributes
    ----------
    arm : str
        Its name.
    mean, low, high : float or None
        Mean reward over the whole network as the agent sees it, and the ends of its interval. The
        mean is None if nothing is known, the ends also if the policy certifies no pulls.
    pulls : float
        Pulls that the mean is based on.
    choices : int
        Choices made by this agent.
    own_pulls, own_reward : int and float
        Rewards submitted to this agent, and their sum.
    open : int
        Open tickets.
    """

    arm: str
    mean: float | None
    low: float | None
    high: float | None
    pulls: float
    choices: int
    own_pulls: int
    own_reward: float
    open: int


@dataclass(frozen=True, slots=True)
class NeighborState:
    """A neighbour as an agent sees it.

    Attributes
    ----------
    name : str
        Its id.
    up : bool
        Whether the link is up.
    why : str
        If not, the reason.
    frames : int
        Frames sent and received so far.
    heard : float
        Seconds since it was last heard.
    api : str or None
        The address of its API, if known.
    """

    name: str
    up: bool
    why: str
    frames: int
    heard: float
    api: str | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """An event of an agent: an increasing number, the time, its kind, and a sentence."""

    seq: int
    t: float
    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class AgentState:
    """One agent at one moment.

    Attributes
    ----------
    id, cluster, policy : str
        Its id, cluster and policy.
    started, now : float
        When its process started, and its clock, in seconds since 1970.
    round, incarnation : int
        Rounds completed, and the number of this start.
    ready : str or None
        Why it cannot serve; None if it can.
    arms : list of ArmState
        What it knows of every arm.
    prefers : str or None
        The arm with the largest mean.
    agents_known : float
        Number of agents it has heard of.
    choices, rewards, open_tickets, expired_tickets : int
        Counters of its application; abandoned tickets are neither open nor expired.
    neighbors : list of NeighborState
        Its links.
    events : list of Note
        Recent events, the newest last.
    bandits : list of str
        Names of its bandits, the one shown first; an empty name if there is only one.
    document : int or None
        Version of the cluster's document, 0 for none yet; None if it accepts none.
    by_context : bool
        Whether the best arm depends on the request; then it prefers none.
    version : str
        Version of its software.
    """

    id: str
    cluster: str
    policy: str
    started: float
    now: float
    round: int
    incarnation: int
    ready: str | None
    arms: list[ArmState]
    prefers: str | None
    agents_known: float
    choices: int
    rewards: int
    open_tickets: int
    expired_tickets: int
    neighbors: list[NeighborState]
    events: list[Note]
    bandits: list[str] = field(default_factory=lambda: [""])
    document: int | None = None
    by_context: bool = False
    version: str = ""
