"""Members with valid certificates that want to be everybody's only neighbours.

What each of them does, all the time:

- it takes in whoever calls, and gives up no neighbour;
- it calls an honest agent in every round, and pleads for a place (`AGAIN`);
- whatever it says of others is about liars; half of it are liars that are real, and half honest
  agents at a false address, so that whoever believes it calls in vain;
- it shuffles with all its neighbours in every round, answers every shuffle itself, passes nothing
  on, and never says goodbye.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from coopbandits.fleet.overlay.hyparview import Call, Send
from coopbandits.fleet.overlay.messages import (
    MOST_CONTACTS,
    Ask,
    Contact,
    Message,
    Refused,
    Sample,
    Shuffle,
)
from tests.torture.overlay.world import OverlayWorld, address_of

NOWHERE = "nowhere:7400"


class LyingWorld(OverlayWorld):
    """A world in which some agents lie, from `corrupt` on.

    Attributes
    ----------
    liars : list of str
        Those that lie.
    """

    def __init__(self, seed: int, degree: int, seeds: Sequence[str], notice: int = 5) -> None:
        super().__init__(seed, degree, seeds, notice)
        self.liars: list[str] = []
        self._lying: set[str] = set()
        self._honest: list[str] = []

    def corrupt(self, names: Iterable[str]) -> None:
        """Let agents lie from now on."""
        self.liars += names
        self._lying.update(self.liars)
        self._honest = [name for name in self.agents if name not in self._lying]
        for name in self.liars:
            self.agents[name].degree = len(self.agents)

    def turn(self, name: str) -> None:
        """Let an honest agent do what it does, and a liar press others."""
        if name not in self._lying:
            super().turn(name)
            return
        liar, victim = self.agents[name], self.chance.choice(self._honest)
        if victim not in liar.active:
            liar.actions.append(Call(victim, address_of(victim), Ask.AGAIN))
        for peer in liar.active:
            liar.actions.append(Send(peer, Shuffle(self.chance.words() >> 2, 1, [])))
        self.carry_out(name)

    def said(self, name: str, message: Message) -> Message | None:
        """Return what a liar says instead of a message."""
        if name not in self._lying:
            return message
        match message:
            case Refused():
                return Refused(self._lies())
            case Shuffle(nonce):
                return Shuffle(nonce, 1, self._lies())
            case Sample(nonce):
                return Sample(nonce, self._lies())
            case _:
                return None

    def _lies(self) -> list[Contact]:
        half = MOST_CONTACTS // 2
        real = self.chance.sample(self.liars, half)
        false = self.chance.sample(self._honest, half)
        return [Contact(each, address_of(each)) for each in real] + [
            Contact(each, NOWHERE) for each in false
        ]

    def exposure(self) -> tuple[float, int, int]:
        """Return what the liars have reached.

        That is the share of honest agents' links that lead to liars, how many honest agents have no
        other links, and how many are connected with each other by links among honest ones.
        """
        near = {
            name: [peer for peer in self.agents[name].active if peer not in self._lying]
            for name in self._honest
        }
        links = sum(len(self.agents[name].active) for name in self._honest)
        largest, left = 0, set(near)
        while left:
            front, size = [left.pop()], 0
            while front:
                size += 1
                fresh = left.intersection(near[front.pop()])
                left -= fresh
                front += fresh
            largest = max(largest, size)
        to_liars = links - sum(map(len, near.values()))
        return to_liars / links, sum(not peers for peers in near.values()), largest
