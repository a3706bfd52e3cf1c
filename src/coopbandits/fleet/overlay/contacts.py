"""The passive view: agents that are no neighbours, of which some were heard and any may be gone.

An id has one place. The first address told for it stays until it was tried, or the agent itself,
which has proved its name, tells another; so nobody can redirect others by telling a different one.
Who told of an id is remembered: contacts are drawn by choosing first among those who told, then
among what they told, and where there are too many, the one who told most loses that with the
weakest bond. So nobody counts for more by telling more.
"""

from __future__ import annotations

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
        self._told: dict[str, dict[str, int]] = {}  # bonds with those told of, by who told

    def __len__(self) -> int:
        """Return how many are remembered."""
        return len(self.entries)

    def __contains__(self, name: str) -> bool:
        """Return whether an agent is remembered."""
        return name in self.entries

    def add(self, contacts: Iterable[Contact], teller: str) -> None:
        """Remember contacts, and forget others where there is no room."""
        for name, address in ((each.name, each.address) for each in contacts):
            if name == teller:
                self.forget(name)  # it knows better than whoever told of it
            if name not in self.entries and not self.is_known(name):
                self.entries[name] = Hearsay(address, teller)
                self._told.setdefault(teller, {})[name] = self.bond(name)
                if len(self.entries) > self.size:
                    self.forget(self._dispensable())

    def _dispensable(self) -> str:
        most = max(map(len, self._told.values()))
        told = self.chance.choice([each for each in self._told.values() if len(each) == most])
        return min(told, key=told.__getitem__)

    def forget(self, name: str) -> None:
        """Remember an agent no longer."""
        entry = self.entries.pop(name, None)
        if entry is not None:
            told = self._told[entry.teller]
            del told[name]
            if not told:
                del self._told[entry.teller]

    def address_of(self, name: str) -> str | None:
        """Return where an agent may be; None for whoever is not remembered."""
        entry = self.entries.get(name)
        return None if entry is None else entry.address

    def is_proved(self, name: str) -> bool:
        """Return whether an agent that is remembered has itself shown that it exists."""
        return self.entries[name].teller == name

    def draw(self, but: Collection[str] = ()) -> Contact | None:
        """Return a random contact; None if there is none."""
        told = self._of_some_teller(but)
        return self._contact(self.chance.choice(list(told))) if told else None

    def strongest(self, but: Collection[str] = ()) -> Contact | None:
        """Return the strongest bond among what some random teller told; None if there is none."""
        told = self._of_some_teller(but)
        return self._contact(max(told, key=told.__getitem__)) if told else None

    def _of_some_teller(self, but: Collection[str]) -> dict[str, int]:
        by_teller = list(self._told.values())
        if but:
            left = ({name: told[name] for name in told if name not in but} for told in by_teller)
            by_teller = [told for told in left if told]
        return self.chance.choice(by_teller) if by_teller else {}

    def _contact(self, name: str) -> Contact:
        return Contact(name, self.entries[name].address)

    def sample(self, number: int) -> list[Contact]:
        """Return some random contacts."""
        return list(map(self._contact, self.chance.sample(list(self.entries), number)))
