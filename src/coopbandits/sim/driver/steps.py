"""One compiled step per aggregation: its functions in a loop over agents, behind one C signature.

The driver is compiled once and calls steps by their signature. In memory each field is one array
over all agents or links, all in one block: what makes the arrays of a block, and an agent's part of
each, depends on the fields and is written here as source.
"""

from __future__ import annotations

import operator
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np
from numba import carray, cfunc, njit, types

from coopbandits.core.aggregate.fields import Aggregation, Layout, state_class, tells_all
from coopbandits.core.aggregate.neighborhood import arm_of
from coopbandits.core.contract import Estimate
from coopbandits.core.sources import Source
from coopbandits.core.spelling import is_ours
from coopbandits.sim.cpu.choices import CannotCompileError, compiled_function, file_lock, first_line
from coopbandits.sim.cpu.compiling import alone, inner, overload_view
from coopbandits.sim.digest import digest

ESTIMATE, OBSERVE, MESSAGE, RECEIVE = range(4)
"""Phases of a round."""

WIDTH, MOST, NUM_AGENTS, DIMS = range(4)
"""Places in `sizes`: registers, values of a message at most, N; then sizes of fields, in order."""

MOST_SIZES = 64

_WHOLE = types.int64
_FLOATS, _WHOLES = types.CPointer(types.float64), types.CPointer(types.int64)
SIGNATURE = _WHOLE(
    _WHOLE, types.voidptr, _FLOATS, _WHOLE, _WHOLES, _WHOLES, _WHOLES, _WHOLES, _FLOATS, _WHOLES,
    _FLOATS, _FLOATS, _FLOATS, _FLOATS, types.CPointer(types.uint8), _WHOLE, _WHOLE,
)  # fmt: skip

NUMBERS: Any = None
observe: Any = None
tell: Any = None
inbox_of: Any = None
receive: Any = None
estimate: Any = None
prepare: Any = None
pour: Any = None
arrays_of: Any = None
state_of: Any = None

_steps: dict[str, Any] = {}


def _form(key: str) -> Any:
    """Return the source of a step; numba files what it compiles under the digest."""

    def step(
        phase: int, me_at: Any, block_at: Any, block_size: int, indptr_at: Any, reverse_at: Any,
        rows_at: Any, sizes_at: Any, box_at: Any, lengths_at: Any, totals_at: Any, certain_at: Any,
        contexts_at: Any, pulls_at: Any, acts_at: Any, start: int, end: int,
    ) -> int:  # fmt: skip
        if len(key) == 0:
            return 0
        sizes = carray(sizes_at, MOST_SIZES)
        width, most, agents = sizes[WIDTH], sizes[MOST], sizes[NUM_AGENTS]
        indptr = carray(indptr_at, agents + 1)
        links = indptr[agents]
        me = carray(me_at, agents, NUMBERS)
        # The rows behind those of links are an inbox, for as many as an agent has.
        box, lengths = carray(box_at, (2 * links, most)), carray(lengths_at, links)
        reverse, rows = carray(reverse_at, links), carray(rows_at, links)
        totals, certain = carray(totals_at, (agents, width)), carray(certain_at, (agents, width))
        contexts, pulls = carray(contexts_at, (agents, 4)), carray(pulls_at, (agents, width))
        acts = carray(acts_at, agents)
        arrays = arrays_of(carray(block_at, block_size), sizes, agents, links)
        for agent in range(start, end):
            first, stop = indptr[agent], indptr[agent + 1]
            # A state per branch: numba then sees that no reference to it is left.
            if phase == ESTIMATE:
                s = state_of(me[agent], arrays, agent, first, stop)
                if not estimate(s, totals[agent], certain[agent], contexts[agent, 1:]):
                    return 0
            elif phase == OBSERVE:
                if acts[agent] > 0:
                    s = state_of(me[agent], arrays, agent, first, stop)
                    pour(s, pulls[agent], totals[agent], contexts[agent, 1:])
                    if not observe(s, pulls[agent]):
                        return 0
            elif phase == MESSAGE:
                s = state_of(me[agent], arrays, agent, first, stop)
                if not (prepare(s) and tell(s, reverse[first:stop], rows, box, lengths)):
                    return 0
            else:
                s = state_of(me[agent], arrays, agent, first, stop)
                inbox = inbox_of(box, first, stop, links, rows, lengths)
                if not receive(s, inbox, lengths[first:stop]):
                    return 0
        return 1

    return step


