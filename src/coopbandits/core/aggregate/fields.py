"""An aggregation as functions on named arrays: written once, played by every engine and fleet.

The state of an agent is a set of **fields** with declared shapes, and five plain functions work on
it. The reference engine and fleets call them as they are, through `FieldMachine`; the compiled
driver plays the same source, for all agents of a run in one call. Push-sum, for example::

    @dataclass(frozen=True)
    class PushSum(Aggregation):
        name = "push-sum"

        def fields(self, sizes):
            return {"mass": sizes.width, "share": sizes.width, "weight": float}

        def start(self, s, view):
            s.me.weight = 1.0

        @staticmethod
        def observe(s, pull):
            rows.add(s.mass, pull)

        …

In memory a field is one array over all agents, or over all links where its first size is
`sizes.links`, and every function sees the part of its own agent: it cannot reach another's. Single
numbers, declared as `int` or `float`, are attributes of `s.me`. Links are counted in ascending
order of neighbours.

Functions that run compiled see no Python objects: numbers, arrays and other such functions only.
`start` is always called in Python.
"""

from __future__ import annotations

import traceback
from abc import abstractmethod
from collections import namedtuple
from collections.abc import Callable, Mapping
from functools import cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.aggregate.aggregation import AnyAggregation, ContextMachine, MessageSize
from coopbandits.core.aggregate.forgetting import CLOCK, discounted, fading_fields
from coopbandits.core.aggregate.messages import all_finite, check_vectors
from coopbandits.core.contract import Estimate, LocalView, Share, State, Vector
from coopbandits.core.errors import AggregationFailedError, InputError
from coopbandits.core.spelling import Named, is_ours, one_line
from coopbandits.core.state import Stateful
from coopbandits.core.statistic import Registers, VersionedRegisters

if TYPE_CHECKING:
    from coopbandits.core.aggregate.claims import Claims

TIME, AGENTS, AHEAD = range(3)
"""Places in `about`, which says what stands behind totals: as in `Estimate`."""

COUNTED = -1.0
"""The time before `estimate` sets one. Below 0 it is a multiple of the pulls in the totals, −2 for
twice as many; but at least `least_time`."""

UNTOLD = np.array([COUNTED, 1.0, 1.0])
"""What stands in `about` before `estimate` writes into it."""

FUNCTIONS = ("observe", "message", "cut", "receive", "estimate", "prepare")
"""Those that are compiled."""


def anticipation(num_agents: float, rounds: float, recorded: float) -> float:
    """Return c = max(1, N̂(t − 1)/B): rounds of agents that passed, over those behind the data."""
    return max(1.0, num_agents * rounds / recorded) if recorded > 0.0 else 1.0


def tells_all(message: Callable[..., int]) -> bool:
    """Return whether a function ``message(s, out)`` tells all neighbours the same."""
    return message.__code__.co_argcount == 2


@cache
def _to_each(message: Callable[..., int], cut: Callable[..., int]) -> Callable[..., int]:

    def to_each(s: Any, link: int, out: Any) -> int:
        length = message(s, out)
        return min(length, cut(s, link, length)) if length > 0 else length

    return to_each


class Links(int):
    """The number of an agent's links; a shape that begins with it belongs to links."""


class Sizes(NamedTuple):
    """What shapes of fields are made of.

    Attributes
    ----------
    arms : int
        K.
    width : int
        Registers of the statistic: reward sums, counts, and whatever else it adds up.
    links : int
        Neighbours of the agent.
    agents : int
        N; 0 where agents are not told.
    groups : int
        Numbers of pulls among the registers: one per arm, or per model.
    of_arms : bool
        Whether registers are reward sums, counts and squares of arms, in this order, that do not
        fade: those of a pull then follow from its arm and reward (`arm_sums.add_pull`).
    room : int
        Rows of tables with one per agent heard of. It is a matter of memory, and tells nothing
        about N: the driver has room for all, a machine makes more (`FieldMachine.make_room`).
    fades : bool
        Whether registers count less from round to round: by the aggregation's discount, or because
        the statistic says so.
    """

    arms: int
    width: int
    links: Links
    agents: int
    groups: int = 0
    of_arms: bool = False
    room: int = 1
    fades: bool = False


