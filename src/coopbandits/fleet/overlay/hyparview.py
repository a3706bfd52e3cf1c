"""HyParView: few neighbours, whose links both ends have, and more who could take their place.

After J. Leitão, J. Pereira, L. Rodrigues, *HyParView: a membership protocol for reliable
gossip-based broadcast*, DSN 2007. A state machine: events are method calls, and actions gather in a
list. Time is the number of calls to `tick`, about one a second.

*Differs from the paper:*

- A link is a connection, so both ends have it or neither has; the paper's views can disagree.
- Agents with fewer than `degree` neighbours look for more, not only after a failure, and take in
  one more than that; so there is room for agents that look.
- Where there is no room, chance does not decide who stays. Any two ids have a *bond*, a hash of
  both that nobody can choose, and the neighbour with the weakest gives way to a caller with a
  stronger one. Agents call those with whom their bond is strong, and pass such contacts on. So
  links settle, as in X-BOT (Leitão et al., SRDS 2009) with costs that are random, and contacts
  spread as in T-Man (Jelasity, Babaoglu, ESOA 2005). The network stays a random one, and a liar
  keeps no place by calling more often than others.
- An agent that needs a place (`JOIN`, `AGAIN`) gets the one for guests, and keeps it for `MERCY`
  ticks. In the paper it gets another's place.
- A refusal names others to try, and at the end of a newcomer's walk no neighbour is given up.
- The answer to a shuffle goes back the way that the shuffle came, not over a new connection.
- An agent that had proved its id and cannot be reached is remembered and called again, ever more
  rarely: the paper forgets them, and a network that was cut in two would stay so.
- Agents that walks name are called now and then only, and no other call waits for that one: any
  member may begin a walk, and name an address that does not answer.
- Contacts are drawn by their source (see `PassiveView`).

The *passive view* has agents that are no neighbours, of which some were heard and any may be gone.
An id has one place. The first address heard for it stays until it was tried, or the agent itself,
which has proved its name, names another; so no member can redirect others by naming a different
one. The source of an id is remembered: contacts are drawn by choosing first among the sources, then
among what each has named, and where there are too many, the source of most loses that with the
weakest bond. So no source counts for more by naming more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from hashlib import blake2b
from typing import NamedTuple, TypeVar

from coopbandits.fleet.overlay.messages import (
    MOST_CONTACTS,
    WALK,
    Ask,
    Contact,
    ForwardJoin,
    Goodbye,
    Message,
    Refused,
    Sample,
    Shuffle,
)

PASSIVE_WALK = 3
"""A newcomer is remembered by the agent at which its walk has this many steps left."""

PASSIVE_SIZE = 30
LOST_SIZE = 30

SHUFFLE_TICKS = 10
"""Ticks between two shuffles of an agent."""

LISTEN_TICKS = 20
"""Ticks between two shuffles of one neighbour whose contacts are kept; honest ones need 50."""

WELCOME_TICKS = 10
"""Ticks between two calls of agents that one neighbour's walks name."""

SAME_ADDRESS_TICKS = 60
"""Ticks between two calls of one address that walks name, whatever the ids are."""

DRAWS = 3
"""Contacts drawn at random, of which the one with the strongest bond is called."""

FROM_ACTIVE, FROM_PASSIVE = 3, 4
"""Neighbours and other contacts in a shuffle, besides the agent itself."""

MERCY = 5
"""Ticks for which a guest keeps its place."""

IMPROVE_TICKS = 10
"""Ticks between two calls of agents with a stronger bond than the weakest neighbour's."""

SEED_TURNS = 20
"""One in this many of these calls goes to a seed, so that an agent hears not only liars."""

DECLINED_TICKS = 300
"""Ticks for which an agent without room is not called for a stronger bond."""

MOST_HEARD = 8
"""Messages of one neighbour that are read per tick; an honest one sends less than one."""

MOST_ROUTES = 64
"""Shuffles that were passed on and may be answered."""

FIRST_RECALL, LAST_RECALL = 4, 128
"""Ticks until a lost agent is called again, at first and at last."""

LAST_PAUSE, LAST_PAUSE_IN_NEED = 12, 6
"""Ticks between two attempts to find a neighbour, at last; the smaller one with half or fewer."""


def bond(one: str, other: str) -> int:
    """Return how strong the bond between two ids is: 64 random bits, the same at both ends."""
    pair = f"{one}\n{other}" if one < other else f"{other}\n{one}"
    return int.from_bytes(blake2b(pair.encode(), digest_size=8).digest(), "big")


