"""Checks of settings that are valid one by one but contradict each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any

from coopbandits.core import registry
from coopbandits.core.errors import InputError
from coopbandits.core.index import ANY_REWARDS
from coopbandits.core.registry import parse_policy
from coopbandits.fleet.address import Address
from coopbandits.fleet.config.bandits import BanditConfig, bandit_problems, number_problems
from coopbandits.fleet.config.eligibility import can_estimate, traits_of, trial_view
from coopbandits.fleet.config.features import EXAMPLE
from coopbandits.fleet.config.fields import shown
from coopbandits.fleet.config.model import NodeConfig
from coopbandits.fleet.config.rewards import MOST
from coopbandits.fleet.identity.names import agent_number

FEWEST_ROUNDS = 100
"""A half-life of fewer rounds is over before news has come round."""

LONGEST_SOCKET = 103
"""The longest path of a Unix socket, in bytes, that every system accepts."""


def find_contradictions(config: NodeConfig, now: float, *, insecure: bool) -> Iterator[str]:
    """Yield a sentence for every contradiction."""
    cluster = config.cluster
    if cluster.epoch > now:
        start = datetime.fromtimestamp(cluster.epoch, UTC).isoformat()
        present = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
        yield f"[cluster] epoch {start} lies in the future; it is {present}: look at the clock"
    yield from declaration_problems(config.bandits)
    for bandit in config.bandits.values():
        yield from _numbers_of_agents(config, bandit)
    yield from _room_for_neighbors(config)
    yield from _names(config)
    yield from _members(config)
    yield from _links(config, insecure=insecure)
    yield from _api(config)
    if config.document.file is not None and not config.document.operators:
        yield (
            "[document] has a file, but no operators, so that nothing in it would be believed; "
            "list the keys that `coopbandits cluster keygen` prints"
        )
    wanted = config.degree if config.auto else len(config.neighbors)
    if config.ready_neighbors > wanted:
        yield (
            f"[node] ready_neighbors is {config.ready_neighbors}, but {wanted} neighbours are "
            f"{'looked for' if config.auto else 'listed'}, so the agent would never be ready; "
            f"lower it or {'raise degree' if config.auto else 'list more'}"
        )


def declaration_problems(declared: Mapping[str, BanditConfig]) -> Iterator[str]:
    """Yield a sentence for every contradiction in the declarations of bandits."""
    for bandit in declared.values():
        yield from _rewards(bandit)
        yield from _features(bandit)
        for key in ("num_agents", "lambda_bound"):
            yield from _knowledge(bandit, key)
        if bandit.half_life is not None:
            yield from half_life_problems(bandit, bandit.half_life)
        yield from bandit_problems(bandit)
    yield from number_problems(declared)


def _rewards(bandit: BanditConfig) -> Iterator[str]:
    if bandit.reward_range is None and bandit.sigma is None:
        yield (
            f"{bandit.where} has neither reward_range nor sigma; give the lowest and the highest "
            "reward as reward_range = [0.0, 1.0], or the rewards' standard deviation as sigma"
        )
    else:
        yield from _magnitudes(bandit)
    low, high = parse_policy(bandit.policy).support
    if bandit.reward_range is None and (low, high) != ANY_REWARDS:
        yield (
            f"{bandit.where} policy {bandit.policy} is for rewards in [{low:g}, {high:g}], but "
            "there is no reward_range; give one, or choose an index or a family for any rewards"
        )
    elif not low <= 0.0 < 1.0 <= high:  # agents see the range as [0, 1]
        yield (
            f"{bandit.where} policy {bandit.policy} is for rewards in [{low:g}, {high:g}], and "
            "agents see rewards scaled to [0, 1]; choose an index for those"
        )


def _magnitudes(bandit: BanditConfig) -> Iterator[str]:
    """Refuse numbers whose squares and quotients are no longer numbers."""
    ends = bandit.reward_range or (0.0, 1.0)
    if max(map(abs, ends)) > MOST:
        yield (
            f"{bandit.where} reward_range is {list(ends)}; it must lie between {-MOST:g} and "
            f"{MOST:g}: hand in rewards in a larger unit"
        )
    elif not 1 / MOST <= bandit.scale.sigma <= MOST:
        yield (
            f"{bandit.where} sigma is {bandit.sigma!r}, {bandit.scale.sigma:g} of the range; it "
            f"must be from {1 / MOST:g} to {MOST:g}: hand in rewards in another unit"
        )


def _features(bandit: BanditConfig) -> Iterator[str]:
    looks = parse_policy(bandit.policy).takes_context
    if looks and bandit.features is None:
        yield (
            f"{bandit.where} policy {bandit.policy} looks at features, but none are declared; list "
            f"them in [bandits.{bandit.name}.features]: {EXAMPLE}"
        )
    elif bandit.features is not None and not looks:
        yield (
            f"{bandit.where} has features, but policy {bandit.policy} looks at none; remove them, "
            "or choose one that does, such as flooded-totals*lin-ts:disjoint=true"
        )


def _knowledge(bandit: BanditConfig, key: str) -> Iterator[str]:
    """Compare what a policy needs to be told with what it is told."""
    policy: Any = parse_policy(bandit.policy)
    given = getattr(bandit, key)
    if given is None and key in policy.needs:
        estimate = ', or "estimate"' if can_estimate(policy, key) else ""
        yield f"{bandit.where} has no {key}, which policy {bandit.policy} needs; give it{estimate}"
    elif given is not None and key not in policy.needs:
        yield f"{bandit.where} {key} is {given!r}, but policy {bandit.policy} takes none; remove it"
    elif given == "estimate" and not can_estimate(policy, key):
        yield (
            f"{bandit.where} {key} cannot be estimated for policy {bandit.policy}; give a number, "
            "or choose a policy that needs none, such as flood-ts"
        )


def half_life_problems(bandit: BanditConfig, seconds: float) -> Iterator[str]:
    """Refuse a policy that cannot forget by the clock, and a memory too short for gossip."""
    what = f"{bandit.where} half_life is {shown(seconds)}, but "
    takers = [each.name for each in registry.AGGREGATIONS if each.takes_time]
    if not traits_of(parse_policy(bandit.policy)).takes_time:
        yield (
            f"{what}policy {bandit.policy} cannot forget by the clock; leave it out, or take a "
            f"policy on {', '.join(takers)}, such as flood-ts"
        )
        return
    try:
        _ = bandit.policy_object
    except InputError as error:
        yield f"{what}with policy {bandit.policy} {error}"
    if seconds * bandit.cluster.rounds_per_second < FEWEST_ROUNDS:
        least = FEWEST_ROUNDS / bandit.cluster.rounds_per_second
        yield (
            f"{what}agents that end {bandit.cluster.rounds_per_second:g} rounds a second would "
            f"forget faster than they hear; give at least {shown(least)}, or raise "
            "rounds_per_second"
        )


def _numbers_of_agents(config: NodeConfig, bandit: BanditConfig) -> Iterator[str]:
    fewest, known = len(config.neighbors) + 1, bandit.told_num_agents
    most = config.cluster.most_agents
    if known is not None and not fewest <= known <= most:
        yield (
            f"{bandit.where} num_agents is {known}; it must be at least {fewest}, this "
            f"node and its neighbours, and at most max_agents, which is {most}"
        )


def _room_for_neighbors(config: NodeConfig) -> Iterator[str]:
    fewest, most = len(config.neighbors) + 1, config.cluster.most_agents
    if most < fewest:
        yield (
            f"[cluster] max_agents is {most}, but this node and its neighbours are {fewest}; "
            "raise it on all nodes"
        )


def _names(config: NodeConfig) -> Iterator[str]:
    if config.id in config.neighbors:
        yield f"node {config.id} is its own neighbour; remove it from [[neighbors]]"
    owners: dict[int, str] = {}
    for name in (config.id, *config.neighbors):
        other = owners.setdefault(agent_number(name), name)
        if other != name:
            yield (
                f"the names {other} and {name} have the same number {agent_number(name)}; "
                "give one of the two another name"
            )


def _members(config: NodeConfig) -> Iterator[str]:
    """Compare how neighbours are found with what takes that."""
    if not config.auto:
        for key in ("seeds", "advertise"):
            if getattr(config, key):
                yield (
                    f'[node] has {key}, but its neighbours are listed; say neighbors = "auto", or '
                    f"remove {key}"
                )
        return
    if config.neighbors:
        yield (
            f'[node] neighbors is "auto", but {len(config.neighbors)} are listed; remove one or '
            "the other"
        )
    if config.tls is None:
        yield (
            '[node] neighbors is "auto", but there is no [tls]; agents that find each other know '
            "each other by their certificates alone: make them with: coopbandits certs"
        )
    services = [str(each) for each in config.seeds if each.is_service]
    if services and find_spec("dns") is None:
        yield (
            f"[node] seeds has {services[0]}, whose SRV records are read with dnspython, which is "
            "not installed; run pip install 'coopbandits[srv]', or give host:port"
        )
    for bandit in config.bandits.values():
        if obstacle := _stays_with_neighbors(bandit):
            yield (
                f'[node] neighbors is "auto", but {obstacle}; list the neighbours, or take flood-ts'
            )


def _stays_with_neighbors(bandit: BanditConfig) -> str:
    """Return why a policy cannot go on with other neighbours, as a clause; "" if it can."""
    if bandit.is_synchronous:
        return f"policy {bandit.policy} is synchronous, and its neighbours stay the same"
    policy = bandit.policy_object
    few = policy.make_agent(replace(trial_view(policy), own_weight=1.0, neighbor_weights={}))
    more: Any = policy.make_agent(trial_view(policy))
    try:
        more.relinked(few.export_state(), [])
    except InputError as error:
        return f"policy {bandit.policy} cannot go on with other neighbours: {error}"
    return ""


def _links(config: NodeConfig, *, insecure: bool) -> Iterator[str]:
    """Refuse links without certificates, except on one machine with --insecure."""
    if config.tls is not None:
        return
    if not insecure:
        yield (
            "there is no [tls], so anybody could take part; give ca, certificate and key (make "
            "them with: coopbandits certs), or add --insecure to try it out on one machine"
        )
        return
    places: dict[str, Address] = {"[node] listen": config.listen}
    places |= {f"address of neighbour {name}": place for name, place in config.neighbors.items()}
    for what, place in places.items():
        if not place.is_loopback:
            yield (
                f"{what} is {place}, which others can reach, and there is no [tls]; without it "
                "only addresses of this machine such as 127.0.0.1 are accepted"
            )


def _api(config: NodeConfig) -> Iterator[str]:
    """Refuse an API that others can reach without a token or client certificates."""
    place = config.api
    if not isinstance(place, Address):
        if len(bytes(place)) > LONGEST_SOCKET:
            yield f"[node] api unix:{place} is longer than {LONGEST_SOCKET} bytes; shorten the path"
        return
    if place.is_loopback:
        return
    if config.tls is None:
        yield (
            f"[node] api is {place}, which others can reach, and there is no [tls]; choose an "
            "address of this machine such as 127.0.0.1, or unix:PATH"
        )
    elif config.token_file is None and config.api_tls is None:
        yield (
            f"[node] api is {place}, which others can reach; give a token_file or [api_tls], or "
            "choose an address of this machine such as 127.0.0.1, or unix:PATH"
        )
