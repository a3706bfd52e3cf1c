"""What a policy is: settings that make one agent per LocalView, mostly as a product of parts."""

from __future__ import annotations

from abc import ABC
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, overload

from coopbandits.core.aggregate import AnyAggregation, CentralAggregation, Controller
from coopbandits.core.cooperative import CooperativeAgent
from coopbandits.core.errors import InputError
from coopbandits.core.index import ANY_REWARDS, Index, Support, read_support
from coopbandits.core.spelling import Named, html_facts, settings_of

if TYPE_CHECKING:
    from coopbandits.core.contract import Agent, LocalView
    from coopbandits.core.sources import Source
    from coopbandits.core.statistic import Registers, Statistic


@dataclass(frozen=True)
class Parts:
    """What a policy is made of.

    Attributes
    ----------
    aggregation : AnyAggregation or CentralAggregation
        How statistics travel.
    index : Index
        What is played on them.
    """

    aggregation: AnyAggregation | CentralAggregation
    index: Index

    def __post_init__(self) -> None:
        """Reject an index that reads features on an aggregation that does not pass them on."""
        if self.statistic.takes_context and not self.aggregation.takes_context:
            raise InputError(
                f"index {self.index.spelling} looks at features, which {self.aggregation.spelling} "
                "does not add up; combine it with local-sums, tree-sums, flooded-totals, "
                "running-consensus, staged-mixing or central-totals"
            )

    @property
    def statistic(self) -> Statistic:
        """What is added up: as the index asks, and the aggregation needs."""
        return self.aggregation.carried(self.index.statistic)

    def registers(self, num_arms: int, num_features: int = 0) -> Registers:
        """Return what is added up of so many arms and features."""
        return self.statistic.with_features(num_features).registers(num_arms)

    @property
    def needs(self) -> frozenset[str]:
        """What agents must be told beyond their row of P."""
        return self.aggregation.needs | self.index.needs

    @property
    def bonus_constant(self) -> float | None:
        return self.index.bonus_constant

    @property
    def spelling(self) -> str:
        """Both spellings, as on the command line: ``tree-sums*kl-ucb``."""
        return f"{self.aggregation.spelling}*{self.index.spelling}"


class AnyPolicy(Named, ABC):
    """What all policies have in common: a name, settings, and mostly parts.

    Attributes
    ----------
    central : bool
        Whether one controller chooses for all agents.
    """

    central: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """Validate the settings by building the parts."""
        parts = self.parts  # making them checks them
        if parts is not None:
            parts.statistic  # noqa: B018  and this, whether they go together

    @property
    def parts(self) -> Parts | None:
        """What it is made of; None for a custom policy that is not made of parts."""
        return None

    @property
    def plays_parts(self) -> bool:
        """Whether its agents are those of its parts; not where a class makes others itself.

        Only then may an engine go by the parts instead of asking for agents.
        """
        return False

    @property
    def at_source(self) -> tuple[Source, Parts] | None:
        """What rewards pass, and the parts that agents play on what comes out; None without."""
        return None

    @property
    def needs_common_round(self) -> bool:
        """Whether its agents only work where all count rounds together, and not on own clocks."""
        aggregation = self.parts and self.parts.aggregation
        return isinstance(aggregation, AnyAggregation) and aggregation.needs_common_round

    @property
    def members(self) -> tuple[AnyPolicy, ...]:
        """The policies whose agents take part: itself, unless it is a population."""
        return (self,)

    @property
    def named_agents(self) -> frozenset[int]:
        """Agents that it names, which must exist; none unless it is a population."""
        return frozenset()

    def played_by(self, agent: int) -> AnyPolicy:
        """Return the policy that an agent plays: this one, unless it is a population."""
        return self

    @property
    def overtakes(self) -> bool:
        """Whether a message makes all earlier ones over its link worthless."""
        aggregation = self.parts and self.parts.aggregation
        return isinstance(aggregation, AnyAggregation) and aggregation.overtakes

    def overtakes_from(self, agent: int) -> bool:
        """Whether that holds for messages of this agent; agents of a population differ."""
        return self.overtakes

    def stages(self, view: LocalView) -> tuple[int, int] | None:
        """Return the round after which agents first read news, and every how many rounds then.

        None where there are no stages, as `AnyAggregation.stages` says.
        """
        parts = self.parts
        if parts is None or not isinstance(parts.aggregation, AnyAggregation):
            return None
        registers = parts.registers(view.num_arms, view.num_features)
        return parts.aggregation.stages(view, registers)

    @property
    def support(self) -> Support:
        """The smallest and the largest reward that it is made for, as its index says."""
        return ANY_REWARDS if self.parts is None else read_support(self.parts.index)

    @property
    def takes_context(self) -> bool:
        """Whether its agents look at features of the arms, so that they must be told them."""
        return self.parts is not None and self.parts.statistic.takes_context

    @property
    def needs(self) -> frozenset[str]:
        """What the agents must be told beyond their row of P.

        "num_agents", "lambda_bound", a "random_word", a "secret", or global knowledge such as
        "epsilon_c:closed".
        """
        return frozenset() if self.parts is None else self.parts.needs

    @property
    def bonus_constant(self) -> float | None:
        """B of a bonus sqrt(B σ² ln t / n); None where there is no such bonus."""
        own = super().bonus_constant
        return own if own is not None or self.parts is None else self.parts.bonus_constant

    def _repr_html_(self) -> str:
        facts = {field.name: getattr(self, field.name) for field in settings_of(type(self))}
        if self.parts:
            facts |= {name: getattr(self.parts, name).spelling for name in ("aggregation", "index")}
        needs = ", ".join(sorted(self.needs)) or "nothing"
        return html_facts(f"Policy {self.spelling}", [*facts.items(), ("agents are told", needs)])


