"""Policies whose agents see rewards through a source: a source × any policy made of parts."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from coopbandits.core.cooperative import CooperativeAgent
from coopbandits.core.errors import InputError
from coopbandits.core.guards import read_arm, read_reward
from coopbandits.core.index import ANY_REWARDS, Support
from coopbandits.core.policy import AnyPolicy, Policy
from coopbandits.core.sources import Source
from coopbandits.core.statistic import ArmSums

if TYPE_CHECKING:
    from coopbandits.core.aggregate import AnyAggregation
    from coopbandits.core.contract import LocalView, State, Vector
    from coopbandits.core.policy import Parts


class AtSource(Policy):
    """A policy whose agents play some parts on what a source makes of their rewards.

    These are not its `parts`, which are played on rewards as they are.

    Attributes
    ----------
    source : Source
        What rewards pass.
    """

    source: Any

    @property
    @abstractmethod
    def noisy(self) -> Parts:
        """What is played on that."""

    @property
    def needs(self) -> frozenset[str]:
        """What either needs."""
        needs: frozenset[str] = self.source.needs
        return needs | self.noisy.needs

    @property
    def at_source(self) -> tuple[Source, Parts] | None:
        """Source and parts; nothing where a class makes other agents itself."""
        is_own = type(self).make_agent is not AtSource.make_agent
        return None if is_own else (self.source, self.noisy)

    def make_agent(self, view: LocalView) -> SourcedAgent:
        """Return a fresh agent."""
        return SourcedAgent(view, self.source, self.noisy, self.spelling)


@dataclass(frozen=True)
class Sourced(AtSource):
    """A source × a policy made of parts; made by `at_source`.

    Attributes
    ----------
    source : Source
        What happens to rewards before they count.
    policy : Policy
        What is played on what they count.
    """

    source: Source
    policy: Policy
    name: ClassVar[str] = "sourced"

    def __post_init__(self) -> None:
        """Refuse policies that do more with a reward than to add it up."""
        if not isinstance(self.source, Source):
            raise InputError(f"source is {self.source!r}; give one such as cb.Private(1.0, 1000)")
        policy: Any = self.policy  # anything, as yet
        parts: Any = getattr(policy, "parts", None)
        adds_up = parts is not None and getattr(parts.aggregation, "counts_pulls", False)
        if not isinstance(policy, Policy) or not policy.plays_parts or not adds_up:
            spelled = policy.spelling if isinstance(policy, AnyPolicy) else repr(policy)
            raise InputError(
                f"{self.source.name} changes what agents add up, and {spelled} is not made of "
                "agents that do; give a policy made of parts, such as cb.FloodUCB()"
            )
        if parts.statistic != ArmSums():
            raise InputError(
                f"{self.source.name} goes with sums and counts per arm, and {policy.spelling} adds "
                f"up {parts.statistic.spelling}; take another index, such as ucb"
            )
        if policy.support != ANY_REWARDS and not self.source.keeps_range:
            low, high = policy.support
            raise InputError(
                f"policy {policy.spelling} is for rewards in [{low:g}, {high:g}], and "
                f"{self.source.name} changes their range; choose an index or a family for any "
                "rewards"
            )

    @property
    def spelling(self) -> str:
        """Both spellings, as on the command line: ``truncated:limit=4*flood-ucb``."""
        return f"{self.source.spelling}*{self.policy.spelling}"

    @property
    def bonus_constant(self) -> float | None:
        return self.policy.bonus_constant

    @property
    def members(self) -> tuple[AnyPolicy, ...]:
        """The policy, for what it asks of rewards."""
        return (self.policy,)

    @property
    def support(self) -> Support:
        """The source's; `members` has the policy, with its own."""
        return self.source.support

    def suited(self, family: str) -> Sourced:
        """Return the same for a family of rewards, if the source leaves it what it is."""
        policy = self.policy.suited(family if self.source.keeps_range else "gaussian")
        return self if policy is self.policy else Sourced(self.source, policy)

    @property
    def noisy(self) -> Parts:
        """Those of the policy."""
        return self.policy.parts  # type: ignore[return-value]  # without any it had been refused

    @property
    def needs(self) -> frozenset[str]:
        """What either needs."""
        return self.source.needs | self.policy.needs

    @property
    def needs_common_round(self) -> bool:
        """Whether the policy does."""
        return self.policy.needs_common_round

    @property
    def overtakes(self) -> bool:
        """Whether the policy's messages do."""
        return self.policy.overtakes


class SourcedAgent(CooperativeAgent):
    """An agent of parts whose rewards pass a source first."""

    def __init__(self, view: LocalView, source: Source, parts: Parts, policy: str) -> None:
        aggregation: AnyAggregation = parts.aggregation  # type: ignore[assignment]  # not central
        machine = aggregation.make(view, parts.registers(view.num_arms))
        super().__init__(view, machine, parts.index, policy)  # no parts: no confidence is stated
        self.source = source.make(view)

    def observe(self, arm: Any, reward: Any, context: Vector | None = None) -> None:
        """Add what the source makes of one reward."""
        arm, reward = read_arm(arm, self.view.num_arms), read_reward(reward)
        if context is not None:
            raise self._needless_context()
        super().observe(arm, self.source.drawn(arm, reward, self.machine.estimate()))

    def reopened(self, word: int) -> None:
        """Pass it on to the aggregation and to the source."""
        super().reopened(word)
        self.source.reopened(word)

    def export_state(self) -> State:
        """Return the agent's state, and that of the source."""
        return super().export_state() | {"source": self.source.export_state()}

    def restore_state(self, state: State) -> None:
        """Continue from an exported state, or change nothing if it does not fit."""
        before = self.source.export_state()
        self.source.restore_state(state.get("source", {}))
        try:
            super().restore_state({name: state[name] for name in state if name != "source"})
        except InputError:
            self.source.restore_state(before)
            raise


def at_source(source: Source, policy: AnyPolicy) -> Sourced:
    """Return the policy whose agents see their rewards through a source.

    >>> from coopbandits import FloodUCB, Truncated
    >>> at_source(Truncated(limit=4), FloodUCB()).spelling
    'truncated:limit=4*flood-ucb'
    """
    return Sourced(source, policy)  # type: ignore[arg-type]  # it refuses others
