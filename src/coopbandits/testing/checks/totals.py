"""What estimates may hold: every pull once, and the same whatever agents and arms are called.

The checks of this file do not let agents choose. They hand every agent the same pulls, one per
round, in which all arms take turns, and read its estimate. So they hold for random indices, and for
rules by which ties go to the lowest arm. All messages arrive, except where `shares`, `exact` and
`certain` promise something of bad networks. Only aggregations that count for ever are checked;
those with a discount or a window are held to the rest of the contract.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import networkx as nx
import numpy as np

from coopbandits.core.aggregate.aggregation import MIXED, OWN, ROBUST
from coopbandits.core.draws import normals, words
from coopbandits.network import Network
from coopbandits.testing.checks import PolicyCheckError, finding
from coopbandits.testing.checks.trouble import bad_post, declared
from coopbandits.testing.world import GRAPHS, local_views

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from coopbandits.core import Vector
    from coopbandits.testing.world import Trial, World

SETTLED = 400
"""Rounds of quiet after which news has arrived everywhere on the checker's small graphs."""

TURNS = 4
"""How often every agent pulls every arm."""

QUIET = 12
"""Rounds after the last pull in which an aggregation that counts pulls again is given time to."""

CERTIFYING = 15
"""Rounds in which certified pulls are followed one by one."""

SLACK = 0.01
"""By how much a total may be off: mixing ends after some steps, and accelerated mixing overshoots.
A pull that counts twice makes more than that of the few that are made."""

MOST_AGENTS = 3.0
"""By how much N may be overestimated: 32 minima are hardly ever off by a factor of 3."""


class Told(NamedTuple):
    """One agent's estimate."""

    sums: Vector
    counts: Vector
    num_agents: float


def own_pulls(trial: Trial) -> None:
    """An agent counts its own pulls, each once: one that is alone knows those of each of its arms.

    Of an aggregation with `totals = False`, only the mean of each arm is looked at.
    """
    if not _counts_for_ever(trial):
        return
    world = trial.world("single node")
    observed = np.zeros((2, trial.num_arms))
    for turn in range(TURNS * trial.num_arms):
        observed += _scripted_round(world, turn)
    means = observed[0] / observed[1]
    for _ in range(SETTLED):
        told = _told(world.agents[0])
        known = (told.counts > 0.0).all() and np.allclose(told.sums / told.counts, means, atol=1e-6)
        if known and (not declared(trial, "totals") or _are_totals(told, observed, 1)):
            return
        world.deliver(world.send())
    raise finding(
        f"an agent without neighbours made {TURNS} pulls of each arm, with the means "
        f"{_shown(means)}, and its estimate holds the counts {_shown(told.counts)} and the sums "
        f"{_shown(told.sums)}",
        "its own pulls, each once; look whether what `observe` adds is part of what `estimate` "
        "returns, and whether it is in there twice, or scaled",
    )


