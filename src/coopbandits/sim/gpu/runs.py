"""Some runs of one task on a device: constants, tables, links, spans of rounds, records."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, NoReturn
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.aggregate.forgetting import decayed_rounds
from coopbandits.core.contract import Vector
from coopbandits.core.draws import normal_cubics, stream_keys
from coopbandits.core.errors import InputError
from coopbandits.core.policy import Parts
from coopbandits.core.spelling import is_ours
from coopbandits.network import Network
from coopbandits.sim import cpu
from coopbandits.sim.cpu.runs import TROUBLES, index_numbers
from coopbandits.sim.gpu.backend import Backend, Launch, Program, program
from coopbandits.sim.gpu.translate import index_source
from coopbandits.sim.record import Record, Task, Tick
from coopbandits.sim.tapes import DECISIONS, REWARDS

FOREVER = 1 << 60

Weigh = Callable[[float, int], Vector]
"""From a discount and a number of rounds: what a pull of each of them adds to registers, and last
what a pull of the round after them would."""


def units_of_the_start(discount: float, rounds: int) -> Vector:
    """Weigh pulls by what one of the first round counts; see `sim.cpu.runs`."""
    return discount ** -np.arange(rounds + 1.0)


def units_of_the_end(discount: float, rounds: int) -> Vector:
    """Weigh pulls by what they count after the span; see `sim.cpu.staged.Stages`."""
    return discount ** np.arange(float(rounds), -1.0, -1.0)


def discount_of(parts: Parts) -> float:
    """Return what is left of a pull after a round."""
    found: float = getattr(parts.aggregation, "discount", 1.0)
    return found


def passed_of(parts: Parts, horizon: int) -> Vector:
    """Return what all pulls of an agent count in each round."""
    discount = discount_of(parts)
    passed: Vector = discount * decayed_rounds(discount, np.arange(float(horizon)))
    return passed


class Spans:
    """Spans, uploaded together."""

    def __init__(
        self,
        task: Task,
        spans: list[tuple[int, int]],
        backend: Backend,
        discount: float,
        weigh: Weigh,
    ) -> None:
        firsts, rounds = (np.array(column, dtype=np.int64) for column in zip(*spans, strict=True))
        slots = np.searchsorted(task.rounds, firsts, side="right")
        ends = np.searchsorted(task.rounds, firsts + rounds, side="right")
        self.firsts, self.rounds, self.slots, self.stops = firsts, rounds, slots, ends - slots
        lists = [
            np.append(task.rounds[slot:end] - first, FOREVER)
            for slot, end, first in zip(slots, ends, firsts, strict=True)
        ]
        starts = np.cumsum([0, *(each.size for each in lists[:-1])])
        self.listed = backend.upload(np.concatenate(lists).astype(np.int64))
        self.ages = {}
        for size in set(rounds.tolist()) if discount != 1.0 else ():
            weights = weigh(discount, size)
            self.ages[size] = backend.upload(np.stack([weights, 1.0 / weights], axis=1))
        ages = [self.ages[size].address if self.ages else 0 for size in rounds.tolist()]
        table = [firsts, rounds, self.listed.address + 8 * starts, slots, self.stops, ages]
        self.table = backend.upload(np.stack(table, axis=1).astype(np.int64))

    def address(self, number: int) -> int:
        """Return where a span stands."""
        place: int = self.table.address + 48 * number
        return place


FAN = 64
"""As in `fold.cu`."""

COLLECTED = 1 << 22
"""Bytes of recorded rounds worth a copy of their own."""

REPLAYED = 100_000_000
"""Agent-rounds that the CPU engine plays again at most, to see how an index failed: a minute."""

COPIERS, MANY_RUNS = 8, 8192
"""Threads that sort what is fetched into the record, and the fewest runs worth waking them."""


def lines_of(task: Task) -> int:
    """Return how many sums an agent keeps: reward and regret; with many tables what these cost."""
    return 2 if task.tables.is_single else 5


def real_of(task: Task) -> Any:
    """Return the type of what agents compute with; sums for the record are always doubles."""
    return np.dtype(task.precision)


def cubics_of(real: Any) -> Any:
    """Return the table of the normal; in single precision with places between 0 and 1."""
    cubics = normal_cubics()
    if real == np.float64:
        return cubics
    return (cubics.reshape(-1, 4) * 2.0 ** (48.0 * np.arange(4))).astype(real)


def rounds_kept(parts: Parts) -> int:
    """Return for how many rounds central totals are kept until they are seen; 0 for not at all."""
    delay = getattr(parts.aggregation, "delay", None)
    return 0 if delay is None else delay + 1


class DeviceRuns:
    """What the drivers of all kernels share.

    Registers are pairs (sum, count), for every arm (agents, runs): threads side by side read side
    by side, whether they are agents of one run or runs of one agent.
    """

    def __init__(
        self,
        parts: Parts,
        task: Task,
        runs: range,
        tick: Tick,
        backend: Backend,
        make_spans: Callable[[], list[tuple[int, int]]],
        weigh: Weigh = units_of_the_start,
    ) -> None:
        self.parts, self.task, self.tick, self.backend = parts, task, tick, backend
        self.runs = runs
        self.num_runs, self.num_agents = len(runs), task.network.num_agents
        self.num_arms, self.everywhere = task.problem.num_arms, len(runs) * self.num_agents
        self.real = real_of(task)
        self.numbers = index_numbers(parts, task)
        self.numbers_there = self.upload(self.numbers)
        self.discount = discount_of(parts)
        self.spans = Spans(task, make_spans(), backend, self.discount, weigh)
        self.lines = lines_of(task)
        self._keep_world(runs)
        self._keep_tally()

    def upload(self, values: Any) -> Any:
        return self.backend.upload(values.astype(self.real, copy=False))

    def _keep_world(self, runs: range) -> None:
        task, backend = self.task, self.backend
        tables = task.tables
        shuffled = runs if task.shuffle_arms else runs[:1]
        ordered = [tables.ordered(task.arm_order(run)) for run in shuffled]
        arrays = [
            np.stack([rows for rows, _ in ordered]).astype(self.real, copy=False),
            np.stack([prices for _, prices in ordered]),
            tables.places,
            tables.starts,
            cubics_of(self.real),
            *(stream_keys(task.seed, stream, runs) for stream in (REWARDS, DECISIONS)),
        ]
        self.width = arrays[0].shape[2]
        self.kept = [backend.upload(array) for array in arrays]
        whole = (
            self.num_agents, self.num_runs, arrays[0].shape[1], len(ordered), tables.starts.size,
            tables.period,
        )  # fmt: skip
        addresses = [memory.address for memory in self.kept]
        self.world = backend.upload(np.array([*addresses, *whole], dtype=np.int64))

    def _keep_tally(self) -> None:
        task, zeros, slots = self.task, self.backend.zeros, self.task.rounds.size
        self.slots = slots
        agents, most = self.everywhere, int(self.spans.stops.max(initial=0))
        self.counts = zeros((slots, self.num_runs, self.num_arms), np.int64)
        self.ledger = zeros((self.lines, agents))
        self.noted = zeros((self.lines, max(1, most), agents))
        folded = self.lines * max(1, most) * -(-self.num_agents // FAN) * self.num_runs
        self.folded = [zeros((folded,)), zeros((folded,))]
        self.arms = zeros((agents if task.keep == "arms" else 0, task.horizon), np.int32)
        self.made = zeros((agents if task.keep else 0, self.num_arms), np.int32)
        self.trouble = zeros((2,), np.int32)
        self.totals = zeros((slots, self.lines, self.num_runs))
        self.marks: list[tuple[int, Any]] = []  # recorded rounds that are ready after a mark
        memories = (
            self.counts, self.ledger, self.noted, self.arms, self.made, self.trouble,
        )  # fmt: skip
        addresses = [memory.address for memory in memories]
        whole = [*addresses, task.horizon]
        self.tally = self.backend.upload(np.array(whole, dtype=np.int64))

    def constants(self, **more: int) -> dict[str, int]:
        """Return what is fixed before kernels are compiled."""
        task, index = self.task, self.parts.index
        return {
            "SINGLE": int(self.real == np.float32),
            "K": self.num_arms,
            "FORM": task.problem.kernel_form().kind,
            "WIDTH": self.width,
            "IS_NORMAL": int(task.problem.variate == "normal"),
            "LINES": self.lines,
            "KEEPS_PULLS": int(bool(task.keep)),
            "KEEPS_ARMS": int(task.keep == "arms"),
            "NUMBERS": self.numbers.shape[1] if len(self.numbers) > 1 else 0,
            "SCRATCH": max(1, index.scratch_size(self.num_arms)),
            "IS_RANDOM": int(index.random),
            "IS_OURS": int(is_ours(index)),
            "HAS_PICK": int(index.pick is not None),
            "FORGETS": int(self.discount != 1.0),
            **more,
        }

    def compiled(self, files: tuple[str, ...], constants: dict[str, int]) -> Program:
        """Return some kernels for this task."""
        index = index_source(self.parts.index) if not constants.get("HAS_BONUS") else ""
        return self.backend.compile(program(files, constants, index))

    @cached_property
    def folding(self) -> Program:
        """The kernel that adds up what agents noted; the same for all tasks."""
        return self.backend.compile(program(("fold.cu",), {}))

    def played(self, number: int) -> None:
        """Start adding up a span's recorded rounds, and report progress."""
        stops, source, agents = int(self.spans.stops[number]), self.noted, self.num_agents
        first, turn = int(self.spans.slots[number]), 0
        while stops and source is not self.totals:
            left = -(-agents // FAN)
            target = self.folded[turn % 2] if left > 1 else self.totals
            blocks = -(-self.lines * stops * left * self.num_runs // 128)
            self.folding.launch(
                "fold", Launch(blocks, 1, 128), source, target, stops, agents, self.num_runs,
                self.lines, first,
            )  # fmt: skip
            source, agents, turn = target, left, turn + 1
        if stops:
            threads = self.num_runs * self.num_arms
            size = Launch(-(-threads // 128), 1, 128)
            self.folding.launch("accumulate", size, self.counts, first, stops, threads)
            self.marks.append((first + stops, self.backend.mark()))
        self.tick(int(self.spans.rounds[number]) * self.everywhere)

    def finish(self, values: Any = 0, messages: int = 0) -> Record:
        """Return the record, with what was sent; raise where a choice failed."""
        task, load = self.task, self.backend.download
        record = Record.empty(task, self.num_runs)
        # All this while the last rounds are played.
        record.values[:], record.messages[:] = values, messages
        for touched in (record.arm_counts, record.rewards, record.worst):
            self.backend.touch(touched)
        self._collect(record)
        if trouble := int(load(self.trouble)[0]):
            self._raise_failure(TROUBLES[float(trouble)])
        if task.keep:
            made = load(self.made).reshape(self.num_agents, self.num_runs, -1)
            record.agent_pulls[:] = made.transpose(1, 0, 2)
        if task.keep == "arms":
            record.arms[:] = load(self.arms).reshape(record.arms.shape)
        return record

    def _raise_failure(self, what: str) -> NoReturn:
        """Raise what the CPU engine does, which knows agent, round and arm."""
        where = 'fewer agents, rounds or runs, or with engine="cpu"'
        if self.everywhere * self.task.horizon <= REPLAYED:
            cpu.ENGINE.play(self.task, self.runs, lambda _: None)
            where = 'engine="reference"'  # the CPU engine does not notice what goes wrong in x**y
        raise InputError(f"index {self.parts.index.spelling} {what}; see where with {where}")

    def _collect(self, record: Record) -> None:
        """Fetch recorded rounds, a few MB at a time, as soon as they are there."""
        fewest = max(1, COLLECTED // (8 * self.num_runs * self.num_arms))
        if self.num_runs >= MANY_RUNS:  # each is somewhere else in memory: go there less often
            fewest = max(fewest, self.slots // 8)
        with ThreadPoolExecutor(COPIERS) as pool:
            first = 0
            for end, mark in self.marks:
                if end - first < fewest and end < self.slots:
                    continue
                counts = self.backend.collect(self.counts, first, end, mark)
                self._put(pool, record.arm_counts[:, first:end], counts.transpose(1, 0, 2))
                totals = self.backend.collect(self.totals, first, end, mark)
                self._put(pool, record.rewards[:, first:end], totals[:, 0].T)
                self._put(pool, record.worst[:, first:end], totals[:, 1].T)
                if self.lines > 2:
                    costs = record.costs[:, first:end]
                    self._put(pool, costs, totals[:, 2:].transpose(2, 0, 1))
                first = end

    def _put(self, pool: ThreadPoolExecutor, target: Any, source: Any) -> None:
        """Copy by threads, each some runs: rounds come first in one, and runs in the other."""
        if self.num_runs < MANY_RUNS:
            np.copyto(target, source)
            return
        parts = np.array_split(np.arange(self.num_runs), COPIERS)
        slices = [slice(part[0], part[-1] + 1) for part in parts]
        list(pool.map(lambda part: np.copyto(target[part], source[part]), slices))

    def registers(self) -> Any:
        return self.backend.zeros((self.num_arms, self.everywhere, 2), self.real)


def run_bytes(task: Task) -> int:
    """Return about how many bytes of the device one run takes: registers, ledgers, what is kept."""
    agents, num_arms = task.network.num_agents, task.problem.num_arms
    lines, stops = lines_of(task), task.rounds.size  # at most all in one span
    real: int = real_of(task).itemsize
    kept = (4 * task.horizon if task.keep == "arms" else 0) + (4 * num_arms if task.keep else 0)
    each = 8 * real * num_arms + 8 * lines * (stops + 3) + kept
    table = task.tables.rows.nbytes if task.shuffle_arms else 0
    parts = task.policy.parts
    seen = 2 * real * num_arms * (rounds_kept(parts) + 1) if parts else 0
    return agents * each + 8 * task.rounds.size * num_arms + table + seen + 32


MOST_LINKS = 17
"""Neighbours, and the agent itself, whose values a thread fetches all at once."""


def links_there(state: DeviceRuns, matrix: Any) -> tuple[int, tuple[Any, Any, Any]]:
    """Return the degree of all agents and their links in P, or 0 where degrees or weights differ.

    Links are neighbours (twice) and two weights where there is a degree; else where each row
    begins, whose values it has, and their weights.
    """
    upload = state.backend.upload
    if (regular := _regular_once(state.task.network, matrix)) is not None:
        degree, near, weights = regular
        there = upload(near)
        return degree, (there, there, state.upload(weights))
    return 0, rows_there(state, matrix)


def rows_there(state: DeviceRuns, matrix: Any) -> tuple[Any, Any, Any]:
    """Return P's rows on the device: where each begins, whose values, and their weights."""
    upload = state.backend.upload
    indptr = matrix.indptr.astype(np.int32, copy=False)
    indices = matrix.indices.astype(np.int32, copy=False)
    return upload(indptr), upload(indices), state.upload(matrix.data)


def links_of_each(matrix: Any) -> int:
    """Return how many entries every row of P has, or 0 where they differ or are many."""
    sizes = np.diff(matrix.indptr)
    most = int(sizes.max())
    return most if most <= MOST_LINKS and (sizes == most).all() else 0


_regular: WeakKeyDictionary[Network, Any] = WeakKeyDictionary()
"""What `regular_links` has found: with a million agents that takes a tenth of a second."""


def _regular_once(network: Network, matrix: Any) -> Any:
    if matrix is not network.matrix:
        return regular_links(matrix)
    if network not in _regular:
        _regular[network] = regular_links(matrix)
    return _regular[network]


def regular_links(
    matrix: Any,
) -> tuple[int, NDArray[np.int32], NDArray[np.float64]] | None:
    """Return degree, neighbours and two weights of a P that has the same for all agents, or None.

    The weights are that of the own value and that of a link; no other need be read then.
    """
    agents = matrix.shape[0]
    degree = links_of_each(matrix) - 1
    if degree < 1:
        return None
    rows = np.arange(agents, dtype=matrix.indices.dtype)[:, np.newaxis]
    is_own = (matrix.indices.reshape(agents, -1) == rows).reshape(-1)
    if np.count_nonzero(is_own) != agents:
        return None
    own, others = matrix.data[is_own], np.logical_not(is_own, out=is_own)
    theirs = matrix.data[np.argmax(others)]
    alike = np.count_nonzero(matrix.data == theirs) - (agents if own[0] == theirs else 0)
    if (own != own[0]).any() or alike != agents * degree:
        return None
    near = np.compress(others, matrix.indices).astype(np.int32, copy=False)
    return degree, near, np.array([own[0], theirs])
