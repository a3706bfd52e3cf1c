"""Mistakes planted in an aggregation of one's own, which the checker finds and explains."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

import coopbandits as cb
from coopbandits.core import rows
from coopbandits.testing import PolicyCheckError, check_policy

from ..sim.driver.push_sum import PushSum

SHARED = np.zeros(64)


class AddsTwice(PushSum):
    name: ClassVar[str] = "adds-twice"

    @staticmethod
    def receive(s: Any, inbox: Any, lengths: Any) -> None:
        PushSum.receive(s, inbox, lengths)
        for link in range(lengths.size):
            if lengths[link] > 0:
                rows.add(s.mass, inbox[link, : s.mass.size])


class ReadsNeighbor(PushSum):
    """By an array that all agents share, as the state of another cannot be reached."""

    name: ClassVar[str] = "reads-neighbor"

    def fields(self, sizes: cb.Sizes) -> Any:
        return {**super().fields(sizes), "neighbor": int, "own": int}

    def start(self, s: Any, view: cb.LocalView) -> None:
        super().start(s, view)
        s.me.own, s.me.neighbor = view.agent_id, min(view.neighbor_weights, default=0)

    @staticmethod
    def observe(s: Any, pull: Any) -> None:
        rows.add(s.mass, pull)
        SHARED[s.me.own] = s.mass[0]

    @staticmethod
    def estimate(s: Any, totals: Any, certain: Any, about: Any) -> None:
        PushSum.estimate(s, totals, certain, about)
        totals[0] += SHARED[s.me.neighbor]


class ReadsBeyond(PushSum):
    name: ClassVar[str] = "reads-beyond"

    @staticmethod
    def observe(s: Any, pull: Any) -> None:
        rows.add(s.mass, pull)
        s.me.weight += 0.0 * s.mass[s.mass.size]


class ForgetsToCount(PushSum):
    name: ClassVar[str] = "forgets-to-count"

    @staticmethod
    def receive(s: Any, inbox: Any, lengths: Any) -> None:
        weight = s.me.weight
        PushSum.receive(s, inbox, lengths)
        s.me.weight = weight / s.me.parts


class HearsTheFirst(PushSum):
    name: ClassVar[str] = "hears-the-first"

    @staticmethod
    def receive(s: Any, inbox: Any, lengths: Any) -> None:
        heard = 0
        for link in range(lengths.size):
            heard += lengths[link] > 0
            lengths[link] = lengths[link] if heard == 1 else 0
        PushSum.receive(s, inbox, lengths)


class Overflows(PushSum):
    """Python's whole numbers have no end, and those of compiled code have 64 bits."""

    name: ClassVar[str] = "overflows"

    def fields(self, sizes: cb.Sizes) -> Any:
        return {**super().fields(sizes), "large": int}

    def start(self, s: Any, view: cb.LocalView) -> None:
        super().start(s, view)
        s.me.large = 2**40

    @staticmethod
    def estimate(s: Any, totals: Any, certain: Any, about: Any) -> None:
        PushSum.estimate(s, totals, certain, about)
        if s.me.large * s.me.large <= 0:
            rows.scale(totals, 0.5)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (AddsTwice, "'no invented pulls'.*holds .* pulls of arm"),
        (ReadsNeighbor, "'local knowledge'|'determinism'"),
        (ReadsBeyond, r"observe raised IndexError.*test_own_aggregation\.py:\d+: s\.me\.weight"),
        (ForgetsToCount, "'no invented pulls'|'totals of all'"),
        (HearsTheFirst, "'renamed agents'|'totals of all'|'no invented pulls'"),
    ],
)
def test_mistakes_are_found(kind: Any, said: str) -> None:
    with pytest.raises(PolicyCheckError, match=said) as caught:
        check_policy(cb.combine(kind(), cb.UCB()))
    assert "\n" not in str(caught.value)


def test_the_honest_one_passes() -> None:
    check_policy(cb.combine(PushSum(), cb.UCB()), rounds=12)
