"""The agent of a policy that is made of parts: an aggregation's machine times an index."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.aggregate.aggregation import moved_pulls
from coopbandits.core.choice import choose_arm, with_open_pulls
from coopbandits.core.contract import (
    Context,
    ContextAgent,
    Estimate,
    LocalView,
    Share,
    State,
    Vector,
)
from coopbandits.core.errors import InputError
from coopbandits.core.recommend import CONFIDENCE, Recommendation, recommend, require_certain
from coopbandits.core.state import STATE_VERSION, read_field
from coopbandits.core.statistic.linear import in_context

if TYPE_CHECKING:
    from coopbandits.core.aggregate import Claims, Machine
    from coopbandits.core.aggregate.aggregation import ContextMachine, Moving
    from coopbandits.core.aggregate.pooling import Scatter
    from coopbandits.core.contract import Context, Estimate, Vector
    from coopbandits.core.index import Index
    from coopbandits.core.index.index import Draws
    from coopbandits.core.policy import Parts
    from coopbandits.core.statistic import Registers


def read_arm(arm: Any, num_arms: int) -> int:
    """Return an arm as an int, checked."""
    if isinstance(arm, bool) or not isinstance(arm, Integral):
        raise InputError(f"arm is {arm!r}; it must be a whole number")
    if arm not in range(num_arms):
        raise InputError(f"arm {arm} does not exist; arms are numbered 0 to {num_arms - 1}")
    return int(arm)


def read_reward(reward: Any) -> float:
    """Return a reward as a float, checked."""
    if not isinstance(reward, Real | np.bool_):
        raise InputError(f"reward is {reward!r}; rewards are finite numbers")
    try:
        value = float(reward)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise InputError(f"reward {value} is not finite; rewards are finite numbers")
    return value


def require_neighbors(view: LocalView, who: Collection[int]) -> None:
    known = view.neighbor_weights
    for j in who:  # in every round of every agent: no set is made unless somebody is strange
        if j not in known:
            raise InputError(
                f"{sorted(set(who) - known.keys())} are no neighbours of agent {view.agent_id}; "
                f"its neighbours are {list(known)}"
            )


def identity(policy: str, view: LocalView) -> State:
    """Return what must agree before a state is restored."""
    return {
        "version": STATE_VERSION,
        "policy": policy,
        "agent_id": view.agent_id,
        "num_arms": view.num_arms,
        "num_agents": view.num_agents,
        "lambda_bound": view.lambda_bound,
    }


def require_same_agent(state: State, own: State) -> None:
    for key, value in own.items():
        if state.get(key) != value:
            raise InputError(
                f"state has {key} {state.get(key)!r}, but this agent has {value!r}; "
                "restore it into the agent it came from"
            )


LARGEST = 1e70
"""The largest feature that is taken: sums of squares of such numbers are finite."""


class ContextBuffer:
    """The features that one agent is told.

    Parameters
    ----------
    registers : Registers
        What is added up; it says how many features there are.
    policy : str
        The policy's spelling, for sentences.
    """

    def __init__(self, registers: Registers, policy: str) -> None:
        self.registers, self.policy = registers, policy
        self._opened, self._any_opened = registers.zeros(), False
        self._latest: tuple[int, Vector] | None = None

    def read_all(self, context: Context | None) -> Context:
        """Return the features of every arm, checked."""
        num_arms, size = self.registers.num_arms, self.registers.num_features
        found = self._numbers(context, "to choose")
        if found.shape == (num_arms, size):
            return found
        if self.registers.one_context and found.shape == (size,):
            return np.broadcast_to(found, (num_arms, size))
        alone = f" or ({size},)" if self.registers.one_context else ""
        raise InputError(
            f"context has shape {found.shape}; policy {self.policy} takes ({num_arms}, {size})"
            f"{alone}: a row of {size} features per arm"
        )

    def read_one(self, context: Vector | None) -> Vector:
        """Return the features of the arm that was pulled, checked."""
        found = self._numbers(context, "to observe")
        if found.shape != (self.registers.num_features,):
            raise InputError(
                f"context has shape {found.shape}; policy {self.policy} takes the "
                f"{self.registers.num_features} features of the arm that was pulled"
            )
        return found

    def _numbers(self, context: Any, purpose: str) -> NDArray[np.float64]:
        if context is None:
            raise InputError(
                f"policy {self.policy} was told no context {purpose}; give it "
                f"{self.registers.num_features} features per arm, as context=…"
            )
        try:
            found = np.asarray(context, dtype=np.float64)
        except (TypeError, ValueError):
            raise InputError(
                f"context is {context!r}; it must hold numbers alone, categories as one-hot columns"
            ) from None
        # The sum of squares says so sooner.
        if not np.vdot(found, found) <= LARGEST and not (abs(found) <= LARGEST).all():
            wrong = found[~(abs(found) <= LARGEST)][0]
            raise InputError(
                f"context has a feature {wrong:g}; features are finite numbers up to {LARGEST:g}"
            )
        return found

    def shown(self, estimate: Estimate, features: Context) -> Estimate:
        """Return an estimate for a choice among arms with these features, open pulls included."""
        opened = self.opened
        if not self._any_opened:
            return in_context(estimate, features)
        waiting = self.registers.read(opened, time=0.0, num_agents=1.0)
        return in_context(estimate, features, waiting.extra.outer)

    # Mostly a pull is closed before the next one: only those that wait longer are added up.

    @property
    def opened(self) -> Vector:
        """What open pulls would add, if they paid nothing."""
        if self._latest is not None:
            arm, features = self._latest
            self._latest, self._any_opened = None, True
            self.registers.record(self._opened, arm, 0.0, features)
        return self._opened

    @opened.setter
    def opened(self, values: Vector) -> None:
        self._opened, self._latest = values, None
        self._any_opened = bool(self.registers.version(values))

    def open(self, arm: int, features: Vector) -> None:
        """Remember a pull that was chosen."""
        _ = self.opened  # adds the one before
        self._latest = arm, features

    def close(self, arm: int, features: Vector, any_left: bool) -> None:
        """Remove an open pull; `any_left` says whether others are still open."""
        if any_left:
            self.registers.record(self.opened, arm, 0.0, features, -1.0)
        elif self._any_opened:
            self.opened = self.registers.zeros()  # rounding ends with the last one
        else:
            self._latest = None


def joined(live: Estimate, base: Estimate) -> Estimate:
    """Return the estimate of two disjoint sets of pulls; agents are those of the first."""
    extra, certain = live.extra, live.certain
    if len(extra):  # a linear model
        extra = extra._replace(outer=extra.outer + base.extra.outer)
    if certain is not None:
        certain = None if base.certain is None else _both(certain, base.certain)
    return live._replace(
        sums=live.sums + base.sums,
        counts=live.counts + base.counts,
        time=live.time + base.time,
        squares=live.squares + base.squares if len(live.squares) else (),
        extra=extra,
        certain=certain,
    )


def _both(one: Share, other: Share) -> Share:
    return Share(one.sums + other.sums, one.counts + other.counts)


class CooperativeAgent(ContextAgent):
    """An aggregation times an index.

    Parameters
    ----------
    view : LocalView
        What the agent may know.
    machine : Machine
        This agent's part of the aggregation.
    index : Index
        What is played on its estimate.
    policy : str
        The policy's spelling; a state is only restored into an agent of the same policy.
    parts : Parts, optional
        The policy's parts, which say whether what it recommends can have a confidence.

    Attributes
    ----------
    base : Machine or None
        Holds other pulls of the same statistic, whose totals are added to all that is read. A fleet
        keeps there what was learned before a bandit changed its aggregation.
    """

    def __init__(
        self,
        view: LocalView,
        machine: Machine,
        index: Index,
        policy: str,
        parts: Parts | None = None,
    ) -> None:
        super().__init__(view)
        self.parts = parts
        self.machine = machine
        self.base: Machine | None = None
        self.index = index
        self.numbers = index.numbers(view)
        self.policy = policy
        registers = getattr(machine, "registers", None)  # a machine of one's own may have none
        self.buffer = (
            ContextBuffer(registers, policy) if registers and registers.num_features else None
        )

    def choose(
        self, word: int, allowed: Sequence[int] | None = None, context: Context | None = None
    ) -> int:
        """Play the largest index; open pulls count as pulls without a reward."""
        if self.buffer is None:
            arm = self.would_choose(word, allowed, context)
        else:
            features = self.buffer.read_all(context)
            arm = self._choose_among(word, allowed, features)
            self.buffer.open(arm, features[arm])
        self.open_pulls[arm] += 1
        return arm

    def would_choose(
        self, word: int, allowed: Sequence[int] | None = None, context: Context | None = None
    ) -> int:
        if self.buffer is not None:
            return self._choose_among(word, allowed, self.buffer.read_all(context))
        if context is not None:
            raise self._needless_context()
        estimate = with_open_pulls(self.estimate(), self.open_pulls)
        return choose_arm(self.index, self.numbers, estimate, word, allowed)

    def draws(self, context: Context | None = None) -> Draws | None:
        """Return the distribution of the arms' values now, where they are independent draws."""
        estimate = self.estimate()
        if self.buffer is not None:
            estimate = self.buffer.shown(estimate, self.buffer.read_all(context))
        else:
            estimate = with_open_pulls(estimate, self.open_pulls)
        return self.index.draws(estimate, self.numbers)

    def open(self, arm: int, context: Vector | None = None) -> None:
        if self.buffer is not None:
            self.buffer.open(arm, self.buffer.read_one(context))
        self.open_pulls[arm] += 1

    @property
    def open_features(self) -> Vector:
        return np.zeros(0) if self.buffer is None else self.buffer.opened

    @open_features.setter
    def open_features(self, values: Vector) -> None:
        if self.buffer is not None:
            self.buffer.opened = values

    def _choose_among(self, word: int, allowed: Sequence[int] | None, features: Context) -> int:
        buffer = cast("ContextBuffer", self.buffer)
        estimate = buffer.shown(self.estimate(), features)
        return choose_arm(self.index, self.numbers, estimate, word, allowed)

    def _needless_context(self) -> InputError:
        return InputError(
            f"policy {self.policy} looks at no features, but a context was given; leave it out, or "
            "take an index such as lin-ts"
        )

    def observe(self, arm: Any, reward: Any, context: Vector | None = None) -> None:
        """Add one reward to the own statistics."""
        arm = read_arm(arm, self.view.num_arms)
        if self.buffer is None:
            if context is not None:
                raise self._needless_context()
            self.machine.observe(arm, read_reward(reward))
        else:
            context = self.buffer.read_one(context)
            machine = cast("ContextMachine", self.machine)  # parts with features have such a one
            machine.observe(arm, read_reward(reward), context)
        self._close(arm, context)

    def abandon(self, arm: int, context: Vector | None = None) -> None:
        self._close(arm, context if self.buffer is None else self.buffer.read_one(context))

    def _close(self, arm: int, context: Vector | None) -> None:
        if self.open_pulls[arm] > 0:
            self.open_pulls[arm] -= 1
            if self.buffer is not None and context is not None:
                self.buffer.close(arm, context, bool(np.count_nonzero(self.open_pulls)))

    def estimate(self) -> Estimate:
        """Return the network totals as seen now, without open pulls."""
        found = self.machine.estimate()
        return found if self.base is None else joined(found, self.base.estimate())

    def outlook(self, context: Context) -> tuple[Vector, Vector]:
        if self.buffer is None:
            raise self._needless_context()
        estimate = in_context(self.estimate(), self.buffer.read_all(context))
        return self.index.outlook(estimate, self.numbers)

    def recommend(self, confidence: float = CONFIDENCE) -> Recommendation:
        """Return the arm that is best so far, and by how much at least with this confidence.

        It may be asked for as often as one likes, and the answer acted upon at any time.
        """
        require_certain(f"policy {self.policy}", self.parts)
        return recommend(self.estimate(), self.view.sigma, confidence)

    def scatter(self, bounded: bool = False) -> Scatter | None:
        """Return how much sites differ, where the agent knows others one by one."""
        return self.machine.scatter(bounded)

    def moving(self) -> Moving | None:
        """Return where pulls are, where agents hand them on."""
        return self.machine.moving()

    def share(self) -> Share:
        found = self.machine.share()
        return found if self.base is None else _both(found, self.base.share())

    def check_claims(self, message: Vector, claims: Claims, now: float) -> None:
        self.machine.check_claims(message, claims, now)

    def outgoing(self, neighbor: int) -> Vector | None:
        """Return the aggregation's message of this round."""
        require_neighbors(self.view, [neighbor])
        return self.machine.outgoing(neighbor)

    def receive(self, messages: Mapping[int, Vector]) -> None:
        """Hand the messages to the aggregation, in ascending order of neighbours."""
        require_neighbors(self.view, messages)
        ordered = {j: messages[j] for j in sorted(messages)} if len(messages) > 1 else messages
        self.machine.receive(ordered)

    def pass_time(self, tick: int) -> None:
        self.machine.pass_time(tick)

    def reopened(self, word: int) -> None:
        self.machine.reopened(word)

    def parted(self, neighbors: Collection[int]) -> None:
        self.machine.parted(neighbors)

    def export_state(self) -> State:
        """Return version, whose state it is, open pulls and the aggregation's fields."""
        return {
            **self._identity(),
            "open_pulls": self.open_pulls.tolist(),
            **({} if self.buffer is None else {"open_features": self.buffer.opened.tolist()}),
            "aggregation": self.machine.export_state(),
        }

    def restore_state(self, state: State) -> None:
        """Continue from an exported state, or change nothing if it does not fit."""
        expected = {*self._identity(), "open_pulls", "aggregation"}
        if set(state) != expected | ({"open_features"} if self.buffer else set()):
            raise InputError(
                f"state has fields {sorted(state)}; restore what export_state returned"
            )
        require_same_agent(state, self._identity())
        open_pulls: NDArray[np.int64] = read_field(
            self.open_pulls, state["open_pulls"], "open_pulls"
        )
        if (open_pulls < 0).any():
            raise InputError(f"state has open_pulls {open_pulls.tolist()}; they are never negative")
        features: Vector | None = None
        if self.buffer is not None:
            features = read_field(self.buffer.opened, state["open_features"], "open_features")
        self.machine.restore_state(state["aggregation"])
        self.open_pulls = open_pulls
        if self.buffer is not None and features is not None:
            self.buffer.opened = features

    def reweighted(self, state: State) -> State:
        return state | {"aggregation": self.machine.reweighted(state["aggregation"])}

    def relinked(self, state: State, neighbors: Iterable[int]) -> State:
        own, others = sorted(self.view.neighbor_weights), sorted(neighbors)
        moved = self.machine.relinked(state["aggregation"], others, own)
        return state | {"aggregation": moved}

    def rearranged(self, state: State, there: CooperativeAgent, places: Sequence[int]) -> State:
        """Return the state of an agent with other arms for this one: arm k there is `places[k]`.

        Arms that have one place are added up there.
        """
        registers, num_arms = there.machine.registers, self.view.num_arms
        found = state | {
            "num_arms": num_arms,
            "open_pulls": moved_pulls(np.array(state["open_pulls"]), num_arms, places).tolist(),
            "aggregation": self.machine.rearranged(state["aggregation"], registers, places),
        }
        if self.buffer is not None:
            opened = np.array(state["open_features"])
            moved = self.machine.registers.moved(opened, registers, places)
            found["open_features"] = moved.tolist()
        return found

    def translated(
        self, message: Vector, theirs: CooperativeAgent, places: Sequence[int]
    ) -> Vector:
        """Return a message of an agent with other arms: its arm k is `places[k]` here."""
        return self.machine.translated(message, theirs.machine.registers, places)

    def _identity(self) -> State:
        return identity(self.policy, self.view)
