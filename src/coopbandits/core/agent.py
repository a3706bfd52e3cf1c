"""The agent contract: what one agent is told, and what it can be asked to do.

An agent is a state machine that owns no clock, socket, file or random source. A driver (a simulator
or a network process) calls four methods, in rounds::

    arm = agent.choose(word)          any number of times; `word` is 64 random bits
    agent.observe(arm, reward)        any number of times, in any order, late or never
    agent.outgoing(neighbor)          once per neighbour and round: a vector of values, or None
    agent.receive({neighbor: vector}) once per round, with whatever arrived: this ends the round

`choose` changes nothing but the count of open pulls (chosen, not yet observed). Everything an agent
may know stands in its `LocalView`; everything it remembers can be exported as plain data.

Most agents are an *aggregation* (how statistics travel, `core/aggregate`) times an *index* (what is
played on them, `core/index`): `CooperativeAgent` puts the two together.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.errors import InputError

Vector = NDArray[np.float64]
"""A one-dimensional float64 array; every message is one."""

State = dict[str, Any]
"""Exported state: numbers, strings, lists and dicts only, so that JSON carries it exactly."""

STATE_VERSION = 1


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
        0 stands for "not told".
    common_round : bool
        Whether all agents count rounds together; False where each has a clock of its own.
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
    common_round: bool = True


class Estimate(NamedTuple):
    """Network totals as one agent sees them.

    Attributes
    ----------
    sums, counts : array of shape (K,)
        Reward sum and number of pulls per arm, over the whole network.
    time : float
        Number of pulls behind these totals, at least 1 (the s of ln s).
    num_agents : float
        Number of agents behind these totals.
    anticipation : float
        c, by which a pull counts in a posterior: pulls still on their way are assumed to look like
        those seen.
    squares : float
        Sum of all squared rewards, where an index needs it.
    """

    sums: Vector
    counts: Vector
    time: float
    num_agents: float
    anticipation: float = 1.0
    squares: float = 0.0


Index = Callable[[Estimate, int], Vector]
"""What is played on an Estimate: (estimate, 64 random bits) to one number per arm, largest wins."""


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


class Stateful:
    """State that lives in the attributes named by `fields`: numpy arrays, ints and floats.

    Those that are also named by `tables` are arrays with any number of rows; those named by `links`
    have one row per neighbour, in ascending order.
    """

    fields: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    links: tuple[str, ...] = ()

    def export_state(self) -> State:
        """Return the fields as plain data."""
        return {name: _plain(getattr(self, name)) for name in self.fields}

    def restore_state(self, state: State) -> None:
        """Set the fields from plain data, or change nothing if they do not fit."""
        if set(state) != set(self.fields):
            raise InputError(
                f"state has fields {sorted(state)}, but {type(self).__name__} keeps "
                f"{sorted(self.fields)}; restore a state exported by the same policy"
            )
        values = {
            name: _like(getattr(self, name), state[name], name, any_rows=name in self.tables)
            for name in self.fields
        }
        self.check_state(values)
        for name, value in values.items():
            setattr(self, name, value)

    def check_state(self, values: State) -> None:
        """Refuse fields that have the right form, but that no agent of this kind can hold."""
        del values  # unless somebody knows better, the form is all there is to check


class Aggregation(Stateful, ABC):
    """How statistics travel between agents: one half of a `CooperativeAgent`."""

    @abstractmethod
    def estimate(self) -> Estimate:
        """Return the network totals as seen now."""

    @abstractmethod
    def observe(self, arm: int, reward: float) -> None:
        """Add one own pull."""

    @abstractmethod
    def outgoing(self, neighbor: int) -> Vector | None:
        """Return this round's message to a neighbour, or None."""

    @abstractmethod
    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Mix in what arrived and end the round."""

    def share(self) -> Vector:
        """Return this agent's share of all that was observed, K reward sums and K pull counts.

        Shares of all agents, after the same number of rounds, add up to everybody's rewards and
        pulls: nothing is lost, and nothing counts twice.
        """
        raise InputError(f"{type(self).__name__} does not tell its share of what was observed")

    def reweighted(self, state: State) -> State:
        """Return the state of an agent with other weights, before its first round, for this one."""
        return state

    def relinked(self, state: State, neighbors: Sequence[int], own: Sequence[int]) -> State:
        """Return the state of an agent that had other neighbours as one that fits this one.

        What was known of links that remain is kept; new links start afresh. `neighbors` are those
        of the state and `own` those of this agent, both in ascending order.
        """
        if not self.links:
            raise InputError(
                f"{type(self).__name__} cannot go on with other neighbours, {list(own)} instead of "
                f"{list(neighbors)}; start afresh, all agents together"
            )
        fresh, places = self.export_state(), {j: at for at, j in enumerate(neighbors)}
        rows = {
            name: [
                state[name][places[j]] if j in places else row
                for j, row in zip(own, fresh[name], strict=True)
            ]
            for name in self.links
        }
        return state | rows


class CooperativeAgent(Agent):
    """An aggregation times an index.

    Parameters
    ----------
    view : LocalView
        What the agent may know.
    aggregation : Aggregation
        How statistics travel.
    index : callable
        What is played on them.
    policy : str
        The policy's spelling; a state is only restored into an agent of the same policy.
    """

    def __init__(
        self, view: LocalView, aggregation: Aggregation, index: Index, policy: str
    ) -> None:
        super().__init__(view)
        self.aggregation = aggregation
        self.index = index
        self.policy = policy

    def choose(self, word: int, allowed: Sequence[int] | None = None) -> int:
        """Play the largest index; open pulls count as pulls without a reward."""
        estimate = with_open_pulls(self.aggregation.estimate(), self.open_pulls)
        arm = best_arm(self.index(estimate, word), allowed)
        self.open_pulls[arm] += 1
        return arm

    def observe(self, arm: int, reward: float) -> None:
        """Add one reward to the own statistics."""
        if arm not in range(self.view.num_arms):
            raise InputError(
                f"arm {arm} does not exist; arms are numbered 0 to {self.view.num_arms - 1}"
            )
        if not math.isfinite(reward):
            raise InputError(f"reward {reward} is not finite; rewards are finite numbers")
        self.aggregation.observe(arm, reward)
        self.abandon(arm)

    def abandon(self, arm: int) -> None:
        """Count an open pull no longer: its reward will never be known."""
        self.open_pulls[arm] = max(0, self.open_pulls[arm] - 1)

    def outgoing(self, neighbor: int) -> Vector | None:
        """Return the aggregation's message of this round."""
        self._check_neighbors([neighbor])
        return self.aggregation.outgoing(neighbor)

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Hand the messages to the aggregation, in ascending order of neighbours."""
        self._check_neighbors(messages)
        self.aggregation.receive({j: messages[j] for j in sorted(messages)})

    def _check_neighbors(self, others: Iterable[int]) -> None:
        strangers = set(others).difference(self.view.neighbor_weights)
        if strangers:
            raise InputError(
                f"{sorted(strangers)} are no neighbours of agent {self.view.agent_id}; "
                f"its neighbours are {list(self.view.neighbor_weights)}"
            )

    def export_state(self) -> State:
        """Return version, whose state it is, open pulls and the aggregation's fields."""
        return {
            **self._identity(),
            "open_pulls": self.open_pulls.tolist(),
            "aggregation": self.aggregation.export_state(),
        }

    def restore_state(self, state: State) -> None:
        """Continue from an exported state, or change nothing if it does not fit."""
        if set(state) != {*self._identity(), "open_pulls", "aggregation"}:
            raise InputError(
                f"state has fields {sorted(state)}; restore what export_state returned"
            )
        for key, value in self._identity().items():
            if state[key] != value:
                raise InputError(
                    f"state has {key} {state[key]!r}, but this agent has {value!r}; "
                    "restore it into the agent it came from"
                )
        open_pulls: NDArray[np.int64] = _like(self.open_pulls, state["open_pulls"], "open_pulls")
        if (open_pulls < 0).any():
            raise InputError(f"state has open_pulls {open_pulls.tolist()}; they are never negative")
        self.aggregation.restore_state(state["aggregation"])
        self.open_pulls = open_pulls

    def reweighted(self, state: State) -> State:
        """Return a state from before the first round as this agent, with its weights, begins."""
        return state | {"aggregation": self.aggregation.reweighted(state["aggregation"])}

    def relinked(self, state: State, neighbors: Iterable[int]) -> State:
        """Return an exported state as this agent, which has other neighbours, can restore it."""
        own, others = sorted(self.view.neighbor_weights), sorted(neighbors)
        moved = self.aggregation.relinked(state["aggregation"], others, own)
        return state | {"aggregation": moved}

    def _identity(self) -> State:
        """Return what must agree before a state is restored."""
        return {
            "version": STATE_VERSION,
            "policy": self.policy,
            "agent_id": self.view.agent_id,
            "num_arms": self.view.num_arms,
            "num_agents": self.view.num_agents,
            "lambda_bound": self.view.lambda_bound,
        }


