"""The settings of a cluster and of its bandits: ``[cluster]`` and sections ``[bandits.NAME]``.

::

    [bandits.checkout-button]
    arms = ["red", "green", { name = "blue", minimum_share = 0.05 }]
    reward_range = [0.0, 1.0]

A bandit has a number, and an arm has an id. Journals and messages refer to them by these alone, so
they must not change: names may change if number and id are stated. By default both are derived from
the names.

Applications report rewards in their own unit; agents see them on the scale of `RewardScale`.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Annotated, Any, Literal, NamedTuple

from msgspec import Meta

from coopbandits.core.aggregate import FloodedTotals, MessageSize
from coopbandits.core.aggregate.aggregation import SYNCHRONOUS
from coopbandits.core.aggregate.forgetting import DISCOUNT, HALF_LIFE
from coopbandits.core.checks import to_float
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.core.policy import Policy
from coopbandits.core.registry import REGISTRY, parse_policy
from coopbandits.core.statistic import ArmSums
from coopbandits.fleet.config.eligibility import (
    Traits,
    can_widen,
    eligible_names,
    require_eligible,
    traits_of,
    with_settings,
)
from coopbandits.fleet.config.features import (
    Encoder,
    Features,
    features_table,
    read_features,
)
from coopbandits.fleet.config.values import (
    Count,
    Duration,
    Epoch,
    FilePath,
    Flag,
    Name,
    NotNegative,
    Positive,
    Rate,
    Share,
    Table,
    is_number,
    read_name,
    read_value,
    table_of,
)

MAX_AGENTS = 1000
"""The default of max_agents."""

MAX_FLOODED = 200
"""Where max_agents is stated and larger, bandits flood only if a policy says so."""

DERIVED = 1 << 16
"""Stated numbers of bandits are below, those derived from names begin here."""

NUMBERS = 1 << 32

MAX_BANDITS = 1000

MAX_ARMS = 1000

MAX_REWARD = 1e60
"""The largest reward, range or σ; one over it is the smallest σ.

