"""Staged mixing: agents play a stage on settled totals, then the whole stage is mixed.

**Mixing**, y ← q_C(P) y or y ← P^C y. No agent reads the values being mixed before the stage ends,
so the steps need not be made round by round. There are two ways, and a rule that picks the cheaper:

*dense*: q_C(P) is computed once as an N × N matrix. An arm's totals after the stage are then the
sum of the matrix rows of the agents that pulled it, and these are few: most agents play one or two
arms in a stage. Costs N² multiplications per register, and C · nnz(P) · N once.

*sparse*: C steps with the sparse P, for all 2K values of all agents. Costs C · (nnz(P) + N) each.

**Whole runs.** For an index with a bonus, many runs, and networks small enough for dense mixing,
every thread takes a run, stage after stage. The steps and their order are those of playing and
mixing stage by stage for all runs together, so results are the same bit for bit. But a run's data
stays in the core's cache, and there is no overhead between stages: 1.1 to 3 times as fast.

Variants in which agents read each other's values in every round (`neighbor_pulls`, and `remix`
without `own_pulls`) are left to the driver, which is up to ten times as fast at these.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numba import get_num_threads
from numpy.typing import NDArray
from scipy import sparse

from coopbandits.core.aggregate import StagedMixing
from coopbandits.core.aggregate.forgetting import decayed_rounds
from coopbandits.core.choice import NO_INFORMATION
from coopbandits.core.contract import Vector
from coopbandits.core.mixing import LAMBDA_ZERO
from coopbandits.core.policy import Parts
from coopbandits.sim.cpu.compiling import alone, for_threads, inner
from coopbandits.sim.cpu.launch import launch, launch_rounds
from coopbandits.sim.cpu.leaves import count_up_to
from coopbandits.sim.cpu.pulls import (
    Reading,
    play_alone,
    play_bonus,
    play_bonus_block,
    play_initial,
)
from coopbandits.sim.cpu.runs import Rows, Rule, Runs, end_span
from coopbandits.sim.cpu.world import Span, span
from coopbandits.sim.record import Record, Task, Tick

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


class StagePlan(NamedTuple):
    """What all stages share: their length E, the horizon, the least N, and K."""

    stage_rounds: int
    horizon: int
    fewest_agents: int
    num_arms: int


@for_threads(allocates=True)
def _play_run(
    _run: int, plan: Any, recorded: Any, operator: Any, explorations: Any, rule: Any, done: int,
    stages: int, world: Any, tally: Any, in_flight: Any, fresh: Any, accumulated: Any,
) -> None:  # fmt: skip
    """Play some stages of one run, from round `done` on; see `Stages` for the arrays."""
    num_arms = plan.num_arms
    for _ in range(stages):
        rounds = min(plan.stage_rounds, plan.horizon - done)
        first = done == num_arms
        slot = count_up_to(recorded, done)
        last = count_up_to(recorded, done + rounds - 1)
        span = Span(done, rounds, recorded[slot : last + 1] - done, int(slot))
        read = in_flight if first else accumulated
        factor = rule.weight if first else float(plan.fewest_agents)
        for block in range(world.num_blocks):
            play_bonus_block(
                world, span, tally, block, read, fresh, factor, True, explorations[done:], rule
            )
        done += rounds
        if rounds == plan.stage_rounds and done < plan.horizon:
            add_run(operator, in_flight, num_arms, accumulated)
            in_flight, fresh = fresh, in_flight


SEVERAL_PULLS = 20_000_000
"""Pulls between two reports of progress, where stages are short."""

SPAN_PULLS = 2_000_000
"""Pulls of one run played between two reports of progress, where a stage never ends."""

ALONE = Reading(own_pulls=True, weight=1.0, least=NO_INFORMATION, num_agents=1.0)
"""How agents read their own sums."""


def play_staged(parts: Parts, task: Task, runs: range, tick: Tick) -> Record:
    stages = Stages(Runs(parts, task, runs, tick))
    return stages.play()


def play_staged_bonus(parts: Parts, task: Task, runs: range, tick: Tick) -> Record:
    """Play some runs of an index s/n + √(a/n) on staged mixing; bounds spare most looks."""
    stages = Stages(Runs(parts, task, runs, tick))
    explorations = stages.state.explorations(
        stages.times, stages.reading.num_agents, stages.stage_rounds
    )
    if explorations is None:
        return stages.play()
    return BonusStages(stages.state, explorations).play()


def play_local(parts: Parts, task: Task, runs: range, tick: Tick) -> Record:
    state = Runs(parts, task, runs, tick)
    choosing, settled, spare = state.rule(), np.zeros(state.shape), np.empty(state.shape)
    for done, rounds in _spans_alone(task):
        times, ones = np.maximum(2.0, np.arange(done, done + rounds)), np.ones(rounds)
        play_alone(
            state.world, span(task, done, rounds), state.tally, settled, state.fresh, 1.0, times,
            ALONE, *choosing, state.memory, ones, ones, state.made,
        )  # fmt: skip
        state.played(rounds)
        if state.done < task.horizon:
            spare = state.take_fresh(spare)
            settled += spare
    return state.finish()


def play_local_bonus(parts: Parts, task: Task, runs: range, tick: Tick) -> Record:
    state = Runs(parts, task, runs, tick)
    times = np.maximum(2.0, np.arange(float(task.horizon)))
    explorations = state.explorations(times, 1.0, task.horizon)
    if explorations is None:
        return play_local(parts, task, runs, tick)
    play_each_arm(state)
    for done, rounds in _spans_alone(task, state.done):
        play_bonus(
            state.world, span(task, done, rounds), state.tally, state.fresh, state.fresh,
            1.0, False, explorations[done : done + rounds], ALONE,
        )  # fmt: skip
        state.played(rounds)
    return state.finish()


def _spans_alone(task: Task, first: int = 0) -> Iterator[tuple[int, int]]:
    """Yield where spans begin, and their rounds."""
    most = max(1, SPAN_PULLS // task.network.num_agents)
    for done in range(first, task.horizon, most):
        yield done, min(most, task.horizon - done)


def play_each_arm(state: Runs) -> None:
    """Pull every arm once, or as many as the horizon allows, as an index does that starts at +∞."""
    rounds = min(state.task.problem.num_arms, state.task.horizon)
    play_initial(state.world, span(state.task, 0, rounds), state.tally, state.fresh)
    state.played(rounds)


class Stages:
    """The pipeline of staged mixing for all agents of some runs together.

    The numbers that all agents share (C, E, bounds on N, variants) are read off one agent, so that
    no formula is repeated here. Values in flight are not touched before their stage ends.

    With a discount, registers are in units of the end of the stage that is being played: a pull
    adds what it will count then, and choices read what a unit counts earlier (see `ageing`).
    """

    def __init__(self, state: Runs) -> None:
        task, network = state.task, state.task.network
        aggregation, self.num_arms = state.parts.aggregation, task.problem.num_arms
        assert isinstance(aggregation, StagedMixing)  # noqa: S101  the table of kernels says so
        view = network.local_view(
            0, num_arms=self.num_arms, sigma=task.sigma, needs=aggregation.needs
        )
        self.state = state
        self.shared = aggregation.plan(view, state.shape[2])
        self.spec = aggregation
        self.stage_rounds = self.shared.stage_rounds
        fewest, most = self.shared.fewest_agents, self.shared.most_agents
        self.reading = Reading(
            own_pulls=aggregation.own_pulls,
            weight=fewest / most,
            least=NO_INFORMATION * fewest,
            num_agents=float(fewest),
        )
        uses = -(-task.horizon // self.stage_rounds) * task.num_runs
        self.operator = StageOperator(
            network.matrix, self.shared.steps, self.shared.lambda_bound, uses, self.num_arms
        )
        if self.spec.remix:
            self.remix = StageOperator(network.matrix, self.stage_rounds, 0.0, uses, self.num_arms)
        self.accumulated, self.in_flight = np.zeros(state.shape), np.zeros(state.shape)
        self.first = True
        if state.discount != 1.0 and task.keep:  # what is fresh no longer counts pulls
            state.made = np.zeros((*state.shape[:2], self.num_arms), dtype=np.int64)

    @cached_property
    def choosing(self) -> tuple[Rule, Vector]:
        return self.state.rule()

    @cached_property
    def times(self) -> Vector:
        """The time s of every round: at first of the agent alone, then of what has settled."""
        rounds = np.arange(self.state.task.horizon)
        stage, in_stage = np.divmod(rounds - self.num_arms, self.stage_rounds)
        settled = self._settled(self.num_arms + stage * self.stage_rounds)
        start = np.where(stage > 0, settled, self._passed(self.num_arms))
        own = self._passed(in_stage) * float(self.reading.own_pulls)
        times = start * self.state.discount ** np.maximum(in_stage, 0) + own
        return np.maximum(2.0, np.where(stage < 0, self._passed(rounds), times))

    def _passed(self, rounds: Any) -> Any:
        """Return what the pulls of one agent in so many rounds count after them."""
        return self.state.discount * decayed_rounds(self.state.discount, rounds)

    def _settled(self, start: Any) -> Any:
        """Return what all pulls count that have been mixed when a stage starts after the first."""
        aged = self.state.discount**self.stage_rounds
        mixed = np.maximum(0, start - self.stage_rounds)
        return self.shared.most_agents * aged * self._passed(mixed)

    def _weights(self, rounds: int) -> Vector:
        """Return what a pull of each of so many rounds counts after them."""
        return self.state.discount ** np.arange(float(rounds), 0.0, -1.0)

    def play(self) -> Record:
        state, horizon = self.state, self.state.task.horizon
        self.play_initial()
        if state.done < horizon:
            self.in_flight = state.take_fresh(np.empty(state.shape))
            while state.done < horizon:
                self.play_next()
            self.count_values()
        return state.finish()

    def play_initial(self) -> None:
        """Play the initial stage, in which agents see their own pulls immediately."""
        rounds = min(self.num_arms, self.state.task.horizon)
        reading = self.reading._replace(own_pulls=True)
        self._play_span(span(self.state.task, 0, rounds), self.in_flight, 0.0, reading)
        self.state.played(rounds)

    def play_next(self) -> None:
        state = self.state
        rounds = min(self.stage_rounds, state.task.horizon - state.done)
        end_span(state.discount, rounds, self.accumulated, self.in_flight)
        # What agents read at the start of a stage, up to a factor.
        read, factor = self.accumulated, float(self.shared.fewest_agents)
        if self.first:
            read, factor = self.in_flight, self.reading.weight
        self._play_span(span(state.task, state.done, rounds), read, factor, self.reading)
        state.played(rounds)
        if rounds == self.stage_rounds and state.done < state.task.horizon:
            if self.spec.remix:
                self.accumulated = self.remix.apply(self.accumulated)
            self.operator.add_to(self.accumulated, self.in_flight)
            self.in_flight = state.take_fresh(self.in_flight)
            self.first = False

    def _play_span(self, now: Span, read: Rows, factor: float, reading: Reading) -> None:
        state, times = self.state, self.times[now.first : now.first + now.rounds]
        weights = self._weights(now.rounds)
        play_alone(
            state.world, now, state.tally, read, state.fresh, factor, times, reading,
            *self.choosing, state.memory, weights, 1.0 / weights, state.made,
        )  # fmt: skip

    def count_values(self) -> None:
        """Record the values and messages that were sent."""
        task, record = self.state.task, self.state.record
        mixing = max(0, task.horizon - self.num_arms)
        sent = np.minimum(
            self.shared.budget,
            self.shared.sends - self.shared.budget * (np.arange(mixing) % self.stage_rounds),
        )
        sent += self.state.shape[2] if self.spec.remix else 0
        links = 2 * task.network.num_edges
        totals = np.concatenate([np.zeros(self.num_arms, np.int64), np.cumsum(sent)])
        record.values[:] = links * totals[task.rounds - 1]
        record.messages[:] = links * mixing


class BonusStages(Stages):
    """Stages of an index s/n + √(a/n): computed only when the current arm may lose its lead."""

    def __init__(self, state: Runs, explorations: Vector) -> None:
        super().__init__(state)
        self.explorations = explorations
        self.plays_whole_runs = self.can_play_whole_runs()

    def can_play_whole_runs(self) -> bool:
        """Return whether every thread can take a whole run, stage after stage."""
        coupled = self.spec.remix or bool(self.state.task.keep)
        enough = self.state.shape[0] >= get_num_threads()
        return enough and not coupled and self.operator.dense is not None

    def play_initial(self) -> None:
        """Pull every arm once."""
        play_each_arm(self.state)

    def play_next(self) -> None:
        """Play one stage, or several of whole runs."""
        if self.plays_whole_runs:
            self.play_several()
        else:
            super().play_next()

    def play_several(self) -> None:
        """Play the stages up to the next report of progress."""
        state, shared = self.state, self.shared
        left = -(-(state.task.horizon - state.done) // self.stage_rounds)
        pulls = self.stage_rounds * state.shape[0] * state.shape[1]
        stages = min(left, max(1, SEVERAL_PULLS // pulls))
        plan = StagePlan(
            stage_rounds=self.stage_rounds,
            horizon=state.task.horizon,
            fewest_agents=shared.fewest_agents,
            num_arms=self.num_arms,
        )
        given = (
            plan, state.task.rounds, self.operator.dense, self.explorations, self.reading,
            state.done, stages,
        )  # fmt: skip
        own = state.world, state.tally, self.in_flight, state.fresh, self.accumulated
        launch(_play_run, state.shape[0], given, own)
        rounds = min(stages * self.stage_rounds, state.task.horizon - state.done)
        mixed = stages if state.done + rounds < state.task.horizon else stages - 1
        if mixed % 2:  # the two arrays swap roles with every stage that is mixed
            self.in_flight, state.fresh = state.fresh, self.in_flight
        state.played(rounds)

    def _play_span(self, now: Span, read: Rows, factor: float, reading: Reading) -> None:
        state, explorations = self.state, self.explorations[now.first : now.first + now.rounds]
        play_bonus(
            state.world, now, state.tally, read, state.fresh, factor, True, explorations, reading
        )
