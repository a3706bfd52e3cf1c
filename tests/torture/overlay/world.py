"""Thousands of agents that find each other, in one process: the real state machine, no sockets.

A round is one tick of every agent, in random order. Messages and calls arrive at once, since they
take milliseconds and a tick a second. A killed agent's links break `notice` rounds later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from coopbandits.fleet.overlay.hyparview import Action, Call, Chance, Close, HyParView, Send
from coopbandits.fleet.overlay.messages import Contact, Message, Refused, encode
from coopbandits.fleet.protocol.frames import HEADER
from tests.torture.words import words_of

RECORD_BYTES = 22
"""What TLS adds to a message."""

CALL_BYTES = 4000
"""A TLS handshake with certificates on both sides, and two greetings, both directions together."""


def address_of(name: str) -> str:
    """Return where an agent listens."""
    return f"{name}:7400"


class OverlayWorld:
    """Agents on a perfect network, which can be killed, cut in two, and can lie.

    Parameters
    ----------
    seed : int
        Decides everything.
    degree : int
        How many neighbours each agent wants.
    seeds : sequence of str
        The agents whose addresses everybody is given.
    notice : int
        Rounds until a neighbour's death is noticed, as `silence` of a machine that vanishes.

    Attributes
    ----------
    agents : dict of str to HyParView
        Those that run.
    side : callable
        Which side of a cut an agent is on.
    bytes_sent, messages, calls : int
        All so far; links' own gossip is not among them.
    """

    def __init__(self, seed: int, degree: int, seeds: Sequence[str], notice: int = 5) -> None:
        self.chance = Chance(words_of(seed).__next__)
        self.degree, self.seeds, self.notice = degree, seeds, notice
        self.agents: dict[str, HyParView] = {}
        self.side: Callable[[str], int] = lambda _: 0
        self.rounds = self.messages = self.calls = self.bytes_sent = 0
        self._todo: deque[tuple[str, Action]] = deque()
        self._breaks: list[tuple[int, str, str]] = []

    def start(self, names: Iterable[str]) -> None:
        """Start agents that know the seeds and nobody else."""
        for name in names:
            agent = HyParView(name, self.degree, Chance(words_of(self.chance.words()).__next__))
            agent.seeds = [address_of(each) for each in self.seeds]
            self.agents[name] = agent

    def kill(self, names: Iterable[str]) -> None:
        """Let agents vanish."""
        for name in names:
            for peer in self.agents.pop(name).active:
                self._breaks.append((self.rounds + self.notice, peer, name))

    def leave(self, name: str) -> None:
        """Let an agent leave in order."""
        self.agents[name].leave()
        self.carry_out(name)
        del self.agents[name]

    def cut(self, side: Callable[[str], int]) -> None:
        """Part the agents; links between different sides break, and no calls come through."""
        self.side = side
        for name, agent in self.agents.items():
            far = [peer for peer in agent.active if side(peer) != side(name)]
            self._breaks += [(self.rounds + self.notice, name, peer) for peer in far]

    def play(self, rounds: int = 1) -> None:
        """Play some rounds."""
        for _ in range(rounds):
            self.rounds += 1
            due = [each for each in self._breaks if each[0] <= self.rounds]
            self._breaks = [each for each in self._breaks if each[0] > self.rounds]
            for _, name, peer in due:
                if name in self.agents:
                    self.agents[name].broken(peer)
            for name in self.chance.sample(list(self.agents), len(self.agents)):
                self.turn(name)

    def turn(self, name: str) -> None:
        """Let one agent do what it does once in a round."""
        self.agents[name].tick()
        self.carry_out(name)

    def carry_out(self, name: str) -> None:
        """Carry out what an agent wants done, and all that follows from it."""
        self._gather(name, self.agents[name])
        while self._todo:
            who, action = self._todo.popleft()
            if who in self.agents:
                self._do(who, action)

    def _gather(self, name: str, agent: HyParView) -> None:
        self._todo.extend((name, action) for action in agent.actions)
        agent.actions.clear()

    def _do(self, name: str, action: Action) -> None:
        if isinstance(action, Call):
            self._call(name, action)
        elif isinstance(action, Send) and (message := self.said(name, action.message)) is not None:
            self._send(name, action.peer, message)
        elif isinstance(action, Close) and action.peer in self.agents:
            self.agents[action.peer].broken(name)

    def said(self, name: str, message: Message) -> Message | None:
        """Return what an agent really sends; None for nothing."""
        del name
        return message

    def _send(self, name: str, peer: str, message: Message) -> None:
        self.messages += 1
        self.bytes_sent += HEADER.size + RECORD_BYTES + len(encode(message))
        if peer in self.agents and self.side(name) == self.side(peer):
            self.agents[peer].heard(name, message)
            self._gather(peer, self.agents[peer])

    def _call(self, name: str, call: Call) -> None:
        caller, callee = self.agents[name], call.address.removesuffix(":7400")
        self.calls += 1
        if callee == name:
            caller.reached_itself(call)
        elif self._is_unreachable(name, call, callee):
            caller.failed(call)
        else:
            self.bytes_sent += CALL_BYTES
            answer = self.agents[callee].asked(Contact(name, address_of(name)), call.ask)
            self._gather(callee, self.agents[callee])
            self._answer(caller, call, callee, answer)
        self._gather(name, caller)

    def _is_unreachable(self, name: str, call: Call, callee: str) -> bool:
        there = self.agents.get(callee)
        return (
            there is None
            or (call.name or callee) != callee
            or name in there.active
            or self.side(name) != self.side(callee)
        )

    def _answer(self, caller: HyParView, call: Call, callee: str, answer: Refused | None) -> None:
        if answer is None:
            caller.accepted(call, callee)
        else:
            said = self.said(callee, answer)
            caller.refused(call, callee, said.contacts if isinstance(said, Refused) else [])

    # What is measured

    def reach(self, start: str) -> list[int]:
        """Return how many agents news of one agent has reached after 0, 1, … rounds."""
        seen, front, counts = {start}, [start], [1]
        while front:
            front = [
                peer
                for peer in dict.fromkeys(p for name in front for p in self.agents[name].active)
                if peer in self.agents and peer not in seen and self.side(peer) == self.side(start)
            ]
            seen.update(front)
            if front:
                counts.append(len(seen))
        return counts

    @property
    def is_connected(self) -> bool:
        """Whether news of one agent reaches all."""
        return self.reach(next(iter(self.agents)))[-1] == len(self.agents)

    def degrees(self) -> list[int]:
        """Return how many neighbours each agent has that run, in ascending order."""
        return sorted(
            sum(peer in self.agents for peer in agent.active) for agent in self.agents.values()
        )

    def is_symmetric(self) -> bool:
        """Whether both ends of every link between agents that run have it."""
        return all(
            name in self.agents[peer].active
            for name, agent in self.agents.items()
            for peer in agent.active
            if peer in self.agents
        )


def grow(world: OverlayWorld, agents: int, *, per_round: int = 100, settle: int = 25) -> None:
    """Let agents `a0`, `a1`, … join, so many in a round, and settle for some rounds."""
    names = [f"a{number}" for number in range(agents)]
    for first in range(0, agents, per_round):
        world.start(names[first : first + per_round])
        world.play()
    world.play(settle)
