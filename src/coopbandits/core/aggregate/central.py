"""Central totals: one controller that sees every pull. What cooperation is measured against.

The contract is smaller than an agent's: in every round, for every agent in turn, `choose` and then
`observe`; then `end_round`. A controller that acts on whole rounds reads what it knew at the start.
One that only serves agents also needs to know whose turn it is, and reports what was sent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from coopbandits.core import rows
from coopbandits.core.aggregate.aggregation import forgets
from coopbandits.core.aggregate.fields import Aggregation, FieldMachine, Sizes
from coopbandits.core.aggregate.forgetting import check_forgetting, keep_totals, window_fields
from coopbandits.core.aggregate.local import Silent
from coopbandits.core.checks import require_count
from coopbandits.core.choice import choose_arm
from coopbandits.core.contract import Context, Estimate, LocalView, Vector
from coopbandits.core.draws import signed_word
from coopbandits.core.spelling import Named
from coopbandits.core.statistic.linear import in_context

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from coopbandits.core.index import Index
    from coopbandits.core.statistic import Registers, Statistic


class CentralAggregation(Named, ABC):
    """What one controller, who sees every pull, makes of them; `make` returns it."""

    uncertified: ClassVar[str] = "does not certify distinct pulls"

    @property
    def needs(self) -> frozenset[str]:
        """Nothing: a controller sees all."""
        return frozenset()

    @property
    def takes_context(self) -> bool:
        return True

    @property
    def forgets(self) -> bool:
        return forgets(self)

    def carried(self, asked: Statistic) -> Statistic:
        return asked

    def memory(self, index: Index) -> Aggregation | None:
        """Return what its controller remembers, for compiled engines; None if they cannot."""
        return None

    @abstractmethod
    def make(self, index: Index, registers: Registers, sigma: float) -> Controller:
        """Return a controller that plays an index on what it sees."""


@dataclass(frozen=True)
class PooledTotals(Silent):
    """What a controller remembers, as the fields of one agent that sees everything.

    The settings are those of `CentralTotals`.
    """

    delay: int | None = 0
    discount: float = 1.0
    window: int | None = None
    name: ClassVar[str] = "pooled-totals"
    certifies: ClassVar[bool] = True
    stamped: ClassVar[bool] = False

    @property
    def forgets(self) -> bool:
        """Whether there is a window: a discount leaves what is certain."""
        return self.window is not None

    def fields(self, sizes: Sizes) -> Mapping[str, Any]:
        width = sizes.width
        return {
            "totals": width,
            "history": (0 if self.delay is None else self.delay + 1, width),
            "oldest_round": int,  # in `history`
            **window_fields(self.window, width),
        }

    @staticmethod
    def age(s: Any, factors: Vector, factor: float) -> None:
        rows.multiply(s.totals, factors)
        for late in range(s.history.shape[0]):
            rows.multiply(s.history[late], factors)

    @staticmethod
    def receive(s: Any, inbox: Any, lengths: Any) -> None:
        if s.history.shape[0] > 0:
            rows.copy(s.history[s.me.oldest_round], s.totals)
            s.me.oldest_round = (s.me.oldest_round + 1) % s.history.shape[0]
            if s.past.shape[0] > 0:
                keep_totals(s, s.history[s.me.oldest_round])
        elif s.past.shape[0] > 0:
            keep_totals(s, s.totals)

    @staticmethod
    def estimate(s: Any, totals: Vector, certain: Vector, about: Vector) -> None:
        write_visible(s, totals)
        rows.copy(certain, totals)


TURN: Mapping[str, Any] = {"agent": int, "word": int}
"""Numbers of a `ServingMemory` that are set for it: whose turn it is, and the random word of the
agent that chose first in the round."""


class ServingMemory(Silent):
    """What agents know that are apart, and what serves them, as the fields of one agent.

    Fields have a row per agent (`sizes.agents`). `observe` and `estimate` are for the agent whose
    turn it is, `s.me.agent`. `receive` ends the round and writes the sizes of all messages that
    were sent into `lengths`, which has `lines` places per agent.
    """

    lines: ClassVar[int] = 1


def write_visible(s: Any, totals: Any) -> None:
    """Write the totals that have arrived, less those from before a window."""
    if s.history.shape[0] > 0:
        rows.copy(totals, s.history[s.me.oldest_round])
    else:
        rows.copy(totals, s.totals)
    if s.past.shape[0] > 0:
        rows.subtract(totals, s.past[s.me.oldest])


@dataclass(frozen=True)
class CentralTotals(CentralAggregation):
    """All pulls of all agents in one place.

    Parameters
    ----------
    delay : int or None
        By how many rounds rewards are late: 0 for what was known when the round began, None for
        everything up to the last pull.
    discount : float
        γ, what a pull counts in every round compared with the one before; 1 for ever the same.
    window : int or None
        How many rounds a pull counts; None for ever.
    """

    delay: int | None = 0
    discount: float = 1.0
    window: int | None = None
    name: ClassVar[str] = "central-totals"
    uncertified: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if self.delay is not None:
            require_count("delay", self.delay, least=0)
        check_forgetting(self.discount, self.window)

    def memory(self, index: Index) -> Aggregation:
        return PooledTotals(self.delay, self.discount, self.window)

    def make(self, index: Index, registers: Registers, sigma: float) -> Controller:
        delay = -1 if self.delay is None else self.delay
        return Controller(index, registers.decaying(self.discount), sigma, delay, self.window)


class Controller:
    """Pooled totals and an index on what they were `delay` rounds ago; delay −1 is at once."""

    def __init__(
        self,
        index: Index,
        registers: Registers,
        sigma: float,
        delay: int,
        window: int | None = None,
    ) -> None:
        spec = PooledTotals(None if delay < 0 else delay, window=window)
        self._begin(spec, index, registers, sigma)

    def _begin(self, spec: Aggregation, index: Index, registers: Registers, sigma: float) -> None:
        view = central_view(registers.num_arms, sigma)
        self.index, self.registers, self.numbers = index, registers, index.numbers(view)
        self.machine = FieldMachine(spec, view, registers)
        self.rounds = 0

    @property
    def totals(self) -> Vector:
        found: Vector = self.machine.state.totals
        return found

    @property
    def history(self) -> NDArray[np.float64]:
        """What it was after the last rounds, a row for each that is kept, in no order."""
        found: NDArray[np.float64] = self.machine.state.history
        return found

    def choose(
        self, word: int, allowed: Sequence[int] | None = None, context: Context | None = None
    ) -> int:
        """Return the arm for the next agent, one of `allowed` where that is given."""
        if len(self.history) > 1 and context is None:
            arms = range(self.registers.num_arms) if allowed is None else sorted(allowed)
            if not self.registers.share(self.visible()).counts[list(arms)].all():
                return arms[self.rounds % len(arms)]  # nothing to go by yet: every arm in turn
        estimate = self.estimate()
        if context is not None:
            estimate = in_context(estimate, context)
        return choose_arm(self.index, self.numbers, estimate, word, allowed)

    def estimate(self) -> Estimate:
        return self.machine.estimate()

    def observe(self, arm: int, reward: float, context: Vector | None = None) -> None:
        self.machine.observe(arm, reward, context)

    def turn(self, agent: int) -> None:
        """Hear who chooses next, which makes no difference where all is known."""

    def end_round(self) -> Sequence[int] | None:
        """Let time pass for what is only seen later; return the sizes of messages, if any."""
        self.rounds += 1
        self.machine.receive({})
        return None

    def visible(self) -> Vector:
        """Return the totals that the next choice reads."""
        found = self.registers.zeros()
        write_visible(self.machine.state, found)
        return found


class ServingController(Controller):
    """Serves agents that are apart; it learns how many there are as they take their turns."""

    def __init__(
        self, spec: ServingMemory, index: Index, registers: Registers, sigma: float
    ) -> None:
        self._begin(spec, index, registers, sigma)
        self.lines, self.sigma, self.agents, self.is_new_round = spec.lines, sigma, 0, True
        self.turn(0)

    @property
    def history(self) -> NDArray[np.float64]:
        """Nothing: agents act on all that has reached them."""
        return self.registers.zeros()[:0]

    def turn(self, agent: int) -> None:
        if agent >= self.agents:
            self._make_room(agent + 1)
        self.machine.state.me.agent = agent

    def _make_room(self, agents: int) -> None:
        """Give more agents a row in every field."""
        before = self.machine.state
        view = central_view(self.registers.num_arms, self.sigma, agents)
        self.machine = FieldMachine(self.machine.spec, view, self.registers)
        state = self.machine.state
        if self.agents > 0:
            vars(state.me).update(vars(before.me))
            for kept, field in zip(before[1:], state[1:], strict=True):
                field[tuple(map(slice, kept.shape))] = kept
        self.agents = agents

    def choose(
        self, word: int, allowed: Sequence[int] | None = None, context: Context | None = None
    ) -> int:
        if self.is_new_round:
            self.machine.state.me.word = signed_word(word)
        return super().choose(word, allowed, context)

    def observe(self, arm: int, reward: float, context: Vector | None = None) -> None:
        self.is_new_round = False
        super().observe(arm, reward, context)

    def end_round(self) -> Sequence[int]:
        """Let agents exchange what is due; return the sizes of messages."""
        self.is_new_round = True
        self.rounds += 1
        lengths = np.zeros(self.lines * self.agents, dtype=np.int64)
        self.machine.functions["receive"](self.machine.state, lengths[:, None], lengths)
        return [size for size in lengths.tolist() if size > 0]


def central_view(num_arms: int, sigma: float, num_agents: int = 1) -> LocalView:
    """Return the view of a controller, which has no neighbours but may serve many agents."""
    return LocalView(0, 1.0, {}, num_arms, sigma=sigma, num_agents=num_agents)
