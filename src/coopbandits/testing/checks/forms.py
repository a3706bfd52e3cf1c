"""The faster forms of a policy, each held to its agents: arrays of all agents, and a team."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from coopbandits.core.aggregate import AgentRows, Aggregation
from coopbandits.core.team import Team
from coopbandits.testing.checks import finding

if TYPE_CHECKING:
    from coopbandits.core import Estimate, Registers
    from coopbandits.testing.world import Round, Trial, World

TOLERANCE = 1e-9
"""How far the two may differ, absolutely or relative to the value: rounding, and no more."""


def array_form(trial: Trial) -> None:
    """Where an aggregation has an array form, it tells what machines tell on the same pulls.

    Estimates are compared before the first and after every round. What machines send must be what
    `message_size` says, since that is what is counted where nothing is really sent.
    """
    parts = trial.policy.parts
    if parts is None or not trial.policy.plays_parts:
        return
    aggregation = cast("Aggregation", parts.aggregation)  # it has made agents by now
    registers = parts.statistic.registers(trial.num_arms)
    for world in trial.worlds():
        rows: Any = aggregation.make_rows(world.views, world.network.matrix, registers)
        if rows is None:
            continue
        if not isinstance(rows, AgentRows):
            raise finding(f"make_rows returned {rows!r}", "a coopbandits.core.AgentRows, or None")
        size = aggregation.message_size(registers, world.network.num_agents).usual
        _expect_equal(world, rows, registers)
        for _ in range(trial.rounds):
            talking = rows.talking()
            played = world.play()
            _expect_sizes(world, played, size, talking)
            rows.exchange(_pulls(played, registers))
            _expect_equal(world, rows, registers)


def _pulls(played: Round, registers: Registers) -> Any:
    pulls = np.zeros((len(played.pulls), registers.size))
    for row, (_, arm, reward) in zip(pulls, played.pulls, strict=True):
        registers.add(row, arm, reward)
    return pulls


def _expect_sizes(world: World, played: Round, usual: int, talking: Any) -> None:
    for link in world.links:
        sent = played.messages[link].size if link in played.messages else 0
        size = usual if talking is None or talking[link[0]] else 0
        if sent != size:
            raise finding(
                f"a machine sent {sent} values over link {link} ({world.where()})",
                f"what message_size says and is counted for the array form, {size}",
            )


def _expect_equal(world: World, rows: AgentRows, registers: Registers) -> None:
    told, shape = rows.estimate(), (len(world.agents), registers.size)
    if np.shape(told.totals) != shape:
        did = f"the array form told totals of shape {np.shape(told.totals)} ({world.where()})"
        raise finding(did, f"{shape}, one row of registers per agent")
    numbers = [np.broadcast_to(column, shape[0]).tolist() for column in told[1:]]
    for i, (totals, time, num_agents, ahead) in enumerate(zip(told.totals, *numbers, strict=True)):
        agent: Any = world.agents[i]
        row = registers.read(totals, time=time, num_agents=num_agents, anticipation=ahead)
        _expect_same(agent.estimate(), row, world.where(i))


def _expect_same(machine: Estimate, row: Estimate, where: str) -> None:
    for name, one, other in zip(machine._fields, machine, row, strict=True):
        if name == "certain":  # array forms have what is played on, and make no claims
            continue
        if not np.allclose(other, one, rtol=TOLERANCE, atol=TOLERANCE):
            raise finding(
                f"the array form told {name} {np.asarray(other).tolist()}, the machine "
                f"{np.asarray(one).tolist()} ({where})",
                "the same in both forms",
            )


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
