"""Checks of settings that are valid one by one but contradict each other.

All functions yield a sentence per problem. `declaration_problems` is also for bandits that the
cluster's document declares.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any

from coopbandits.core import registry
from coopbandits.core.errors import InputError, unknown_name
from coopbandits.core.index import ANY_REWARDS
from coopbandits.core.registry import parse_policy
from coopbandits.fleet.address import Address
from coopbandits.fleet.config.bandits import (
    DERIVED,
    MAX_BANDITS,
    MAX_REWARD,
    BanditConfig,
    derived_number,
    wrong_number,
)
from coopbandits.fleet.config.eligibility import (
    can_estimate,
    can_purge,
    carry_problem,
    traits_of,
    trial_view,
)
from coopbandits.fleet.config.features import EXAMPLE
from coopbandits.fleet.config.model import NodeConfig
from coopbandits.fleet.config.values import show_duration
from coopbandits.fleet.identity.certs import issue_command
from coopbandits.fleet.identity.names import agent_number

MIN_ROUNDS = 100
"""With a half-life of fewer rounds, pulls are forgotten before they have spread."""

MAX_SOCKET_PATH = 103
"""The longest path of a Unix socket, in bytes, that every system accepts."""

EVERYWHERE = "0.0.0.0"  # noqa: S104  compared, not listened on

MAX_MESSAGE_MB = 32.0
"""An agent holds several messages of every neighbour, and writes its own to its journal."""


def find_contradictions(config: NodeConfig, now: float, *, insecure: bool) -> Iterator[str]:
    """Yield the contradictions in one agent's configuration."""
    cluster = config.cluster
    if cluster.epoch > now:
        start = datetime.fromtimestamp(cluster.epoch, UTC).isoformat()
        present = datetime.fromtimestamp(now, UTC).isoformat(timespec="seconds")
        yield f"[cluster] epoch {start} is in the future; it is {present}: check the clock"
    yield from declaration_problems(config.bandits)
    fewest, most = len(config.neighbors) + 1, cluster.most_agents
    for bandit in config.bandits.values():
        known = bandit.known_num_agents
        if known is not None and not fewest <= known <= most:
            yield (
                f"{bandit.where} num_agents is {known}; it must be at least {fewest}, this "
                f"node and its neighbours, and at most max_agents, which is {most}"
            )
    if most < fewest:
        yield (
            f"[cluster] max_agents is {most}, but this node and its neighbours are {fewest}; "
            "raise it on all nodes"
        )
    yield from _names(config)
    yield from _default_bandit(config)
    yield from _discovery(config) if config.auto else _listed(config)
    if config.tls is None:
        yield from _insecure_links(config, insecure=insecure)
    yield from _api(config)
    if config.document.file is not None and not config.document.operators:
        yield (
            "[document] has a file but no operators, so no signature would be trusted; list the "
            "keys that `coopbandits cluster keygen` prints"
        )
    wanted = config.degree if config.auto else len(config.neighbors)
    if config.ready_neighbors > wanted:
        yield (
            f"[node] ready_neighbors is {config.ready_neighbors}, but {wanted} neighbours are "
            f"{'looked for' if config.auto else 'listed'}, so the agent would never be ready; "
            f"lower it or {'raise degree' if config.auto else 'list more'}"
        )


def declaration_problems(declared: Mapping[str, BanditConfig]) -> Iterator[str]:
    """Yield the contradictions in and between declarations of bandits."""
    for bandit in declared.values():
        yield from _rewards(bandit)
        yield from _features(bandit)
        for key in ("num_agents", "lambda_bound"):
            yield from _knowledge(bandit, key)
        yield from _era(bandit)
        if bandit.half_life is not None:
            yield from half_life_problems(bandit, bandit.half_life)
        if bandit.number >= DERIVED and bandit.number != derived_number(bandit.name):
            yield wrong_number(f"{bandit.where} number", bandit.number)
        yield from _arms(bandit)
    owners: dict[int, str] = {}
    for bandit in declared.values():
        other = owners.setdefault(bandit.number, bandit.name)
        if other != bandit.name:
            yield (
                f"bandits {other} and {bandit.name} have the same number {bandit.number}; state "
                "another number for the new one"
            )
    if len(declared) > MAX_BANDITS:
        yield f"there are {len(declared)} bandits; an agent accepts up to {MAX_BANDITS}"


def era_problems(before: BanditConfig, after: BanditConfig) -> Iterator[str]:
    """Yield a sentence if a bandit cannot go from the policy and era that it has to others."""
    where = after.where
    if after.era < before.era:
        yield (
            f"{where} era is {after.era}, but the bandit is in era {before.era}, with policy "
            f"{before.policy!r}; state these, or a later era"
        )
    elif after.era == before.era and after.policy != before.policy:
        yield (
            f"{where} policy is {after.policy!r}, but the bandit has learned with "
            f"{before.policy!r}; restore that value, or set era = {before.era + 1} to carry over "
            "what was learned"
        )
    elif after.era > before.era and (
        problem := carry_problem(before.policy_object, after.policy_object)
    ):
        yield (
            f"{where} policy {after.policy!r} cannot carry over into era {after.era} what was "
            f"learned with {before.policy!r}: {problem}; choose another policy, or give the "
            "bandit another name"
        )


