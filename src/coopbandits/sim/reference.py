"""The reference engine, which is the specification.

One agent object per node, each given only its `LocalView`; every message is delivered, delayed or
lost as the schedule of faults says, and counted here.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from coopbandits.core.contract import Agent, Context, Estimate, LocalView, Vector
from coopbandits.core.errors import AggregationFailedError, IndexFailedError, InputError
from coopbandits.core.policy import CentralPolicy, Policy
from coopbandits.core.recommend import recommend
from coopbandits.network import Network
from coopbandits.network.faults import DOWN, LOST, directed_links
from coopbandits.problems.tables import OWN_GAP
from coopbandits.sim.contexts import ContextAccount
from coopbandits.sim.engine import REFERENCE, Engine, choose, one_thread
from coopbandits.sim.record import Record, Task, Tick
from coopbandits.sim.setup import global_knowledge
from coopbandits.sim.tapes import (
    DECISIONS,
    REWARDS,
    agent_keys,
    identity_words,
    secret_of,
    tape_words,
    variates,
)

CHUNK = 256
"""Pulls per agent for which tapes are generated in one go."""


class ReferenceEngine:
    """Plays any policy in common rounds, one run after another."""

    name = REFERENCE

    def obstacle(self, task: Task) -> str | None:
        """Leave agents without common rounds to the event queue."""
        return "has clocks of its own" if task.clocks else None

    def run_bytes(self, task: Task) -> None:
        """Ask for single runs: batches gain nothing here, and Ctrl-C then loses only one."""

    def session(self, threads: int | None) -> AbstractContextManager[None]:
        return one_thread(threads)

    def play(self, task: Task, runs: range, tick: Tick) -> Record:
        record = Record.empty(task, len(runs))
        for row, run in enumerate(runs):
            self.play_run(task, run, record, row, tick)
        return record

    def play_run(self, task: Task, run: int, record: Record, row: int, tick: Tick) -> None:
        """Play one run into a row of the record."""
        problem, num_agents = task.problem, task.network.num_agents
        players = make_players(task, run)
        schedule = task.faults.schedule(task.network, task.seed, run)
        keys = [agent_keys(task.seed, stream, run, num_agents) for stream in (REWARDS, DECISIONS)]
        pulls = np.zeros((num_agents, problem.num_arms), dtype=np.int64)
        account, features = make_account(task, run)
        paid = np.zeros(num_agents)
        reward_total, kept = 0.0, 0

        def reward(agent: int, arm: int) -> float:
            paid[agent] = account.pay(agent, arm, tape[agent, at])
            return float(paid[agent])

        for t in range(task.horizon):
            at = t % CHUNK
            if at == 0:
                chunk = min(CHUNK, task.horizon - t)
                tape = variates(problem.variate, tape_words(keys[REWARDS], t, chunk))
                decisions = tape_words(keys[DECISIONS], t, chunk)
                faults = schedule.read(chunk)
            for agent in np.flatnonzero(faults.fresh[at]).tolist():
                players.renew(agent, t)
            acting = np.flatnonzero(faults.acts[at])
            paid[:] = 0.0
            account.begin(t)
            if task.stop:
                players.halt.done = t
                players.look()
            with _located(players, t + 1, run):
                played = players.pull(
                    acting.tolist(), decisions[acting, at].tolist(), reward, features
                )
            arms = np.array(played, dtype=np.int64)
            pulls[acting, arms] += 1
            account.book(acting, arms)
            reward_total += float(paid.sum())
            with _located(players, t + 1, run):
                players.end_round(faults.fate[at].tolist())
            if task.keep == "arms":
                record.arms[row, :, t] = -1
                record.arms[row, acting, t] = arms
            if t + 1 == task.rounds[kept]:
                record.arm_counts[row, kept] = pulls.sum(axis=0)
                record.rewards[row, kept] = reward_total
                account.write(record, row, kept)
                record.values[row, kept] = players.counts.values
                kept += 1
            tick(num_agents)
        players.counts.write(record, row)
        players.halt.write(record, row)
        if task.keep:
            record.agent_pulls[row] = pulls


ENGINE: Engine = ReferenceEngine()


class _EnoughError(Exception):
    """The rounds that were to be played again are over."""


def play_again(task: Task, run: int, rounds: int) -> None:
    """Play the first rounds of a run for the error that they raise; record nothing."""

    def count(pulls: int) -> None:
        nonlocal rounds
        del pulls
        rounds -= 1
        if rounds == 0:
            raise _EnoughError

    with contextlib.suppress(_EnoughError):
        choose(REFERENCE, task).play(task, range(run, run + 1), count)


class Players(ABC):
    """What makes the pulls of a round: agents that exchange messages, or one controller.

    Attributes
    ----------
    acting : int
        The agent that chose last, or is choosing.
    """

    def __init__(self, task: Task) -> None:
        self.counts, self.acting = Counts(), 0
        self.halt = Halt(task)

    @abstractmethod
    def pull(
        self,
        acting: list[int],
        words: list[int],
        reward: Callable[[int, int], float],
        features: Callable[[int], Context] | None = None,
    ) -> list[int]:
        """Let some agents pull once, paid by `reward(agent, arm)`; return the arms.

        `features(agent)` are told to agents whose policy looks at them.
        """

    @abstractmethod
    def look(self) -> None:
        """See which agents could stop, before any pulls."""

    @abstractmethod
    def end_round(self, fates: list[int]) -> None:
        """End the round for all; `fates` holds the fate of the message over every link."""

    @abstractmethod
    def renew(self, agent: int, rounds: int) -> None:
        """Replace an agent by a fresh one, after `rounds` rounds of the run."""


class Agents(Players):
    """One agent object per node, each given only its LocalView."""

    def __init__(self, task: Task, policy: Policy, run: int) -> None:
        super().__init__(task)
        self.policy, self.views = policy, local_views(task, run)
        self.task, self.run, self.lost_memories = task, run, [0] * len(self.views)
        self.agents = [policy.make_agent(view) for view in self.views]
        self.allowed = task.tables.playable(task.arm_order(run))
        overtaking = [view.agent_id for view in self.views if policy.overtakes_from(view.agent_id)]
        self.mail = Mail(task.network, overtaking=overtaking)
        self.counts = self.mail.counts

    def pull(
        self,
        acting: list[int],
        words: list[int],
        reward: Callable[[int, int], float],
        features: Callable[[int], Context] | None = None,
    ) -> list[int]:
        """Let all agents choose before any sees a reward, so that their order does not matter."""
        arms = []
        for i, word in zip(acting, words, strict=True):
            self.acting = i
            context = None if features is None else features(i)
            arms.append(self.agents[i].choose(*question(word, self.allowed[i], context)))
        for i, arm in zip(acting, arms, strict=True):
            seen = () if features is None else (features(i)[arm],)
            self.agents[i].observe(arm, reward(i, arm), *seen)
        return arms

    def look(self) -> None:
        """Look at what every agent would recommend, also of those that sit out."""
        for i, agent in enumerate(self.agents):
            self.halt.look(i, agent.estimate)  # type: ignore[attr-defined]  # of agents with parts

    def end_round(self, fates: list[int]) -> None:
        self.mail.exchange(self.agents, fates)

    def renew(self, agent: int, rounds: int) -> None:
        """Make a fresh agent and let it sit out all rounds so far: its round count must agree.

        Its secret is another one: noise that is used again for other rewards hides nothing.
        """
        self.lost_memories[agent] += 1
        view = renewed(self.views[agent], self.task, self.run, self.lost_memories[agent])
        self.agents[agent] = self.policy.make_agent(view)
        for _ in range(rounds):
            self.agents[agent].receive({})


class Central(Players):
    """One controller for all agents: it sees every pull, whatever happens to messages."""

    def __init__(self, task: Task, policy: CentralPolicy, run: int) -> None:
        super().__init__(task)
        sizes = (task.num_features,) if task.num_features else ()
        self.controller = policy.make_controller(task.problem.num_arms, task.sigma, *sizes)
        self.allowed = task.tables.playable(task.arm_order(run))
        takes = signature(self.controller.choose).parameters
        if task.tables.allowed is not None and "allowed" not in takes:
            raise InputError(
                f"the controller of {policy.spelling} chooses among all arms; for subsets of arms "
                "give its choose an argument allowed"
            )

    def pull(
        self,
        acting: list[int],
        words: list[int],
        reward: Callable[[int, int], float],
        features: Callable[[int], Context] | None = None,
    ) -> list[int]:
        """Let the controller choose and observe, agent by agent."""
        arms, has_turns = [], hasattr(self.controller, "turn")  # own ones may have none
        for i, word in zip(acting, words, strict=True):
            self.acting, allowed = i, self.allowed[i]
            if has_turns:
                self.controller.turn(i)
            context = None if features is None else features(i)
            self.halt.look(i, self.controller.estimate)
            arm = self.controller.choose(*question(word, allowed, context))
            self.controller.observe(
                arm, reward(i, arm), *(() if context is None else (context[arm],))
            )
            arms.append(arm)
        return arms

    def look(self) -> None:
        """Leave that to every agent's turn: it may see what those before it pulled."""

    def end_round(self, fates: list[int]) -> None:
        """Tell the controller that the round is over, and count what it says was sent."""
        del fates
        for size in self.controller.end_round() or ():
            self.counts.sent += 1
            self.counts.delivered += 1
            self.counts.values += size

    def renew(self, agent: int, rounds: int) -> None:
        """Do nothing: the controller keeps its state."""


