"""A neighbour with a valid certificate that says anything but the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from coopbandits.core.aggregate.entries import HEADER, entry_number
from coopbandits.core.aggregate.ticks import HALF_LIFE, SKEW
from coopbandits.core.contract import Vector
from coopbandits.fleet.identity.notary import pack
from coopbandits.fleet.protocol.decoder import Decoder
from coopbandits.fleet.protocol.frames import (
    DataFrame,
    Fields,
    FrameError,
    Hello,
    HelloFrame,
    Stamp,
    encode_data,
    encode_hello,
)
from coopbandits.fleet.protocol.settings import BANDIT
from coopbandits.testing.torture.notary import VirtualNotary, certificate_of
from coopbandits.testing.torture.process import name, number
from coopbandits.testing.torture.schedule import (
    ARMS,
    EPOCH,
    MAX_PULLS_PER_SECOND,
    ROUNDS_PER_SECOND,
    SECOND,
    START,
    Trouble,
)
from coopbandits.testing.torture.words import words_of

if TYPE_CHECKING:
    from coopbandits.testing.torture.actor import Actor
    from coopbandits.testing.torture.stage import Stage

EXTREMES = (
    1e300, -1e300, 1e-300, 0.0, -1.0, 1.0, 2.0**31, 1e6, 1e3, 64.0, float("inf"), float("nan"),
)  # fmt: skip
REMEMBERED = 50
FALSE_TICKS = (0, -HALF_LIFE, SKEW, 2 * SKEW, 2 * SKEW + 2, 10 * SKEW, 2**50)


class Liar:
    """An agent that greets properly and then lies, in one of several ways at a time.

    It starts from what its victims say, so its messages have the right form whatever the policy:
    some values are replaced by extreme ones (counts, tree roots and beats, minima), or grow a bit,
    or messages of others are said again, late and in another order, or it sends random bytes, or
    it signs pulls of its own that nobody made, at any time where agents forget.
    """

    def __init__(self, stage: Stage, index: int, key: int) -> None:
        self.stage, self.index, self._words = stage, index, words_of(key)
        self.present, self.visit = False, 0
        self.way = 0
        self.round = self.incarnation = 0
        self.decoders: dict[str, Decoder] = {}
        self.heard: list[tuple[Vector, Fields]] = []
        self.frames: list[bytes] = []
        self.number = entry_number(index, 1)
        self.notary = VirtualNotary(name(index), (stage.cluster.name, EPOCH, BANDIT))

    def word(self) -> int:
        """Return its next word."""
        return next(self._words)

    def come(self, trouble: Trouble) -> None:
        """Appear, and lie for a while."""
        self.present, self.way = True, trouble.word
        self.incarnation = START + self.stage.time // SECOND
        self.visit += 1
        wiring = self.stage.wiring
        for link in wiring.of(self.index):
            self.stage.plan(link.dial_pause(), wiring.dial, link)
        self.stage.plan(0, self._tick, self.visit)
        if trouble.word >> 56 & 1:  # otherwise it stays until everything heals
            self.stage.plan(trouble.length, self._leave, self.visit)
        if trouble.word >> 57 & 1:
            self.stage.plan(trouble.length, self._found_out, trouble)

    def _leave(self, visit: int) -> None:
        if visit == self.visit:
            self.leave()

    def _found_out(self, trouble: Trouble) -> None:
        """Be revoked, by one operator after the other; its victims may be down meanwhile."""
        for actor in self.stage.actors:
            if self.index in actor.neighbors and trouble.word >> 58 & 1:
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
        cluster = self.stage.cluster
        degree = len(list(self.stage.wiring.of(self.index)))
        hello = Hello(
            name(self.index), cluster.name, cluster.hash, degree, memory=1, entry=self.number
        )
        self.stage.wiring.post(self.index, number(peer), encode_hello(self._stamp(), hello))

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
                self._remember(self.heard, (frame.values, frame.fields))
            elif isinstance(frame, HelloFrame):
                self.round = max(self.round, frame.stamp.round)

    @staticmethod
    def _remember(kept: list[Any], item: Any) -> None:
        kept.append(item)
        del kept[:-REMEMBERED]

    def _stamp(self) -> Stamp:
        return Stamp(len(ARMS), EPOCH, self.round, self.incarnation)

    # Lies

    def _tick(self, visit: int) -> None:
        if visit != self.visit or not self.present:
            return
        self.round += 1
        for peer in sorted(self.decoders):
            for data in self._lies():
                self.stage.wiring.post(self.index, number(peer), data)
        self.stage.plan(int(SECOND / ROUNDS_PER_SECOND), self._tick, visit)

    def _lies(self) -> list[bytes]:
        word = self.word()
        way = (self.way >> 8 if word % 16 else word >> 8) % 7
        if way == 0 and self.frames:
            return [self.frames[word % len(self.frames)]]
        if way == 1:
            return [b"".join(self.word().to_bytes(8, "little") for _ in range(word % 20))]
        if not self.heard:
            return []
        values, fields = self.heard[word % len(self.heard)]
        if way > 4 and self.stage.cluster.traits.grows and values.size > HEADER:
            return [self._boast(values.copy(), word)]
        if way > 2:
            values = values.copy()
            self._bend(values, word, subtly=way == 3)
        return [encode_data(self._stamp(), values, fields)]

    def _boast(self, values: Vector, word: int) -> bytes:
        """Tell of own pulls that nobody made, as many as can be believed, and sign it."""
        forgets = self.stage.cluster.traits.forgets
        width = HEADER + 2 * len(ARMS) + forgets
        row = values[HEADER : HEADER + width]
        # A number of version 0.1 has no author: it is that of whoever signs it first.
        old = word >> 22 & 3 == 0
        row[0], row[1] = (
            word >> 24 if old else entry_number(self.index, word >> 24),
            self._false_tick(word) if forgets else self.round,
        )
        most = MAX_PULLS_PER_SECOND * (START + self.stage.time / SECOND - EPOCH)
        pulls = most // len(ARMS) if word >> 16 & 1 else float((word >> 17) % 40)
        row[HEADER : HEADER + len(ARMS)], row[HEADER + len(ARMS) :] = 0.0, pulls
        if forgets:
            row[-1] = len(ARMS) * pulls
        fields = Fields(self.notary.sign(row.tobytes()), pack([certificate_of(self.notary.node)]))
        return encode_data(self._stamp(), np.concatenate([values[:HEADER], row]), fields)

    def _false_tick(self, word: int) -> float:
        """Return a time for pulls that nobody made: now, early, or late, believed or not."""
        now = (START + self.stage.time / SECOND - EPOCH) // self.stage.cluster.tick
        return max(0.0, now + FALSE_TICKS[(word >> 26) % len(FALSE_TICKS)])

    def _bend(self, values: Vector, word: int, *, subtly: bool) -> None:
        if not values.size:
            return
        for _ in range(1 + (word >> 16) % 3):
            draw = self.word()
            # What comes last is about the network and not about pulls: roots, beats, minima.
            at = -1 - draw % min(values.size, 6) if draw >> 62 else draw % values.size
            if subtly:
                values[at] += (draw >> 32) % 50
            else:
                values[at] = EXTREMES[(draw >> 32) % len(EXTREMES)]