class HyParView:
    """The views of one agent.

    Parameters
    ----------
    name : str
        The agent's id.
    degree : int
        How many neighbours it wants; it has room for one more, and for a guest.
    chance : Chance
        Makes random choices.

    Attributes
    ----------
    active : dict of str to str
        The neighbours' addresses.
    guest : str
        The neighbour in the place for guests; "" for none.
    passive : PassiveView
        Others, of which some were heard.
    lost : dict of str to str
        Addresses of agents that had proved their ids and cannot be reached; oldest first.
    calling : dict of str to Call
        Calls whose outcome is not known yet.
    seeds : list of str
        Addresses at which there may be members; they are never forgotten.
    actions : list of Action
        What is to be done; the caller empties the list.
    """

    def __init__(self, name: str, degree: int, chance: Chance) -> None:
        self.name, self.degree, self.chance = name, degree, chance
        self.active: dict[str, str] = {}
        self.guest = ""
        self.passive = PassiveView(PASSIVE_SIZE, self._bond, self._is_known, chance)
        self.lost: dict[str, str] = {}
        self.calling: dict[str, Call] = {}
        self.seeds: list[str] = []
        self.actions: list[Action] = []
        self.time = 0
        self._own_addresses: set[str] = set()
        self._shuffles: dict[int, str] = {}
        self._routes: dict[int, str] = {}
        self._heard: Counter[str] = Counter()
        self._listens_from: dict[str, int] = {}
        self._welcomes_from: dict[str, int] = {}  # by the neighbour that passes walks on
        self._welcomes_at: dict[str, int] = {}  # by address
        self._pause = 1
        self._recall_pause = FIRST_RECALL
        self._declined: dict[str, int] = {}
        self._next_look = self._next_recall = self._guest_until = 0
        self._next_shuffle = 1 + chance.below(SHUFFLE_TICKS)
        self._next_improvement = 1 + chance.below(IMPROVE_TICKS)

    # The clock

    def tick(self) -> None:
        """Do what is due; call it about once a second."""
        self.time += 1
        self._heard.clear()
        if self.time >= self._next_look:
            self._look_for_neighbors()
        if self.lost and self.time >= self._next_recall:
            self._call_lost()
        if self.time >= self._next_improvement:
            self._improve()
        if self.active and self.time >= self._next_shuffle:
            self._shuffle()

    def _look_for_neighbors(self) -> None:
        for _ in range(self.degree - self._settled - self._sought):
            contact = self._candidate()
            if contact is None:
                return
            self._call(*contact, Ask.MORE if self.active else Ask.JOIN)
            if not self.active:
                return  # the first one will know others

    @property
    def _settled(self) -> int:
        """How many neighbours there are besides the guest."""
        return len(self.active) - bool(self.guest)

    @property
    def _sought(self) -> int:
        """How many calls are under way that no other agent has caused."""
        return sum(not call.welcome for call in self.calling.values())

    def _candidate(self) -> tuple[str, str] | None:
        """Return a name and an address to call; now and then, or if there is none, a seed's."""
        if self.chance.below(self.degree + 1) and (drawn := self._draw()):
            return drawn.name, drawn.address
        if seeds := self._distant_seeds():
            return "", self.chance.choice(seeds)
        drawn = self._draw()
        return None if drawn is None else (drawn.name, drawn.address)

    def _distant_seeds(self) -> list[str]:
        near = {*self.active.values(), *self._own_addresses, *self.calling}
        return [each for each in self.seeds if each not in near]

    def _draw(self) -> Contact | None:
        """Return the strongest bond among a few random contacts."""
        drawn = [each for _ in range(DRAWS) if (each := self.passive.draw(self.calling))]
        return max(drawn, key=lambda each: self._bond(each.name), default=None)

    def _improve(self) -> None:
        self._next_improvement = self.time + IMPROVE_TICKS
        until = self.time - DECLINED_TICKS
        self._declined = {name: at for name, at in self._declined.items() if at > until}
        for waits in (self._listens_from, self._welcomes_from, self._welcomes_at):
            for name in [name for name, at in waits.items() if at <= self.time]:
                del waits[name]
        if self._settled < self.degree:
            return
        found = self.passive.strongest(but={*self._declined, *self.calling})
        if not self.chance.below(SEED_TURNS) and (seeds := self._distant_seeds()):
            self._call("", self.chance.choice(seeds), Ask.MORE)  # whatever else is under way
        elif found is not None and self._is_stronger(found.name) and not self._sought:
            self._call(found.name, found.address, Ask.MORE)

    def _weakest(self, but: str = "") -> str:
        settled = [name for name in self.active if name not in (self.guest, but)]
        return min(settled, key=self._bond, default="")

    def _is_stronger(self, name: str) -> bool:
        weakest = self._weakest()
        return bool(weakest) and self._bond(name) > self._bond(weakest)

    def _bond(self, name: str) -> int:
        return bond(self.name, name)

    def _call(self, name: str, address: str, ask: Ask, *, welcome: bool = False) -> None:
        call = Call(name, address, ask, welcome)
        self.calling[call.key] = call
        self.actions.append(call)

    def _call_lost(self) -> None:
        names = [name for name in self.lost if name not in self.calling]
        if names:
            name = self.chance.choice(names)
            self._call(name, self.lost[name], Ask.AGAIN)
        self._recall_pause = min(2 * self._recall_pause, LAST_RECALL)
        self._next_recall = self.time + self._jittered(self._recall_pause)

    def _shuffle(self) -> None:
        self._next_shuffle = self.time + SHUFFLE_TICKS
        peer = self.chance.choice(list(self.active))
        contacts = self._contacts(but=(peer,))
        nonce = self.chance.words() >> 2
        while len(self._shuffles) >= MOST_ROUTES:
            del self._shuffles[next(iter(self._shuffles))]
        self._shuffles[nonce] = peer
        self.actions.append(Send(peer, Shuffle(nonce, WALK, contacts)))

    def _contacts(self, but: Sequence[str]) -> list[Contact]:
        near = [name for name in self.active if name not in but]
        near = self.chance.sample(near, FROM_ACTIVE)
        chosen = [Contact(name, self.active[name]) for name in near]
        others = [each for each in self.passive.sample(FROM_PASSIVE + 1) if each.name not in but]
        return chosen + others[:FROM_PASSIVE]

    def _jittered(self, ticks: int) -> int:
        return ticks - self.chance.below((ticks + 1) // 2)

    # Calls

    def asked(self, contact: Contact, ask: Ask) -> Refused | None:
        """Make a caller, whose name is proved, a neighbour, or return a refusal."""
        self.lost.pop(contact.name, None)
        if self._settled + self._sought <= self.degree or self._is_stronger(contact.name):
            self._link(contact)
        elif ask is not Ask.MORE and (not self.guest or self.time >= self._guest_until):
            self._receive_guest(contact)
        else:
            known = self._contacts(but=(contact.name,))
            self.passive.add([contact], contact.name)
            return Refused(known)
        if ask is Ask.JOIN:
            self._announce(contact)
        return None

    def _receive_guest(self, contact: Contact) -> None:
        if self.guest:
            self._dismiss(self.guest)
        self._link(contact, guest=True)
        self.guest, self._guest_until = contact.name, self.time + MERCY

    def _dismiss(self, name: str) -> None:
        self.actions += [Send(name, Goodbye(leaving=False)), Close(name)]
        self._unlink(name)

    def _announce(self, contact: Contact) -> None:
        for name in self.active:
            if name != contact.name:
                self.actions.append(Send(name, ForwardJoin(contact, WALK)))

    def accepted(self, call: Call, name: str) -> None:
        """Note that the agent called is a neighbour now."""
        self.calling.pop(call.key, None)
        self._link(Contact(name, call.address))
        self._pause = 1

    def refused(self, call: Call, name: str, contacts: Iterable[Contact]) -> None:
        """Note that the agent called has no room, and named others."""
        self.calling.pop(call.key, None)
        self.lost.pop(name, None)
        self._declined[name] = self.time
        self.passive.add([Contact(name, call.address)], name)
        self.passive.add(contacts, name)
        self._wait(call)

    def failed(self, call: Call) -> None:
        """Note that a call was not answered, or by another agent."""
        self.calling.pop(call.key, None)
        if self.passive.address_of(call.name) == call.address:  # unless it has called meanwhile
            if self.passive.is_proved(call.name):
                self._lose(call.name, call.address)
            self.passive.forget(call.name)
        self._wait(call)

    def reached_itself(self, call: Call) -> None:
        """Note that the agent has called itself: one of the seeds is its own address."""
        self.calling.pop(call.key, None)
        self._own_addresses.add(call.address)

    def _wait(self, call: Call) -> None:
        """Look for neighbours again after a pause that grows, unless others caused the call."""
        if call.welcome:
            return
        few = 2 * len(self.active) <= self.degree
        if not few or not len(self.passive):
            self._pause = min(2 * self._pause, LAST_PAUSE_IN_NEED if few else LAST_PAUSE)
            self._next_look = self.time + self._jittered(self._pause)

    # Links

    def _is_known(self, name: str) -> bool:
        return name == self.name or name in self.active

    def _link(self, contact: Contact, *, guest: bool = False) -> None:
        self.passive.forget(contact.name)
        self.lost.pop(contact.name, None)
        self.active[contact.name] = contact.address
        while not guest and self._settled > self.degree + 1:
            self._dismiss(self._weakest(but=contact.name))

    def _unlink(self, name: str, *, remember: bool = True) -> None:
        address = self.active.pop(name)
        if self.guest and (name == self.guest or len(self.active) <= self.degree + 1):
            self.guest = ""  # it is gone, or there is room for it now
        if remember:
            self.passive.add([Contact(name, address)], name)

    def _lose(self, name: str, address: str) -> None:
        self.lost.pop(name, None)
        while len(self.lost) >= LOST_SIZE:
            del self.lost[next(iter(self.lost))]
        self.lost[name] = address

    def broken(self, name: str) -> None:
        """Note that a link broke, and look for another neighbour at once."""
        if name in self.active:
            self._lose(name, self.active[name])
            self._unlink(name, remember=False)
            self._pause, self._next_look = 1, self.time
            self._recall_pause = FIRST_RECALL
            self._next_recall = self.time + self._jittered(FIRST_RECALL)

    def leave(self) -> None:
        """Say goodbye to all neighbours."""
        for name in self.active:
            self.actions += [Send(name, Goodbye(leaving=True)), Close(name)]
        self.active.clear()
        self.guest = ""

    # Messages

    def heard(self, peer: str, message: Message) -> None:
        """Handle a neighbour's message, unless it sends too many in one tick."""
        if peer not in self.active:
            return
        if isinstance(message, Goodbye):
            self._on_goodbye(peer, message.leaving)
            return
        self._heard[peer] += 1
        if self._heard[peer] > MOST_HEARD:
            return
        match message:
            case Shuffle():
                self._on_shuffle(peer, message)
            case Sample():
                self._on_sample(peer, message)
            case ForwardJoin():
                self._on_forward_join(peer, message)
            case _:  # a refusal answers calls alone
                return

    def _on_forward_join(self, peer: str, message: ForwardJoin) -> None:
        contact, steps = message.contact, message.steps
        if self._is_known(contact.name) or contact.name in self.calling:
            return
        onward = self._other_than(peer, contact.name)
        if steps == 0 or onward is None:
            if self._may_welcome(peer, contact.address):
                self._welcomes_from[peer] = self.time + WELCOME_TICKS
                self._welcomes_at[contact.address] = self.time + SAME_ADDRESS_TICKS
                self._call(contact.name, contact.address, Ask.MORE, welcome=True)
            else:
                self.passive.add([contact], peer)
            return
        if steps == PASSIVE_WALK:
            self.passive.add([contact], peer)
        self.actions.append(Send(onward, ForwardJoin(contact, steps - 1)))

    def _may_welcome(self, peer: str, address: str) -> bool:
        """Return whether there is room for a newcomer, and no other is being welcomed."""
        return (
            self._settled + len(self.calling) <= self.degree
            and self._sought == len(self.calling)
            and self.time >= self._welcomes_from.get(peer, 0)
            and self.time >= self._welcomes_at.get(address, 0)
        )

    def _other_than(self, *names: str) -> str | None:
        others = [name for name in self.active if name not in names]
        return self.chance.choice(others) if others else None

    def _on_shuffle(self, peer: str, message: Shuffle) -> None:
        nonce, steps, contacts = message.nonce, message.steps, message.contacts
        if steps == WALK:  # its author need not know its own address: its neighbours do
            contacts = [Contact(peer, self.active[peer]), *contacts][:MOST_CONTACTS]
        onward = self._other_than(peer)
        if steps <= 1 or onward is None:
            self.actions.append(
                Send(peer, Sample(nonce, self._fitting(contacts[0].name if contacts else peer)))
            )
            if self.time >= self._listens_from.get(peer, 0):
                self._listens_from[peer] = self.time + LISTEN_TICKS
                self.passive.add(contacts, peer)
            return
        if nonce not in self._routes:
            while len(self._routes) >= MOST_ROUTES:
                del self._routes[next(iter(self._routes))]
            self._routes[nonce] = peer
        self.actions.append(Send(onward, Shuffle(nonce, steps - 1, contacts)))

    def _fitting(self, name: str) -> list[Contact]:
        """Return contacts for an agent: half of them by the strength of their bonds with it."""
        known = {each.name: each for each in self.passive.sample(PASSIVE_SIZE)}
        known |= {each: Contact(each, self.active[each]) for each in self.active}
        known.pop(name, None)
        first = sorted(known, key=lambda each: bond(name, each), reverse=True)[: MOST_CONTACTS // 2]
        rest = [known[each] for each in known if each not in first]
        return [known[each] for each in first] + rest[: MOST_CONTACTS // 2]

    def _on_sample(self, peer: str, message: Sample) -> None:
        via = self._shuffles.get(message.nonce)
        if via is not None:
            if via == peer:
                del self._shuffles[message.nonce]
                self.passive.add(message.contacts, peer)
            return
        back = self._routes.pop(message.nonce, None)
        if back is not None and back in self.active:
            self.actions.append(Send(back, message))

    def _on_goodbye(self, peer: str, leaving: bool) -> None:
        self.actions.append(Close(peer))
        self._unlink(peer, remember=not leaving)
        self._pause, self._next_look = 1, self.time


T = TypeVar("T")


class Chance:
    """Random choices.

    Parameters
    ----------
    words : callable
        Returns 64 random bits.
    """

    def __init__(self, words: Callable[[], int]) -> None:
        self.words = words

    def below(self, limit: int) -> int:
        """Return a whole number from 0 up to, and without, a limit far below 2^64."""
        return self.words() * limit >> 64

    def choice(self, items: Sequence[T]) -> T:
        """Return one of some items."""
        return items[self.below(len(items))]

    def sample(self, items: Sequence[T], number: int) -> list[T]:
        """Return several of them in random order, at most all."""
        left = list(items)
        for at in range(min(number, len(left))):
            other = at + self.below(len(left) - at)
            left[at], left[other] = left[other], left[at]
        return left[:number]


class Call(NamedTuple):
    """Call an agent: by name, or whichever answers at an address.

    Others can bring about a `welcome`, the call at the end of a newcomer's walk.
    """

    name: str
    address: str
    ask: Ask
    welcome: bool = False

    @property
    def key(self) -> str:
        """What tells calls apart; an address is no name, since it has a colon."""
        return self.name or self.address


class Send(NamedTuple):
    """Send a neighbour a message."""

    peer: str
    message: Message


class Close(NamedTuple):
    """Close a link, after what was sent over it."""

    peer: str


Action = Call | Send | Close


class Hearsay(NamedTuple):
    """Where an agent may be, and the agent that said so."""

    address: str
    source: str


class PassiveView:
    """Agents that are not neighbours, by source: see the top of this file.

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
        self._by_source: dict[str, dict[str, int]] = {}  # bonds with contacts

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, name: str) -> bool:
        return name in self.entries

    def add(self, contacts: Iterable[Contact], source: str) -> None:
        """Remember contacts, and forget others where there is no room."""
        for name, address in ((each.name, each.address) for each in contacts):
            if name == source:
                self.forget(name)  # it knows better than others
            if name not in self.entries and not self.is_known(name):
                self.entries[name] = Hearsay(address, source)
                self._by_source.setdefault(source, {})[name] = self.bond(name)
                if len(self.entries) > self.size:
                    self.forget(self._dispensable())

    def _dispensable(self) -> str:
        most = max(map(len, self._by_source.values()))
        largest = [each for each in self._by_source.values() if len(each) == most]
        contacts = self.chance.choice(largest)
        return min(contacts, key=contacts.__getitem__)

    def forget(self, name: str) -> None:
        entry = self.entries.pop(name, None)
        if entry is not None:
            contacts = self._by_source[entry.source]
            del contacts[name]
            if not contacts:
                del self._by_source[entry.source]

    def address_of(self, name: str) -> str | None:
        """Return where an agent may be; None if it is not remembered."""
        entry = self.entries.get(name)
        return None if entry is None else entry.address

    def is_proved(self, name: str) -> bool:
        """Return whether a remembered agent has itself shown that it exists."""
        return self.entries[name].source == name

    def draw(self, but: Collection[str] = ()) -> Contact | None:
        """Return a random contact; None if there is none."""
        contacts = self._of_some_source(but)
        return self._contact(self.chance.choice(list(contacts))) if contacts else None

    def strongest(self, but: Collection[str] = ()) -> Contact | None:
        """Return the strongest bond among the contacts of a random source, or None."""
        contacts = self._of_some_source(but)
        return self._contact(max(contacts, key=contacts.__getitem__)) if contacts else None

    def _of_some_source(self, but: Collection[str]) -> dict[str, int]:
        found = list(self._by_source.values())
        if but:
            left = ({name: each[name] for name in each if name not in but} for each in found)
            found = [each for each in left if each]
        return self.chance.choice(found) if found else {}

    def _contact(self, name: str) -> Contact:
        return Contact(name, self.entries[name].address)

    def sample(self, number: int) -> list[Contact]:
        """Return some random contacts."""
        return list(map(self._contact, self.chance.sample(list(self.entries), number)))