def question(word: int, allowed: Sequence[int] | None, context: Context | None) -> tuple[Any, ...]:
    """Return the arguments of `choose`; custom agents need not accept those they do not use."""
    if context is not None:
        return word, allowed, context
    return (word,) if allowed is None else (word, allowed)


class Halt:
    """When the agents of one run could have stopped, and what they would have recommended."""

    def __init__(self, task: Task) -> None:
        self.stop, self.sigma = task.stop, task.sigma
        agents = task.network.num_agents if task.stop else 0
        self.rounds, self.done = np.full(agents, -1), 0
        self.arms = np.full(agents, -1)

    def look(self, agent: int, estimate: Callable[[], Estimate]) -> None:
        """Look at what one agent knows, unless it has seen enough."""
        if self.stop is None or self.rounds[agent] >= 0:
            return
        arm, lead, *_ = recommend(estimate(), self.sigma, self.stop.confidence)
        if lead > -self.stop.within:
            self.rounds[agent], self.arms[agent] = self.done, arm

    def write(self, record: Record, row: int) -> None:
        record.stop_rounds[row], record.stop_arms[row] = self.rounds, self.arms


def local_views(task: Task, run: int) -> list[LocalView]:
    """Return what each agent may know in one run."""
    network, needs, common_round = task.network, task.policy.needs, task.clocks is None
    known = global_knowledge(network, needs)
    words = [0] * network.num_agents
    if "random_word" in needs:
        words = identity_words(task.seed, run, network.num_agents)
    return [
        replace(
            network.local_view(
                i,
                num_arms=task.problem.num_arms,
                sigma=task.sigma,
                needs=needs,
                global_knowledge=known[i],
            ),
            random_word=words[i],
            secret=secret_of(task.seed, task.policy.spelling, run, i, 0)
            if "secret" in needs
            else b"",
            common_round=common_round,
            num_features=task.num_features,
        )
        for i in range(network.num_agents)
    ]


