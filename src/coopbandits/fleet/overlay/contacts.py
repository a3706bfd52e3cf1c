"""The passive view: agents that are no neighbours, of which some were heard and any may be gone.

An id has one place. The first address told for it stays until it was tried, so that nobody can
redirect others by telling a different one. Who told of an id is remembered: contacts are drawn by
choosing first among those who told, then among what they told, and where there are too many, the
one who told most loses that with the weakest bond. So nobody counts for more by telling more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from coopbandits.fleet.overlay.chance import Chance
from coopbandits.fleet.overlay.messages import Contact


class Hearsay(NamedTuple):
    """Where an agent may be, and who said so."""

    address: str
    teller: str


class PassiveView:
    """What one agent knows of others that are not its neighbours.

    Parameters
    ----------
    size : int
        How many it remembers.
    bond : callable
        Returns how strong the agent's bond with an id is.
    is_known : callable
        Returns whether an id is the agent's own or a neighbour's, and so has no place here.
    chance : Chance
        Makes random choices.
    """

    def __init__(
        self,
        size: int,
        bond: Callable[[str], int],
        is_known: Callable[[str], bool],
        chance: Chance,
    ) -> None:
        self.size, self.bond, self.is_known, self.chance = size, bond, is_known, chance
        self.entries: dict[str, Hearsay] = {}
        self._told: Counter[str] = Counter()

    def __len__(self) -> int:
        """Return how many are remembered."""
        return len(self.entries)

    def __contains__(self, name: str) -> bool:
        """Return whether an agent is remembered."""
        return name in self.entries

    def add(self, contacts: Iterable[Contact], teller: str) -> None:
        """Remember contacts, and forget others where there is no room."""
        for name, address in ((each.name, each.address) for each in contacts):
            if name not in self.entries and not self.is_known(name):
                self.entries[name] = Hearsay(address, teller)
                self._told[teller] += 1
                if len(self.entries) > self.size:
                    self.forget(self._dispensable())

    def _dispensable(self) -> str:
        most = max(self._told.values())
        teller = self.chance.choice([each for each, told in self._told.items() if told == most])
        told = (name for name, entry in self.entries.items() if entry.teller == teller)
        return min(told, key=self.bond)

    def forget(self, name: str) -> None:
        """Remember an agent no longer."""
        entry = self.entries.pop(name, None)
        if entry is not None:
            self._told[entry.teller] -= 1
            if not self._told[entry.teller]:
                del self._told[entry.teller]

    def draw(self, but: Collection[str] = ()) -> Contact | None:
        """Return a random contact; None if there is none."""
        told = self._of_some_teller(but)
        return self._contact(self.chance.choice(told)) if told else None

    def strongest(self, but: Collection[str] = ()) -> Contact | None:
        """Return the strongest bond among what some random teller told; None if there is none."""
        told = self._of_some_teller(but)
        return self._contact(max(told, key=self.bond)) if told else None

    def _of_some_teller(self, but: Collection[str]) -> list[str]:
        by_teller: dict[str, list[str]] = {}
        for name, entry in self.entries.items():
            if name not in but:
                by_teller.setdefault(entry.teller, []).append(name)
        return by_teller[self.chance.choice(list(by_teller))] if by_teller else []

    def _contact(self, name: str) -> Contact:
        return Contact(name, self.entries[name].address)

    def sample(self, number: int) -> list[Contact]:
        """Return some random contacts."""
        return list(map(self._contact, self.chance.sample(list(self.entries), number)))
