"""A neighbour with a valid certificate that says anything but the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from coopbandits.core.aggregate.entries import HEADER, entry_number
from coopbandits.core.aggregate.forgetting import HALF_LIFE, SKEW
from coopbandits.core.contract import Vector
from coopbandits.fleet.identity.notary import Notary, pack
from coopbandits.fleet.overlay.messages import WALK, Ask, Contact, ForwardJoin, Message
from coopbandits.fleet.protocol.entries import EntrySigner, signed_form
from coopbandits.fleet.protocol.frames import (
    ARM_BYTES,
    BASE,
    BanditFrame,
    DataFrame,
    Decoder,
    Fields,
    FrameError,
    Hello,
    HelloFrame,
    Stamp,
    encode_data,
    encode_greeting,
    encode_hello,
    encode_members,
)
from tests.torture.notary import VirtualNotary, certificate_of
from tests.torture.open_wiring import PORT, OpenWiring
from tests.torture.process import name, number
from tests.torture.schedule import (
    EPOCH,
    MAX_PULLS_PER_SECOND,
    ROUNDS_PER_SECOND,
    SECOND,
    START,
    Trouble,
)
from tests.torture.words import words_of

if TYPE_CHECKING:
    from tests.torture.actor import Actor
    from tests.torture.stage import Stage

EXTREMES = (
    1e300, -1e300, 1e-300, 0.0, -1.0, 1.0, 2.0**31, 1e6, 1e3, 64.0, float("inf"), float("nan"),
)  # fmt: skip
REMEMBERED = 50
FALSE_TICKS = (0, -HALF_LIFE, SKEW, 2 * SKEW, 2 * SKEW + 2, 10 * SKEW, 2**50)


class Heard(NamedTuple):
    """A message of a victim."""

    victim: str
    stamp: Stamp
    values: Vector
    fields: Fields


class Liar:
    """An agent that greets properly and then lies, in one of several ways at a time.

    It starts from what its victims say, so its messages have the right form whatever the policy:
    some values are replaced by extreme ones (counts, tree roots and beats, minima), or grow a bit,
    or messages of others are said again, late and in another order, or it sends random bytes, or
    it signs pulls of its own that nobody made, at any time where agents forget, or what makes no
    sense at all, and flips the signs of zeros that others have signed. Of several bandits
    it has those of its victims, and sometimes an arm more. Where agents find each other, it calls
    one after the other, and tells of agents where they are not.
    """

    def __init__(self, stage: Stage, index: int, key: int) -> None:
        self.stage, self.index, self._words = stage, index, words_of(key)
        self.present, self.visit = False, 0
        self.way = 0
        self.round = self.incarnation = 0
        self.decoders: dict[str, Decoder] = {}
        self.heard: list[Heard] = []
        self.frames: list[bytes] = []
        self.notary = VirtualNotary(name(index), (stage.bandit.cluster.name, EPOCH))

    def word(self) -> int:
        """Return its next word."""
        return next(self._words)

    def come(self, trouble: Trouble) -> None:
        """Appear, and lie for a while."""
        self.present, self.way = True, trouble.word
        self.incarnation = START + self.stage.time // SECOND
        self.visit += 1
        wiring = self.stage.wiring
        if isinstance(wiring, OpenWiring):
            self._call(wiring, self.visit)
        else:
            for link in wiring.of(self.index):
                self.stage.plan(link.dial_pause(), wiring.dial, link)
        self.stage.plan(0, self._tick, self.visit)
        if trouble.word >> 56 & 1:  # otherwise it stays until everything heals
            self.stage.plan(trouble.length, self._leave, self.visit)
        if trouble.word >> 57 & 1:
            self.stage.plan(trouble.length, self._found_out, trouble)

    def _call(self, wiring: OpenWiring, visit: int) -> None:
        """Call somebody twice a second."""
        if visit == self.visit and self.present:
            wiring.call_as_liar(self.word() % len(self.stage.actors))
            self.stage.plan(SECOND // 2, self._call, wiring, visit)

    def _leave(self, visit: int) -> None:
        if visit == self.visit:
            self.leave()

    def _found_out(self, trouble: Trouble) -> None:
        """Be revoked, by one operator after the other; its victims may be down meanwhile."""
        for actor in self.stage.actors:
            if actor.name in self.decoders and trouble.word >> 58 & 1:
                actor.down_for = trouble.length
                self.stage.lives.die(actor, power=False)
            self.stage.plan((trouble.word >> actor.index) % SECOND, self.revoke, actor)

    def revoke(self, actor: Actor) -> None:
        """Put its name on an agent's list."""
        actor.revoked = frozenset([name(self.index)])

    def leave(self) -> None:
        """Go; its links break."""
        self.present = False
        for link in self.stage.wiring.of(self.index):
            self.stage.wiring.close(link, "the liar has gone")

    # Events of the network

    def link_up(self, peer: str) -> None:
        """Greet as an honest agent would."""
        self.decoders[peer] = Decoder(1 << 24)
        cluster = self.stage.bandit.cluster
        hello = Hello(name(self.index), cluster.name, cluster.hash)
        if self.stage.schedule.auto:
            hello = msgspec.structs.replace(hello, ask=Ask.AGAIN.value, place=f":{PORT}")
        self._say(peer, encode_hello(self._stamp(), hello))

    def _say(self, peer: str, data: bytes) -> None:
        self.stage.wiring.post(self.index, number(peer), data)

    def link_down(self, peer: str, reason: str) -> None:
        """Forget the link."""
        del reason
        self.decoders.pop(peer, None)

    def received(self, peer: str, data: bytes) -> None:
        """Listen, to lie the better for it."""
        decoder = self.decoders.get(peer)
        if decoder is None:
            return
        self._remember(self.frames, data)
        try:
            frames = decoder.feed(data)
        except FrameError:
            self.decoders.pop(peer)
            return
        for frame in frames:
            if isinstance(frame, DataFrame) and frame.values is not None:
                self._remember(self.heard, Heard(peer, frame.stamp, frame.values, frame.fields))
            elif isinstance(frame, HelloFrame):
                self.round = max(self.round, frame.stamp.round)
            elif isinstance(frame, BanditFrame):
                self._greet_back(peer, frame)

    def _greet_back(self, peer: str, frame: BanditFrame) -> None:
        """Have the same bandit, or one with an arm that nobody has declared."""
        word, arms = self.word(), frame.greeting.arms
        if word % 8 == 0:
            arms += (1 + word % 3).to_bytes(ARM_BYTES, "big")
        told = msgspec.structs.replace(
            frame.greeting, arms=arms, memory=1, heard=(0, 0, 0), ask=False
        )
        stamp = self._stamp(len(arms) // ARM_BYTES, frame.stamp.bandit)
        self._say(peer, encode_greeting(stamp, told))

    @staticmethod
    def _remember(kept: list[Any], item: Any) -> None:
        kept.append(item)
        del kept[:-REMEMBERED]

    def _stamp(self, num_arms: int = 0, bandit: int = 0) -> Stamp:
        return Stamp(num_arms, EPOCH, self.round, self.incarnation, bandit)

    # Lies

    def _tick(self, visit: int) -> None:
        if visit != self.visit or not self.present:
            return
        self.round += 1
        for peer in sorted(self.decoders):
            for data in self._lies():
                self._say(peer, data)
        self.stage.plan(int(SECOND / ROUNDS_PER_SECOND), self._tick, visit)

    def _lies(self) -> list[bytes]:
        word = self.word()
        if self.stage.schedule.auto and word >> 59 == 0:
            return [encode_members(self._stamp(), self._rumour(word))]
        way = (self.way >> 8 if word % 16 else word >> 8) % 7
        if way == 0 and self.frames:
            return [self.frames[word % len(self.frames)]]
        if way == 1:
            return [b"".join(self.word().to_bytes(8, "little") for _ in range(word % 20))]
        if not self.heard:
            return []
        heard = self.heard[word % len(self.heard)]
        values, stamp = heard.values, self._stamp(heard.stamp.num_arms, heard.stamp.bandit)
        if way > 4 and self.stage.bandit.traits.grows and values.size > HEADER:
            return [self._boast(heard, word)]
        if way > 2:
            values = values.copy()
            self._bend(values, word, subtly=way == 3)
        return [encode_data(stamp, values, heard.fields)]

    def _rumour(self, word: int) -> Message:
        """Tell of an agent where it is, where another one is, or where nobody is."""
        who, where = (word >> 8) % (self.index + 1), (word >> 16) % (self.index + 2)
        return ForwardJoin(Contact(name(who), f"{name(where)}:{PORT}"), (word >> 24) % (WALK + 1))

    def _boast(self, heard: Heard, word: int) -> bytes:
        """Tell of own pulls that nobody made, as many as can be believed, and sign it."""
        forgets = self.stage.bandit.traits.forgets
        values, arms = heard.values.copy(), heard.stamp.num_arms
        width = HEADER + 2 * arms + forgets
        row = values[HEADER : HEADER + width]
        row[0] = entry_number(self.index, word >> 24)
        row[1] = self._false_tick(word) if forgets else self.round
        most = MAX_PULLS_PER_SECOND * (START + self.stage.time / SECOND - EPOCH)
        pulls = most // arms if word >> 16 & 1 else float((word >> 17) % 40)
        row[HEADER : HEADER + arms], row[HEADER + arms :] = 0.0, pulls
        if forgets:
            row[-1] = arms * pulls
        if word >> 61 == 0:  # what is signed need not make sense, its number first of all
            row[(word >> 60 & 1) * (word >> 32) % row.size] = EXTREMES[(word >> 4) % len(EXTREMES)]
        proof = self._notary(heard).sign(row.tobytes())
        fields = Fields(proof, pack([certificate_of(self.notary.node)]))
        stamp = self._stamp(arms, heard.stamp.bandit)
        return encode_data(stamp, np.concatenate([values[:HEADER], row]), fields)

    def _notary(self, heard: Heard) -> Notary | EntrySigner:
        """Return what signs as the victim expects it: arms by id."""
        bandit, process = heard.stamp.bandit, self.stage.actors[number(heard.victim)].process
        if process is None:
            return self.notary
        replica = process.replicas[bandit % BASE]  # its base has the same arms
        if len(replica.arms) != heard.stamp.num_arms:
            return self.notary  # it has more by now, and believes nothing of this
        return EntrySigner(self.notary, signed_form(replica, bandit))

    def _false_tick(self, word: int) -> float:
        """Return a time for pulls that nobody made: now, early, or late, believed or not."""
        now = (START + self.stage.time / SECOND - EPOCH) // self.stage.bandit.tick
        return max(0.0, now + FALSE_TICKS[(word >> 26) % len(FALSE_TICKS)])

    def _bend(self, values: Vector, word: int, *, subtly: bool) -> None:
        if not values.size:
            return
        if word >> 60 == 0:  # which no comparison of numbers tells apart
            values[values == 0.0] = -0.0
            return
        for _ in range(1 + (word >> 16) % 3):
            draw = self.word()
            # What comes last is about the network and not about pulls: roots, beats, minima.
            at = -1 - draw % min(values.size, 6) if draw >> 62 else draw % values.size
            if subtly:
                values[at] += (draw >> 32) % 50
            else:
                values[at] = EXTREMES[(draw >> 32) % len(EXTREMES)]