def sizes_of(registers: Registers, links: int, num_agents: int | None, room: int = 1) -> Sizes:
    groups = registers.share(registers.zeros()).counts.size
    of_arms = registers.layout is not None and registers.decay == 1.0
    arms, width = registers.num_arms, registers.size
    fades = registers.decay != 1.0
    return Sizes(arms, width, Links(links), num_agents or 0, groups, of_arms, room, fades)


class Field(NamedTuple):
    """One field: its name, its shape without the first size of links, and whether it is whole."""

    name: str
    shape: tuple[int, ...]
    per_link: bool
    whole: bool


class Layout(NamedTuple):
    """The fields of one aggregation for some sizes: single numbers, and arrays."""

    numbers: tuple[tuple[str, type], ...]
    arrays: tuple[Field, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.numbers) + tuple(f.name for f in self.arrays)


class Whole(NamedTuple):
    """A shape of whole numbers."""

    shape: Any


def whole(*shape: int) -> Whole:
    """Declare a field of whole numbers, which compiled code holds as 64-bit integers."""
    return Whole(shape)


class Aggregation(AnyAggregation):
    """An aggregation written as functions on fields.

    Attributes
    ----------
    least_time : float
        The least time of an estimate, where `estimate` does not set one.
    clips : bool
        Whether rounding may leave totals, such as counts, just below 0, so that they are cut at 0.
    certifies : bool
        Whether `estimate` fills `certain`; if not, agents claim nothing.
    derived : tuple of str
        Fields that `start` fills for good or `prepare` computes: no part of an exported state.
    shared : str
        The field that holds an agent's share, where the aggregation has `shares`.
    finds_out : bool
        Whether agents first find out what they are not told. Their fields have room for all agents
        in simulations, and where an agent cannot continue `estimate` writes NaN.
    stamped : bool
        Whether messages end in a stamp where pulls are discounted, because agents may have come to
        different rounds.
    converts : bool
        Whether neighbours' values replace own ones in part, so that an agent by quite another clock
        is not listened to: if one end of a link took the other's values for older than they are,
        all would forget a bit in every round.
    versioned : bool
        Whether registers that fade carry the number of pulls ever made, which tells newer ones.

    Notes
    -----
    Two fields are filled for aggregations that declare them: `count_at`, whole numbers of size
    `sizes.groups`, with the places of counts among registers; and `group`, of size `sizes.width`,
    with the count to which each register belongs, −1 for none.
    """

    least_time: ClassVar[float] = 2.0
    clips: ClassVar[bool] = False
    certifies: ClassVar[bool] = False
    machine: ClassVar[type[FieldMachine]]
    derived: ClassVar[tuple[str, ...]] = ()
    shared: ClassVar[str] = ""
    finds_out: bool = False
    stamped: ClassVar[bool] = True
    converts: ClassVar[bool] = False
    versioned: ClassVar[bool] = False

    @abstractmethod
    def fields(self, sizes: Sizes) -> Mapping[str, Any]:
        """Return the shape of every field, or `int` or `float` for a number."""

    @abstractmethod
    def start(self, s: Any, view: LocalView) -> None:
        """Fill the fields of one agent, all 0, as it begins."""

    @staticmethod
    @abstractmethod
    def observe(s: Any, pull: Vector) -> None:
        """Add the registers of one own pull."""

    @staticmethod
    def prepare(s: Any) -> None:
        """Compute what all messages of a round share; calling it twice changes nothing more."""

    @staticmethod
    @abstractmethod
    def message(s: Any, *given: Any, **_: Any) -> int:
        """Write this round's message into an array and return its length, 0 for silence.

        Either ``message(s, out)``, which tells all neighbours the same, or ``message(s, link,
        out)``.
        """

    @staticmethod
    def cut(s: Any, link: int, length: int) -> int:
        """Return after how many values a message that tells all the same ends for a neighbour.

        So what some neighbours need not be told belongs at the end.
        """
        return length

    @staticmethod
    @abstractmethod
    def receive(s: Any, inbox: NDArray[np.float64], lengths: NDArray[np.int64]) -> None:
        """Take in what arrived, a row per link, of length 0 where nothing did; end the round."""

    @staticmethod
    @abstractmethod
    def estimate(s: Any, totals: Vector, certain: Vector, about: Vector) -> None:
        """Write network totals, distinct pulls if it `certifies` any, and `about` them."""

    @staticmethod
    def age(s: Any, factors: Vector, factor: float) -> None:
        """Multiply all registers that the agent holds by `factors`, as pulls are discounted."""
        raise NotImplementedError

    @staticmethod
    def age_message(s: Any, message: Vector, factors: Vector, factor: float) -> None:
        """Multiply all registers in a message, which is late."""
        raise NotImplementedError

    def check_messages(self, agent: FieldMachine, messages: Mapping[int, Vector]) -> None:
        """Reject messages, without their stamps, that no agent of this aggregation writes.

        `agent` has `registers`, `neighbors` and its `state`, which are not changed here.
        """
        check_vectors(messages, *range(1, agent.most + 1))

    def check_state(self, agent: FieldMachine, values: State) -> None:
        """Reject fields of the right form that no agent of this aggregation can hold."""
        # The form is all there is to check, unless an aggregation knows better.

    def check_claims(
        self, registers: Registers, message: Vector, claims: Claims, now: float
    ) -> None:
        """Reject a message, without its stamp, of what cannot have happened: for fleets."""
        raise InputError(f"{type(self).__name__} does not check what neighbours claim")

    def message_width(self, sizes: Sizes) -> int:
        """Return how many values a message has at most, without a stamp."""
        return sizes.width

    def layout(self, sizes: Sizes, decay: float = 1.0) -> Layout:
        """Return the fields for some sizes, where registers count `decay` after a round."""
        fading = fading_fields(sizes.width) if decay != 1.0 else {}
        return layout_of(self.spelling, {**CLOCK, **fading, **self.fields(sizes)})

    def plain_functions(self) -> dict[str, Callable[..., Any]]:
        """Return the functions as they are written; settings may ask for others."""
        return {name: getattr(type(self), name) for name in FUNCTIONS}

    def functions(
        self, decay: float, **instead: Callable[..., Any]
    ) -> dict[str, Callable[..., Any]]:
        """Return the functions that play it, where registers count `decay` after a round.

        `instead` of some a machine may have its own.
        """
        kind, found = type(self), self.plain_functions() | instead
        if tells_all(found["message"]):
            found["message"] = _to_each(found["message"], found["cut"])
        if decay != 1.0:
            if kind.age is Aggregation.age:
                raise InputError(
                    f"aggregation {self.spelling} has no functions age and age_message, and cannot "
                    "discount pulls; write them, or leave the discount out"
                )
            message, receive = discounted(
                found["message"], found["receive"], kind.age, kind.age_message,
                is_stamped=self.stamped, converts=self.converts,
            )  # fmt: skip
            found["message"], found["receive"] = message, receive
        return found

    def decaying(self, registers: Registers) -> Registers:
        found = registers.decaying(getattr(self, "discount", 1.0))
        return VersionedRegisters(found) if self.versioned and found.decay != 1.0 else found

    def make(self, view: LocalView, registers: Registers) -> ContextMachine:
        return self.machine(self, view, self.decaying(registers))

    def message_size(self, registers: Registers, max_agents: int) -> MessageSize:
        most = self.widest(sizes_of(self.decaying(registers), 1, max_agents), registers)
        return MessageSize(most, most)

    def widest(self, sizes: Sizes, registers: Registers) -> int:
        """Return how many values a message has at most; the stamp of a discount is one."""
        most = self.message_width(sizes)
        return most + (most > 0 and self.stamped and self.decaying(registers).decay != 1.0)

    def begin(self, s: Any, view: LocalView, registers: Registers) -> None:
        """Fill the fields of one agent, all 0, as it begins, and its clock."""
        s.me.decay = registers.decay
        if registers.decay != 1.0:
            s.me.ticks = int(view.told_time)
            s.fades[:] = 1.0
            registers.scale(s.fades, 0.5)
            s.fades[:] = s.fades != 1.0
        places = np.arange(float(registers.size))
        if "count_at" in s._fields:
            s.count_at[:] = registers.share(places).counts
        if "group" in s._fields:
            s.group[:] = -1
            for group, members in enumerate(registers.by_arm(places).T):
                s.group[members.astype(int)] = group
        self.start(s, view)

    @property
    def uncertified(self) -> str:
        """Nothing where it `certifies` pulls."""
        return "" if self.certifies else super().uncertified

    @property
    def takes_context(self) -> bool:
        return True


