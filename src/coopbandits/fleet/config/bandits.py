"""The bandits of a cluster: sections ``[bandits.NAME]``.

::

    [bandits.checkout-button]
    arms = ["red", "green", { name = "blue", minimum_share = 0.05 }]
    reward_range = [0.0, 1.0]

A bandit has a number, and an arm has an id. Journals and messages know them by these alone, so they
must stay: names may change where number and id are stated. Unless stated, both are made of names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coopbandits.core.aggregate.aggregation import SYNCHRONOUS
from coopbandits.core.aggregate.forgetting import DISCOUNT, HALF_LIFE
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.core.registry import parse_policy
from coopbandits.fleet.config import fields as read
from coopbandits.fleet.config.eligibility import (
    Traits,
    can_purge,
    can_widen,
    traits_of,
    with_settings,
)
from coopbandits.fleet.config.features import Encoder, Feature, read_features, table_of
from coopbandits.fleet.config.fields import duration
from coopbandits.fleet.config.model import ClusterConfig
from coopbandits.fleet.config.rewards import RewardScale, reward_scale

if TYPE_CHECKING:
    from coopbandits.core.policy import Policy

DERIVED = 1 << 16
"""Numbers below are stated; those made of names begin here."""

NUMBERS = 1 << 32
MOST_BANDITS = 1000
MOST_ARMS = 1000

SHARED = (
    "policy", "reward_range", "sigma", "num_agents", "lambda_bound", "half_life", "features",
)  # fmt: skip
"""What agents must agree on to talk about a bandit."""


@dataclass(frozen=True)
class Arm:
    """An option of a bandit.

    Attributes
    ----------
    name : str
        What applications call it.
    id : str
        What it is in journals and messages, for ever.
    frozen : bool
        Not chosen for now; rewards still count.
    minimum_share : float
        At least this share of all choices.
    """

    name: str
    id: str
    frozen: bool = False
    minimum_share: float = 0.0

    @property
    def number(self) -> int:
        """The id in journals and messages."""
        return int.from_bytes(sha256(self.id.encode()).digest()[:8], "big")


@dataclass(frozen=True)
class BanditConfig:
    """One bandit of a cluster.

    Attributes
    ----------
    name : str
        What applications call it.
    number : int
        What it is in journals and messages, for ever.
    cluster : ClusterConfig
        The cluster that it belongs to.
    arms : tuple of Arm
        Its options; none where it is retired.
    policy : str
        The spelling of a policy that can run in a fleet; see `eligibility`.
    reward_range : (float, float) or None
        Lowest and highest reward.
    sigma : float or None
        σ of the rewards, in their own unit. At least one of the two is given.
    num_agents : int, "estimate" or None
        N, if the policy needs it.
    lambda_bound : float, "estimate" or None
        An upper bound on λ, if the policy needs it.
    half_life : float or None
        Seconds after which a pull counts half; None for ever the same.
    features : tuple of Feature or None
        What applications send of a request, if the policy looks at it.
    max_pulls_per_second : float or None
        As in the cluster, for this bandit; None for the same.
    pinned : str or None
        The one arm that is chosen, whatever was learned.
    token_file : Path or None
        Holds a token that opens this bandit alone.
    purged : tuple of str
        Ids of arms of which nothing is kept but how many pulls they had.
    """

    name: str
    number: int
    cluster: ClusterConfig
    arms: tuple[Arm, ...] = ()
    policy: str = "flood-ts"
    reward_range: tuple[float, float] | None = None
    sigma: float | None = None
    num_agents: int | str | None = None
    lambda_bound: float | str | None = None
    half_life: float | None = None
    features: tuple[Feature, ...] | None = None
    max_pulls_per_second: float | None = None
    pinned: str | None = None
    token_file: Path | None = None
    purged: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """Its section, as messages name it."""
        return f"[bandits.{self.name}]"

    @property
    def purged_numbers(self) -> list[int]:
        """Ids of purged arms, as journals and messages have them."""
        return [Arm(name, name).number for name in self.purged]

    @property
    def most_pulls(self) -> float:
        """Pulls per second that agents believe each other of this bandit."""
        stated = self.max_pulls_per_second
        return self.cluster.max_pulls_per_second if stated is None else stated

    @cached_property
    def shared(self) -> dict[str, Any]:
        """What agents must agree on to talk about it, as plain data."""
        found = {key: getattr(self, key) for key in SHARED}
        if self.features is not None:
            found["features"] = table_of(self.features)
        if self.reward_range is not None:
            found["reward_range"] = list(self.reward_range)
        return {key: value for key, value in found.items() if value is not None}

    @cached_property
    def digest(self) -> str:
        """A short digest of that, however the policy is spelled."""
        policy = parse_policy(self.policy).suited(self.family).spelling
        told = self.shared | {"policy": policy}
        listed = repr(sorted((key, repr(value)) for key, value in told.items()))
        return sha256(listed.encode()).hexdigest()[:16]

    @cached_property
    def policy_object(self) -> Policy:
        """The policy, with "estimate" passed on where configured, and what it forgets."""
        asked = {key: getattr(self, key) for key in ("num_agents", "lambda_bound")}
        words = {key: value for key, value in asked.items() if isinstance(value, str)}
        forgetting = {} if self.half_life is None else {"discount": DISCOUNT}
        made: Policy = with_settings(parse_policy(self.policy), words | forgetting)
        return made.suited(self.family)

    @property
    def family(self) -> str:
        """The rewards' family, where the policy leaves it open.

        A range alone says as little as Bernoulli rewards do; σ says more, and the Gaussian family
        is the one that uses it.
        """
        return "gaussian" if self.reward_range is None or self.sigma is not None else "bernoulli"

    @property
    def tick(self) -> float:
        """Seconds by which agents count the time where they forget; else 0."""
        return (self.half_life or 0.0) / HALF_LIFE

    @cached_property
    def traits(self) -> Traits:
        """What the policy declares."""
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
        """Whether its arms may change once it has learned something."""
        return not self.is_synchronous and can_widen(parse_policy(self.policy))

    @property
    def told_num_agents(self) -> int | None:
        """N for the agent's view; None if it is estimated or not needed."""
        return None if isinstance(self.num_agents, str) else self.num_agents

    @property
    def told_lambda_bound(self) -> float | None:
        """The bound for the agent's view; None if it is estimated or not needed."""
        return None if isinstance(self.lambda_bound, str) else self.lambda_bound

    @cached_property
    def scale(self) -> RewardScale:
        """The map from rewards to the agent's scale, with σ."""
        return reward_scale(self.reward_range, self.sigma)

    @cached_property
    def encoder(self) -> Encoder:
        """What turns contexts into numbers."""
        return Encoder(self.features)


