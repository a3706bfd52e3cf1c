"""The agent contract: what one agent is told, and what it can be asked to do.

An agent is a state machine that owns no clock, socket, file or random source. A driver (a simulator
or a network process) calls four methods, in rounds::

    arm = agent.choose(word)          any number of times; `word` is 64 random bits
    agent.observe(arm, reward)        any number of times, in any order, late or never
    agent.outgoing(neighbor)          once per neighbour and round: a vector of values, or None
    agent.receive({neighbor: vector}) once per round, with whatever arrived: this ends the round

`choose` changes nothing but the count of open pulls (chosen, not yet observed). Everything an agent
may know stands in its `LocalView`; everything it remembers can be exported as plain data. An agent
whose policy looks at features is a `ContextAgent`, which is told them with both.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from coopbandits.core.aggregate.claims import Claims

Vector = NDArray[np.float64]
"""A one-dimensional float64 array; every message is one."""

Context = NDArray[np.float64]
"""Features (K, d), one row per arm; or (d,), one for all, where every arm has its own model."""

State = dict[str, Any]
"""Exported state: numbers, strings, lists and dicts only, so that JSON carries it exactly."""


@dataclass(frozen=True)
class LocalView:
    """All that an agent is allowed to know.

    Attributes
    ----------
    agent_id : int
        Own number, 0 … N−1.
    own_weight : float
        P_ii, the weight of the own value in one mixing step.
    neighbor_weights : dict of int to float
        P_ij for every neighbour j, in ascending order of j.
    num_arms : int
        K.
    sigma : float
        σ, the square root of the rewards' variance proxy.
    num_agents : int or None
        N, where the policy declares that it needs it.
    lambda_bound : float or None
        An upper bound on λ, where the policy declares that it needs it.
    global_knowledge : dict of str to float
        Numbers of this agent that only somebody who sees the whole network can compute, where the
        policy declares that it needs them.
    random_word : int
        64 random bits of the agent's own, drawn once, where the policy declares that it needs them;
        0 stands for "not told". Messages reveal it: others can compute all that follows from it.
    secret : bytes
        32 random bytes for noise that protects privacy, where the policy declares that it needs
        them; empty for "not told". No message, exported state or log may reveal anything about
        them, and an agent that lost its memory gets others.
    common_round : bool
        Whether all agents count rounds together; False where each has a clock of its own.
    max_agents : float
        How many agents there are at most, where that was declared.
    num_features : int
        How many features there are, where the policy looks at them; else 0.
    told_time : bool
        Whether the agent is told the time in ticks, by which it forgets instead of by rounds.
    """

    agent_id: int
    own_weight: float
    neighbor_weights: Mapping[int, float]
    num_arms: int
    sigma: float = 1.0
    num_agents: int | None = None
    lambda_bound: float | None = None
    global_knowledge: Mapping[str, float] = field(default_factory=dict)
    random_word: int = 0
    secret: bytes = field(default=b"", repr=False)
    common_round: bool = True
    max_agents: float = math.inf
    num_features: int = 0
    told_time: bool = False


class Estimate(NamedTuple):
    """Network totals as one agent sees them.

    Attributes
    ----------
    sums, counts : one number per arm
        Reward sum and number of pulls per arm, over the whole network. Arrays where an aggregation
        tells them; lists of floats where an index reads them in plain Python.
    time : float
        Number of pulls behind these totals, at least 1 (the s of ln s).
    num_agents : float
        Number of agents behind these totals.
    anticipation : float
        c, by which a pull counts in a posterior: pulls still on their way are assumed to look like
        those seen.
    squares : sequence of float
        Sums of squared rewards: none, one over all arms, or one per arm, as the index's statistic
        asks for (`ArmSums.squares`). An array or a list, as sums and counts.
    extra : sequence of float
        What another statistic than sums per arm holds beyond that.
    certain : Share or None
        Reward sums and pulls per arm of a set of distinct pulls, each counted once, or less where
        older ones are discounted. The set changes only to one with more pulls, and which pulls are
        in it does not depend on their rewards. Claims of confidence rest on it alone. None where
        the aggregation certifies no pulls (`AnyAggregation.uncertified`), or with a window.
    """

    sums: Any
    counts: Any
    time: float
    num_agents: float
    anticipation: float = 1.0
    squares: Any = ()
    extra: Any = ()
    certain: Share | None = None


class Share(NamedTuple):
    """A part of all that was observed: reward sums and numbers of pulls, per arm."""

    sums: Vector
    counts: Vector


class Agent(ABC):
    """The contract every agent fulfils, a user's own included."""

    def __init__(self, view: LocalView) -> None:
        self.view = view
        self.open_pulls = np.zeros(view.num_arms, dtype=np.int64)

    @abstractmethod
    def choose(self, word: int, allowed: Sequence[int] | None = None) -> int:
        """Return the arm to pull now; counts it as open and changes nothing else."""

    @abstractmethod
    def observe(self, arm: int, reward: float) -> None:
        """Take in one reward."""

    @abstractmethod
    def outgoing(self, neighbor: int) -> Vector | None:
        """Return this round's message to a neighbour, or None for silence; changes nothing."""

    @abstractmethod
    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Take in what arrived from the neighbours and end the round."""

    @abstractmethod
    def export_state(self) -> State:
        """Return everything remembered, as plain data."""

    @abstractmethod
    def restore_state(self, state: State) -> None:
        """Continue exactly where the exporting agent stood."""


class ContextAgent(Agent):
    """An agent that may be told features: of every arm to choose, of the pulled one to observe."""

    @abstractmethod
    def choose(
        self, word: int, allowed: Sequence[int] | None = None, context: Context | None = None
    ) -> int:
        """Return the arm to pull now, in a context where the policy looks at one."""

    @abstractmethod
    def observe(self, arm: int, reward: float, context: Vector | None = None) -> None:
        """Take in one reward, and the features (d,) that the arm was chosen with."""


@runtime_checkable
class FleetAgent(Protocol):
    """What a fleet needs beyond `Agent`; simulations never ask for it.

    An agent of one's own that has these methods runs in a fleet like ours.
    """

    view: LocalView
    open_pulls: NDArray[np.int64]

    def estimate(self) -> Estimate:
        """Return the network totals as seen now."""

    def share(self) -> Share:
        """Return the agent's share of all rewards and pulls."""

    def would_choose(self, word: int, allowed: Sequence[int] | None = None) -> int:
        """Return what `choose` would, and change nothing."""

    def abandon(self, arm: int) -> None:
        """Count an open pull no longer: its reward will never be known."""

    def check_claims(self, message: Vector, claims: Claims, now: float) -> None:
        """Refuse a message that tells of what cannot have happened."""

    def reweighted(self, state: State) -> State:
        """Return a state from before the first round as this agent, with its weights, begins."""

    def relinked(self, state: State, neighbors: Iterable[int]) -> State:
        """Return an exported state as this agent, which has other neighbours, can restore it."""

    # The contract itself, so that a type checker knows both.
    def observe(self, arm: int, reward: float) -> None:
        """See `Agent`."""

    def outgoing(self, neighbor: int) -> Vector | None:
        """See `Agent`."""

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """See `Agent`."""

    def export_state(self) -> State:
        """See `Agent`."""

    def restore_state(self, state: State) -> None:
        """See `Agent`."""


