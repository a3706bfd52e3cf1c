"""What an engine is asked, and its record: totals of some runs, and the first run in frames."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from coopbandits.core.aggregate.pooling import scatter_of
from coopbandits.core.contract import Vector
from coopbandits.core.policy import AnyPolicy
from coopbandits.network import Network
from coopbandits.problems import Problem
from coopbandits.problems.tables import OWN_GAP, Tables
from coopbandits.sim.contexts import Contexts, barred_arms
from coopbandits.sim.setup import Setup
from coopbandits.sim.tapes import REWARDS, agent_keys, arm_order, tape_words, variates

Tick = Callable[[int], None]
"""Called with the number of agent-rounds just played; may raise to stop."""


class Task:
    """One policy in one setup; its arms are a pure function of this and the run number.

    Attributes
    ----------
    setup : Setup
        All but the policy; its settings are attributes of the task as well.
    given, policy : AnyPolicy
        The policy as the user gave it, by which results are labelled; and as it is played, suited
        to the rewards.
    num_runs : int
        The number of runs asked for, in all batches.
    keep : {"", "agents", "arms"}
        What the engine has to keep.
    num_features : int
        How many features the agents are told; 0 where their policy looks at none.
    """

    def __init__(self, setup: Setup, policy: AnyPolicy) -> None:
        setup.check_policy(policy)
        self.setup, self.given, self.policy = setup, policy, policy.suited(setup.family)
        self.problem, self.network = setup.problem, setup.network
        self.horizon, self.num_runs, self.seed = setup.horizon, setup.runs, setup.seed
        self.rounds, self.shuffle_arms = setup.rounds, setup.shuffle_arms
        self.keep = "arms" if setup.keep in ("curves", "watch") else setup.keep  # made of arms
        self.faults, self.clocks = setup.faults, setup.clocks
        self.stop, self.precision = setup.stop, setup.precision
        self.tables, self.sigma = setup.tables, setup.tables.sigma
        self.num_features = setup.problem.num_features if policy.takes_context else 0

    def arm_order(self, run: int) -> NDArray[np.int64]:
        """Return the problem's arm behind each place in one run."""
        num_arms = self.problem.num_arms
        return arm_order(self.seed, run, num_arms) if self.shuffle_arms else np.arange(num_arms)


@dataclass
class Record:
    """Totals of some runs; the first axis of every array is the run.

    Attributes
    ----------
    arm_counts : (run, round, arm)
        Pulls of each arm in the whole network up to each recorded round.
    rewards : (run, round)
        Reward sum of the whole network up to each recorded round.
    costs : (run, round, 3)
        What pulls cost up to each recorded round, by the columns of `Tables.costs`; left at 0
        where there is one table, since the arms tell as much.
    worst : (run, round)
        The largest regret of an agent up to each recorded round.
    values : (run, round)
        Values sent up to each recorded round.
    messages, delivered, late, lost : (run,)
        Messages sent, and what became of them (see `sim.reference.Counts`); an engine that delivers
        every message in its round leaves the last three at 0.
    agent_pulls : (run, agent, arm), or (run, 0, arm) when not kept
        Pulls of each arm by each agent.
    arms : (run, agent, pull), or (run, agent, 0) when not kept
        Every arm played, −1 in a round without a pull.
    agent_regret : (run, agent, round), or (run, 0, round) when not kept
        Regret of each agent up to each recorded round; `add_agent_regret` fills it in.
    stop_rounds, stop_arms : (run, agent), or (run, 0) without a rule for it
        After how many rounds each agent could have stopped, and what it would have recommended;
        both are −1 where it could not.
    scatter : (run, 2), or (run, 0) where sites are alike or arms not kept
        How much sites differ by what they saw: ratio and spread, as in `core.aggregate.pooling`.
    frames : Totals or None
        One run frame by frame, where it is among these and was to be kept; `add_frames` adds it.
    """

    arm_counts: NDArray[np.int64]
    rewards: Vector
    costs: Vector
    worst: Vector
    values: NDArray[np.int64]
    messages: NDArray[np.int64]
    delivered: NDArray[np.int64]
    late: NDArray[np.int64]
    lost: NDArray[np.int64]
    agent_pulls: NDArray[np.int64]
    arms: NDArray[np.int32]
    agent_regret: Vector
    stop_rounds: NDArray[np.int64]
    stop_arms: NDArray[np.int64]
    scatter: Vector
    frames: Totals | None = None

    @classmethod
    def empty(cls, task: Task, runs: int) -> Record:
        agents, arms, rounds = task.network.num_agents, task.problem.num_arms, task.rounds.size
        return cls(
            arm_counts=np.zeros((runs, rounds, arms), dtype=np.int64),
            rewards=np.zeros((runs, rounds)),
            costs=np.zeros((runs, rounds, 3)),
            worst=np.zeros((runs, rounds)),
            values=np.zeros((runs, rounds), dtype=np.int64),
            messages=np.zeros(runs, dtype=np.int64),
            delivered=np.zeros(runs, dtype=np.int64),
            late=np.zeros(runs, dtype=np.int64),
            lost=np.zeros(runs, dtype=np.int64),
            agent_pulls=np.zeros((runs, agents if task.keep else 0, arms), dtype=np.int64),
            arms=np.zeros((runs, agents, task.horizon if task.keep == "arms" else 0), np.int32),
            agent_regret=np.zeros((runs, agents if task.keep == "arms" else 0, rounds)),
            stop_rounds=np.full((runs, agents if task.stop else 0), -1),
            stop_arms=np.full((runs, agents if task.stop else 0), -1),
            scatter=np.zeros((runs, 2 if task.setup.sees_sites else 0)),
        )