def with_open_pulls(estimate: Estimate, open_pulls: NDArray[np.int64]) -> Estimate:
    """Count open pulls as pulls that showed exactly what was expected.

    The mean of an arm stays, its uncertainty shrinks, so that a burst of choices before the first
    reward spreads over the arms. An arm never seen is expected to be average.
    """
    if not np.count_nonzero(open_pulls):
        return estimate
    seen = estimate.counts > NO_INFORMATION * estimate.num_agents
    total = estimate.counts[seen].sum()
    average = estimate.sums[seen].sum() / total if total > 0 else 0.0
    means = np.full(estimate.counts.size, average)
    means[seen] = estimate.sums[seen] / estimate.counts[seen]
    return estimate._replace(
        sums=np.where(seen, estimate.sums, 0.0) + open_pulls * means,
        counts=np.where(seen, estimate.counts, 0.0) + open_pulls,
        squares=estimate.squares + float(open_pulls @ means**2),
    )


NO_INFORMATION = 1e-12
"""A count per agent up to this carries no information: the index is +∞, never a NaN."""


def best_arm(values: Vector, allowed: Sequence[int] | None = None) -> int:
    """Return the lowest arm whose index is within rounding of the largest.

    One rule in every engine, since rounding differs between them: the lowest k with
    index_k ≥ m − 1e-9·max(1, |m|), m the largest index.
    """
    arms = range(values.size) if allowed is None else sorted(allowed)
    if not arms:
        raise InputError("no arm is allowed; allow at least one")
    if arms[0] < 0 or arms[-1] >= values.size:
        raise InputError(f"allowed arms {list(arms)} must lie in 0 to {values.size - 1}")
    found = values.tolist()
    if any(map(math.isnan, found)):
        raise InputError(f"the index of some arm is not a number: {found}; repair the index")
    largest = max(found[k] for k in arms)
    if math.isfinite(largest):
        largest -= 1e-9 * max(1.0, abs(largest))  # Python's own: it may overflow to −∞
    return int(next(k for k in arms if found[k] >= largest))


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def _like(present: Any, value: Any, name: str, *, any_rows: bool = False) -> Any:
    """Turn plain data into what `present` is, refusing another shape or kind."""
    if not isinstance(present, np.ndarray):
        if type(value) is not type(present):
            raise InputError(f"state field {name} is {value!r}; expected {type(present).__name__}")
        return value
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"state field {name} holds no array of numbers") from error
    shape = array.shape[:1] + present.shape[1:] if any_rows else present.shape
    if array.shape == shape[:1] == (0,):
        array = array.reshape(shape)  # without a row nothing tells how long one is
    if array.shape != shape:
        raise InputError(
            f"state field {name} has shape {array.shape}, but this agent keeps {shape}; "
            "restore it into an agent of the same policy, arms and neighbours"
        )
    if not np.isfinite(array).all() or (array.astype(present.dtype) != array).any():
        raise InputError(f"state field {name} has values that no agent of this kind can hold")
    return array.astype(present.dtype)
