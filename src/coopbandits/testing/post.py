"""Bad post: messages of a small world that are lost, late, or delivered again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from coopbandits.core.draws import words

if TYPE_CHECKING:
    from coopbandits.core import Vector
    from coopbandits.testing.world import Messages

POST = 0x5EED
"""Added to the seed, so that fates are not the words that agents are given."""

KEPT = 3
"""How many messages over a link may come again."""


class Sent(NamedTuple):
    """A message and the round it was sent in."""

    round: int
    values: Vector


class BadPost:
    """Decides what arrives, as a function of the seed alone.

    Of five messages over a link one is lost, one comes a round later and one two rounds later. At
    most one arrives over a link in a round, the newest. Where drivers drop what was overtaken
    (`AnyAggregation.overtakes`), so does this.

    Parameters
    ----------
    links : list of (int, int)
        Every (sender, receiver).
    seed : int
        Seed of all fates.
    repeats : bool
        Whether to deliver an earlier message again where nothing else arrives.
    overtakes : bool
        Whether a message makes all earlier ones over its link worthless.
    """

    def __init__(
        self, links: list[tuple[int, int]], seed: int, *, repeats: bool, overtakes: bool
    ) -> None:
        self.links, self.seed = links, seed
        self.repeats, self.overtakes = repeats, overtakes
        self.rounds = 0
        self.waiting: dict[tuple[int, int], dict[int, Sent]] = {link: {} for link in links}
        self.delivered: dict[tuple[int, int], list[Sent]] = {link: [] for link in links}

    def carry(self, messages: Messages) -> Messages:
        """Take this round's messages; return what arrives now."""
        count = len(self.links)
        counters = np.arange(count, dtype=np.uint64) + np.uint64(count * self.rounds)
        drawn = words(self.seed ^ POST, counters).tolist()
        arriving = {}
        for link, word in zip(self.links, drawn, strict=True):
            if link in messages:
                self._post(link, messages[link], word % 5)
            if (found := self._arrival(link, word // 5)) is not None:
                arriving[link] = found.values.copy()
        self.rounds += 1
        return arriving

    def _post(self, link: tuple[int, int], values: Vector, fate: int) -> None:
        late = {0: None, 1: 1, 2: 2}.get(fate, 0)
        if late is not None:
            self.waiting[link][self.rounds + late] = Sent(self.rounds, values)

    def _arrival(self, link: tuple[int, int], word: int) -> Sent | None:
        found, before = self.waiting[link].pop(self.rounds, None), self.delivered[link]
        newest = max((sent.round for sent in before), default=-1)
        if found is not None and self.overtakes and found.round < newest:
            found = None
        if found is not None:
            before.append(found)
            del before[:-KEPT]
        elif self.repeats and before and word % 2:
            # An overtaken one would be dropped; only the newest can come again then.
            again = before if not self.overtakes else [s for s in before if s.round == newest]
            return again[word // 2 % len(again)]
        return found
