"""Lies about trees: impossible ones are refused, and possible ones end with the liar."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from coopbandits.core import InputError, Vector
from coopbandits.core.aggregate import TreeSums
from coopbandits.core.aggregate.extrema import EXPONENTIALS
from coopbandits.core.aggregate.spanning_tree import (
    CHILD,
    FAR,
    HEARS,
    LONGEST,
    NOBODY,
    PATIENCE,
    UNDERCUT,
)
from coopbandits.core.draws import uniforms, words

from ..fleet import machine
from ..liars import BOTH_GRAPHS, GRAPHS, MAX_AGENTS, Den


def gone(rounds: int) -> int:
    """Return after how many more rounds nothing is left of a liar that fell silent.

    Its root is given up after 840 rounds and an eighth of all by then, and a tree of 8 is grown.
    """
    most = UNDERCUT + 8 * PATIENCE
    return int(most + min((rounds + most) / 7, LONGEST)) + 8 * 4


def den(graph: str, **more: Any) -> Den[Any]:
    return Den(partial(machine, TreeSums()), GRAPHS[graph], **more)


def claim(root: float, beat: float, dist: float = 0.0, bond: float = HEARS, **more: Any) -> Vector:
    """Totals of `agents` agents, all of them pulls of arm 0 with the best reward."""
    pulls, agents = more.get("pulls", 0.0), more.get("agents", 1.0)
    totals = [pulls, 0.0, pulls, 0.0, agents, more.get("behind", 0.0)]
    return np.array([*totals, root, beat, dist, bond, *more.get("minima", ())])


def assert_exact(world: Den[Any]) -> None:
    """Once nobody pulls any more, all know all that honest agents were paid."""
    world.run(len(world.agents), pull=False)
    for agent in world.honest:
        estimate = agent.estimate()
        assert [*estimate.sums, *estimate.counts] == world.paid.tolist()
        assert agent.agents_seen == len(world.honest)


IMPOSSIBLES: dict[str, Vector] = {
    "root": claim(-1e300, 1.0),
    "root above all tags": claim(1.5, 1.0),
    "beat": claim(0.5, 1e300),
    "beat before the first": claim(0.5, -1.0),
    "distance": claim(0.5, 1.0, -1.0),
    "half a link": claim(0.5, 1.0, 0.5),
    "beyond infinity": claim(0.5, 1.0, 2 * FAR),
    "bond": claim(0.5, 1.0, bond=3.0),
    "rounds": claim(0.5, 1.0, behind=1e300),
    "rounds below 0": claim(0.5, 1.0, behind=-1.0),
    "agents": claim(0.5, 1.0, agents=MAX_AGENTS + 1.0),
    "pulls": claim(0.5, 1.0, pulls=1e6),
    "minima": claim(0.5, 1.0, minima=[1e-300] * EXPONENTIALS),
    "generation": claim(0.5, 1.0, minima=[1.0] * EXPONENTIALS + [1e9]),
}


@pytest.fixture(scope="module")
def standing() -> Den[Any]:
    """A tree that stands; only for tests that leave it as it is."""
    world = den("ring")
    world.run(50)
    return world


@pytest.mark.parametrize("case", IMPOSSIBLES)
def test_an_impossible_tree_is_refused_and_changes_nothing(standing: Den[Any], case: str) -> None:
    world = standing
    agent = world.agents[1]
    before = agent.export_state()
    with pytest.raises(InputError, match="a claim of"):
        agent.check_claims(IMPOSSIBLES[case], world.claims[1], world.now())
    assert agent.export_state() == before


@pytest.mark.parametrize("graph", GRAPHS)
def test_impossible_roots_do_not_even_disturb(graph: str) -> None:
    world = den(graph)
    world.lie = lambda _, __: claim(-1e300, 1e300)
    world.run(60)
    assert_exact(world)
    assert {sender for sender, _ in world.refused} == {0}


def lowest(world: Den[Any]) -> tuple[float, float]:
    """The least root and the largest beat that pass now."""
    most = world.claims[0].most_rounds(world.now())
    return -most / UNDERCUT, most


def at_the_bound(_: int, world: Den[Any]) -> Vector:
    return claim(*lowest(world), bond=CHILD, agents=MAX_AGENTS, pulls=MAX_AGENTS * 100.0)


def frozen_beat(_: int, world: Den[Any]) -> Vector:
    """The root that everybody follows, with a beat that it will not reach for long."""
    return claim(world.agents[3].root, lowest(world)[1])


def far_away(_: int, world: Den[Any]) -> Vector:
    return claim(lowest(world)[0], lowest(world)[1], FAR - 1.0)


def more_and_more_rarely(_: int, world: Den[Any]) -> Vector | None:
    """A beat now and then, so that all get used to waiting for it."""
    times = [int(2.2**power) for power in range(3, 12)]
    now = world.rounds
    return claim(-2.0, float(now), bond=CHILD, pulls=40.0) if now in times or now < 10 else None


def in_turns(who: int, world: Den[Any]) -> Vector | None:
    """Two liars undercut each other, a little ahead of when a root is given up."""
    turn = world.rounds // 30
    root = -0.5 * turn - 0.1
    return claim(root, float(world.rounds), bond=CHILD if turn % 2 else HEARS, pulls=9.0)


LIES = (at_the_bound, frozen_beat, far_away, more_and_more_rarely, in_turns)


@pytest.mark.covering(1)
@pytest.mark.plays
@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
@pytest.mark.parametrize("graph", BOTH_GRAPHS)
def test_trees_are_exact_again_once_a_liar_has_gone(graph: str, lie: Any) -> None:
    world = den(graph)
    world.run(40)
    world.lie = lie
    disturbed = False
    for _ in range(1300 if lie is more_and_more_rarely else 300):
        world.run(1)
        disturbed |= any(agent.agents_seen != 7.0 for agent in world.honest)
    assert disturbed
    assert {sender for sender, _ in world.refused} <= {0, *world.views[0].neighbor_weights}
    world.lie = None
    world.run(gone(world.rounds))
    assert_exact(world)
    world.refused.clear()
    world.run(20)
    assert world.refused == []


@pytest.mark.slow
@pytest.mark.plays
@pytest.mark.parametrize("graph", GRAPHS)
def test_two_liars_who_take_turns_are_forgotten_too(graph: str) -> None:
    pair = {"ring": (0, 1), "random": (0, 4)}[graph]
    world = den(graph, liars=pair)

    def lie(who: int, now: Den[Any]) -> Vector | None:
        return at_the_bound(who, now) if (now.rounds // 45) % 2 == pair.index(who) else None

    world.lie = lie
    world.run(400)
    world.lie = None
    world.run(gone(world.rounds))
    assert_exact(world)


@pytest.mark.slow
@pytest.mark.plays
def test_clocks_that_differ_delay_the_end_of_a_lie_by_no_more_than_that() -> None:
    """A root at the bound of a fast clock is refused by a slow one, until that is there too."""
    slow = 10.0
    world = den("ring", clocks=[0.0, *(0.0 if i % 2 else -slow for i in range(1, 8))])
    world.lie = at_the_bound
    world.run(200)
    world.lie = None
    world.run(gone(world.rounds) + int(slow * 20))
    assert_exact(world)


def test_nobody_gets_used_to_silence_for_long() -> None:
    """One message after an endless silence is believed for 8 · 100 + 10 rounds, not for longer."""
    world = den("ring")
    for _ in range(20_000):
        world.agents[1].receive({})
    world.agents[1].receive({0: claim(-0.5, 1.0, bond=CHILD, pulls=40.0)})
    assert world.agents[1].estimate().counts[0] == 40.0
    for _ in range(int(8 * PATIENCE) + 11):
        world.agents[1].receive({})
    assert world.agents[1].estimate().counts[0] == 0.0


def test_a_beat_that_comes_more_and_more_rarely_is_given_up_all_the_same() -> None:
    agent = den("ring").agents[1]
    for pause in (1, *(40 + 8 * int(2.4**power) for power in range(9))):
        for _ in range(pause):
            agent.receive({0: claim(-0.5, agent.beat, 1.0)})
        agent.receive({0: claim(-0.5, agent.beat + 1.0, 1.0)})
    for _ in range(int(UNDERCUT + 8 * PATIENCE + LONGEST) + 1):
        agent.receive({0: claim(-0.5, agent.beat, 1.0)})
    assert (agent.parent, agent.dist) == (NOBODY, 0.0)
    assert agent.root < -1.0


def test_honest_minima_are_never_refused_as_impossible() -> None:
    """The smallest of a million draws, as many as 32 of each in 31 250 agents, passes."""
    drawn = -np.log(uniforms(words(3, np.arange(10**6, dtype=np.uint64)))).min()
    assert drawn > 1e-8
    message = claim(0.5, 1.0, minima=[drawn] * EXPONENTIALS)
    world = den("ring")
    world.agents[1].check_claims(message, world.claims[1], 0.0)