A fleet makes fewer than 1e18 pulls. So sums, sums of squares and even squares of sums stay below
1e160, and nothing that is computed of them overflows.
"""

PROOF_BYTES = 2400
"""Room for the proof of an entry and for a certificate, of which two may be in a message."""

INTERMEDIATES_BYTES = 1 << 16
"""Room for the intermediate certificates of all of them."""

SHARED = (
    "policy", "era", "reward_range", "sigma", "num_agents", "lambda_bound", "half_life", "features",
)  # fmt: skip
"""The settings of a bandit that must be equal on two agents that gossip about it."""

MAX_ERA = 1_000_000

FLOODING, COLLECTING = DEFAULT_POLICIES = "flood-ts", "ledger-ts"
"""Of small and of large fleets, where no policy is stated."""


@dataclass(frozen=True)
class ClusterConfig:
    """Settings of the whole cluster, which must be equal on all agents.

    Attributes
    ----------
    name : str
        Its name.
    epoch : int
        Start of learning, in seconds since 1970; a new epoch starts from scratch.
    rounds_per_second : float
        The pace of gossip.
    max_pulls_per_second : float
        Maximum per agent and bandit; larger claims are rejected.
    max_agents : int or None
        Maximum number of agents; None for `MAX_AGENTS`.
    signatures_per_second : float
        How often an agent signs, at most; never more than once per round.
    """

    name: Name
    epoch: Epoch
    rounds_per_second: Rate = 20.0
    max_pulls_per_second: Rate = 1000.0
    max_agents: Count | None = None
    signatures_per_second: Rate = 4.0

    @property
    def most_agents(self) -> int:
        return MAX_AGENTS if self.max_agents is None else self.max_agents

    @property
    def floods(self) -> bool:
        """Whether bandits flood by default: messages of floods grow with the number of agents."""
        return (self.max_agents or 0) <= MAX_FLOODED

    @property
    def hash(self) -> str:
        """A hexadecimal digest of all settings, which agents compare when they meet."""
        canonical = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return sha256(canonical.encode()).hexdigest()


class RewardScale(NamedTuple):
    """Maps the declared range of rewards onto [0, 1]; without a range rewards are unchanged.

    Attributes
    ----------
    low, high : float
        The declared range, or (0, 1).
    bounded : bool
        Whether a range is declared; rewards outside are rejected.
    sigma : float
        σ on the agent's scale.
    """

    low: float
    high: float
    bounded: bool
    sigma: float

    @property
    def accepted(self) -> tuple[float, float]:
        """The lowest and the highest reward that is not rejected."""
        return (self.low, self.high) if self.bounded else (-MAX_REWARD, MAX_REWARD)

    def unit(self, reward: float) -> float:
        """Return a valid reward on the agent's scale."""
        if not math.isfinite(reward):
            raise InputError(f"reward {reward} is not finite; report a finite number")
        if not self.bounded:
            if abs(reward) > MAX_REWARD:
                raise InputError(
                    f"reward {reward} is too large to be summed up; report rewards between "
                    f"{-MAX_REWARD:g} and {MAX_REWARD:g}, in a larger unit"
                )
            return reward
        if not self.low <= reward <= self.high:
            raise InputError(
                f"reward {reward} is outside the declared range {self.low:g} to {self.high:g}; "
                "report rewards within it, or declare another reward_range on all nodes"
            )
        return (reward - self.low) / (self.high - self.low)

    def reward(self, unit: float) -> float:
        """Return a value of the agent's scale on the application's."""
        return self.low + unit * (self.high - self.low)

    def interval(self, middle: float, half: float) -> tuple[float, float]:
        """Return an interval of the agent's scale as rewards, clipped to the range."""
        ends = self.reward(middle - half), self.reward(middle + half)
        return (max(self.low, ends[0]), min(self.high, ends[1])) if self.bounded else ends


def reward_scale(reward_range: tuple[float, float] | None, sigma: float | None) -> RewardScale:
    """Return the scale for a declared range, σ or both.

    Rewards in [0, 1] have a variance proxy of at most 1/4, whatever their distribution (Hoeffding).
    """
    if reward_range is None:
        if sigma is None:
            raise InputError("neither reward_range nor sigma is given; give at least one")
        return RewardScale(0.0, 1.0, bounded=False, sigma=sigma)
    low, high = reward_range
    return RewardScale(low, high, True, 0.5 if sigma is None else sigma / (high - low))


# The keys of a section


def read_number(what: str, value: Any) -> int:
    """Read the number of a bandit; a large one must be that of its name, which is checked later."""
    if not is_number(value) or not 0 < value < NUMBERS or value != int(value):
        raise InputError(wrong_number(what, value))
    return int(value)


def wrong_number(what: str, value: object) -> str:
    return (
        f"{what} is {value!r}; it must be a whole number from 1 to {DERIVED - 1}, or be left out: "
        "then it is derived from the name"
    )


def derived_number(name: str) -> int:
    """Return the number of a bandit that states none.

    Examples
    --------
    >>> derived_number("checkout-button")
    1450806703
    """
    return DERIVED + int.from_bytes(sha256(name.encode()).digest()[:8], "big") % (NUMBERS - DERIVED)


def read_policy(what: str, value: object) -> str:
    """Read the spelling of a policy that can run in a fleet."""
    if not isinstance(value, str):
        raise InputError(f"{what} is {value!r}; it must be a policy in quotes, such as 'flood-ts'")
    if value.strip() not in REGISTRY.names() and not set(value) & set(":*"):
        raise unknown_name("policy of a fleet", value.strip(), eligible_names())
    found = parse_policy(value)
    require_eligible(what, found)
    return found.spelling


