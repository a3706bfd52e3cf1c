"""The agent of a policy that is made of parts: an aggregation's machine times an index."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.aggregate.aggregation import moved_pulls
from coopbandits.core.choice import choose_arm, with_open_pulls
from coopbandits.core.context import Scene
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
from coopbandits.core.guards import (
    identity,
    read_arm,
    read_reward,
    require_neighbors,
    require_same_agent,
)
from coopbandits.core.recommend import CONFIDENCE, Recommendation, recommend, require_certain
from coopbandits.core.state import read_field
from coopbandits.core.statistic.linear import in_context

if TYPE_CHECKING:
    from coopbandits.core.aggregate import Claims, Machine
    from coopbandits.core.aggregate.aggregation import ContextMachine, Moving
    from coopbandits.core.aggregate.pooling import Scatter
    from coopbandits.core.index import Index
    from coopbandits.core.index.index import Draws
    from coopbandits.core.policy import Parts


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
        self.index = index
        self.numbers = index.numbers(view)
        self.policy = policy
        registers = getattr(machine, "registers", None)  # a machine of one's own may have none
        self.scene = Scene(registers, policy) if registers and registers.num_features else None

    def choose(
        self, word: int, allowed: Sequence[int] | None = None, context: Context | None = None
    ) -> int:
        """Play the largest index; open pulls count as pulls without a reward."""
        if self.scene is None:
            arm = self.would_choose(word, allowed, context)
        else:
            features = self.scene.read_all(context)
            arm = self._choose_among(word, allowed, features)
            self.scene.open(arm, features[arm])
        self.open_pulls[arm] += 1
        return arm

    def would_choose(
        self, word: int, allowed: Sequence[int] | None = None, context: Context | None = None
    ) -> int:
        """Return what `choose` would, and change nothing."""
        if self.scene is not None:
            return self._choose_among(word, allowed, self.scene.read_all(context))
        if context is not None:
            raise self._needless_context()
        estimate = with_open_pulls(self.machine.estimate(), self.open_pulls)
        return choose_arm(self.index, self.numbers, estimate, word, allowed)

    def draws(self, context: Context | None = None) -> Draws | None:
        """Return the distribution of the arms' values now, where they are independent draws."""
        estimate = self.machine.estimate()
        if self.scene is not None:
            estimate = self.scene.shown(estimate, self.scene.read_all(context))
        else:
            estimate = with_open_pulls(estimate, self.open_pulls)
        return self.index.draws(estimate, self.numbers)

    def open(self, arm: int, context: Vector | None = None) -> None:
        """Count a pull as open that was decided on before, as a journal tells."""
        if self.scene is not None:
            self.scene.open(arm, self.scene.read_one(context))
        self.open_pulls[arm] += 1

    @property
    def open_features(self) -> Vector:
        """What open pulls would add to the statistic if they paid nothing."""
        return np.zeros(0) if self.scene is None else self.scene.opened

    @open_features.setter
    def open_features(self, values: Vector) -> None:
        if self.scene is not None:
            self.scene.opened = values

    def _choose_among(self, word: int, allowed: Sequence[int] | None, features: Context) -> int:
        scene = cast("Scene", self.scene)
        estimate = scene.shown(self.machine.estimate(), features)
        return choose_arm(self.index, self.numbers, estimate, word, allowed)

    def _needless_context(self) -> InputError:
        return InputError(
            f"policy {self.policy} looks at no features, but a context was given; leave it out, or "
            "take an index such as lin-ts"
        )

    def observe(self, arm: Any, reward: Any, context: Vector | None = None) -> None:
        """Add one reward to the own statistics."""
        arm = read_arm(arm, self.view.num_arms)
        if self.scene is None:
            if context is not None:
                raise self._needless_context()
            self.machine.observe(arm, read_reward(reward))
        else:
            context = self.scene.read_one(context)
            machine = cast("ContextMachine", self.machine)  # parts with features have such a one
            machine.observe(arm, read_reward(reward), context)
        self._close(arm, context)

    def abandon(self, arm: int, context: Vector | None = None) -> None:
        """Count an open pull no longer: its reward will never be known."""
        self._close(arm, context if self.scene is None else self.scene.read_one(context))

    def _close(self, arm: int, context: Vector | None) -> None:
        if self.open_pulls[arm] > 0:
            self.open_pulls[arm] -= 1
            if self.scene is not None and context is not None:
                self.scene.close(arm, context, bool(np.count_nonzero(self.open_pulls)))

    def estimate(self) -> Estimate:
        """Return the network totals as seen now, without open pulls."""
        return self.machine.estimate()

    def outlook(self, context: Context) -> tuple[Vector, Vector]:
        """Return what is expected of every arm in a context, and the deviation of that."""
        if self.scene is None:
            raise self._needless_context()
        estimate = in_context(self.machine.estimate(), self.scene.read_all(context))
        return self.index.outlook(estimate, self.numbers)

    def recommend(self, confidence: float = CONFIDENCE) -> Recommendation:
        """Return the arm that is best so far, and by how much at least with this confidence.

        It may be asked for as often as one likes, and the answer acted upon at any time.
        """
        require_certain(f"policy {self.policy}", self.parts)
        return recommend(self.machine.estimate(), self.view.sigma, confidence)

    def scatter(self, bounded: bool = False) -> Scatter | None:
        """Return how much sites differ, where the agent knows others one by one."""
        return self.machine.scatter(bounded)

    def moving(self) -> Moving | None:
        """Return where pulls are, where agents hand them on."""
        return self.machine.moving()

    def share(self) -> Share:
        """Return this agent's share of all rewards and pulls."""
        return self.machine.share()

    def check_claims(self, message: Vector, claims: Claims, now: float) -> None:
        """Refuse a message that tells of what cannot have happened."""
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
        """Tell the aggregation the time at which the round ends."""
        self.machine.pass_time(tick)

    def reopened(self, word: int) -> None:
        """Tell the aggregation that its state was read from a disk."""
        self.machine.reopened(word)

    def parted(self, neighbors: Collection[int]) -> None:
        """Tell the aggregation that links have ended."""
        self.machine.parted(neighbors)

    def export_state(self) -> State:
        """Return version, whose state it is, open pulls and the aggregation's fields."""
        return {
            **self._identity(),
            "open_pulls": self.open_pulls.tolist(),
            **({} if self.scene is None else {"open_features": self.scene.opened.tolist()}),
            "aggregation": self.machine.export_state(),
        }

    def restore_state(self, state: State) -> None:
        """Continue from an exported state, or change nothing if it does not fit."""
        expected = {*self._identity(), "open_pulls", "aggregation"}
        if set(state) != expected | ({"open_features"} if self.scene else set()):
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
        if self.scene is not None:
            features = read_field(self.scene.opened, state["open_features"], "open_features")
        self.machine.restore_state(state["aggregation"])
        self.open_pulls = open_pulls
        if self.scene is not None and features is not None:
            self.scene.opened = features

    def reweighted(self, state: State) -> State:
        """Return a state from before the first round as this agent, with its weights, begins."""
        return state | {"aggregation": self.machine.reweighted(state["aggregation"])}

    def relinked(self, state: State, neighbors: Iterable[int]) -> State:
        """Return an exported state as this agent, which has other neighbours, can restore it."""
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
        if self.scene is not None:
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