def restore_order(record: Record, task: Task, runs: range) -> Record:
    """Turn the places that engines record into the problem's arms."""
    for row, run in enumerate(runs if task.shuffle_arms else ()):
        order = task.arm_order(run)
        record.arm_counts[row][:, order] = record.arm_counts[row].copy()
        record.agent_pulls[row][:, order] = record.agent_pulls[row].copy()
        behind = np.append(order, -1)  # −1 stays: the last entry
        record.arms[row] = behind[record.arms[row]]
        record.stop_arms[row] = behind[record.stop_arms[row]]
    return record


def add_frames(record: Record, task: Task, runs: range) -> Record:
    """Add up one run by frame, from the problem's arms, if it is among these and wanted."""
    if task.setup.keep == "watch" and RUN in runs:
        arms = record.arms[runs.index(RUN)]
        record.frames = totals(task.problem, task.tables, task.seed, arms)
    return record


def add_scatter(record: Record, task: Task, runs: range) -> Record:
    """Add how much sites differ by what they saw: rewards follow from the arms and the tape."""
    if not task.setup.sees_sites:
        return record
    rows, _ = task.tables.ordered(np.arange(task.problem.num_arms))
    cells = task.network.num_agents * task.problem.num_arms
    for row, run in enumerate(runs):
        arms = record.arms[row]
        pulled = arms >= 0
        keys = agent_keys(task.seed, REWARDS, run, len(arms))
        tape = variates(task.problem.variate, tape_words(keys, 0, task.horizon))[pulled]
        paid = task.problem.paid(rows, (task.tables.places[:, None] + arms)[pulled], tape)
        places = (np.arange(len(arms))[:, None] * task.problem.num_arms + arms)[pulled]
        sums = np.bincount(places, paid, minlength=cells).reshape(len(arms), -1).astype(float)
        counts = np.bincount(places, minlength=cells).reshape(len(arms), -1).astype(float)
        bounded = task.tables.bounds is not None and task.tables.bounds == (0.0, 1.0)
        found = scatter_of(sums, counts, task.sigma, bounded)
        record.scatter[row] = found.ratio, found.spread
    return record


def add_agent_regret(record: Record, task: Task) -> Record:
    """Add up what each agent lost, from the problem's arms; drop those unless wanted."""
    if task.keep != "arms":
        return record
    if task.setup.keep != "watch" and not task.tables.in_context:  # then the engine has counted
        tables, starts = task.tables, np.append(0, task.rounds[:-1])
        gaps = np.pad(tables.costs[..., OWN_GAP], ((0, 0), (0, 0), (0, 1)))  # −1: no loss
        group, segment = tables.group[:, None], tables.segments(np.arange(task.horizon))
        record.agent_regret = np.stack(
            [
                np.add.reduceat(gaps[group, segment, arms], starts, axis=1).cumsum(axis=1)
                for arms in record.arms
            ]
        )
    if task.setup.keep != "arms":
        record.arms = record.arms[:, :, :0].copy()
    return record


def join(records: list[Record]) -> Record:
    """Concatenate the runs of several records."""
    names = [field.name for field in fields(Record) if field.name != "frames"]
    arrays = {name: np.concatenate([getattr(each, name) for each in records]) for name in names}
    return Record(**arrays, frames=next((r.frames for r in records if r.frames), None))


