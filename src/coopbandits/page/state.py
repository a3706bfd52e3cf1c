"""What an agent tells a page about itself, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ArmState:
    """What an agent knows of one option.

    Attributes
    ----------
    arm : str
        Its name.
    mean, low, high : float or None
        Mean reward over the whole network as the agent sees it, and the ends of its interval. The
        mean is None if nothing is known, the ends also where the policy certifies no pulls.
    pulls : float
        Pulls that this is based on.
    choices : int
        Choices handed out by this agent.
    own_pulls, own_reward : int and float
        Rewards handed in here, and their sum.
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
        Where its API is, if it told.
    """

    name: str
    up: bool
    why: str
    frames: int
    heard: float
    api: str | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """Something that happened to an agent: a number that only grows, when, what, and in words."""

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
        Who it is.
    started, now : float
        When its process started, and its present, in seconds since 1970.
    round, incarnation : int
        Rounds completed, and which start of the agent this is.
    ready : str or None
        Why it cannot serve; None if it can.
    arms : list of ArmState
        What it knows of every option.
    prefers : str or None
        The option with the largest mean.
    agents_known : float
        How many agents it has heard of.
    choices, rewards, open_tickets, expired_tickets : int
        Counts of its application.
    neighbors : list of NeighborState
        Its links.
    events : list of Note
        What happened lately, the newest last.
    bandits : list of str
        Names of its bandits, that of the one shown first; of one alone it is empty.
    document : int or None
        The version of the cluster's document that it has, 0 for none yet; None where it takes none.
    by_context : bool
        Whether the best option depends on the request; then it prefers none.
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
