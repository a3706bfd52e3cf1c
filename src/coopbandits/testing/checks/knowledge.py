"""What an agent may know: its view, its own rewards, the messages it got, and the words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from coopbandits.sim.setup import LOCAL, SOURCES
from coopbandits.testing.checks import PolicyCheckError, finding
from coopbandits.testing.world import Round, same_messages

if TYPE_CHECKING:
    from collections.abc import Callable

    from coopbandits.core import Agent, LocalView
    from coopbandits.testing.world import Trial

NAMEABLE = LOCAL | SOURCES.keys()
"""All that `needs` can name."""

EXPECTED = "equal ones, so that nothing random, global or shared between agents plays a part"


def determinism(trial: Trial) -> None:
    """Fresh agents given the same calls do the same: words are the only source of chance."""
    who = "two fresh networks given the same calls"
    for left, right in zip(trial.worlds(), trial.worlds(), strict=True):
        for _ in range(trial.rounds):
            expect_equal(left.play(), right.play(), f"{who} ({left.where()})")
        if left.states() != right.states():
            raise finding(f"{who} got into different states ({left.where()})", EXPECTED)


def local_knowledge(trial: Trial) -> None:
    """An agent knows its view, and of the others only what they sent.

    What one agent saw in a network is replayed to a fresh agent with an equal view, while all the
    others of that policy play in another network, with other rewards. It must not see a difference.
    """
    home = trial.world("cycle")
    history = [home.play() for _ in range(trial.rounds)]
    for me in (0, len(home.agents) - 1):
        elsewhere = trial.world("complete graph", other=True)
        view = replace(home.views[me])
        agent = trial.policy.make_agent(view)
        for number, played in enumerate(history):
            elsewhere.play()
            where = f"agent {me}, round {number}"
            who = f"an agent and its replay among other agents ({where})"
            expect_equal(_part_of(me, played), _replay(agent, view, played), who)
        if agent.export_state() != home.agents[me].export_state():
            raise finding(f"{who} got into different states", EXPECTED)


def needs(trial: Trial) -> None:
    """What agents go by stands in `needs`: nobody tells them anything else."""
    missing = sorted(NAMEABLE - trial.policy.needs)
    try:
        _expect_indifference(trial, missing)
    except PolicyCheckError:
        for need in missing:
            _expect_indifference(trial, [need])
        raise


def _expect_indifference(trial: Trial, names: list[str]) -> None:
    """Expect that agents do the same whether they are told some things or not."""
    who = f"agents that are told {', '.join(names)}, which needs does not name, and others"
    expected = "needs that name what agents go by, or agents that leave it alone"
    told = replace(trial, told=frozenset(names))
    for left, right in zip(told.worlds(), trial.worlds(), strict=True):
        for _ in range(trial.rounds):
            expect_equal(left.play(), right.play(), f"{who} ({left.where()})", expected)


def forgotten(check: Callable[[Trial], None], trial: Trial) -> str:
    """Return a phrase on what must be told for a check to run through, "" if that is not why."""

    def runs(told: frozenset[str]) -> bool:
        try:
            check(replace(trial, told=told))
        except PolicyCheckError:
            return True  # it gets on, to find something else
        except Exception:  # of any kind: the policy is somebody else's
            return False
        return True

    if not isinstance(trial.policy.needs, frozenset) or not runs(NAMEABLE):
        return ""
    missing = NAMEABLE - trial.policy.needs
    for need in sorted(missing):
        missing -= {need} if runs(missing - {need}) else set()
    names = ", ".join(f'"{need}"' for need in sorted(missing))
    return (
        f"where agents are not told {names}; expected is that `needs` of the policy, or of the "
        f"part that asks for it, returns frozenset({{{names}}})"
    )


def _part_of(me: int, played: Round) -> Round:
    """Return what one agent did in a round."""
    sent = {link: values for link, values in played.messages.items() if link[0] == me}
    return Round([played.pulls[me]], sent)


def _replay(agent: Agent, view: LocalView, played: Round) -> Round:
    """Give an agent the word, the reward and the messages of a round; return what it did."""
    me = view.agent_id
    pull = played.pulls[me]
    arm = agent.choose(pull.word)
    agent.observe(pull.arm, pull.reward)
    asked = {(me, j): agent.outgoing(j) for j in view.neighbor_weights}
    agent.receive({i: v.copy() for (i, j), v in played.messages.items() if j == me})
    sent = {link: values for link, values in asked.items() if values is not None}
    return Round([pull._replace(arm=arm)], sent)


def expect_equal(left: Round, right: Round, who: str, expected: str = EXPECTED) -> None:
    """Expect the same arms and messages of two rounds that were given the same."""
    arms = [[pull.arm for pull in played.pulls] for played in (left, right)]
    if arms[0] != arms[1]:
        raise finding(f"{who} chose the arms {arms[0]} and {arms[1]}", expected)
    if not same_messages(left.messages, right.messages):
        raise finding(f"{who} sent different messages", expected)