def read_range(what: str, value: object) -> tuple[float, float]:
    """Read the lowest and the highest reward."""
    if isinstance(value, list) and len(value) == 2 and all(map(is_number, value)):
        low, high = map(to_float, value)
        if 0.0 < high - low < math.inf:
            return low, high
    raise InputError(
        f"{what} is {value!r}; it must be two finite numbers, the lower one first: [0.0, 1.0]"
    )


@dataclass(frozen=True)
class Arm:
    """An option of a bandit.

    Attributes
    ----------
    name : str
        Its name in applications.
    id : str
        Its permanent id, from which its number in journals and messages is derived.
    frozen : bool
        Not chosen for now; rewards still count.
    minimum_share : float
        Minimum share of all choices.
    """

    name: Name
    id: Name
    frozen: Flag = False
    minimum_share: Share = 0.0

    @property
    def number(self) -> int:
        """The arm in journals and messages."""
        return int.from_bytes(sha256(self.id.encode()).digest()[:8], "big")


ARM = table_of(Arm).types

UNSTATED = -1.0
"""Share of an arm that states none, until that of its bandit is known."""


def read_arms(what: str, value: object) -> tuple[Arm, ...]:
    """Read a list of names, or of tables if an arm has settings."""
    if not isinstance(value, list) or not 2 <= len(value) <= MAX_ARMS:
        found = f"a list of {len(value)}" if isinstance(value, list) else repr(value)
        raise InputError(
            f'{what} is {found}; it must be a list of 2 to {MAX_ARMS} names: ["a", "b"]'
        )
    arms = []
    for at, each in enumerate(value):
        where = f"{what}[{at}]"
        table = each if isinstance(each, dict) else {"name": read_name(where, each)}
        for key in table:
            if key not in ARM:
                raise unknown_name(f"key of {where}", str(key), ARM)
        if "name" not in table:
            raise InputError(f"{where} has no name; add it")
        given = {key: read_value(f"{where} {key}", table[key], ARM[key]) for key in table}
        arms.append(Arm(**{"id": given["name"], "minimum_share": UNSTATED, **given}))
    for key in ("name", "id", "number"):
        counts = Counter(getattr(arm, key) for arm in arms)
        twice = next((text for text, times in counts.items() if times > 1), None)
        if twice is not None:
            raise InputError(f"{what} has the {key} {twice!r} twice; give every arm its own")
    return tuple(arms)


ArmIds = Annotated[tuple[Name, ...], Meta(description='a list of ids of arms: ["red"]')]

NumAgents = Annotated[
    Count | Literal["estimate"], Meta(description="a whole number, at least 1, or 'estimate'")
]

Era = Annotated[
    int,
    Meta(ge=0, le=MAX_ERA, description=f"a whole number from 0 to {MAX_ERA}"),
]

LambdaBound = Annotated[
    Annotated[float, Meta(ge=0, lt=1)] | Literal["estimate"],
    Meta(description="a number in [0, 1), or 'estimate'"),
]


