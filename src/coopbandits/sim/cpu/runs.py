"""What the kernels of some runs share: tapes, fault schedules, forgetting, tally, latest pulls."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.aggregate.forgetting import decayed_rounds
from coopbandits.core.contract import Vector
from coopbandits.core.errors import InputError
from coopbandits.core.policy import Parts
from coopbandits.network import Network
from coopbandits.network.faults import directed_links
from coopbandits.sim.cpu.choice_forms import (
    FIXED,
    LAST,
    LEVEL,
    MEMORY,
    NO_ARM,
    NO_NUMBER,
    STOP_ARM,
    STOP_MEMORY,
    STOP_ROUND,
    TROUBLE,
)
from coopbandits.sim.cpu.choices import compiled_choice, declares_bonus, explorations
from coopbandits.sim.cpu.world import make_tally, make_world, write_record
from coopbandits.sim.record import Record, Task, Tick
from coopbandits.sim.reference import play_again
from coopbandits.sim.setup import global_knowledge

RUN_ENTRIES = 2_000_000
ALL_ENTRIES = 20_000_000
"""Most entries, (agents + links) × rounds, in a chunk of one run and of all: about 50 MB."""


class FaultChunk(NamedTuple):
    """Some rounds of the schedules of all runs; otherwise as `network.faults.Chunk`.

    Without faults the arrays have 0 rounds, so kernels test ``fate.shape[1] == 0``. Nothing is late
    here: a fate is `network.faults.DOWN`, `LOST` or 0.

    Attributes
    ----------
    acts, fresh : uint8 of shape (runs, rounds, N)
        1 where an agent acts, and where a fresh one takes its place before the round.
    fate : int16 of shape (runs, rounds, directed links)
        The fate of the message over every link.
    """

    acts: NDArray[np.uint8]
    fresh: NDArray[np.uint8]
    fate: NDArray[np.int16]


class LinkTable(NamedTuple):
    """The directed links, in the order of `directed_links`.

    Links indptr[i] … indptr[i + 1] − 1 lead to agent i, link e from senders[e]; reverse[e] is the
    link in the opposite direction.
    """

    indptr: NDArray[np.int64]
    senders: NDArray[np.int64]
    reverse: NDArray[np.int64]


def link_table(network: Network) -> LinkTable:
    """Return the directed links of a network."""
    links = directed_links(network)
    indptr = np.append(0, np.cumsum(network.degrees))
    reverse = np.lexsort((links.receivers, links.senders))
    return LinkTable(indptr.astype(np.int64), links.senders, reverse.astype(np.int64))


class FaultReader:
    """Reads the fault schedules of some runs, in order and at most `most` rounds per chunk."""

    def __init__(self, task: Task, runs: range) -> None:
        network = task.network
        self.num_agents, self.num_links = network.num_agents, 2 * network.num_edges
        self.num_runs = len(runs)
        self.most, self.schedules = task.horizon, []
        if task.faults:
            places = self.num_agents + self.num_links
            self.most = max(1, min(RUN_ENTRIES, ALL_ENTRIES // self.num_runs) // places)
            self.schedules = [task.faults.schedule(network, task.seed, run) for run in runs]

    def read(self, rounds: int) -> FaultChunk:
        """Return the next chunk of all runs."""
        if not self.schedules:
            nobody = np.zeros((self.num_runs, 0, self.num_agents), dtype=np.uint8)
            return FaultChunk(
                nobody, nobody, np.zeros((self.num_runs, 0, self.num_links), dtype=np.int16)
            )
        chunks = [schedule.read(rounds) for schedule in self.schedules]
        acts, fresh, fate = (np.stack(parts) for parts in zip(*chunks, strict=True))
        return FaultChunk(acts, fresh, fate)


# Forgetting in kernels: registers in units that shrink, so that nothing has to be multiplied.
#
# With a discount γ a pull counts γ^(m − b), b the rounds ended when it was made and m those ended
# now. A kernel adds γ^(s − b) for a pull instead of 1, s being the first round of the span that it
# plays, and lets choices read γ^(m − s) times the registers. So forgetting costs one multiplication
# per pull, news needs no stamp, and mixing, sums and logs are those of γ = 1. Between spans all
# registers are brought to the next s; spans are short enough for weights to stay below `LARGEST`.


LARGEST = 1e100
"""The largest weight of a pull within a span."""

FOREVER = 1 << 62


class Ageing(NamedTuple):
    """What pulls count in a span of rounds.

    Attributes
    ----------
    weights : (rounds,)
        What a pull of each round adds, in units of the span.
    factors : (rounds,)
        What a unit counts in each round: the inverse.
    passed : (rounds,)
        γ + γ² + … over all rounds before each: how much of an agent that pulled in all of them
        counts.
    behind : (rounds,)
        The same in units of the span, for who has just pulled.
    """

    weights: Vector
    factors: Vector
    passed: Vector
    behind: Vector


def ageing(discount: float, first: int, rounds: int) -> Ageing:
    """Return what pulls count in rounds `first` … `first + rounds − 1`."""
    since = np.arange(float(rounds))
    weights = discount**-since
    passed = discount * decayed_rounds(discount, first + since)
    return Ageing(
        weights, discount**since, passed, weights * decayed_rounds(discount, first + since + 1.0)
    )


def most_rounds(discount: float) -> int:
    """Return how many rounds a span may have."""
    if discount == 1.0:
        return FOREVER
    return max(1, int(math.log(LARGEST) / -math.log(discount)))


def end_span(discount: float, rounds: int, *registers: Any) -> None:
    """Bring registers, in place, to the units of the next span."""
    if discount != 1.0:
        for values in registers:
            values *= discount**rounds


Rows = NDArray[np.float64]
"""Registers of every agent: (run, agent, size)."""


TROUBLES = {
    NO_NUMBER: "raised an error or returned NaN",
    NO_ARM: "raised an error in pick, or picked an arm that must not be played",
}

REPLAYED = 200_000
"""Agent-rounds that are played again in plain Python at most, to see how an index failed: 20 s."""


class Rule(NamedTuple):
    """What kernels pass to `choices.choose`.

    Attributes
    ----------
    address : int
        The compiled choice.
    numbers_stride : int
        Distance between the numbers of two agents; 0 where all share one row.
    num_arms, squares : int
        K, and the number of sums of squares behind the counts: 0, 1 or K.
    scratch : int
        Size of the choice's scratch.
    random : bool
        Whether the choice depends on the random word.
    masked : bool
        Whether the numbers of every agent begin with K flags: which arms it may play.
    stopping : bool
        Whether it is noted when agents may stop.
    """

    address: int
    numbers_stride: int
    num_arms: int
    squares: int
    scratch: int
    random: bool
    masked: bool
    stopping: bool


class Runs:
    """What the drivers of all kernels share.

    Attributes
    ----------
    shape : (int, int, int)
        Runs, agents, and the size of the registers.
    fresh : array of that shape
        Own pulls since `take_fresh` was last called.
    memory : (run, agent, 3 or 5)
        What choices remember of every agent.
    done : int
        Rounds played.
    discount : float
        γ of the aggregation; 1 where it has none.
    made : (run, agent, K) or (run, 0, K)
        All pulls, where `fresh` holds what they count instead.
    """

    def __init__(self, parts: Parts, task: Task, runs: range, tick: Tick) -> None:
        self.parts, self.task, self.runs, self.tick = parts, task, runs, tick
        self.discount: float = getattr(parts.aggregation, "discount", 1.0)
        registers = parts.statistic.registers(task.problem.num_arms)
        assert registers.layout is not None  # noqa: S101  no other statistic is played here
        self.layout = registers.layout
        self.shape = (len(runs), task.network.num_agents, registers.size)
        self.world = make_world(task, runs)
        self.tally = make_tally(task, self.world)
        self.record = Record.empty(task, len(runs))
        self.fresh = np.zeros(self.shape)
        self.memory = np.zeros((*self.shape[:2], STOP_MEMORY if task.stop else MEMORY))
        self.masks = task.tables.masks(task.arm_order(runs[0]))
        self.made = np.zeros((len(runs), 0, task.problem.num_arms), dtype=np.int64)
        self.done = 0

    def rule(self, *, apart: bool = False) -> tuple[Rule, NDArray[np.float64]]:
        """Return the compiled choice, and the index's numbers per agent or one row for all.

        `apart` tells that certified pulls follow the totals in a row, which is twice as long.
        """
        rule, numbers = self.rule_without_choice()
        self.choice = compiled_choice(  # kept alive: kernels use its address
            self.parts.index,
            is_masked=rule.masked,
            is_stopping=rule.stopping,
            is_apart=apart and rule.stopping,
        )
        return rule._replace(address=self.choice.address), numbers

    def rule_without_choice(self, parts: Parts | None = None) -> tuple[Rule, NDArray[np.float64]]:
        """Return the same without compiling the choice, of other parts if they are given."""
        parts = parts or self.parts
        index, num_arms = parts.index, self.task.problem.num_arms
        numbers, masked = index_numbers(parts, self.task), self.masks is not None
        if stop := self.task.stop:
            told = [self.task.sigma, 1.0 - stop.confidence, stop.within]
            numbers = np.array([[*told, *row] for row in numbers])
        if self.masks is not None:
            each = np.broadcast_to(numbers, (self.shape[1], numbers.shape[1]))
            numbers = np.ascontiguousarray(np.concatenate([self.masks, each], axis=1))
        scratch = FIXED * num_arms + index.scratch_size(num_arms)
        stride = numbers.shape[1] if len(numbers) > 1 else 0
        squares, random = self.layout.squares, index.random
        return Rule(
            0, stride, num_arms, squares, scratch, random, masked, stop is not None
        ), numbers

    def explorations(self, times: Vector, num_agents: float, stage: int) -> Vector | None:
        """Return a of an index s/n + √(a/n) in every round; see `explorations_of`."""
        return explorations_of(self.parts, self.task, times, num_agents, stage)

    def played(self, rounds: int) -> None:
        """Advance by some rounds; raise if a reward or a choice failed in them."""
        problem = self.task.problem
        if problem.reward_function() and not np.isfinite(self.tally.rewards).all():
            raise InputError(
                f"reward of {type(problem).__name__} raised an error or paid what is no finite "
                'number in compiled code; see which with engine="reference"'
            )
        if self.memory[..., TROUBLE].any():
            self._raise_failure(rounds)
        self.done += rounds
        self.tick(rounds * self.shape[0] * self.shape[1])

    def _raise_failure(self, rounds: int) -> NoReturn:
        """Raise what the reference engine does where the index of some agent failed first."""
        row = int(self.memory[..., TROUBLE].any(axis=1).argmax())
        notes, run = self.memory[row], self.runs[row]
        agent = int(np.where(notes[:, TROUBLE] > 0.0, notes[:, LEVEL], np.inf).argmin())
        arm, done, trouble = notes[agent, LAST], int(notes[agent, LEVEL]), notes[agent, TROUBLE]
        when = "in"
        if self.task.clocks is not None:  # what was noted is the number of the agent's own pull
            done, when = self.done + rounds - 1, "by"
        if (done + 1) * self.shape[1] <= REPLAYED:
            play_again(self.task, run, done + 1)
        of_arm = f" for arm {arm:g}" if arm >= 0 else ""
        parts = self.task.policy.played_by(agent).parts or self.parts
        raise InputError(
            f"agent {agent} {when} round {done + 1} of run {run}: index {parts.index.spelling} "
            f'{TROUBLES[trouble]}{of_arm}; find the line with engine="reference"'
        )

    def take_fresh(self, used_up: Rows) -> Rows:
        """Return the pulls since the last call; `used_up` becomes the next buffer.

        The next kernel has to clear it.
        """
        fresh, self.fresh = self.fresh, used_up
        self._keep(fresh)
        return fresh

    def finish(self, messages: NDArray[np.int64] | None = None) -> Record:
        """Return the record of all that was played.

        `messages` (run, recorded round, 4) is what a kernel counted since the last recorded round:
        values sent, and messages sent, delivered and lost.
        """
        if messages is not None:
            record, totals = self.record, messages.cumsum(axis=1)
            record.values[:] = totals[:, :, 0]
            record.messages[:], record.delivered[:], record.lost[:] = totals[:, -1, 1:].T
        self._keep(self.fresh)
        write_record(self.tally, self.record)
        if self.task.stop:
            self.record.stop_rounds[:] = self.memory[..., STOP_ROUND] - 1.0
            stopped = self.memory[..., STOP_ROUND] > 0.0
            self.record.stop_arms[:] = np.where(stopped, self.memory[..., STOP_ARM], -1.0)
        return self.record

    def _keep(self, fresh: Rows) -> None:
        if self.made.shape[1] > 0:
            self.record.agent_pulls[:] = self.made
        elif self.task.keep:
            first, last = self.layout.counts, self.layout.counts + self.task.problem.num_arms
            self.record.agent_pulls += fresh[:, :, first:last].astype(np.int64)


def explorations_of(
    parts: Parts, task: Task, times: Vector, num_agents: float, stage: int
) -> Vector | None:
    """Return a of an index s/n + √(a/n) in every round, by the times of all rounds.

    None where agents differ in it, where it falls within a stage of so many rounds, or for an
    index of another form.
    """
    index, numbers = parts.index, index_numbers(parts, task)
    layout = parts.statistic.registers(task.problem.num_arms).layout
    squares = layout is None or layout.squares > 0
    if len(numbers) > 1 or squares or not declares_bonus(index):
        return None
    found = explorations(index, times, num_agents, numbers)
    if found is None or not (found >= 0.0).all():
        return None
    falls = np.diff(found) < 0.0
    falls[task.problem.num_arms - 1 :: stage] = False  # where stages begin
    return None if falls.any() else found


def index_numbers(parts: Parts, task: Task) -> NDArray[np.float64]:
    """Return the numbers of an index, one row per agent, or a single row where all are equal."""
    agents = task.network.num_agents if parts.index.needs else 1
    # A million empty entries would take longer than some kernels.
    known = global_knowledge(task.network, parts.index.needs) if parts.index.needs else [{}]
    rows = []
    for agent in range(agents):
        view = task.network.local_view(
            agent,
            num_arms=task.problem.num_arms,
            sigma=task.sigma,
            needs=parts.needs,
            global_knowledge=known[agent],
        )
        rows.append([*parts.index.numbers(view), 0.0])  # never empty, so that there is an address
    return np.array(rows)
