"""How much of a neighbour's word is believed: no more than could have happened.

A neighbour has proved who it is; what it says may still be wrong, by a fault or by intent. Its
claims are checked before the agent sees them, against what was declared for the whole cluster:

- counts are at least 0 and no larger than `rate` allows since the epoch began, for every agent that
  they are made of, and of these there are at most `max_agents`;
- registers are what pulls with rewards in the declared range can have made of them; without a range
  they are small enough for sums to stay finite;
- numbers of rounds, and what takes rounds to come about, are no larger than `pace` allows, or 200
  rounds a second where that is slower;
- where an agent's own entry can be followed, its pulls grow no faster than that either, and nobody
  knows of more own pulls than the agent itself.

Clocks may differ, and news may be late: `SLACK` seconds are granted, and used up by growth that is
faster than it should be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from coopbandits.core.contract import Vector
from coopbandits.core.errors import InputError
from coopbandits.core.statistic import Registers

SLACK = 60.0

FASTEST = 200.0
"""Rounds per second that are always believed: the pace may have been another one before a restart,
and every restart begins with a round."""

LARGEST = 1e150
"""The largest value that is believed: sums and squares of such values are finite."""


@dataclass
class Claims:
    """What can have happened, and what has been believed so far.

    Parameters
    ----------
    bounded : bool
        Whether rewards, as the agent sees them, lie in [0, 1].
    rate : float
        Pulls per second that one agent may make.
    epoch : float
        When learning began.
    max_agents : int
        How many agents there may be.
    pace : float
        Rounds per second.
    """

    bounded: bool
    rate: float
    epoch: float
    max_agents: int
    pace: float = 20.0
    _seen: dict[float, tuple[float, float, float]] = field(default_factory=dict)
    """By agent: the pulls last accepted, when, and how many more could have been."""

    def most_pulls(self, seconds: float) -> float:
        """Return how many pulls one agent can have made in some seconds."""
        return self.rate * (max(0.0, seconds) + SLACK)

    def most_rounds(self, now: float) -> float:
        """Return how many rounds an agent can have ended since the epoch began."""
        return max(self.pace, FASTEST) * (max(0.0, now - self.epoch) + SLACK)

    def check_within(self, what: str, value: float, least: float, most: float) -> None:
        """Refuse a value that is not between two others."""
        if not least <= value <= most:
            raise InputError(
                f"a claim of {what} of {value:g}; by now it is between {least:g} and {most:g}"
            )

    def check_num_agents(self, agents: float) -> None:
        """Refuse a number of agents that there cannot be."""
        if not 1.0 <= agents <= self.max_agents:
            raise InputError(
                f"a claim of {agents:g} agents; there is at least 1, and at most {self.max_agents}"
            )

    def check_totals(self, registers: Registers, values: Vector, agents: float, now: float) -> None:
        """Refuse registers (…, size) that the pulls of so many agents cannot have made."""
        most = agents * self.most_pulls(now - self.epoch)
        pulls = float(registers.version(values).sum())
        if not pulls <= most:
            raise InputError(
                f"a claim of {pulls:g} pulls by {agents:g} agents; it is at most {most:g} since "
                "the epoch began"
            )
        if excess := registers.excess(values, self.bounded):
            raise InputError(f"a claim of {excess}")
        self.check_within("a sum", float(abs(values).max(initial=0.0)), 0.0, LARGEST)

    def check_entries(
        self, pulls: Mapping[float, float], own: float, own_pulls: float, now: float
    ) -> None:
        """Refuse numbers of pulls, by agent, that nobody can have made.

        `own` is the number of the agent that checks, which has made `own_pulls` itself.
        """
        known = len(self._seen)
        for agent, total in pulls.items():
            if agent == own and total > own_pulls:
                raise InputError(f"a claim of {total:g} own pulls, more than this agent has made")
            if not total <= self._most_of(agent, now):
                known_pulls = self._seen.get(agent, (0.0,))[0]
                raise InputError(
                    f"a claim of {total:g} pulls by agent {agent:g}, {known_pulls:g} known; it "
                    f"makes at most {self.rate:g} a second"
                )
            known += agent not in self._seen
        if known > self.max_agents:
            raise InputError(
                f"a claim that there are {known} agents; there are at most {self.max_agents}"
            )

    def accept_entries(self, pulls: Mapping[float, float], now: float) -> None:
        """Remember what was believed: growth is measured from there."""
        for agent, total in pulls.items():
            if total >= self._seen.get(agent, (0.0,))[0]:
                spare = min(self.rate * SLACK, self._most_of(agent, now) - total)
                self._seen[agent] = total, now, spare

    def _most_of(self, agent: float, now: float) -> float:
        """Return how many pulls an agent can have made, by what was accepted of it before."""
        pulls, when, spare = self._seen.get(agent, (0.0, self.epoch, self.rate * SLACK))
        return pulls + spare + self.rate * max(0.0, now - when)