@dataclass(frozen=True)
class BanditConfig:
    """One bandit of a cluster.

    Attributes
    ----------
    name : str
        Its name in applications.
    number : int
        Its permanent number in journals and messages.
    cluster : ClusterConfig
        The cluster that it belongs to.
    arms : tuple of Arm
        Its options; none if it is retired.
    policy : str
        The spelling of a policy that can run in a fleet; see `eligibility`.
    era : int
        A higher one than before allows another policy; what was learned is carried over.
    reward_range : (float, float) or None
        Lowest and highest reward.
    sigma : float or None
        σ of the rewards, in their own unit. At least one of the two is given.
    num_agents : int, "estimate" or None
        N, if the policy needs it.
    lambda_bound : float, "estimate" or None
        An upper bound on λ, if the policy needs it.
    half_life : float or None
        Seconds after which a pull counts half; None if rewards are stationary.
    features : tuple of Feature or None
        What applications send of a request, if the policy is contextual.
    max_pulls_per_second : float or None
        As in the cluster, for this bandit; None for the cluster's.
    pinned : str or None
        The one arm that is chosen, whatever was learned.
    sticky_seconds : float
        Seconds for which a user or session is given the same arm; 0 to choose each time.
    token_file : Path or None
        Holds a token that gives access to this bandit only.
    purged : tuple of str
        Ids of arms of which only the number of pulls is kept.
    is_implied : bool
        Whether no policy was stated: then one that a journal has counts instead.
    """

    name: str
    number: Annotated[int, read_number]
    cluster: ClusterConfig
    arms: Annotated[tuple[Arm, ...], read_arms] = ()
    policy: Annotated[str, read_policy] = "flood-ts"
    era: Era = 0
    reward_range: Annotated[tuple[float, float], read_range] | None = None
    sigma: Positive | None = None
    num_agents: NumAgents | None = None
    lambda_bound: LambdaBound | None = None
    half_life: Duration | None = None
    features: Features | None = None
    max_pulls_per_second: Rate | None = None
    pinned: Name | None = None
    sticky_seconds: NotNegative = 0.0
    token_file: FilePath | None = None
    purged: ArmIds = ()
    is_implied: bool = False

    @property
    def where(self) -> str:
        """Its section, for messages."""
        return f"[bandits.{self.name}]"

    @property
    def purged_numbers(self) -> list[int]:
        """Purged arms, as in journals and messages."""
        return [Arm(name, name).number for name in self.purged]

    @property
    def most_pulls(self) -> float:
        """Maximum pulls per second and agent that other agents accept."""
        stated = self.max_pulls_per_second
        return self.cluster.max_pulls_per_second if stated is None else stated

    @cached_property
    def shared(self) -> dict[str, Any]:
        """The settings in `SHARED`, as plain data."""
        found = {key: getattr(self, key) for key in SHARED}
        if self.features is not None:
            found["features"] = features_table(self.features)
        if self.reward_range is not None:
            found["reward_range"] = list(self.reward_range)
        if not self.era:
            del found["era"]
        return {key: value for key, value in found.items() if value is not None}

    @cached_property
    def digest(self) -> str:
        """A short digest of the shared settings, independent of the spelling of the policy."""
        policy = parse_policy(self.policy).suited(self.family).spelling
        agreed = self.shared | {"policy": policy}
        listed = repr(sorted((key, repr(value)) for key, value in agreed.items()))
        return sha256(listed.encode()).hexdigest()[:16]

    @cached_property
    def policy_object(self) -> Policy:
        """The policy, with what it estimates and forgets set as configured."""
        asked = {key: getattr(self, key) for key in ("num_agents", "lambda_bound")}
        words = {key: value for key, value in asked.items() if isinstance(value, str)}
        forgetting = {} if self.half_life is None else {"discount": DISCOUNT}
        made: Policy = with_settings(parse_policy(self.policy), words | forgetting)
        return made.suited(self.family)

    @property
    def family(self) -> str:
        """The rewards' family, if the policy leaves it open.

        A range alone says as little as Bernoulli rewards do; σ says more, and the Gaussian family
        is the one that uses it.
        """
        return "gaussian" if self.reward_range is None or self.sigma is not None else "bernoulli"

    @property
    def tick(self) -> float:
        """The unit of time of agents that forget, in seconds; 0 if they do not."""
        return (self.half_life or 0.0) / HALF_LIFE

    @cached_property
    def traits(self) -> Traits:
        return traits_of(self.policy_object)

    @property
    def mode(self) -> str:
        """Either "synchronous" or "robust"."""
        return self.traits.mode

    @property
    def is_synchronous(self) -> bool:
        """Whether every round waits for all neighbours."""
        return self.mode == SYNCHRONOUS

    @cached_property
    def can_widen(self) -> bool:
        """Whether its arms may change after the first pull."""
        return not self.is_synchronous and can_widen(parse_policy(self.policy))

    @property
    def known_num_agents(self) -> int | None:
        """N for the agent's view; None if it is estimated or not needed."""
        return None if isinstance(self.num_agents, str) else self.num_agents

    @property
    def known_lambda_bound(self) -> float | None:
        """The bound on λ for the agent's view; None if it is estimated or not needed."""
        return None if isinstance(self.lambda_bound, str) else self.lambda_bound

    @cached_property
    def scale(self) -> RewardScale:
        return reward_scale(self.reward_range, self.sigma)

    @cached_property
    def encoder(self) -> Encoder:
        """Encodes contexts as the columns of a linear model."""
        return Encoder(self.features)

    def message_size(self, num_arms: int = 0) -> MessageSize | None:
        """Return the number of values in messages, by default for its own arms.

        None if a custom policy does not declare it.
        """
        policy: Any = self.policy_object
        num_arms, most_agents = num_arms or len(self.arms), self.cluster.most_agents
        if policy.parts is None:
            if not hasattr(policy, "message_size"):
                return None
            return MessageSize(*policy.message_size(num_arms, most_agents))
        registers = policy.parts.registers(num_arms, self.encoder.width)
        found: MessageSize = policy.parts.aggregation.message_size(registers, most_agents)
        return found

    def max_message_values(self, num_arms: int = 0) -> int:
        """Return the number of values that a receiver must have room for.

        There is always room for what flooding sends, whatever the policy is.
        """
        size, policy = self.message_size(num_arms), self.policy_object
        num_arms = num_arms or len(self.arms)
        flooded = [(FloodedTotals(), ArmSums("pooled").registers(num_arms))]
        if self.era and policy.parts is not None:  # that of its base
            discount = 1.0 if self.half_life is None else DISCOUNT
            registers = policy.parts.registers(num_arms, self.encoder.width)
            flooded.append((FloodedTotals(discount=discount), registers))
        room = [flood.message_size(each, self.cluster.most_agents).most for flood, each in flooded]
        return max(*room, size.most if size else 0)

    def max_message_bytes(self, num_arms: int = 0) -> int:
        """Return the bytes that a receiver must have room for, with proofs and certificates."""
        proofs = INTERMEDIATES_BYTES + PROOF_BYTES * self.cluster.most_agents
        return 8 * self.max_message_values(num_arms) + proofs


