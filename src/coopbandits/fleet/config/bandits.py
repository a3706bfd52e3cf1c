"""The bandits of a cluster: sections ``[bandits.NAME]``, or the one that ``[cluster]`` declares.

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

from coopbandits.core.aggregate.aggregation import ROBUST
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.core.registry import parse_policy
from coopbandits.fleet.config import fields as read
from coopbandits.fleet.config.durations import duration
from coopbandits.fleet.config.eligibility import can_purge, can_widen
from coopbandits.fleet.config.features import read_features, table_of

if TYPE_CHECKING:
    from coopbandits.fleet.config.model import ClusterConfig

PLAIN = "default"
"""The name of the one bandit that [cluster] declares; its number is 0."""

DERIVED = 1 << 16
"""Numbers below are stated; those made of names begin here."""

NUMBERS = 1 << 32
MOST_BANDITS = 1000
MOST_ARMS = 1000

SHARED = ("policy", "reward_range", "sigma", "half_life", "features")
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
    settings : ClusterConfig
        The cluster as this bandit sees it, with its own policy, arms and rewards.
    arms : tuple of Arm
        Its options; none where it is retired.
    pinned : str or None
        The one arm that is chosen, whatever was learned.
    token_file : Path or None
        Holds a token that opens this bandit alone.
    purged : tuple of str
        Ids of arms of which nothing is kept but how many pulls they had.
    """

    name: str
    number: int
    settings: ClusterConfig
    arms: tuple[Arm, ...] = ()
    pinned: str | None = None
    token_file: Path | None = None
    purged: tuple[str, ...] = ()

    @property
    def purged_numbers(self) -> list[int]:
        """Ids of purged arms, as journals and messages have them."""
        return [Arm(name, name).number for name in self.purged]

    @property
    def is_plain(self) -> bool:
        """Whether [cluster] declares it, so that its arms are what they are for ever."""
        return self.number == 0

    @cached_property
    def shared(self) -> dict[str, Any]:
        """What agents must agree on to talk about it, as plain data."""
        found = {key: getattr(self.settings, key) for key in SHARED}
        if self.settings.features is not None:
            found["features"] = table_of(self.settings.features)
        if self.settings.reward_range is not None:
            found["reward_range"] = list(self.settings.reward_range)
        return {key: value for key, value in found.items() if value is not None}

    @cached_property
    def digest(self) -> str:
        """A short digest of that."""
        listed = repr(sorted((key, repr(value)) for key, value in self.shared.items()))
        return sha256(listed.encode()).hexdigest()[:16]

    def retired(self) -> BanditConfig:
        """Return it without arms: nothing is chosen, late rewards count."""
        return replace(self, arms=(), pinned=None, settings=replace(self.settings, arms=()))


def plain_bandit(cluster: ClusterConfig) -> BanditConfig:
    """Return the one bandit that [cluster] declares."""
    return BanditConfig(PLAIN, 0, cluster, tuple(Arm(name, name) for name in cluster.arms))


def from_journal(cluster: ClusterConfig, name: str, number: int, shared: Any) -> BanditConfig:
    """Return a bandit that a journal tells of and no declaration does."""
    told = dict(shared)
    if "features" in told:
        told["features"] = read_features("features", told["features"])
    if "reward_range" in told:
        told["reward_range"] = tuple(told["reward_range"])
    return BanditConfig(name, number, replace(cluster, **told, arms=()))


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
    told = dict(values)
    number, pinned = told.pop("number", derived_number(name)), told.pop("pinned", None)
    least, token = told.pop("minimum_share", 0.0), told.pop("token_file", None)
    purged = told.pop("purged", ())
    arms = tuple(
        replace(arm, minimum_share=least) if arm.minimum_share == UNSTATED else arm
        for arm in told["arms"]
    )
    told["arms"] = tuple(arm.name for arm in arms)
    # [cluster] names no policy beside sections, so its own tells whether there are many agents.
    settings = replace(cluster, **told, **default_policy(told, many=not cluster.traits.grows))
    return BanditConfig(name, number, settings, arms, pinned, token, purged)


def default_policy(told: Mapping[str, Any], *, many: bool) -> dict[str, Any]:
    """Return the policy of a bandit that states none, by what else is told and if agents are many.

    Flooded entries have an author each, who signs them, and messages grow with the agents; what is
    handed on to a ledger has none, and messages stay as long as they are. A ledger does not forget
    by the time.
    """
    if "policy" in told:
        return {}
    if "features" in told:
        return {"policy": "flooded-totals*lin-ts:disjoint=true"}
    name = "ledger-ts" if many and "half_life" not in told else "flood-ts"
    return {"policy": name}


# Checking


def bandit_problems(bandit: BanditConfig) -> Iterator[str]:
    """Yield a sentence for everything about a declared bandit that cannot be."""
    where, names = f"[bandits.{bandit.name}]", [arm.name for arm in bandit.arms]
    policy = bandit.settings.policy
    if bandit.number >= DERIVED and bandit.number != derived_number(bandit.name):
        yield _wrong_number(f"{where} number", bandit.number)
    if bandit.settings.mode != ROBUST:
        yield (
            f"{where} policy {policy} waits for all neighbours in every round, so that its arms "
            "cannot change while agents run; choose a robust one such as flood-ts, or declare it "
            "as the only one, in [cluster]"
        )
    elif not can_widen(parse_policy(policy)):
        yield (
            f"{where} policy {policy} cannot go on with other arms; choose one on flooded-totals, "
            "tree-sums or ledger-sums, such as flood-ts, or declare it as the only one, in "
            "[cluster]"
        )
    if bandit.pinned is not None and bandit.pinned not in names:
        yield str(unknown_name(f"arm pinned in {where}", bandit.pinned, names))
    if all(arm.frozen for arm in bandit.arms) and bandit.pinned is None:
        yield f"{where} has no arm that is not frozen; leave one, or leave out the section"
    for arm in bandit.arms:
        if arm.id in bandit.purged:
            yield f"{where} has {arm.id!r} among its arms and in purged; leave it out of either"
    if bandit.purged and not can_purge(parse_policy(policy)):
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