def _telling(message: Any, cut: Any, *, alike: bool, allocates: bool) -> Any:
    """Return a function that writes an agent's messages; it returns whether all have a length.

    Where all are `alike`, but for where they end, one is written; it is copied if links have `rows`
    of their own. In a function of its own no references to parts of arrays are counted.
    """

    def tell_all(s: Any, ends: Any, rows: Any, box: Any, lengths: Any) -> bool:
        if ends.size == 0:
            return True
        row = rows[ends[0]]
        length = message(s, 0, box[row])
        if length < 0 or length > box.shape[1]:
            return False
        for link in range(ends.size):
            end = ends[link]
            lengths[end] = min(length, cut(s, link, length)) if length > 0 else 0
            if lengths[end] < 0:
                return False
            if rows[end] != row:
                for w in range(lengths[end]):
                    box[rows[end], w] = box[row, w]
        return True

    def tell(s: Any, ends: Any, rows: Any, box: Any, lengths: Any) -> bool:  # noqa: ARG001
        for link in range(ends.size):
            lengths[ends[link]] = message(s, link, box[ends[link]])
            if lengths[ends[link]] < 0 or lengths[ends[link]] > box.shape[1]:
                return False
        return True

    return inner(tell_all if alike else tell, forceinline=True, allocates=allocates)


class Inbox(NamedTuple):
    """What an agent is told where all of a sender's messages are alike: one row per sender.

    By link it reads like an array, from where the senders wrote.
    """

    box: Any
    rows: Any


@overload_view(operator.getitem)
def _read(inbox: Any, at: Any) -> Any:
    if getattr(inbox, "instance_class", None) is not Inbox:
        return None
    if isinstance(at, types.BaseTuple):
        return lambda inbox, at: inbox.box[inbox.rows[at[0]], at[1]]
    return lambda inbox, at: inbox.box[inbox.rows[at]]


def _inbox(*, alike: bool, copies: bool) -> Any:
    """Return a function that returns what an agent is told, one row per link.

    It `copies` messages that are `alike` where functions may change them, or need an array.
    """

    def gathered(box: Any, first: int, stop: int, links: int, rows: Any, lengths: Any) -> Any:
        for link in range(first, stop):
            row, place = rows[link], links + link - first
            for w in range(lengths[link]):
                box[place, w] = box[row, w]
        return box[links : links + stop - first]

    def in_place(  # the arguments are those of the first form
        box: Any, first: int, stop: int, links: int, rows: Any, lengths: Any,  # noqa: ARG001
    ) -> Any:  # fmt: skip
        return Inbox(box, rows[first:stop])

    def own_rows(
        box: Any, first: int, stop: int, links: int, rows: Any, lengths: Any,  # noqa: ARG001
    ) -> Any:  # fmt: skip
        return box[first:stop]

    form = own_rows if not alike else gathered if copies else in_place
    return njit(form, inline="always")


def _guarded(name: str, function: Any) -> Any:
    """Return a function that returns whether it succeeded, or −1 for no length of a message."""

    def one(s: Any) -> bool:
        try:
            function(s)
        except Exception:
            return False
        return True

    def two(s: Any, a: Any) -> bool:
        try:
            function(s, a)
        except Exception:
            return False
        return True

    def three(s: Any, a: Any, b: Any) -> bool:
        try:
            function(s, a, b)
        except Exception:
            return False
        return True

    def four(s: Any, a: Any, b: Any, c: Any) -> bool:
        try:
            function(s, a, b, c)
        except Exception:
            return False
        return True

    def length(s: Any, a: Any, b: Any) -> int:
        try:
            return int(function(s, a, b))
        except Exception:
            return -1

    forms = {"prepare": one, "observe": two, "receive": three, "estimate": four}
    forms |= {"message": length, "cut": length}
    return alone(forms[name], forceinline=True)


def _succeeding(name: str, function: Any) -> Any:
    """Return the same for a function of ours, which raises nothing."""

    def one(s: Any) -> bool:
        function(s)
        return True

    def two(s: Any, a: Any) -> bool:
        function(s, a)
        return True

    def three(s: Any, a: Any, b: Any) -> bool:
        function(s, a, b)
        return True

    def four(s: Any, a: Any, b: Any, c: Any) -> bool:
        function(s, a, b, c)
        return True

    forms = {"prepare": one, "observe": two, "receive": three, "estimate": four}
    return function if name in ("message", "cut") else alone(forms[name], forceinline=True)


