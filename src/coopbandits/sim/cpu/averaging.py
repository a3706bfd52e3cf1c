"""Plain mixing of some agents, y_i ← (P y)_i.

numba counts references of every array passed to a function that branches, which costs as much as
adding up ten values. So one function holds the loop over agents with all its branches, and what it
calls for each agent is free of them. Indices are unsigned: for signed ones numba checks at every
access whether they count from the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from coopbandits.sim.cpu.compiling import alone

ONE, TWO, THREE, FOUR, FIVE = (np.uintp(number) for number in range(1, 6))


@alone
def average(
    indptr: Any, indices: Any, weights: Any, values: Any, out: Any, start: int, end: int
) -> None:
    """Overwrite rows start … end − 1 of `out` with those of P values; P's places are unsigned.

    The first pass adds up three or five rows, every further pass two. Where fewer are left, the
    first row stands in for the missing one with weight 0.
    """
    for agent in range(np.uintp(start), np.uintp(end)):
        at, stop = indptr[agent], indptr[agent + ONE]
        a, wa = indices[at], weights[at]
        b, wb = (indices[at + ONE], weights[at + ONE]) if at + ONE < stop else (a, 0.0)
        c, wc = (indices[at + TWO], weights[at + TWO]) if at + TWO < stop else (a, 0.0)
        if at + THREE >= stop:
            _sum_three(values, a, b, c, wa, wb, wc, out, agent)
        else:
            d, wd = indices[at + THREE], weights[at + THREE]
            e, we = (indices[at + FOUR], weights[at + FOUR]) if at + FOUR < stop else (a, 0.0)
            _sum_five(values, a, b, c, d, e, wa, wb, wc, wd, we, out, agent)
            for more in range(at + FIVE, stop, TWO):
                d, wd = indices[more], weights[more]
                e, we = (
                    (indices[more + ONE], weights[more + ONE]) if more + ONE < stop else (a, 0.0)
                )
                _add_two(values, d, e, wd, we, out, agent)


@alone(fastmath={"contract"})
def _sum_three(
    values: Any, a: int, b: int, c: int, wa: float, wb: float, wc: float, out: Any, agent: int
) -> None:
    for i in range(np.uintp(out.shape[1])):
        out[agent, i] = wa * values[a, i] + wb * values[b, i] + wc * values[c, i]


@alone(fastmath={"contract"})
def _sum_five(
    values: Any, a: int, b: int, c: int, d: int, e: int, wa: float, wb: float, wc: float, wd: float,
    we: float, out: Any, agent: int,
) -> None:  # fmt: skip
    for i in range(np.uintp(out.shape[1])):
        out[agent, i] = (
            (wa * values[a, i] + wb * values[b, i])
            + (wc * values[c, i] + wd * values[d, i])
            + we * values[e, i]
        )


@alone(fastmath={"contract"})
def _add_two(values: Any, a: int, b: int, wa: float, wb: float, out: Any, agent: int) -> None:
    for i in range(np.uintp(out.shape[1])):
        out[agent, i] += wa * values[a, i] + wb * values[b, i]