def _rewards(bandit: BanditConfig) -> Iterator[str]:
    ends = bandit.reward_range or (0.0, 1.0)
    if bandit.reward_range is None and bandit.sigma is None:
        yield (
            f"{bandit.where} has neither reward_range nor sigma; give the lowest and the highest "
            "reward as reward_range = [0.0, 1.0], or the rewards' standard deviation as sigma"
        )
    elif max(map(abs, ends)) > MAX_REWARD:  # squares and quotients would overflow
        yield (
            f"{bandit.where} reward_range is {list(ends)}; it must be between {-MAX_REWARD:g} and "
            f"{MAX_REWARD:g}: report rewards in a larger unit"
        )
    elif not 1 / MAX_REWARD <= bandit.scale.sigma <= MAX_REWARD:
        yield (
            f"{bandit.where} sigma is {bandit.sigma!r}, {bandit.scale.sigma:g} of the range; it "
            f"must be from {1 / MAX_REWARD:g} to {MAX_REWARD:g}: report rewards in another unit"
        )
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


def _features(bandit: BanditConfig) -> Iterator[str]:
    looks = parse_policy(bandit.policy).takes_context
    if looks and bandit.features is None:
        yield (
            f"{bandit.where} policy {bandit.policy} is contextual, but no features are declared; "
            f"list them in [bandits.{bandit.name}.features]: {EXAMPLE}"
        )
    elif bandit.features is not None and not looks:
        yield (
            f"{bandit.where} has features, but policy {bandit.policy} ignores them; remove them, "
            "or choose a contextual one, such as flooded-totals*lin-ts:disjoint=true"
        )


def _era(bandit: BanditConfig) -> Iterator[str]:
    """Yield a sentence for a later era of a policy that has none."""
    policy = parse_policy(bandit.policy)
    if bandit.era and (problem := carry_problem(policy, policy)):
        yield (
            f"{bandit.where} era is {bandit.era}, but {problem}; leave out era, or choose a policy "
            "such as flood-ts"
        )


def _knowledge(bandit: BanditConfig, key: str) -> Iterator[str]:
    """Compare the knowledge that a policy needs with what is given."""
    policy = parse_policy(bandit.policy)
    given = getattr(bandit, key)
    if given is None and key in policy.needs:
        estimate = ', or "estimate"' if can_estimate(policy, key) else ""
        yield f"{bandit.where} has no {key}, which policy {bandit.policy} needs; give it{estimate}"
    elif given is not None and key not in policy.needs:
        yield f"{bandit.where} {key} is {given!r}, but policy {bandit.policy} needs none; remove it"
    elif given == "estimate" and not can_estimate(policy, key):
        yield (
            f"{bandit.where} {key} cannot be estimated for policy {bandit.policy}; give a number, "
            "or choose a policy that needs none, such as flood-ts"
        )


def half_life_problems(bandit: BanditConfig, seconds: float) -> Iterator[str]:
    """Yield a sentence if a policy cannot forget by the clock, or forgets faster than gossip."""
    what = f"{bandit.where} half_life is {show_duration(seconds)}, but "
    able = [each.name for each in registry.AGGREGATIONS if each.takes_time]
    if not traits_of(parse_policy(bandit.policy)).takes_time:
        yield (
            f"{what}policy {bandit.policy} cannot forget by the clock; leave it out, or choose "
            f"a policy on {', '.join(able)}, such as flood-ts"
        )
        return
    try:
        _ = bandit.policy_object
    except InputError as error:
        yield f"{what}with policy {bandit.policy} {error}"
    if seconds * bandit.cluster.rounds_per_second < MIN_ROUNDS:
        least = MIN_ROUNDS / bandit.cluster.rounds_per_second
        yield (
            f"{what}at {bandit.cluster.rounds_per_second:g} rounds a second agents would forget "
            f"pulls before they have spread; give at least {show_duration(least)}, or raise "
            "rounds_per_second"
        )


def _arms(bandit: BanditConfig) -> Iterator[str]:
    where, names = bandit.where, [arm.name for arm in bandit.arms]
    if bandit.pinned is not None and bandit.pinned not in names:
        yield str(unknown_name(f"arm pinned in {where}", bandit.pinned, names))
    if all(arm.frozen for arm in bandit.arms) and bandit.pinned is None:
        yield f"{where} has only frozen arms; leave one unfrozen, or leave out the section"
    for arm in bandit.arms:
        if arm.id in bandit.purged:
            yield f"{where} has {arm.id!r} in both arms and purged; remove it from one of them"
    if bandit.purged and not bandit.can_widen:
        yield (
            f"{where} purges arms, but with policy {bandit.policy} arms cannot change; leave out "
            "purged, or give a policy such as flood-ts to a bandit of another name"
        )
    elif bandit.purged and not can_purge(parse_policy(bandit.policy)):
        yield (
            f"{where} purges arms, but policy {bandit.policy} learns from all arms how sites "
            "differ; leave out purged, or give a policy without spread=estimate to a bandit of "
            "another name"
        )
    total = sum(arm.minimum_share for arm in bandit.arms if not arm.frozen)
    if total > 1.0:
        yield f"{where} minimum_share adds up to {total:g} over all arms; it may be 1 at most"


