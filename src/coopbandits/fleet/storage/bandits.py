"""All bandits of one agent: a replica each, in one journal.

Events of all of them stand in one file, by the bandit's number, and snapshots are written together.
A journal says itself what its bandits are (`Declared`), so that those which are no longer declared
are kept, and go on where they were once they are declared again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from msgspec import structs

from coopbandits.core.errors import InputError
from coopbandits.fleet.storage.disk import DiskError
from coopbandits.fleet.storage.events import Declared, Event, Purged
from coopbandits.fleet.storage.journal import Chapter, Journal
from coopbandits.fleet.storage.replica import Replica

MakeReplica = Callable[[int, Declared, Chapter, int], Replica]
"""Makes the replica of a bandit from its number, a declaration, what was written of it, and a nonce
for its tickets."""


class Declaration(NamedTuple):
    """What is declared of one bandit: its number, what it is, and the ids of purged arms."""

    number: int
    declared: Declared
    purged: Collection[int] = ()


class Bandits:
    """The replicas of one agent, by number.

    Parameters
    ----------
    journal : Journal
        What happened so far.
    make : callable
        Makes a replica.
    words : callable
        Returns 64 random bits.

    Attributes
    ----------
    active : dict of int to set of int
        Ids of the arms that were declared last, by the number of the bandit: none where it is
        retired. Replicas know arms that were left out since, too.
    """

    def __init__(self, journal: Journal, make: MakeReplica, words: Callable[[], int]) -> None:
        self.journal, self._make, self._words = journal, make, words
        kept: dict[int, Any] = journal.snapshot.get("bandits", {})
        self.active: dict[int, set[int]] = {}
        self.replicas: dict[int, Replica] = {}
        for number in sorted(kept.keys() | journal.told.keys()):
            state, events = kept.get(number), journal.told.get(number, [])
            self.replicas[number] = self._open(number, state, events)
            self.active[number] = _active(state, events)
        self.incarnation = max((each.incarnation for each in self.replicas.values()), default=0)
        for replica in self.replicas.values():
            replica.incarnation = self.incarnation

    def _open(self, number: int, state: Any, events: list[Event]) -> Replica:
        if state is not None:
            declared = Declared(**state["declared"])
        elif isinstance(events[0], Declared):
            declared = events[0]
        else:
            raise InputError(
                f"the journal tells of bandit {number}, and not what that is; restore the folder "
                "from a backup, or move it away to start anew"
            )
        return self._made(number, declared, state or {}, events, self._words())

    def _made(
        self,
        number: int,
        declared: Declared,
        state: dict[str, Any],
        events: list[Event],
        nonce: int,
    ) -> Replica:
        return self._make(number, declared, Chapter(self.journal, number, state, events), nonce)

    @property
    def rounds(self) -> int:
        """Rounds that the busiest has ended."""
        return max((each.rounds for each in self.replicas.values()), default=0)

    @property
    def open_tickets(self) -> int:
        """How many rewards are waited for."""
        return sum(each.open_tickets for each in self.replicas.values())

    @property
    def rewards(self) -> int:
        """How many rewards were handed in here."""
        return sum(each.rewards for each in self.replicas.values())

    def declare(self, news: Iterable[Declaration], *, write: bool = True) -> None:
        """Take declarations of bandits; nothing is written where they say nothing new.

        Raises
        ------
        DiskError
            Nothing can be written, and so none of them was taken.
        """
        for one in map(self._with_nonce, news):
            if write:
                for event in self._events(one):
                    self.journal.append(event, one.number)
            self._take(one)

    def _with_nonce(self, one: Declaration) -> Declaration:
        """Name the tickets of a bandit that is new by what the journal says: a crash may follow."""
        if one.number in self.replicas:
            return one
        return one._replace(declared=structs.replace(one.declared, nonce=self._words() or 1))

    def _events(self, one: Declaration) -> Iterator[Event]:
        number, declared, purged = one
        replica = self.replicas.get(number)
        if replica is None or self._is_news(declared, number):
            yield declared
        fresh = set(purged) - (replica.purged if replica is not None else set())
        if fresh:
            yield Purged(sorted(fresh))

    def _is_news(self, declared: Declared, number: int) -> bool:
        is_more = _says_more(declared, self.replicas[number])
        return is_more or self.active[number] != declared.arms.keys()

    def _take(self, one: Declaration) -> None:
        number, declared, purged = one
        if number not in self.replicas:
            replica = self._made(number, declared, {}, [declared], declared.nonce)
            replica.incarnation = max(replica.incarnation, self.incarnation)
            self.replicas[number] = replica
        elif self._is_news(declared, number):
            self.replicas[number].declare(declared, write=False)
        self.active[number] = set(declared.arms)
        self.replicas[number].purge(purged, write=False)

    def begin(self) -> None:
        """Write the first snapshot, once all declarations were taken."""
        with suppress(DiskError):  # the journal says so, and takes nothing
            self.compact()

    def expire(self, now: float) -> int:
        """Close tickets past their lifetime; return how many."""
        return sum(replica.expire(now) for replica in self.replicas.values())

    def compact(self) -> None:
        """Replace all events by a snapshot, beside the event loop where there is one."""
        self.journal.renew(self.export)

    def export(self) -> dict[str, Any]:
        """Return all that is remembered, for a snapshot."""
        states = {
            number: each.export() | {"active": sorted(self.active[number])}
            for number, each in self.replicas.items()
        }
        return {"bandits": states}


def _active(state: dict[str, Any] | None, events: Iterable[Event]) -> set[int]:
    """Return the arms that were declared last; those that neighbours told of have no names."""
    declared = [each for each in events if isinstance(each, Declared) and all(each.arms.values())]
    if declared:
        return set(declared[-1].arms)
    return set() if state is None else set(state["active"])


def _says_more(declared: Declared, replica: Replica) -> bool:
    known = replica.declared
    return (
        (known.name, known.shared) != (declared.name, declared.shared)
        or any(replica.arms.get(arm) != name for arm, name in declared.arms.items() if name)
        or not declared.arms.keys() <= replica.arms.keys()
    )
