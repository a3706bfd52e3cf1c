"""All bandits of one agent: a replica each, in one journal.

Events of all of them stand in one file, by the bandit's number, and snapshots are written together.
A journal says itself what its bandits are (`Declared`), so that those which are no longer declared
are kept, and go on where they were once they are declared again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple, cast

from msgspec import structs

from coopbandits.core.errors import InputError
from coopbandits.fleet.storage.disk import Disk, DiskError
from coopbandits.fleet.storage.events import Declared, Event, Purged, Replaced
from coopbandits.fleet.storage.journal import Journal
from coopbandits.fleet.storage.replica import Replica


class BanditReplica(Replica):
    """The replica of one bandit of several, whose arms come and go."""

    def replace(self, arms: Mapping[int, int]) -> None:
        """Give places of arms that have neither name nor pulls to others; new ids by old ones."""
        self._log(Replaced(dict(arms)))

    def _apply(self, event: Event, *, replaying: bool = False) -> None:
        if isinstance(event, Replaced):
            self.arms = {event.arms.get(arm, arm): name for arm, name in self.arms.items()}
        else:
            super()._apply(event, replaying=replaying)


class Chapter:
    """As much of a journal as the replica of one bandit asks for."""

    def __init__(
        self, journal: Journal, number: int, snapshot: dict[str, Any], events: list[Event]
    ) -> None:
        self.journal, self.number, self.snapshot, self.events = journal, number, snapshot, events

    @property
    def origin(self) -> dict[str, Any]:
        """What the journal was created with."""
        return self.journal.origin

    @property
    def trouble(self) -> str:
        """Why nothing can be written."""
        return self.journal.trouble

    @property
    def read_only(self) -> bool:
        """Whether nothing was written since the journal was opened."""
        return self.journal.read_only

    @property
    def size(self) -> int:
        """How many bytes the whole journal has."""
        return self.journal.size

    @property
    def disk(self) -> Disk:
        """Where it is stored."""
        return self.journal.disk

    def append(self, event: Event) -> None:
        """Write one event."""
        self.journal.append(event, self.number)

    def hold(self, event: Event) -> None:
        """Write one event: who has several bandits has rounds by the clock, which are written."""
        self.append(event)

    def renew(self, export: Callable[[], dict[str, Any]]) -> None:
        """Leave snapshots to `Bandits`, which has all replicas; so do the next two."""

    mend = shorten = renew


MakeReplica = Callable[[int, Declared, Journal, int], BanditReplica]
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
        self.replicas: dict[int, BanditReplica] = {}
        for number in sorted(kept.keys() | journal.told.keys()):
            state, events = kept.get(number), journal.told.get(number, [])
            self.replicas[number] = self._open(number, state, events)
            self.active[number] = _active(state, events)
        self.incarnation = max((each.incarnation for each in self.replicas.values()), default=0)
        for replica in self.replicas.values():
            replica.incarnation = self.incarnation

    def _open(self, number: int, state: Any, events: list[Event]) -> BanditReplica:
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
    ) -> BanditReplica:
        chapter = Chapter(self.journal, number, state, events)
        return self._make(number, declared, cast("Journal", chapter), nonce)

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

    @property
    def arms(self) -> dict[int, str]:
        """No arms in common."""
        return {}

    def declare(self, news: Iterable[Declaration], *, write: bool = True) -> None:
        """Take declarations of bandits; nothing is written where they say nothing new.

        Raises
        ------
        DiskError
            They could not be written, and so none of them was taken.
        """
        news = [self._with_nonce(one) for one in news]
        if write:
            with self.journal.together():  # before any takes effect: a purge cannot be taken back
                for one in news:
                    for event in self._events(one):
                        self.journal.append(event, one.number)
        for one in news:
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

    def maintain(self, now: float) -> None:
        """Close tickets, keep the journal short, and write it anew after trouble."""
        self.journal.mend(self._export)
        self.expire(now)
        self.journal.shorten(self._export)

    def expire(self, now: float) -> int:
        """Close tickets past their lifetime; return how many."""
        return sum(replica.expire(now) for replica in self.replicas.values())

    def compact(self) -> None:
        """Replace all events by a snapshot, beside the event loop where there is one."""
        self.journal.renew(self._export)

    def _export(self) -> dict[str, Any]:
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
        known is None
        or (known.name, known.shared) != (declared.name, declared.shared)
        or any(replica.arms.get(arm) != name for arm, name in declared.arms.items() if name)
        or not declared.arms.keys() <= replica.arms.keys()
    )