def renewed(view: LocalView, task: Task, run: int, life: int) -> LocalView:
    """Return what a fresh agent knows whose memory was lost `life` times: another secret."""
    if not view.secret:
        return view
    secret = secret_of(task.seed, task.policy.spelling, run, view.agent_id, life)
    return replace(view, secret=secret)


class Account:
    """What the pulls of one run pay, and what they cost."""

    def __init__(self, task: Task, run: int) -> None:
        self.tables, self.num_arms = task.tables, task.problem.num_arms
        rows, self.prices = task.tables.ordered(task.arm_order(run))
        self.pay_row = task.problem.payer(rows)
        self.places = task.tables.places
        self.starts = self.places.tolist()
        self.shift = 0
        self.regret = np.zeros(task.network.num_agents)
        self.costs = np.zeros(3)

    def begin(self, rounds: int, agent: int = 0) -> None:
        """Turn to the segment that holds after so many rounds, for all agents."""
        del agent
        if self.tables.starts.size > 1:
            self.shift = self.tables.segment(rounds) * self.num_arms

    def pay(self, agent: int, arm: int, variate: float) -> float:
        return self.pay_row(self.starts[agent] + self.shift + arm, variate)

    def book(self, agents: NDArray[np.int64], arms: NDArray[np.int64]) -> None:
        prices = self.prices[self.places[agents] + self.shift + arms]
        self.regret[agents] += prices[:, OWN_GAP]
        self.costs += prices.sum(axis=0)

    def write(self, record: Record, row: int, kept: int) -> None:
        record.costs[row, kept] = self.costs
        record.worst[row, kept] = self.regret.max()


def make_players(task: Task, run: int) -> Players:
    """Return the agents, or the controller, of one run."""
    if task.policy.central:
        return Central(task, cast("CentralPolicy", task.policy), run)
    return Agents(task, cast("Policy", task.policy), run)