def no_invented_pulls(trial: Trial) -> None:
    """No estimate holds more pulls of an arm than were made, on any graph.

    An aggregation that scales averages by the number of agents may hold as many more as its number
    of agents is too large, and until averages are level what the pulls of one round make of it.
    """
    if not _counts_for_ever(trial):
        return
    for world in trial.worlds():
        for turn in range(TURNS * trial.num_arms):
            _scripted_round(world, turn)
            if (turn + 1) % trial.num_arms == 0:
                excess = _excess(trial, world, (turn + 1) // trial.num_arms, recent=1)
                if excess is not None:
                    raise excess
        for _ in range(QUIET):
            world.deliver(world.send())
        rounds = 0  # slow mixing takes more than QUIET
        while (excess := _excess(trial, world, TURNS, recent=0)) is not None:
            if rounds == SETTLED:
                raise excess
            world.deliver(world.send())
            rounds += 1


def _excess(trial: Trial, world: World, turns: int, recent: int) -> PolicyCheckError | None:
    """Return what is wrong with the first estimate that holds too much, None if none does."""
    size = len(world.agents)
    for i, agent in enumerate(world.agents):
        told = _told(agent)
        if told.num_agents > MOST_AGENTS * size and not _is_given_range(trial):
            return finding(
                f"an estimate is of {told.num_agents:g} agents ({world.where(i)})",
                f"about {size}, which there are; look for counts of agents that are scaled",
            )
        most = max(size, told.num_agents) * (turns + recent) * (1.0 + SLACK)
        arm = int(np.argmax(told.counts))
        if told.counts[arm] > most:
            return finding(
                f"an estimate holds {told.counts[arm]:g} pulls of arm {arm}, of which all agents "
                f"together have made {size * turns} ({world.where(i)})",
                "no more than were made; look for totals that are added again in every round, for "
                "pulls that come back on a cycle or over two neighbours, and for scaled counts",
            )
    return None


def _is_given_range(trial: Trial) -> bool:
    """Whether the user said how many agents there are, which then need not be true here."""
    return isinstance(declared(trial, "num_agents"), tuple)


def totals_of_all(trial: Trial) -> None:
    """Where all are neighbours, and messages arrive, estimates become the totals of the network.

    Or, where averages are scaled by an estimated number of agents, those of as many agents. One
    whose counts are no totals, such as those of tracked means, declares `totals = False`, and one
    whose agents send nothing has none to tell.
    """
    if not _counts_for_ever(trial) or not declared(trial, "totals"):
        return
    world = trial.world("complete graph")
    size, observed, talks = len(world.agents), np.zeros((2, trial.num_arms)), False
    for turn in range(TURNS * trial.num_arms):
        observed += _scripted_round(world, turn)
        talks |= bool(world.send())
    if not talks:
        return
    for _ in range(SETTLED):
        wrong = [i for i in range(size) if not _are_totals(_told(world.agents[i]), observed, size)]
        if not wrong:
            return
        world.deliver(world.send())
    told = _told(world.agents[wrong[0]])
    raise finding(
        f"{SETTLED} rounds after the last pull an estimate holds the counts {_shown(told.counts)} "
        f"and the sums {_shown(told.sums)} ({world.where(wrong[0])})",
        f"the counts {_shown(observed[1])} and the sums {_shown(observed[0])} of all agents; look "
        "for neighbours, arms or own pulls that are left out; an aggregation whose counts are no "
        "totals of pulls declares totals = False",
    )


def _are_totals(told: Told, observed: Vector, size: int) -> bool:
    share = told.num_agents / size if told.num_agents > 1.0 else 1.0
    scale = abs(observed).max()
    return any(
        np.allclose([told.sums, told.counts], part * observed, rtol=SLACK, atol=SLACK * scale)
        for part in (1.0, share)
    )


def renamed_agents(trial: Trial) -> None:
    """Agents with other numbers estimate the same: a number says who somebody is and no more."""
    if not _counts_for_ever(trial):
        return
    # Whoever prefers the lowest number hears another neighbour then: both orders turn neighbours.
    for graph, order in (("cycle", (3, 1, 2, 0)), ("complete graph", (4, 2, 0, 3, 1))):
        world, renamed = trial.world(graph), _renamed(trial, graph, order)
        for turn in range(TURNS * trial.num_arms):
            _scripted_round(world, turn)
            _scripted_round(renamed, turn, agents=order)
            for i, number in enumerate(order):
                told, other = _told(world.agents[i]), _told(renamed.agents[number])
                _expect_alike(
                    told,
                    other,
                    f"an agent called {number} instead of {i}, among others that are called "
                    f"{list(order)} instead of {list(range(len(order)))}",
                    world.where(i),
                    "agents; look for a smallest or first neighbour, or a comparison of numbers",
                )


def renamed_arms(trial: Trial) -> None:
    """Arms in another order are estimated the same."""
    if not _counts_for_ever(trial):
        return
    order = [(k + 1) % trial.num_arms for k in range(trial.num_arms)]
    world, renamed = trial.world("cycle"), trial.world("cycle")
    for turn in range(TURNS * trial.num_arms):
        _scripted_round(world, turn)
        _scripted_round(renamed, turn, arms=order)
        for i, agent in enumerate(world.agents):
            other = _told(renamed.agents[i])
            back = Told(other.sums[order], other.counts[order], other.num_agents)
            _expect_alike(
                _told(agent),
                back,
                f"an agent whose arms are called {order} instead of {list(range(len(order)))}",
                world.where(i),
                "arms; look for an arm that is left out, sent or counted in another way",
            )


def certified_pulls(trial: Trial) -> None:
    """Certified pulls were made and count once, also where messages and memories are lost.

    A set that replaces another one has more pulls. Every pull is of an arm of its own here, and one
    agent forgets everything half-way.
    """
    if not _counts_for_ever(trial):
        return
    reason = str(declared(trial, "uncertified"))
    if reason:
        _expect_declared(trial.world("cycle"), 0, reason)
        return
    for graph, links in GRAPHS.items():
        size = len(links)
        world = trial.world(graph, num_arms=size * CERTIFYING)
        rewards = normals(words(trial.seed, np.arange(size * CERTIFYING, dtype=np.uint64)))
        post = bad_post(trial, world, repeats=declared(trial, "mode") == ROBUST)
        known = [np.zeros(rewards.size) for _ in range(size)]
        for turn in range(CERTIFYING):
            if turn == CERTIFYING // 2:
                world.agents[0], known[0] = world.fresh(0), np.zeros(rewards.size)
                for _ in range(turn):
                    world.agents[0].receive({})
            for i, agent in enumerate(_agents(world)):
                agent.observe(turn * size + i, float(rewards[turn * size + i]))
            world.deliver(post.carry(world.send()))
            for i in range(size):
                certain = _expect_declared(world, i, reason)
                known[i] = _expect_distinct(
                    certain, rewards[: (turn + 1) * size], known[i], world.where(i)
                )


def _expect_declared(world: World, agent: int, reason: str) -> Any:
    """Return what an agent certifies, which is None where there is a reason."""
    certain = _agents(world)[agent].estimate().certain
    if (certain is None) != bool(reason):
        found = "certifies no pulls" if certain is None else "certifies pulls"
        raise finding(
            f"an estimate {found}, and `uncertified` is {reason!r} ({world.where(agent)})",
            '`uncertified` to be "" where `Estimate.certain` is set, and the reason where it is '
            "None",
        )
    return certain


def _expect_distinct(certain: Any, rewards: Vector, before: Vector, where: str) -> Vector:
    """Return the certified count of every pull."""
    sums, counts = np.array(certain.sums), np.array(certain.counts)
    made, paid = counts[: rewards.size], sums[: rewards.size]
    if counts[rewards.size :].any() or not np.isin(made, (0.0, 1.0)).all():
        raise finding(
            f"a pull is certified {counts[np.abs(counts - 0.5).argmax()]:g} times ({where})",
            "0 or 1, as an interval is as narrow as if all certified pulls were different ones; "
            "look for pulls that arrive twice, and for scaled counts",
        )
    if not np.allclose(paid, made * rewards, atol=1e-9):
        raise finding(
            f"the sums of certified pulls differ from their rewards ({where})",
            "sums over exactly the pulls that are counted",
        )
    if made.sum() < before.sum() or (made.sum() == before.sum() and (counts != before).any()):
        raise finding(
            f"{before.sum():g} certified pulls were replaced by {made.sum():g} others ({where})",
            "a set with more pulls whenever it changes; look for messages that were lost, or that "
            "later ones have overtaken",
        )
    return counts


def _expect_alike(told: Told, other: Told, who: str, where: str, what: str) -> None:
    if not np.allclose(told.counts, other.counts, rtol=1e-6, atol=1e-6):
        name, one, two = "counts", told.counts, other.counts
    elif not np.allclose(told.sums, other.sums, rtol=1e-6, atol=1e-6):
        name, one, two = "sums", told.sums, other.sums
    else:
        return
    raise finding(
        f"{who} estimates the {name} {_shown(two)} instead of {_shown(one)} ({where})",
        f"the same estimates whatever the names of {what}",
    )


def _renamed(trial: Trial, graph: str, order: Sequence[int]) -> World:
    """Return a world in which agent i, with its random word, is called order[i]."""
    world = trial.world(graph)
    renamed: Any = nx.empty_graph(len(order))  # in the order of numbers, which a network goes by
    renamed.add_edges_from((order[i], order[j]) for i, j in GRAPHS[graph].edges)
    needs = trial.policy.needs | trial.told
    views = local_views(Network(renamed), needs, trial.num_arms, world.seed)
    for view, number in zip(world.views, order, strict=True):
        random_word, secret = view.random_word, view.secret
        views[number] = replace(views[number], random_word=random_word, secret=secret)
    world.views = views
    world.agents = [world.fresh(i) for i in range(len(views))]
    return world


def _scripted_round(
    world: World, turn: int, agents: Sequence[int] = (), arms: Sequence[int] = ()
) -> Vector:
    """Hand every agent a pull and end the round; return the sums and numbers of pulls, per arm.

    `agents` and `arms` are the names of agents and arms, unless these are their numbers.
    """
    observed = np.zeros((2, world.means.size))
    for i, (arm, reward) in enumerate(_script(world, turn)):
        arm = arms[arm] if arms else arm
        world.agents[agents[i] if agents else i].observe(arm, reward)
        observed[:, arm] += reward, 1.0
    world.deliver(world.send())
    return observed


def _script(world: World, turn: int) -> Iterator[tuple[int, float]]:
    """Yield the arm and the reward of every agent; arms take turns, and no two agents are alike."""
    size, num_arms = len(world.agents), world.means.size
    counters = np.arange(size, dtype=np.uint64) + np.uint64(turn * size)
    for i, noise in enumerate(normals(words(world.seed, counters)).tolist()):
        arm = (turn + i) % num_arms
        yield arm, float(world.means[arm]) + i + noise


def _told(agent: Any) -> Told:
    estimate = agent.estimate()
    return Told(np.array(estimate.sums), np.array(estimate.counts), float(estimate.num_agents))


def _shown(values: Vector) -> list[float]:
    return [float(f"{value:.4g}") for value in values.tolist()]


def shares_add_up(trial: Trial) -> None:
    """Shares add up to all that was observed, as `shares` declares.

    Those of own pulls do whatever happens to messages; mixed ones where all arrive.
    """
    shares_of = declared(trial, "shares")
    if shares_of not in (OWN, MIXED) or not _counts_for_ever(trial):
        return
    for world in trial.worlds():
        post = bad_post(trial, world, repeats=declared(trial, "mode") == ROBUST)
        observed = np.zeros((2, trial.num_arms))
        for _ in range(trial.rounds):
            observed += _pulled(world)
            messages = world.send()
            world.deliver(messages if shares_of == MIXED else post.carry(messages))
            shares = [agent.share() for agent in _agents(world)]
            _expect_totals(
                np.sum([[one.sums, one.counts] for one in shares], axis=0),
                observed,
                f"shares declared as {shares_of!r} add up to {{}} ({world.where()})",
            )


def exact_totals(trial: Trial) -> None:
    """An exact aggregation, once messages arrive again, makes all estimates everybody's totals."""
    if not declared(trial, "exact") or not _counts_for_ever(trial):
        return
    for world in trial.worlds():
        post = bad_post(trial, world, repeats=declared(trial, "mode") == ROBUST)
        observed = np.zeros((2, trial.num_arms))
        for _ in range(trial.rounds):
            observed += _pulled(world)
            world.deliver(post.carry(world.send()))
        for _ in range(SETTLED):
            world.deliver(world.send())
            if all(_agree(_estimate(agent), observed) for agent in _agents(world)):
                break
        for i, agent in enumerate(_agents(world)):
            told = f"an estimate declared as exact is {{}} ({world.where(i)})"
            _expect_totals(_estimate(agent), observed, told)


def _pulled(world: World) -> Vector:
    """Let every agent pull; return the reward sums and numbers of pulls, per arm."""
    observed = np.zeros((2, world.means.size))
    for pull in world.pull():
        observed[:, pull.arm] += pull.reward, 1.0
    return observed


def _estimate(agent: Any) -> Vector:
    estimate = agent.estimate()
    return np.array([estimate.sums, estimate.counts])


def _agree(told: Vector, observed: Vector) -> bool:
    return told.shape == observed.shape and np.allclose(told, observed, rtol=1e-9, atol=1e-9)


def _expect_totals(told: Vector, observed: Vector, sentence: str) -> None:
    if not _agree(told, observed):
        text = f"sums and counts {np.asarray(told).tolist()}"
        expected = f"{observed.tolist()}, so that nothing is lost and nothing counts twice"
        raise finding(sentence.format(text), expected)


def _counts_for_ever(trial: Trial) -> bool:
    """Whether a policy is made of parts that count pulls, none less as time passes."""
    parts = trial.policy.parts
    if parts is None or not trial.policy.plays_parts:
        return False
    if not declared(trial, "counts_pulls"):
        return False
    if parts.statistic.registers(trial.num_arms).decay != 1.0:
        return False
    return (declared(trial, "discount") or 1.0) == 1.0 and declared(trial, "window") is None


def _agents(world: World) -> list[Any]:
    return list(world.agents)
