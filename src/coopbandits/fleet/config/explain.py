"""Explains a configuration in words before an agent is started with it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from coopbandits.core.aggregate.forgetting import SKEW
from coopbandits.fleet.address import show_place
from coopbandits.fleet.config.bandits import BanditConfig
from coopbandits.fleet.config.features import Feature
from coopbandits.fleet.config.fields import shown
from coopbandits.fleet.config.model import NodeConfig
from coopbandits.fleet.config.sizes import bytes_per_second, memory_mb, message_size
from coopbandits.fleet.identity.tls import read_credentials, validity

DAY = 86400.0

MODES_IN_WORDS = {
    "robust": "goes on whatever neighbours do",
    "synchronous": "every round waits for all neighbours",
}

DURABILITIES_IN_WORDS = {
    "process": "survives the death of the process",
    "power": "survives the death of the machine",
}


def explain(config: NodeConfig, now: float) -> str:
    """Return a table of what the agent will do, with warnings."""
    rows = list(_rows(config, now))
    width = max(len(head) for head, _ in rows)
    lines = [f"{head:<{width}}  {text}" for head, text in rows]
    return "\n".join([*lines, *(f"warning: {text}" for text in find_warnings(config, now))])


def _rows(config: NodeConfig, now: float) -> Iterator[tuple[str, str]]:
    cluster = config.cluster
    yield "node", f"{config.id} of cluster {cluster.name}, configuration {cluster.hash[:12]}"
    start = f"since {datetime.fromtimestamp(cluster.epoch, UTC):%Y-%m-%d %H:%M:%S} UTC"
    yield "learning", f"{start}, bandits: {len(config.bandits)}"
    for bandit in config.bandits.values():
        yield from _bandit_rows(bandit)
    yield "pace", f"{cluster.rounds_per_second:g} rounds per second"
    yield "memory", f"about {memory_mb(config):.0f} MB"
    made_up = "" if config.tls else " with throw-away certificates"
    yield "listens", f"{config.listen}, mutual TLS{made_up}"
    listed = [f"{name} at {place}" for name, place in config.neighbors.items()]
    if config.auto:
        seeds = ", ".join(map(str, config.seeds)) or "nowhere"
        yield "neighbours", f"{config.degree} that it finds itself, looking first at {seeds}"
    else:
        yield "neighbours", f"{len(listed)}: {', '.join(listed)}" if listed else "none"
    yield "journal", f"{config.journal}, {DURABILITIES_IN_WORDS[config.durability]}"
    yield "API", _api(config)
    if config.document.operators:
        count, file = len(config.document.operators), config.document.file
        also = f", also from {file}" if file else ""
        yield "operators", f"{count}, whose documents are taken{also}"
    if config.tls:
        end = read_credentials(config.id, config.tls).expires
        day = datetime.fromtimestamp(end, UTC)
        yield "certificate", f"valid until {day:%Y-%m-%d} ({(end - now) // DAY:.0f} days)"


def _bandit_rows(bandit: BanditConfig) -> Iterator[tuple[str, str]]:
    yield f"  {bandit.name}", f"{len(bandit.arms)} arms, rewards {_rewards(bandit)}"
    yield "", f"{bandit.policy}, {bandit.mode}: {MODES_IN_WORDS[bandit.mode]}"
    yield "", f"number {bandit.number}"
    if bandit.features:
        yield "", f"features: {_features(bandit, bandit.features)}"
    if bandit.half_life is not None:
        yield "", f"forgets {_forgetting(bandit, bandit.half_life)}"
    yield "", _traffic(bandit)


def _features(bandit: BanditConfig, features: tuple[Feature, ...]) -> str:
    told = "; ".join(f"{feature.name}, {feature.wanted}" for feature in features)
    return f"{told}: {bandit.encoder.width} columns with that of ones"


def _forgetting(bandit: BanditConfig, half_life: float) -> str:
    skew = shown(SKEW * bandit.tick)
    return f"half in {shown(half_life)}; clocks may differ by {skew}"


def _rewards(bandit: BanditConfig) -> str:
    scale, sigma = bandit.scale, bandit.sigma
    spread = "" if sigma is None else f"sigma {sigma:g}"
    return ", ".join(filter(None, (f"{scale.low:g} to {scale.high:g}" * scale.bounded, spread)))


def _traffic(bandit: BanditConfig) -> str:
    size = message_size(bandit)
    if size is None:
        return "messages of a size that the policy does not tell"
    usual, most = (_rate(bytes_per_second(bandit, values)) for values in size[:2])
    if size.usual == size.most:
        return f"{size.usual} values to each neighbour, {usual}"
    least = "nothing without news" if bandit.traits.grows else usual
    return f"sends each neighbour {least}, {size.when} up to {size.most} values, {most}"


def _rate(number: float) -> str:
    return f"{number / 1e6:.1f} MB/s" if number >= 1e6 else f"{number / 1e3:.1f} kB/s"


def _api(config: NodeConfig) -> str:
    token = "with a token" if config.token_file else ""
    tls = "mutual TLS" if config.api_tls else ""
    return ", ".join(filter(None, (show_place(config.api), token, tls)))


def find_warnings(config: NodeConfig, now: float) -> Iterator[str]:
    """Yield a sentence for everything that works but may not be intended."""
    cluster = config.cluster
    if config.auto and not config.seeds:
        yield f"{config.id} has no seeds, and waits until others find it; list some seeds"
    if not config.neighbors and not config.auto:
        yield f"{config.id} has no neighbours and learns alone; list some under [[neighbors]]"
    if not config.tls:
        yield "without [tls] every process on this machine can take part; give it in earnest"
    if not config.bandits:
        yield "no bandit is declared: until the cluster's document declares one, nothing is chosen"
    for bandit in config.bandits.values():
        yield from _bandit_warnings(config, bandit)
    if cluster.rounds_per_second > 200:
        yield (
            f"{cluster.rounds_per_second:g} rounds per second leave each under 5 ms; slower links "
            "or busy machines will not keep up"
        )
    robust = any(not bandit.is_synchronous for bandit in config.bandits.values())
    if robust and config.silence * cluster.rounds_per_second < 10:
        yield (
            f"a neighbour counts as gone after {config.silence:g} s, which is "
            f"{config.silence * cluster.rounds_per_second:.1f} rounds; a busy one may be taken for "
            "gone"
        )
    if config.tls:
        left = (read_credentials(config.id, config.tls).expires - now) // DAY
        if left < 14:
            yield f"the certificate expires in {left:.0f} days; renew it: coopbandits certs renew"
    if config.api_tls:
        yield from _api_certificate_warnings(validity(config.api_tls.certificate), now)


def _api_certificate_warnings(held: tuple[float, float], now: float) -> Iterator[str]:
    """Yield a sentence if clients refuse the certificate of the API, or will soon."""
    first, last = (f"{datetime.fromtimestamp(each, UTC):%Y-%m-%d}" for each in held)
    if now < held[0]:
        yield f"the certificate of the API holds from {first} on only; set the clock, or renew it"
    elif now > held[1]:
        yield f"the certificate of the API expired on {last}, and clients refuse it; renew it"
    elif held[1] - now < 14 * DAY:
        yield f"the certificate of the API expires in {(held[1] - now) // DAY:.0f} days; renew it"


def _bandit_warnings(config: NodeConfig, bandit: BanditConfig) -> Iterator[str]:
    if bandit.traits.grows and bandit.cluster.most_agents > 1000:
        yield (
            f"policy {bandit.policy} tells everybody of everybody, up to "
            f"{bandit.cluster.most_agents} agents; a ledger-…, tree-… or gossip-ts policy has "
            "messages that do not grow"
        )
    if bandit.half_life is not None and config.ticket_lifetime > bandit.half_life / 2:
        yield (
            f"rewards may come {shown(config.ticket_lifetime)} after their choice and count as new "
            f"then, where half is forgotten in {shown(bandit.half_life)}; shorten ticket_lifetime"
        )