def find_oversize(bandit: BanditConfig) -> Iterator[str]:
    """Yield a sentence if messages of a bandit would need too much memory and traffic."""
    size = bandit.max_message_bytes() / 1e6
    if size <= MAX_MESSAGE_MB:
        return
    columns = bandit.encoder.width
    model = f", {columns} columns of features" if bandit.features else ""
    fewer = " or features, or disjoint=false for one model of all arms" * bool(bandit.features)
    yield (
        f"{bandit.where} makes messages of up to {size:,.0f} MB ({len(bandit.arms)} "
        f"arms{model}, policy {bandit.policy}, max_agents {bandit.cluster.most_agents}); they may "
        f"have {MAX_MESSAGE_MB:g} MB: lower max_agents, declare fewer arms{fewer}, or choose a "
        "policy whose messages do not grow with the agents, such as one on tree-sums"
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


def _default_bandit(config: NodeConfig) -> Iterator[str]:
    """Yield a sentence if the default bandit is not declared, and no document may declare it."""
    name = config.default_bandit
    if name is not None and name not in config.bandits and not config.document.operators:
        listed = ", ".join(list(config.bandits)[:10])
        yield (
            f"[node] default_bandit is {name!r}, which is not declared; add a section "
            f"[bandits.{name}], or " + (f"name one of {listed}" if listed else "remove it")
        )


def _listed(config: NodeConfig) -> Iterator[str]:
    """Yield settings of discovery that are given although neighbours are listed."""
    for key in ("seeds", "advertise"):
        if getattr(config, key):
            yield (
                f'[node] has {key}, but its neighbours are listed; set neighbors = "auto", or '
                f"remove {key}"
            )


def _discovery(config: NodeConfig) -> Iterator[str]:
    """Yield what prevents an agent from discovering its neighbours."""
    if config.neighbors:
        yield (
            f'[node] neighbors is "auto", but {len(config.neighbors)} are listed; remove one or '
            "the other"
        )
    if config.tls is None:
        yield (
            '[node] neighbors is "auto", but there is no [tls]; agents recognise discovered '
            "neighbours by their certificates only: make them with: coopbandits certs init "
            f"authority, and {issue_command(config.id)}"
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
                f'[node] neighbors is "auto", but {obstacle}; list the neighbours, or choose '
                "flood-ts"
            )


def _stays_with_neighbors(bandit: BanditConfig) -> str:
    """Return why the neighbours of a policy cannot change, as a clause; "" if they can."""
    if bandit.is_synchronous:
        return f"policy {bandit.policy} is synchronous, so its neighbours cannot change"
    policy = bandit.policy_object
    few = policy.make_agent(replace(trial_view(policy), own_weight=1.0, neighbor_weights={}))
    more: Any = policy.make_agent(trial_view(policy))
    try:
        more.relinked(few.export_state(), [])
    except InputError as error:
        return f"policy {bandit.policy} cannot change neighbours: {error}"
    return ""


def _insecure_links(config: NodeConfig, *, insecure: bool) -> Iterator[str]:
    """Yield why links cannot be without [tls]: it takes --insecure, and one machine."""
    if not insecure:
        yield (
            "there is no [tls], so any program could join; give ca, certificate and key (make them "
            f"with: coopbandits certs init authority, and {issue_command(config.id)}), or add "
            "--insecure to try it out on one machine"
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


def _overlap(one: Address, other: Address) -> bool:
    """Return whether two hosts are the same, or one is all IPv4 addresses of the machine."""
    hosts = {one.host, other.host}
    return len(hosts) == 1 or (EVERYWHERE in hosts and not any(":" in host for host in hosts))


def _api(config: NodeConfig) -> Iterator[str]:
    """Yield a sentence if others can reach the API without a token or client certificates."""
    place = config.api
    if not isinstance(place, Address):
        if len(bytes(place)) > MAX_SOCKET_PATH:
            yield (
                f"[node] api unix:{place} is longer than {MAX_SOCKET_PATH} bytes; choose a shorter "
                "path"
            )
        return
    if place.port and place.port == config.listen.port and _overlap(place, config.listen):
        yield (
            f"[node] api is {place}, and neighbours reach this node at {config.listen}; the two "
            "need different ports"
        )
    if place.is_loopback:
        return
    if config.tls is None:
        yield (
            f"[node] api is {place}, which others can reach, and there is no [tls]; choose an "
            "address of this machine such as 127.0.0.1, or unix:PATH"
        )
    elif not config.needs_token and config.api_tls is None:
        yield (
            f"[node] api is {place}, which others can reach; give a token_file or [api_tls], or "
            "choose an address of this machine such as 127.0.0.1, or unix:PATH"
        )