def from_journal(cluster: ClusterConfig, name: str, number: int, shared: Any) -> BanditConfig:
    """Return a retired bandit that a journal knows and no declaration does."""
    known = dict(shared)
    if "features" in known:
        known["features"] = read_features("features", known["features"])
    if "reward_range" in known:
        known["reward_range"] = tuple(known["reward_range"])
    return BanditConfig(name, number, cluster, **known)


def derived_number(name: str) -> int:
    """Return the number of a bandit that states none.

    Examples
    --------
    >>> derived_number("checkout-button")
    1450806703
    """
    return DERIVED + int.from_bytes(sha256(name.encode()).digest()[:8], "big") % (NUMBERS - DERIVED)


# Reading


def _number(what: str, value: Any) -> int:
    if not read.is_number(value) or not 0 < value < NUMBERS or value != int(value):
        raise InputError(_wrong_number(what, value))
    return int(value)


def _wrong_number(what: str, value: Any) -> str:
    return (
        f"{what} is {value!r}; it must be a whole number from 1 to {DERIVED - 1}, or be left out: "
        "then it is made of the name"
    )


def _share(what: str, value: Any) -> float:
    if not read.is_number(value) or not 0.0 <= value < 1.0:
        raise InputError(f"{what} is {value!r}; it must be a share of all choices, such as 0.05")
    return float(value)


def _arms(what: str, value: Any) -> tuple[Arm, ...]:
    """Read a list of names, or of tables where an arm has settings."""
    if not isinstance(value, list) or not 2 <= len(value) <= MOST_ARMS:
        found = f"a list of {len(value)}" if isinstance(value, list) else repr(value)
        raise InputError(
            f'{what} is {found}; it must be a list of 2 to {MOST_ARMS} names: ["a", "b"]'
        )
    found_arms = tuple(_arm(f"{what}[{at}]", each) for at, each in enumerate(value))
    for key in ("name", "id", "number"):
        counts = Counter(getattr(arm, key) for arm in found_arms)
        twice = next((text for text, times in counts.items() if times > 1), None)
        if twice is not None:
            raise InputError(f"{what} has the {key} {twice!r} twice; give every arm its own")
    return found_arms