def layout_of(owner: str, fields: Mapping[str, Any]) -> Layout:
    numbers: list[tuple[str, type]] = []
    arrays: list[Field] = []
    for name, kind in fields.items():
        if kind in (int, float):
            numbers.append((name, kind))
            continue
        is_whole = isinstance(kind, Whole)
        shape = kind.shape if is_whole else kind
        shape = shape if isinstance(shape, tuple) else (shape,)
        if not shape or not all(isinstance(size, int) and size >= 0 for size in shape):
            raise InputError(
                f"field {name} of {owner} has shape {kind!r}; give int or float for a number, "
                "or sizes such as sizes.width or (sizes.links, sizes.width)"
            )
        per_link = isinstance(shape[0], Links)
        arrays.append(Field(name, shape[per_link:], per_link, is_whole))
    return Layout(tuple(numbers), tuple(arrays))


@cache
def state_class(names: tuple[str, ...]) -> Any:
    """Return the named tuple that functions see: numbers in `me`, and arrays by name."""
    return namedtuple("State", ["me", *names])


def agent_state(layout: Layout, links: int) -> Any:
    """Return the state of one agent that stands alone, all 0."""
    me = SimpleNamespace(**{name: kind(0) for name, kind in layout.numbers})
    arrays = [
        np.zeros(
            (links, *field.shape) if field.per_link else field.shape,
            dtype=np.int64 if field.whole else np.float64,
        )
        for field in layout.arrays
    ]
    return state_class(tuple(field.name for field in layout.arrays))(me, *arrays)


