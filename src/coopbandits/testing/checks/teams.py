"""The two forms of a policy with a rule of its own: agents that send messages, and a team."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from coopbandits.core.team import Team
from coopbandits.testing.checks.finding import finding

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
            sent = tuple(team.exchange())
            if sent != _sent(played):
                raise finding(
                    f"the team told of {sent[0]} messages with {sent[1]} values ({where})",
                    f"what agents sent, {_sent(played)}",
                )


def _sent(played: Round) -> tuple[int, int]:
    return len(played.messages), sum(message.size for message in played.messages.values())