@runtime_checkable
class TimedAgent(Protocol):
    """What a fleet needs beyond that where `told_time` is set."""

    def pass_time(self, tick: int) -> None:
        """Take note of the time at which the round ends."""


@runtime_checkable
class ReopenedAgent(Protocol):
    """What a fleet tells an agent, if it asks for it, whenever a process starts."""

    def reopened(self, word: int) -> None:
        """Take note that the state was read from a disk, and may be older than what was sent.

        `word` is random, and another one every time.
        """


@runtime_checkable
class PartedAgent(Protocol):
    """What a fleet tells an agent, if it asks for it, whenever neighbours go."""

    def parted(self, neighbors: Collection[int]) -> None:
        """Take note that links have ended, and nothing of the next round was told over them."""


class ContextFleetAgent(FleetAgent, Protocol):
    """What a fleet needs of an agent that looks at features (d,), the same for all arms."""

    open_features: Vector

    def would_choose(
        self, word: int, allowed: Sequence[int] | None = None, context: Vector | None = None
    ) -> int:
        """Return what `choose` would, and change nothing."""

    def open(self, arm: int, context: Vector) -> None:
        """Count a pull as open that was decided on before."""

    def abandon(self, arm: int, context: Vector | None = None) -> None:
        """Count an open pull no longer: its reward will never be known."""

    def observe(self, arm: int, reward: float, context: Vector | None = None) -> None:
        """Take in one reward, and the features that the arm was chosen with."""

    def outlook(self, context: Vector) -> tuple[Vector, Vector]:
        """Return what is expected of every arm in a context, and the deviation of that."""
