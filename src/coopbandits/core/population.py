"""Populations: agents of several policies in one network, such as liars among the honest.

Spelled ``resilient-ucb+liar@0,5``: agents 0 and 5 are liars, all others play resilient UCB.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from coopbandits.core.aggregate import AnyAggregation
from coopbandits.core.checks import require_count
from coopbandits.core.errors import InputError
from coopbandits.core.index import FAMILIES
from coopbandits.core.policy import AnyPolicy, Policy

if TYPE_CHECKING:
    from coopbandits.core.contract import Agent, LocalView
    from coopbandits.core.policy import Parts

PLUS = re.compile(r"(?<!\de)\+")
"""A plus between policies; not that of a number such as 1e+20."""

NUMBER = re.compile(r"\d{1,18}")
"""The number of an agent."""


@dataclass(frozen=True)
class Population(Policy):
    """Several policies, each for some agents; made by `populate`.

    Attributes
    ----------
    rest : Policy
        What all agents play that are in no group.
    groups : tuple of (policy, agents)
        Who plays something else.
    """

    rest: Policy
    groups: tuple[tuple[Policy, tuple[int, ...]], ...]
    name: ClassVar[str] = "population"

    def __post_init__(self) -> None:
        """Reject members that cannot be played together, and agents in two groups."""
        given: Any = self.groups  # whatever somebody has written
        if not (isinstance(given, tuple) and all(map(_is_group, given))):
            raise InputError(
                f"groups are {given!r}; give a tuple of pairs (policy, tuple of agents), or call "
                "cb.populate"
            )
        for policy in self.members:
            if not isinstance(policy, Policy) or isinstance(policy, Population):
                raise InputError(
                    f"{policy!r} cannot be part of a population; give policies that every agent "
                    "runs by itself, such as cb.ResilientUCB()"
                )
            if policy.takes_context:
                raise InputError(
                    f"policy {policy.spelling} looks at features, which agents of a population are "
                    "not told; take an index without features"
                )
        placed = [agent for _, agents in self.groups for agent in agents]
        for agent in placed:
            require_count("agent of a group", agent, least=0)
            if placed.count(agent) > 1:
                raise InputError(f"agent {agent} is given two policies; give it one")
        self._require_one_statistic()

    @property
    def plays_parts(self) -> bool:
        """Whether the agents of all members are those of their parts."""
        is_own = type(self).make_agent is not Population.make_agent
        return not is_own and all(member.plays_parts for member in self.members)

    def _require_one_statistic(self) -> None:
        """Refuse members whose messages hold registers that the others cannot read.

        What an index asks for may depend on the family, so while that is open one family in which
        all fits is enough; `suited` makes another population, which is checked again.
        """
        mixed = [self._statistics_sent(family) for family in FAMILIES]
        if all(len(sent) > 1 for sent in mixed):
            ((_, one), first), ((_, other), second), *_ = mixed[0].items()
            raise InputError(
                f"a population cannot mix statistics: {first} sends {one}, and {second} sends "
                f"{other}, so neither can read the other's messages; give members whose indices "
                "ask for the same statistic"
            )

    def _statistics_sent(self, family: str) -> dict[tuple[type, str], str]:
        """Return what is in messages, and the first member that sends it.

        Messages of single pulls are read whatever is added up of them. What agents send that a
        policy makes itself is not known here.
        """
        found: dict[tuple[type, str], str] = {}
        for member in self.members:
            for policy in member.suited(family).members:
                parts = policy.parts
                if parts is not None and policy.plays_parts and _sends_registers(parts):
                    statistic = parts.statistic
                    found.setdefault((type(statistic), statistic.spelling), policy.spelling)
        return found

    @property
    def members(self) -> tuple[AnyPolicy, ...]:
        return self.rest, *(policy for policy, _ in self.groups)

    def suited(self, family: str) -> Population:
        """Return the same for a family of rewards, every member's."""
        groups = tuple((policy.suited(family), agents) for policy, agents in self.groups)
        return Population(self.rest.suited(family), groups)

    @property
    def named_agents(self) -> frozenset[int]:
        """Who is in a group."""
        return frozenset(agent for _, agents in self.groups for agent in agents)

    @property
    def spelling(self) -> str:
        """All spellings, with the agents of each group: ``resilient-ucb+liar@0,5``."""
        groups = [f"{policy.spelling}@{','.join(map(str, who))}" for policy, who in self.groups]
        return "+".join([self.rest.spelling, *groups])

    @property
    def needs_common_round(self) -> bool:
        return any(policy.needs_common_round for policy in self.members)

    @property
    def needs(self) -> frozenset[str]:
        """What some member needs; each agent is told what its own policy needs."""
        return frozenset().union(*(policy.needs for policy in self.members))

    @property
    def overtakes(self) -> bool:
        return all(policy.overtakes for policy in self.members)

    def overtakes_from(self, agent: int) -> bool:
        return self.played_by(agent).overtakes

    def played_by(self, agent: int) -> Policy:
        return next((one for one, who in self.groups if agent in who), self.rest)

    def make_agent(self, view: LocalView) -> Agent:
        policy = self.played_by(view.agent_id)
        return policy.make_agent(restricted_view(view, policy.needs))


