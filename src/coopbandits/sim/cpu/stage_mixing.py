"""A whole stage of mixing in one go: y ← q_C(P) y, or y ← P^C y.

No agent reads the values being mixed before the stage ends, so the steps need not be made round by
round. There are two ways, and a rule that picks the cheaper:

*dense*: q_C(P) is computed once as an N × N matrix. An arm's totals after the stage are then the
sum of the matrix rows of the agents that pulled it, and these are few: most agents play one or two
arms in a stage. Costs N² multiplications per register, and C · nnz(P) · N once.

*sparse*: C steps with the sparse P, for all 2K values of all agents. Costs C · (nnz(P) + N) each.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from coopbandits.core.contract import Vector
from coopbandits.core.mixing import LAMBDA_ZERO
from coopbandits.sim.cpu.compiling import alone, for_threads, inner
from coopbandits.sim.cpu.launch import launch, launch_rounds

AT_ONCE = 64
"""Agents that a thread mixes at a time."""

FEW = 500_000
"""Multiplications of a step below which waking threads takes longer than making it."""

DENSE_LIMIT = 4000
"""The dense matrix is considered up to this many agents, where it takes 128 MB."""


class StageOperator:
    """C mixing steps with P as one linear map on arrays of registers (run, agent, size).

    Parameters
    ----------
    matrix : csr_array
        P.
    steps : int
        C.
    lambda_bound : float
        λ of the accelerated recursion; 0 mixes plainly.
    uses : int
        How often it will be applied per run; decides between dense and sparse.
    num_arms : int
        K: registers are K sums, K counts, and what belongs to no arm.
    """

    def __init__(
        self,
        matrix: sparse.csr_array,
        steps: int,
        lambda_bound: float,
        uses: int,
        num_arms: int,
    ) -> None:
        self.num_arms = num_arms
        self.matrix = matrix
        self.steps = steps
        self.lambda_bound = lambda_bound if lambda_bound >= LAMBDA_ZERO else 0.0
        self.factors = step_factors(steps, self.lambda_bound)
        self.spare: NDArray[np.float64] | None = None
        self.dense = self._dense() if is_dense_cheaper(matrix, steps, uses, 2 * num_arms) else None

    def _dense(self) -> NDArray[np.float64]:
        identity = np.eye(self.matrix.shape[0])[None]
        return np.ascontiguousarray(self._steps(identity)[0])

    def _steps(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Make all steps; the result is `values` or the spare array, which alternate."""
        if self.spare is None or self.spare.shape != values.shape:
            self.spare = np.empty_like(values)
        before, matrix = self.spare, self.matrix
        before.fill(0.0)
        mix(matrix.indptr, matrix.indices, matrix.data, values, before, *self.factors)
        return before if self.steps % 2 else values

    def add_to(self, accumulated: NDArray[np.float64], values: NDArray[np.float64]) -> None:
        """Add the mixed values to `accumulated`; overwrites `values`."""
        if self.dense is None:
            accumulated += self._steps(values)
        else:
            add_dense(self.dense, values, self.num_arms, accumulated)

    def apply(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the mixed values as a new array."""
        mixed = np.zeros_like(values)
        self.add_to(mixed, values)
        return mixed


def is_dense_cheaper(matrix: sparse.csr_array, steps: int, uses: int, values: int) -> bool:
    """Return whether the dense matrix pays: N² against C·(nnz + N) per use, plus its making.

    `values` is 2K. Making the matrix costs as much as mixing N values step by step.
    """
    agents = matrix.shape[0]
    if agents > DENSE_LIMIT:
        return False
    sparse_cost = steps * (matrix.nnz + agents)
    return bool(sparse_cost * agents / values + uses * agents**2 < uses * sparse_cost)


def step_factors(steps: int, lambda_bound: float) -> tuple[Vector, Vector]:
    """Return by what each step multiplies P y, and what it subtracts of the values before y."""
    leads, drops, rho = np.ones(steps), np.zeros(steps), 0.0
    for step in range(steps if lambda_bound else 0):
        factor = (2.0 if rho else 1.0) / lambda_bound
        rho, old = 1.0 / (factor - rho), rho
        leads[step], drops[step] = rho * factor, rho * old
    return leads, drops


def mix(
    indptr: Any, indices: Any, weights: Any, values: Any, before: Any, leads: Vector, drops: Vector
) -> None:
    """Make some steps, each of which overwrites `before` with lead · P values − drop · before.

    The two arrays swap after every step.
    """
    runs, agents, width = values.shape
    is_long = weights.size * runs * width >= FEW
    tasks = runs * -(-agents // AT_ONCE) if is_long else 1
    given = (tasks, indptr, indices, weights, values, before, leads, drops)
    launch_rounds(_mix, tasks, leads.size, 1 if is_long else leads.size, given)


@for_threads
def _mix(
    task: int, first: int, stop: int, tasks: int, indptr: Any, indices: Any, weights: Any,
    values: Any, before: Any, leads: Any, drops: Any,
) -> None:  # fmt: skip
    """Let some agents, or all, make some steps."""
    num_agents = values.shape[1]
    blocks = -(-num_agents // AT_ONCE)
    for step in range(first, stop):
        own, other = (values, before) if step % 2 == 0 else (before, values)
        for block in range(task, values.shape[0] * blocks, tasks):
            run, start = block // blocks, block % blocks * AT_ONCE
            for agent in range(start, min(start + AT_ONCE, num_agents)):
                mix_agent(
                    indices, weights, indptr[agent], indptr[agent + 1], own[run], other[run],
                    agent, leads[step], drops[step],
                )  # fmt: skip


@alone(fastmath={"contract"})
def mix_agent(
    indices: Any, weights: Any, start: int, end: int, values: Any, target: Any, agent: int,
    lead: float, drop: float,
) -> None:  # fmt: skip
    """Overwrite one agent's target with lead · (P values) − drop · target.

    Takes four neighbours per pass over the values. Where fewer are left, the first stands in for
    the missing ones with weight 0.
    """
    keep = -drop
    for at in range(start, end, 4):
        a, wa = indices[at], lead * weights[at]
        b, wb = (indices[at + 1], lead * weights[at + 1]) if at + 1 < end else (a, 0.0)
        c, wc = (indices[at + 2], lead * weights[at + 2]) if at + 2 < end else (a, 0.0)
        d, wd = (indices[at + 3], lead * weights[at + 3]) if at + 3 < end else (a, 0.0)
        for i in range(target.shape[1]):
            mixed = (wa * values[a, i] + wb * values[b, i]) + (
                wc * values[c, i] + wd * values[d, i]
            )
            target[agent, i] = keep * target[agent, i] + mixed if keep != 0.0 else mixed
        keep = 1.0


def add_dense(operator: Any, values: Any, num_arms: int, accumulated: Any) -> None:
    """Add operator · values to `accumulated` for all runs."""
    columns = values.shape[2] - num_arms
    launch(_add_task, values.shape[0] * columns, (operator, values, num_arms, accumulated))


@for_threads(allocates=True)
def _add_task(task: int, operator: Any, values: Any, num_arms: int, accumulated: Any) -> None:
    columns = values.shape[2] - num_arms
    run, column = task // columns, task % columns
    pullers = np.empty(values.shape[1], dtype=np.int64)
    _add_column(operator, values[run], num_arms, column, pullers, accumulated[run])


@inner(allocates=True)
def add_run(operator: Any, values: Any, num_arms: int, accumulated: Any) -> None:
    """Add operator · values to `accumulated` for one run."""
    pullers = np.empty(values.shape[0], dtype=np.int64)
    for column in range(values.shape[1] - num_arms):
        _add_column(operator, values, num_arms, column, pullers, accumulated)


@inner(allocates=True)  # as what it calls does
def _add_column(
    operator: Any, values: Any, num_arms: int, column: int, pullers: Any, accumulated: Any
) -> None:
    """Add one arm's sum and count, or a register of no arm, over the agents that pulled it."""
    count = num_arms + column
    arm, found = (column if column < num_arms else count), 0
    for agent in range(values.shape[0]):
        if values[agent, count] != 0.0 or values[agent, arm] != 0.0:
            pullers[found] = agent
            found += 1
    if found > 0:
        _add_rows(operator, values, pullers[:found], arm, count, accumulated)


@alone(fastmath={"contract"})
def _add_rows(
    operator: Any, values: Any, pullers: Any, arm: int, count: int, accumulated: Any
) -> None:
    """Add up the rows of some agents, four at a time; the operator is symmetric."""
    num_agents = values.shape[0]
    sums, counts = np.zeros(num_agents), np.zeros(num_agents)
    whole = pullers.size - pullers.size % 4
    for p in range(0, whole, 4):
        a, b, c, d = pullers[p], pullers[p + 1], pullers[p + 2], pullers[p + 3]
        row_a, row_b, row_c, row_d = operator[a], operator[b], operator[c], operator[d]
        sa, sb, sc, sd = values[a, arm], values[b, arm], values[c, arm], values[d, arm]
        na, nb, nc, nd = values[a, count], values[b, count], values[c, count], values[d, count]
        for i in range(num_agents):
            sums[i] += row_a[i] * sa + row_b[i] * sb + row_c[i] * sc + row_d[i] * sd
            counts[i] += row_a[i] * na + row_b[i] * nb + row_c[i] * nc + row_d[i] * nd
    for p in range(whole, pullers.size):
        row = operator[pullers[p]]
        s, n = values[pullers[p], arm], values[pullers[p], count]
        for i in range(num_agents):
            sums[i] += row[i] * s
            counts[i] += row[i] * n
    for i in range(num_agents):
        accumulated[i, count] += counts[i]
        if arm != count:
            accumulated[i, arm] += sums[i]