def _pouring(source: Source | None) -> Any:
    """Return a function that makes of a reward what it counts, by what the agent chose on."""
    if source is None:

        def nothing(s: Any, pull: Any, totals: Any, context: Any) -> None:
            pass

        return inner(nothing, forceinline=True)
    drawn, found_arm = compiled_function(type(source).drawn), compiled_function(arm_of)

    def pour(s: Any, pull: Any, totals: Any, context: Any) -> None:
        arms = totals.size // 2
        arm, sums, counts = found_arm(pull, arms), totals[:arms], totals[arms:]
        estimate = Estimate(sums, counts, context[0], context[1], context[2], (), (), None)
        pull[arm] = drawn(s, arm, pull[arm], estimate)

    return inner(pour, forceinline=True)


def numbers_type(layout: Layout) -> np.dtype[Any]:
    """Return the record that holds an agent's single numbers."""
    fields = [(name, np.int64 if kind is int else np.float64) for name, kind in layout.numbers]
    return np.dtype(fields or [("nothing", np.float64)], align=True)


def _sources(layout: Layout) -> str:
    """Return the source of `arrays_of` and `state_of`."""
    lines, parts, at = ["def arrays_of(block, sizes, agents, links):", "    at = 0"], [], DIMS
    for number, field in enumerate(layout.arrays):
        dims = ["links" if field.per_link else "agents"]
        dims += [f"sizes[{at + place}]" for place in range(len(field.shape))]
        at += len(field.shape)
        size = " * ".join(dims)
        array = f"block[at : at + {size}]" + (".view(np.int64)" if field.whole else "")
        if len(dims) > 1:
            array += f".reshape(({', '.join(dims)}))"
        lines += [f"    a{number} = {array}", f"    at += {size}"]
        parts.append(f"arrays[{number}][" + ("first:stop" if field.per_link else "agent") + "]")
    names = "".join(f"a{number}, " for number in range(len(layout.arrays)))
    lines += [f"    return ({names})", "", "def state_of(me, arrays, agent, first, stop):"]
    lines.append(f"    return State({', '.join(['me', *parts])})")
    return "\n".join(lines)


def compiled_step(
    spec: Aggregation, layout: Layout, decay: float, source: Source | None = None
) -> Any:
    """Return the compiled step of an aggregation: from memory, from disk, or made now.

    `decay` is what registers count after one more round, and `source` what rewards pass.
    """
    plain = spec.plain_functions()
    # Behind what is cut there is no place for a stamp.
    alike = tells_all(plain["message"]) and (decay == 1.0 or plain["cut"] is Aggregation.cut)
    copies = decay != 1.0 or not is_ours(spec)
    functions = spec.functions(decay, **({"cut": Aggregation.cut} if alike else {}))
    functions["cut"] = plain["cut"]
    text, numbers = _sources(layout), numbers_type(layout)
    poured = source and (_pouring.__code__, type(source).drawn)
    key = digest(
        (
            _form,
            _telling.__code__,
            _inbox.__code__,
            _read.__code__,
            copies,
            functions,
            text,
            repr(numbers),
            layout.names,
            poured,
        )
    )
    if key not in _steps:
        state = state_class(tuple(field.name for field in layout.arrays))
        made: dict[str, Any] = {"np": np, "State": state}
        exec(compile(text, "<fields>", "exec"), made)  # noqa: S102  of names of fields alone
        guard = _succeeding if is_ours(spec) else _guarded
        scope = {name: guard(name, compiled_function(each)) for name, each in functions.items()}
        scope["pour"] = _pouring(source)
        told = scope.pop("message"), scope.pop("cut")
        scope["tell"] = _telling(*told, alike=alike, allocates=not is_ours(spec))
        scope["inbox_of"] = _inbox(alike=alike, copies=copies)
        scope |= {name: njit(made[name], inline="always") for name in ("arrays_of", "state_of")}
        form = _form(key)
        step = FunctionType(
            form.__code__, {**form.__globals__, **scope, "NUMBERS": numbers},
            f"{form.__name__}_{type(spec).__name__}", None, form.__closure__,
        )  # fmt: skip
        try:
            with file_lock():
                _steps[key] = cfunc(SIGNATURE, cache=True, error_model="numpy")(step)
        except Exception as error:  # numba raises KeyError and others, too
            if is_ours(spec):
                raise
            raise CannotCompileError(first_line(error)) from error
    return _steps[key]
