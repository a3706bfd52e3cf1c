"""The faster form of a policy, held to its agents: a team."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from coopbandits.core.team import Team
from coopbandits.testing.checks import finding

if TYPE_CHECKING:
    from coopbandits.testing.world import Round, Trial


def team_form(trial: Trial) -> None:
    """Where a policy has a team, it plays the agents' arms, and says how much they send."""
    for world in trial.worlds():
        team: Any = trial.policy.make_team(world.views)
        if team is None:
            return
        if not isinstance(team, Team):
            raise finding(f"make_team returned {team!r}", "a coopbandits.core.team.Team, or None")
        for _ in range(trial.rounds):
            words, _ = world.draw()
            where, played = world.where(), world.play()
            arms = np.asarray(team.choose(np.array(words, dtype=np.uint64)))
            expected = [pull.arm for pull in played.pulls]
            if arms.tolist() != expected:
                raise finding(f"the team played {arms.tolist()} ({where})", f"{expected}")
            team.learn(arms, np.array([pull.reward for pull in played.pulls]))
            messages, values = (np.asarray(each).tolist() for each in team.exchange())
            if (messages, values) != (sent := _sent(played)):
                raise finding(
                    f"the team told of {messages} messages with {values} values ({where})",
                    f"what agents sent, {sent[0]} with {sent[1]}",
                )


def _sent(played: Round) -> tuple[list[int], list[int]]:
    """Return messages and values of every agent."""
    messages, values = [0] * len(played.pulls), [0] * len(played.pulls)
    for (sender, _), message in played.messages.items():
        messages[sender] += 1
        values[sender] += message.size
    return messages, values