class FieldState(Stateful):
    """State that lives in fields, and in attributes that are kept with them.

    Attributes
    ----------
    spec : Named
        Whose fields they are.
    state : named tuple
        What its functions see.
    """

    spec: Named
    state: Any

    @property
    def owner(self) -> str:
        return self.spec.name

    def _held(self, name: str) -> Any:
        """Return an array or a number of the state, or an attribute that is kept with it."""
        if name in self.state._fields:
            return getattr(self.state, name)
        value = getattr(self.state.me if hasattr(self.state.me, name) else self, name)
        return value.item() if isinstance(value, np.generic) else value

    def _set(self, name: str, value: Any) -> None:
        if name in self.state._fields:
            self._held(name)[...] = value
        else:
            setattr(self.state.me if hasattr(self.state.me, name) else self, name, value)


class FieldMachine(FieldState, ContextMachine):
    """One agent of an aggregation on fields, which calls its functions as they are."""

    spec: Aggregation

    def __init__(self, spec: Aggregation, view: LocalView, registers: Registers) -> None:
        self.spec, self.registers, self.agent_id = spec, registers, view.agent_id
        self.neighbors = sorted(view.neighbor_weights)
        self.places = {j: at for at, j in enumerate(self.neighbors)}
        links = len(self.neighbors)
        self.sizes = sizes = sizes_of(registers, links, view.num_agents)
        self.layout, self.most = spec.layout(sizes, registers.decay), spec.widest(sizes, registers)
        self.stamps = self.most > spec.message_width(sizes)  # messages end in one
        self.functions, self.is_checked = spec.functions(registers.decay), not is_ours(spec)
        self.state = agent_state(self.layout, links)
        derived = {*spec.derived, *CLOCK, *fading_fields(0)} - (
            {"clock"} if registers.decay != 1.0 else set()
        )
        self.fields = tuple(name for name in self.layout.names if name not in derived)
        per_link = {field.name for field in self.layout.arrays if field.per_link}
        self.links = tuple(name for name in self.fields if name in per_link)
        spec.begin(self.state, view, registers)
        self.is_certain = spec.certifies and getattr(spec, "window", None) is None
        self.is_prepared = False
        self._pull, self._out = registers.zeros(), np.zeros(self.most)
        self._inbox = np.zeros((links, self.most))
        self._lengths = np.zeros(links, dtype=np.int64)

    def make_room(self, room: int) -> None:
        """Give tables of agents heard of `room` rows; new ones are 0."""
        self.sizes = self.sizes._replace(room=room)
        self.layout = self.spec.layout(self.sizes, self.registers.decay)
        grown, held = agent_state(self.layout, len(self.neighbors)), self.state
        for array, old in zip(grown[1:], held[1:], strict=True):
            array[tuple(map(slice, old.shape))] = old
        self.state = grown._replace(me=held.me)

    def estimate(self) -> Estimate:
        size = self.registers.size
        totals, certain, about = np.zeros(size), np.zeros(size), UNTOLD.copy()
        self._call("estimate", totals, certain, about)
        if self.is_checked and not (all_finite(totals) and all_finite(about)):
            raise self._failure(
                f"estimate wrote totals {totals.tolist()}, and {about.tolist()} about them; write "
                "finite numbers"
            )
        if self.spec.clips:
            totals = self.registers.clip(totals)
        time, num_agents, ahead = about.tolist()
        if time < 0.0:
            time = max(self.spec.least_time, -time * float(self.registers.version(totals)))
        found = self.registers.read(totals, time=time, num_agents=num_agents, anticipation=ahead)
        if not self.is_certain:
            return found
        return found._replace(certain=self.registers.share(certain))

    def observe(self, arm: int, reward: float, context: Vector | None = None) -> None:
        self._pull[:] = 0.0
        self.registers.record(self._pull, arm, reward, context)
        self._call("observe", self._pull)
        self.is_prepared = False

    def outgoing(self, neighbor: int) -> Vector | None:
        self._prepare()
        length = self._call("message", self.places[neighbor], self._out)
        if not (isinstance(length, int | np.integer) and 0 <= length <= self.most):
            raise self._failure(
                f"message returned {length!r}; return how many values it wrote, 0 to {self.most}"
            )
        return self._out[:length].copy() if length > 0 else None

    def receive(self, messages: Mapping[int, Vector]) -> None:
        if self.stamps:
            check_vectors(messages, *range(2, self.most + 1))
            self.check_messages({j: message[:-1] for j, message in messages.items()})
        else:
            self.check_messages(messages)
        self._prepare()
        self._lengths[:] = 0
        for neighbor, message in messages.items():
            at = self.places[neighbor]
            self._inbox[at, : message.size] = message
            self._lengths[at] = message.size
        self._call("receive", self._inbox, self._lengths)
        self.is_prepared = False

    def check_messages(self, messages: Mapping[int, Vector]) -> None:
        self.spec.check_messages(self, messages)

    def check_state(self, values: State) -> None:
        self.spec.check_state(self, values)

    @property
    def checks_claims(self) -> bool:
        """Whether it, or what it plays, has a `check_claims` of its own."""
        is_own = type(self).check_claims is not FieldMachine.check_claims
        return is_own or type(self.spec).check_claims is not Aggregation.check_claims

    def check_claims(self, message: Vector, claims: Claims, now: float) -> None:
        if self.stamps and message.size > 0:
            stamp, message = float(message[-1]), message[:-1]
            if self.state.me.ticks:
                claims.check_near(stamp, max(self.state.me.clock, claims.ticks(now)))
            else:
                claims.check_clock(stamp, now)
        self.spec.check_claims(self.registers, message, claims, now)

    def pass_time(self, tick: int) -> None:
        if not self.spec.takes_time:
            super().pass_time(tick)
        self.state.me.tick = tick

    def share(self) -> Share:
        if not self.spec.shared:
            return super().share()
        return self.registers.share(getattr(self.state, self.spec.shared)[: self.registers.size])

    def _prepare(self) -> None:
        if not self.is_prepared:
            self._call("prepare")
        self.is_prepared = True

    def _call(self, name: str, *given: Any) -> Any:
        try:
            return self.functions[name](self.state, *given)
        except InputError:
            raise
        except Exception as error:
            spot = traceback.extract_tb(error.__traceback__)[-1]
            raise self._failure(
                f"{name} raised {one_line(error)} ({spot.filename}:{spot.lineno}: {spot.line})"
            ) from error

    def _failure(self, what: str) -> AggregationFailedError:
        return AggregationFailedError(self.agent_id, f"aggregation {self.spec.spelling}: {what}")

    def restore_state(self, state: State) -> None:
        super().restore_state(state)
        self.is_prepared = False


Aggregation.machine = FieldMachine
