"""The contract of an aggregation: a spec, and the machine of one agent that it makes.

The **spec** is a frozen value with settings and a spelling. It says what agents must know, what
they can stand, and how much they send; callers ask it instead of knowing its class. The
**machine** is what one agent runs: four methods and its state. Both treat what is added up as
vectors of registers, whose meaning is known to the statistic alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.contract import Estimate, LocalView, Share, State, Vector
from coopbandits.core.errors import InputError
from coopbandits.core.spelling import Named
from coopbandits.core.state import Stateful
from coopbandits.core.statistic import ArmSums, Registers, Statistic

if TYPE_CHECKING:
    from coopbandits.core.aggregate.claims import Claims
    from coopbandits.core.aggregate.pooling import Scatter


ROBUST, SYNCHRONOUS = "robust", "synchronous"
"""How agents of a fleet keep time: each by itself, or every round waits for all neighbours."""

OWN, MIXED, ON_AVERAGE = "own", "mixed", "on average"
"""What an agent's share is: its own pulls; a mixture, and all together add up exactly; or only on
average."""


class MessageSize(NamedTuple):
    """Values in a message: usually, at most, and when that is."""

    usual: int
    most: int
    when: str = "always"


class Moving(NamedTuple):
    """Where the pulls are that agents hand on.

    Attributes
    ----------
    held : float
        Pulls that this agent has and will hand on.
    underway : float
        Pulls on their way to neighbours, which have not confirmed them.
    collected : float
        Pulls in what all agents receive, as this agent knows it.
    """

    held: float
    underway: float
    collected: float


class AnyAggregation(Named, ABC):
    """How statistics travel between agents, as a value; fields of the dataclass are its settings.

    Attributes
    ----------
    mode : {"robust", "synchronous", ""}
        How it runs in a fleet; "" where it cannot.
    needs_common_round : bool
        Whether its agents only work where all count rounds together, and not on own clocks.
    shares : {"own", "mixed", "on average", ""}
        What `Machine.share` returns; "" where it raises.
    totals : bool
        Whether estimates tend to the network's reward sums and numbers of pulls where all agents
        are neighbours and all messages arrive. False where counts are something else, such as the
        weights of means.
    counts_pulls : bool
        Whether estimates are of pulls; False where they are something else for an index made for
        them, such as a rank of arms.
    exact : bool
        Whether, once all news has arrived, every agent's estimate is exactly the network's totals.
    checks_claims : bool
        Whether its machines reject what cannot have happened. A fleet requires it.
    grows : bool
        Whether messages grow with the number of agents.
    outlives : bool
        Whether pulls stay counted although the agent that made them has lost its memory of them.
    overtakes : bool
        Whether a message makes all earlier ones over its link worthless, so that drivers drop an
        earlier one that comes later.
    takes_time : bool
        Whether its machines can be told the time (`Machine.pass_time`), and with a `discount`
        forget by that instead of by rounds, as agents of a fleet do.
    keeps_own : bool
        Whether its machines keep their agent's own totals apart from those of others, so that a
        fleet can carry them into another aggregation (`Machine.own_totals`).
    """

    mode: ClassVar[str] = ""
    needs_common_round: ClassVar[bool] = False
    shares: ClassVar[str] = ""
    totals: ClassVar[bool] = True
    counts_pulls: ClassVar[bool] = True
    exact: ClassVar[bool] = False
    checks_claims: ClassVar[bool] = False
    grows: ClassVar[bool] = False
    outlives: ClassVar[bool] = False
    overtakes: ClassVar[bool] = False
    takes_time: ClassVar[bool] = False
    keeps_own: ClassVar[bool] = False

    @property
    def needs(self) -> frozenset[str]:
        """What agents must know beyond their row of P, as in `Policy.needs`."""
        return frozenset()

    @property
    def uncertified(self) -> str:
        """Why `Estimate.certain` is None, as a clause that follows its spelling; "" if it is not.

        A window needs no reason of its own: an aggregation that `forgets` makes no claims.
        """
        return "does not certify distinct pulls"

    def carried(self, asked: Statistic) -> Statistic:
        """Return what it adds up, for an index that asks for a statistic."""
        return asked

    @property
    def forgets(self) -> bool:
        """Whether older pulls count less, or no longer: the settings `discount` and `window`."""
        return forgets(self)

    @property
    def takes_context(self) -> bool:
        """Whether its machines are `ContextMachine`s, which hand features to the statistic."""
        return False

    @abstractmethod
    def make(self, view: LocalView, registers: Registers) -> Machine:
        """Return the machine of one agent."""

    def stages(self, view: LocalView, registers: Registers) -> tuple[int, int] | None:
        """Return the round after which news is first read, and every how many rounds it is then.

        None where news is read whenever it comes, or where agents have to find that out.
        """
        return None

    def message_size(self, registers: Registers, max_agents: int) -> MessageSize:
        """Return how many values its messages have among up to `max_agents` agents."""
        return MessageSize(registers.size, registers.size)


class Machine(Stateful, ABC):
    """One agent's part of an aggregation.

    Attributes
    ----------
    registers : Registers
        What is added up.
    registered : mapping of str to (int, int)
        Fields that hold registers in their rows, and how many other values are before and behind;
        with none, an agent keeps the arms that it began with.
    counted : mapping of str to int
        Those that hold pulls by arm, and how many other values are behind them.
    """

    registers: Registers
    registered: Mapping[str, tuple[int, int]] = MappingProxyType({})
    counted: Mapping[str, int] = MappingProxyType({})

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

    @property
    def checks_claims(self) -> bool:
        """Whether it has a `check_claims` of its own."""
        return type(self).check_claims is not Machine.check_claims

    def pass_time(self, tick: int) -> None:
        """Note the time at which the round ends, where `LocalView.told_time` is set."""
        raise InputError(f"{self.owner} forgets by rounds, and cannot be told the time")

    def reopened(self, word: int) -> None:
        """Note that the state was read from a disk, and may be older than what was sent.

        `word` is random, and another one every time. No earlier message arrives from now on.
        """
        # Most send totals, of which larger ones are newer.

    def parted(self, neighbors: Collection[int]) -> None:
        """Note that links have ended: these neighbours received nothing of the next round.

        Called between the end of a round and the messages of the next.
        """
        # Most do not remember what they have sent.

    def share(self) -> Share:
        """Return this agent's share of all that was observed.

        Shares of all agents, after the same number of rounds, add up to the network's rewards and
        pulls: nothing is lost, and nothing counts twice.
        """
        raise InputError(f"{self.owner} does not report its share of what was observed")

    def own_totals(self) -> tuple[Vector, int]:
        """Return the registers of all own pulls as they count at a clock, and that clock."""
        raise InputError(f"{type(self).__name__} does not keep its own totals apart")

    def scatter(self, bounded: bool) -> Scatter | None:
        """Return how much sites differ; None where an agent does not know others one by one.

        `bounded` means that every reward lies in 0 to 1.
        """
        return None

    def moving(self) -> Moving | None:
        """Return where pulls are that agents hand on; None where they hand on none."""
        return None

    def check_claims(self, message: Vector, claims: Claims, now: float) -> None:
        """Reject a message of what cannot have happened; its form is checked later."""
        raise InputError(f"{self.owner} does not check what neighbours claim")

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
                f"{self.owner} cannot continue with other neighbours, {list(own)} "
                f"instead of {list(neighbors)}; start afresh, all agents together"
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

    def rearranged(self, state: State, there: Registers, places: Sequence[int]) -> State:
        """Return the state of an agent with other arms for this one: arm k there is `places[k]`."""
        if not self.registered:
            raise InputError(
                f"{self.owner} cannot continue with other arms; give the bandit a "
                "policy on flooded-totals, tree-sums or ledger-sums"
            )
        here, found = self.registers, dict(state)
        filled = {name for name, rows in state.items() if rows}  # no neighbours, no rows about them
        for name in filled & self.registered.keys():
            rows = np.array(state[name])
            found[name] = moved_rows(rows, here, there, places, self.registered[name]).tolist()
        for name in filled & self.counted.keys():
            rows = np.array(state[name])
            pulls, rest = np.split(rows, [rows.shape[-1] - self.counted[name]], axis=-1)
            moved = moved_pulls(pulls, here.num_arms, places)
            found[name] = np.concatenate([moved, rest], axis=-1).tolist()
        return found

    def translated(self, message: Vector, theirs: Registers, places: Sequence[int]) -> Vector:
        """Return a message about other arms as one about these: arm k there is `places[k]`."""
        raise InputError(f"{self.owner} cannot read of other arms than its own")


class ContextMachine(Machine):
    """A machine that can be told features of a pull; it looks into no registers."""

    @abstractmethod
    def observe(self, arm: int, reward: float, context: Vector | None = None) -> None:
        """Add one own pull, with its features where the statistic looks at them."""


def forgets(spec: Named) -> bool:
    """Return whether a spec has settings by which older pulls count less, or no longer."""
    return getattr(spec, "discount", 1.0) != 1.0 or bool(getattr(spec, "window", None))


def means_alone(name: str, asked: Statistic) -> Statistic:
    """Return sums per arm; reject anything else for an aggregation of which only means travel."""
    if asked != ArmSums():
        raise InputError(
            f"{name} averages the means of arms, and carries no {asked.spelling}; take an index on "
            "sums and counts such as ucb, or another aggregation"
        )
    return asked


def told_agents(view: LocalView, who: str) -> int:
    """Return N, or raise where the view does not have it."""
    if view.num_agents is None:
        raise InputError(f"{who} needs the number of agents; set LocalView.num_agents")
    return view.num_agents


def moved_rows(
    rows: NDArray[np.float64],
    here: Registers,
    there: Registers,
    places: Sequence[int],
    around: tuple[int, int],
) -> NDArray[np.float64]:
    """Return rows with registers of other arms as rows with these: arm k there is `places[k]`.

    `around` is how many other values stand before and behind the registers in a row.
    """
    begin, end = around[0], rows.shape[-1] - around[1]
    moved = here.moved(rows[..., begin:end], there, places)
    return np.concatenate([rows[..., :begin], moved, rows[..., end:]], axis=-1)


def moved_pulls(
    pulls: NDArray[np.float64], num_arms: int, places: Sequence[int]
) -> NDArray[np.float64]:
    """Return numbers (…, K) of other arms as numbers of these; those with one place are added."""
    found = np.zeros((*pulls.shape[:-1], num_arms), dtype=pulls.dtype)
    for at, place in enumerate(places):
        found[..., place] += pulls[..., at]
    return found