CLUSTER = table_of(ClusterConfig)

BANDIT = Table({**table_of(BanditConfig).types, "minimum_share": Share}, ("arms",))


def make_bandit(name: str, cluster: ClusterConfig, values: Mapping[str, Any]) -> BanditConfig:
    """Return a bandit from the values of its section."""
    given = {"number": derived_number(name), "policy": default_policy(cluster, values), **values}
    given["is_implied"] = "policy" not in values
    least = given.pop("minimum_share", 0.0)
    given["arms"] = tuple(
        replace(arm, minimum_share=least) if arm.minimum_share == UNSTATED else arm
        for arm in given["arms"]
    )
    return BanditConfig(name, cluster=cluster, **given)


def default_policy(cluster: ClusterConfig, values: Mapping[str, Any]) -> str:
    """Return the policy of a bandit that states none.

    Flooded entries have an author each, who signs them, and messages grow with the number of
    agents. What is passed on to a ledger has none, and messages do not grow. A ledger does not
    forget by the clock.
    """
    if "features" in values:
        return "flooded-totals*lin-ts:disjoint=true"
    return FLOODING if cluster.floods or "half_life" in values else COLLECTING


def from_journal(
    cluster: ClusterConfig, name: str, number: int, shared: Mapping[str, Any]
) -> BanditConfig:
    """Return a retired bandit, which is in a journal and no longer declared."""
    known = dict(shared)
    if "features" in known:
        known["features"] = read_features("features", known["features"])
    if "reward_range" in known:
        known["reward_range"] = tuple(known["reward_range"])
    return BanditConfig(name, number, cluster, **known)