def _is_group(given: Any) -> bool:
    return isinstance(given, tuple) and len(given) == 2 and isinstance(given[1], tuple)


def _sends_registers(parts: Parts) -> bool:
    """Return whether messages grow with the registers, and so with the number of arms."""
    aggregation = parts.aggregation
    if not isinstance(aggregation, AnyAggregation):  # which `make_agent` refuses
        return False
    few, more = (aggregation.message_size(parts.registers(arms), 2) for arms in (2, 3))
    return few != more


def restricted_view(view: LocalView, needs: frozenset[str]) -> LocalView:
    """Return a view without what only the policies of other members need."""
    known = {name: value for name, value in view.global_knowledge.items() if name in needs}
    return replace(
        view,
        num_agents=view.num_agents if "num_agents" in needs else None,
        lambda_bound=view.lambda_bound if "lambda_bound" in needs else None,
        random_word=view.random_word if "random_word" in needs else 0,
        secret=view.secret if "secret" in needs else b"",
        global_knowledge=known,
    )


def populate(rest: Policy, groups: Mapping[Policy, Iterable[int]]) -> Population:
    """Return the policy by which some agents play something else than the rest.

    >>> from coopbandits import Liar, ResilientUCB
    >>> populate(ResilientUCB(), {Liar(): [0, 5]}).spelling
    'resilient-ucb+liar@0,5'
    """
    if not isinstance(groups, Mapping):
        raise InputError(
            f"groups are {groups!r}; give a dict from policies to agents, such as "
            "{cb.Liar(): [0, 5]}"
        )
    given: Any  # whatever somebody has written
    for policy, given in groups.items():
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise InputError(
                f"agents that play {policy!r} are {given!r}; give a list of their numbers"
            )
    return Population(rest, tuple((policy, tuple(who)) for policy, who in groups.items()))


def parse_population(text: str, parse: Callable[[str], AnyPolicy]) -> Population | None:
    """Read ``policy+policy@agents+…``; None where a text names one policy alone."""
    first, *others = PLUS.split(text)
    if not others:
        return None
    groups = []
    for other in others:
        spelled, at, agents = other.rpartition("@")
        places = agents.split(",")
        if not at or not all(NUMBER.fullmatch(place.strip()) for place in places):
            raise InputError(
                f"{other.strip()!r} does not say which agents play it; write "
                f"{other.partition('@')[0].strip()}@0,5 for agents 0 and 5"
            )
        groups.append((parse(spelled), tuple(int(place) for place in places)))
    return Population(parse(first), tuple(groups))  # type: ignore[arg-type]  # it refuses others