def _ids(what: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise InputError(f'{what} is {value!r}; it must be a list of ids of arms: ["red"]')
    return tuple(read.name(f"{what}[{at}]", each) for at, each in enumerate(value))


UNSTATED = -1.0
"""The share of an arm that states none, before the section's own is known."""

ARM: dict[str, read.Reader] = {
    "name": read.name,
    "id": read.name,
    "frozen": read.flag,
    "minimum_share": _share,
}


def _arm(what: str, value: Any) -> Arm:
    if not isinstance(value, dict):
        return Arm(read.name(what, value), value, minimum_share=UNSTATED)
    for key in value:
        if key not in ARM:
            raise unknown_name(f"key of {what}", str(key), ARM)
    if "name" not in value:
        raise InputError(f"{what} has no name; give it")
    told = {key: ARM[key](f"{what} {key}", each) for key, each in value.items()}
    return Arm(**({"id": told["name"], "minimum_share": UNSTATED} | told))


BANDIT: dict[str, read.Reader] = {
    "number": _number,
    "arms": _arms,
    "policy": read.policy,
    "reward_range": read.reward_range,
    "sigma": read.positive,
    "num_agents": read.num_agents,
    "lambda_bound": read.lambda_bound,
    "half_life": duration,
    "features": read_features,
    "max_pulls_per_second": read.rate,
    "minimum_share": _share,
    "pinned": read.name,
    "purged": _ids,
    "token_file": read.path,
}

OPTIONAL = BANDIT.keys() - {"arms"}


def make_bandit(name: str, cluster: ClusterConfig, values: Mapping[str, Any]) -> BanditConfig:
    """Return a bandit of what was read of its section; the rest is as in [cluster]."""
    given = {"number": derived_number(name), "policy": default_policy(cluster, values), **values}
    least = given.pop("minimum_share", 0.0)
    given["arms"] = tuple(
        replace(arm, minimum_share=least) if arm.minimum_share == UNSTATED else arm
        for arm in given["arms"]
    )
    return BanditConfig(name, cluster=cluster, **given)


def default_policy(cluster: ClusterConfig, values: Mapping[str, Any]) -> str:
    """Return the policy of a bandit that names none.

    Flooded entries have an author each, who signs them, and messages grow with the agents; what is
    passed on to a ledger has none, and messages stay as long as they are. A ledger does not forget
    by the clock.
    """
    if "features" in values:
        return "flooded-totals*lin-ts:disjoint=true"
    return "flood-ts" if cluster.floods or "half_life" in values else "ledger-ts"


# Checking


def bandit_problems(bandit: BanditConfig) -> Iterator[str]:
    """Yield a sentence for everything about a declared bandit that cannot be."""
    where, names = bandit.where, [arm.name for arm in bandit.arms]
    policy = bandit.policy
    if bandit.number >= DERIVED and bandit.number != derived_number(bandit.name):
        yield _wrong_number(f"{where} number", bandit.number)
    if bandit.pinned is not None and bandit.pinned not in names:
        yield str(unknown_name(f"arm pinned in {where}", bandit.pinned, names))
    if all(arm.frozen for arm in bandit.arms) and bandit.pinned is None:
        yield f"{where} has no arm that is not frozen; leave one, or leave out the section"
    for arm in bandit.arms:
        if arm.id in bandit.purged:
            yield f"{where} has {arm.id!r} among its arms and in purged; leave it out of either"
    if bandit.purged and not bandit.can_widen:
        yield (
            f"{where} purges arms, but with policy {policy} arms stay what they are; leave out "
            "purged, or give a policy such as flood-ts to a bandit of another name"
        )
    elif bandit.purged and not can_purge(parse_policy(policy)):
        yield (
            f"{where} purges arms, but policy {policy} learns from all arms how sites differ; "
            "leave out purged, or give a policy without spread=estimate to a bandit of another name"
        )
    total = sum(arm.minimum_share for arm in bandit.arms if not arm.frozen)
    if total > 1.0:
        yield f"{where} minimum_share adds up to {total:g} over all arms; it may be 1 at most"


def number_problems(bandits: Mapping[str, BanditConfig]) -> Iterator[str]:
    """Yield a sentence for every two bandits with one number, and for too many bandits."""
    owners: dict[int, str] = {}
    for bandit in bandits.values():
        other = owners.setdefault(bandit.number, bandit.name)
        if other != bandit.name:
            yield (
                f"bandits {other} and {bandit.name} have the same number {bandit.number}; state "
                "another number for the one that is new"
            )
    if len(bandits) > MOST_BANDITS:
        yield f"there are {len(bandits)} bandits; an agent takes up to {MOST_BANDITS}"