class Policy(AnyPolicy):
    """Settings of an algorithm that every agent runs by itself; immutable, compared by value.

    A policy of one's own sets `name` and returns its `parts`; one that is no such product writes
    `make_agent` instead. As a frozen dataclass its fields are its settings, and the spelling
    (``name:setting=value,…``) follows from them.
    """

    @property
    def plays_parts(self) -> bool:
        """Whether its agents are those of its parts."""
        return self.parts is not None and type(self).make_agent is Policy.make_agent

    def make_agent(self, view: LocalView) -> Agent:
        """Return a fresh agent that knows `view` and nothing else."""
        parts = self.parts
        if parts is None or not isinstance(parts.aggregation, AnyAggregation):
            raise InputError(
                f"policy {self.name} makes no agents; return its parts, an aggregation and an "
                "index, or write make_agent"
            )
        registers = parts.registers(view.num_arms, view.num_features)
        machine = parts.aggregation.make(view, registers)
        return CooperativeAgent(view, machine, parts.index, self.spelling, parts)


class CentralPolicy(AnyPolicy):
    """Settings that make one controller of all agents."""

    central: ClassVar[bool] = True

    @property
    def plays_parts(self) -> bool:
        """Whether its controller is that of its parts."""
        is_own = type(self).make_controller is not CentralPolicy.make_controller
        return self.parts is not None and not is_own

    def make_controller(self, num_arms: int, sigma: float, num_features: int = 0) -> Controller:
        parts = self.parts
        if parts is None or not isinstance(parts.aggregation, CentralAggregation):
            raise InputError(
                f"policy {self.name} makes no controller; return parts with CentralTotals, or "
                "write make_controller"
            )
        registers = parts.registers(num_arms, num_features)
        return parts.aggregation.make(parts.index, registers, sigma)


@dataclass(frozen=True)
class Product(Policy):
    """Any aggregation × any index; made by `combine`."""

    aggregation: AnyAggregation
    index: Index
    name: ClassVar[str] = "product"

    @property
    def parts(self) -> Parts:
        return Parts(self.aggregation, self.index)

    @property
    def spelling(self) -> str:
        """Both spellings, as on the command line: ``tree-sums*kl-ucb``."""
        return self.parts.spelling


@dataclass(frozen=True)
class CentralProduct(CentralPolicy):
    """Central totals × any index; made by `combine`."""

    aggregation: CentralAggregation
    index: Index
    name: ClassVar[str] = "central-product"

    def __post_init__(self) -> None:
        """Reject an index that needs more than a controller, outside the network, knows."""
        if untold := self.index.needs - {"num_agents"}:
            raise InputError(
                f"index {self.index.spelling} needs {', '.join(sorted(untold))} of every agent, "
                f"which {self.aggregation.spelling} does not know; combine it with another "
                "aggregation"
            )

    @property
    def parts(self) -> Parts:
        return Parts(self.aggregation, self.index)

    @property
    def spelling(self) -> str:
        return self.parts.spelling


@overload
def combine(aggregation: AnyAggregation, index: Index) -> Product: ...
@overload
def combine(aggregation: CentralAggregation, index: Index) -> CentralProduct: ...
def combine(
    aggregation: AnyAggregation | CentralAggregation, index: Index
) -> Product | CentralProduct:
    """Return the policy that plays an index on what an aggregation tells.

    >>> from coopbandits import KLUCB, TreeSums
    >>> combine(TreeSums(), KLUCB()).spelling
    'tree-sums*kl-ucb'
    """
    if not isinstance(index, Index):
        raise InputError(f"index is {index!r}; give one such as cb.UCB()")
    if isinstance(aggregation, CentralAggregation):
        return CentralProduct(aggregation, index)
    if not isinstance(aggregation, AnyAggregation):
        raise InputError(f"aggregation is {aggregation!r}; give one such as cb.TreeSums()")
    return Product(aggregation, index)


def fits(aggregation: AnyAggregation | CentralAggregation, index: Index) -> bool:
    """Return whether `combine` accepts a pair; an aggregation of means carries no squares."""
    try:
        combine(aggregation, index)
    except InputError:
        return False
    return True
