"""Teams in the array engine: all agents of a policy with a rule of its own, a few calls per round.

What they are paid and what is recorded is the reference engine's work.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from coopbandits.core.contract import Context
from coopbandits.core.policy import Policy
from coopbandits.core.team import Team
from coopbandits.sim.record import Record, Task, Tick
from coopbandits.sim.reference import Players, local_views, play_run


def obstacle(task: Task) -> str | None:
    """Return why a policy without parts cannot be played as a team, or None."""
    if task.policy.central or make_team(task, 0) is None:
        return "has no array form"
    if task.tables.allowed is not None:
        return "has no array form for agents that may not play all arms"
    return None


def make_team(task: Task, run: int) -> Team | None:
    """Return the team of one run, if there is one."""
    return cast("Policy", task.policy).make_team(local_views(task, run))


def play(task: Task, runs: range, tick: Tick) -> Record:
    """Play some runs, one after another."""
    record = Record.empty(task, len(runs))
    for row, run in enumerate(runs):
        team = make_team(task, run)
        assert team is not None  # noqa: S101  `obstacle` says so
        play_run(task, TeamPlayers(task, team), run, record, row, tick)
    return record


class TeamPlayers(Players):
    """A team that makes the pulls of a round."""

    def __init__(self, task: Task, team: Team) -> None:
        super().__init__(task)
        self.team = team

    def pull(
        self,
        acting: list[int],
        words: list[int],
        reward: Callable[[int, int], float],
        features: Callable[[int], Context] | None = None,
    ) -> list[int]:
        """Let all agents pull once."""
        del features  # none of these policies looks at them
        arms = self.team.choose(np.array(words, dtype=np.uint64))
        played: list[int] = arms.tolist()
        paid = [reward(i, arm) for i, arm in zip(acting, played, strict=True)]
        self.team.learn(arms, np.array(paid))
        return played

    def look(self) -> None:
        """Do nothing: what these agents know is no estimate, so nobody asks when to stop."""

    def end_round(self, fates: list[int]) -> None:
        """End the round, and count what the team says was sent."""
        del fates  # all messages arrive
        sent = self.team.exchange()
        self.counts.sent += sent.messages
        self.counts.delivered += sent.messages
        self.counts.values += sent.values

    def renew(self, agent: int, rounds: int) -> None:
        """Do nothing: nobody is replaced where nothing goes wrong."""