def make_account(
    task: Task, run: int
) -> tuple[Account | ContextAccount, Callable[[int], Context] | None]:
    """Return what keeps the accounts of a run, and the features that agents are told."""
    if not task.tables.in_context:
        return Account(task, run), None
    account = ContextAccount(task, run)
    return account, account.features if task.num_features else None


@contextlib.contextmanager
def _located(players: Players, number: int, run: int) -> Iterator[None]:
    """Add agent, round and run to the error of a part that failed."""
    try:
        yield
    except (IndexFailedError, AggregationFailedError) as error:
        agent = getattr(error, "agent", players.acting)
        raise InputError(f"agent {agent} in round {number} of run {run}: {error}") from error


@dataclass
class Counts:
    """What was sent, in values and messages, and what became of it.

    A message that was sent is delivered, lost, or still in transit. It is `late` if it is delivered
    one round or more after it was sent. Of two that arrive together over one link, the newer is
    delivered and the older counts as lost; so does one that arrives after a newer one, where the
    newest says it all (`AnyAggregation.overtakes`).
    """

    values: int = 0
    sent: int = 0
    delivered: int = 0
    late: int = 0
    lost: int = 0

    def write(self, record: Record, row: int) -> None:
        """Write the numbers of messages into one row of the record."""
        record.messages[row] = self.sent
        record.delivered[row] = self.delivered
        record.late[row] = self.late
        record.lost[row] = self.lost


def outgoing(agent: Agent, neighbor: int) -> Vector | None:
    """Return an agent's message to a neighbour, checked."""
    message: object = agent.outgoing(neighbor)
    if message is None or (isinstance(message, np.ndarray) and message.ndim == 1):
        return message
    shape = f" of shape {message.shape}" if isinstance(message, np.ndarray) else ""
    raise InputError(
        f"outgoing of agent {agent.view.agent_id} returned a {type(message).__name__}{shape}; "
        "return a numpy array with one dimension, or None for no message"
    )


class Mail:
    """The messages of agents in rounds; of senders in `overtaking`, the newest says it all."""

    def __init__(self, network: Network, *, overtaking: Collection[int] = ()) -> None:
        links = directed_links(network)
        self.overtaking = frozenset(overtaking)
        self.newest: dict[tuple[int, int], int] = {}  # when the newest delivered was sent
        self.links = list(zip(links.receivers.tolist(), links.senders.tolist(), strict=True))
        self.rounds = 0
        self.due: dict[int, dict[tuple[int, int], tuple[Vector, int]]] = {}
        self.counts = Counts()

    def exchange(self, agents: Sequence[Agent], fates: Sequence[int]) -> None:
        """Collect this round's messages, apply their fates, and deliver what arrives now."""
        for (receiver, sender), fate in zip(self.links, fates, strict=True):
            if fate == DOWN:
                continue
            message = outgoing(agents[sender], receiver)
            if message is not None:
                self._send(receiver, sender, message, fate)
        self._deliver(agents)
        self.rounds += 1

    def _send(self, receiver: int, sender: int, message: Vector, fate: int) -> None:
        self.counts.sent += 1
        self.counts.values += message.size
        if fate == LOST:
            self.counts.lost += 1
            return
        due = self.due.setdefault(self.rounds + fate, {})
        self.counts.lost += (receiver, sender) in due  # sent earlier, overtaken by this one
        due[receiver, sender] = message, fate

    def _deliver(self, agents: Sequence[Agent]) -> None:
        """End the round for all agents; the inbox of one that does not act is empty."""
        inboxes: list[dict[int, Vector]] = [{} for _ in agents]
        for (receiver, sender), (message, fate) in sorted(
            self.due.pop(self.rounds, {}).items(), key=lambda item: item[0]
        ):
            if self._is_overtaken((receiver, sender), self.rounds - fate):
                self.counts.lost += 1
                continue
            inboxes[receiver][sender] = message
            self.counts.delivered += 1
            self.counts.late += fate > 0
        for agent, inbox in zip(agents, inboxes, strict=True):
            agent.receive(inbox)

    def _is_overtaken(self, link: tuple[int, int], sent: int) -> bool:
        """Return whether a newer message was delivered before one that was sent in some round."""
        newest = self.newest[link] = max(sent, self.newest.get(link, sent))
        return link[1] in self.overtaking and sent < newest