# Frames for `coopbandits dashboard`. Arms alone would not do: a result holds neither the graph nor
# the rewards, and a custom problem or graph cannot be made again from its description. So all that
# a page shows is written down while these are at hand: of the first run, in frames that grow
# longer. What that takes does not grow with the horizon.


RUN = 0
"""The run that is taken down."""
MOST_FRAMES = 240
FEWEST_FRAMES = 24
MOST_CELLS = 20_000_000
"""Frames × N × K, where the fewest frames do not take more: 160 MB before compression."""
WATCHED = (
    "watch_pulls", "watch_rewards", "watch_regret", "watch_stages", "watch_links", "watch_changes",
    "watch_sigma", "watch_means",
)  # fmt: skip
"""What a result has besides, to be watched."""
COMPRESSED = {"zlib": True, "complevel": 4, "shuffle": True}


class Totals(NamedTuple):
    """What happened in every frame.

    Attributes
    ----------
    pulls, rewards : array of shape (frame, N, K)
        Of each agent and arm: the number of pulls, and the sum of what they paid.
    regret : array of shape (frame,)
        What the network lost so far, against each agent's own best arm of the moment.
    """

    pulls: NDArray[np.uint32]
    rewards: Vector
    regret: Vector


def frame_rounds(horizon: int, num_agents: int, num_arms: int) -> NDArray[np.int64]:
    """Return the last round of every frame: they grow longer, as less and less happens."""
    fitting = MOST_CELLS // (num_agents * num_arms)
    frames = max(FEWEST_FRAMES, min(MOST_FRAMES, fitting))
    ends = np.rint(horizon * (np.arange(1, frames + 1) / frames) ** 2)
    return np.unique(np.maximum(ends, 1.0)).astype(np.int64)


def totals(problem: Problem, tables: Tables, seed: int, arms: NDArray[np.int32]) -> Totals:
    """Add up a run by frame; `arms` (agent, round) are the problem's, −1 where none was pulled."""
    num_agents, horizon = arms.shape
    num_arms = problem.num_arms
    ends = frame_rounds(horizon, num_agents, num_arms)
    shape = (ends.size, num_agents, num_arms)
    found = Totals(np.zeros(shape, dtype=np.uint32), np.zeros(shape), np.zeros(ends.size))
    order = np.arange(num_arms)
    rows, costs = tables.ordered(order)
    contexts = Contexts(problem, tables, seed, RUN, order) if tables.in_context else None
    barred = barred_arms(tables, order)
    keys = agent_keys(seed, REWARDS, RUN, num_agents)
    first_cell = np.arange(num_agents)[:, None] * num_arms
    for frame, (start, stop) in enumerate(pairwise((0, *ends.tolist()))):
        played = arms[:, start:stop]
        pulled = played >= 0
        moved = tables.segments(np.arange(start, stop)) * num_arms
        at = (tables.places[:, None] + moved + played)[pulled]
        tape = variates(problem.variate, tape_words(keys, start, stop - start))[pulled]
        paid = problem.paid(rows, at, tape)
        lost = costs[at, OWN_GAP]
        if contexts is not None:  # rows hold noise alone, and costs nothing
            means = contexts.read(start, stop)
            own = means[pulled, played[pulled]]
            best = (means if barred is None else means + barred[:, None]).max(axis=2)
            paid, lost = paid + own, best[pulled] - own
        cells = (first_cell + played)[pulled]
        found.pulls[frame].flat[:] = np.bincount(cells, minlength=shape[1] * shape[2])
        found.rewards[frame].flat[:] = np.bincount(cells, paid, minlength=shape[1] * shape[2])
        found.regret[frame] = lost.sum()
    return found._replace(regret=found.regret.cumsum())


def surroundings(
    tables: Tables, network: Network, frames: NDArray[np.int64]
) -> dict[str, tuple[tuple[str, ...], Any]]:
    """Return what all policies share.

    That is the links, the rounds from which rewards are others, σ, and the network's true means by
    frame, unless every context has its own.
    """
    upper = sparse.triu(network.adjacency, k=1).tocoo()
    links = np.column_stack([upper.row, upper.col]).astype(np.int32)
    found: dict[str, tuple[tuple[str, ...], Any]] = {
        "watch_links": (("link", "end"), links),
        "watch_changes": (("change",), tables.changes(int(frames[-1]))),
        "watch_sigma": ((), tables.sigma),
    }
    if not tables.in_context:
        found["watch_means"] = ("frame", "arm"), tables.average[tables.segments(frames - 1)]
    return found
