"""What an agent tells of its bandits and of the cluster's document: lines, metrics, all learned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from coopbandits.core.aggregate.aggregation import OWN
from coopbandits.fleet.config.features import ONES
from coopbandits.fleet.document.seal import from_json
from coopbandits.fleet.identity.operators import key_text
from coopbandits.fleet.protocol.node import Node
from coopbandits.fleet.service import BanditState, Metric, UnavailableError
from coopbandits.fleet.service.catalogue import measured
from coopbandits.fleet.service.watching import (
    MOST_LABELS,
    OTHERS,
    arm_metrics,
    journal_metrics,
    link_metrics,
    site_metrics,
)
from coopbandits.fleet.storage.disk import DiskError
from coopbandits.fleet.storage.purging import PURGED

if TYPE_CHECKING:
    from coopbandits.fleet.config.bandits import Arm, BanditConfig
    from coopbandits.fleet.protocol.node import Node
    from coopbandits.fleet.service.bandit import ServedBandit
    from coopbandits.fleet.storage.replica import Replica

REMOVED = "removed"


def bandit_state(service: ServedBandit) -> BanditState:
    """Return what there is to say of a bandit in a line."""
    bandit, replica = service.declared, service.replica
    return BanditState(
        name=bandit.name,
        number=bandit.number,
        policy=bandit.policy,
        arms=[arm.name for arm in bandit.arms],
        pinned=bandit.pinned,
        frozen=[arm.name for arm in bandit.arms if arm.frozen],
        retired=not bandit.arms,
        round=replica.rounds,
        rewards=replica.rewards,
        open_tickets=len(replica.tickets.open),
    )


def learned(bandit: BanditConfig, replica: Replica) -> dict[str, Any]:
    """Return everything learned of a bandit, also of arms that are no longer declared."""
    scale, estimate = bandit.scale, replica.agent.estimate()
    sums = estimate.sums[:, ONES] if bandit.encoder.features else estimate.sums
    arms = {arm.number: arm for arm in bandit.arms}
    found = []
    for at, (number, known) in enumerate(replica.arms.items()):
        pulls, declared = float(estimate.counts[at]), arms.get(number)
        name = declared.name if declared else known
        found.append(
            {
                "arm": name or None,
                "id": declared.id if declared else name or None,
                "number": number,
                "state": _state(number, declared),
                "pulls": pulls,
                "mean": scale.reward(float(sums[at]) / pulls) if pulls > 0.0 else None,
                "own_choices": int(replica.own_choices[at]),
                "own_pulls": int(replica.own_counts[at]),
                "own_reward": float(replica.own_sums[at]),
            }
        )
    settings = dict(bandit.shared)
    return {"number": bandit.number, "settings": settings, "round": replica.rounds, "arms": found}


def _state(number: int, declared: Arm | None) -> str:
    if declared is None:
        return "purged" if number == PURGED else REMOVED
    return "frozen" if declared.frozen else "active"


def bandit_metrics(node: Node, services: Sequence[ServedBandit]) -> list[Metric]:
    """Return the metrics of an agent, of its bandits together and one by one."""
    tickets = [service.replica.tickets for service in services]
    rewards = [int(service.replica.own_counts.sum()) for service in services]
    choices = [each.next_number - 1 for each in tickets]
    waiting = [len(each.open) for each in tickets]
    expired = sum(choices) - sum(rewards) - sum(waiting)
    names = [service.declared.name for service in services]
    alone = services[0] if len(services) == 1 else None
    return [
        *link_metrics(node),
        measured("choices_total", ({}, sum(choices))),
        measured("rewards_total", ({}, sum(rewards))),
        measured("open_tickets", ({}, sum(waiting))),
        measured("expired_tickets_total", ({}, expired)),
        measured(
            "refused_pulls_total",
            ({"call": "choose"}, sum(service.choosing.refused for service in services)),
            ({"call": "observe"}, sum(service.observing.refused for service in services)),
        ),
        *journal_metrics(node.bandits.journal),
        measured("conservation_residual", ({}, max(map(residual, services), default=0.0))),
        *document_metrics(node),
        *site_metrics(alone),
        measured("bandits", ({}, sum(bool(service.declared.arms) for service in services))),
        measured("bandit_choices_total", *_labelled(names, choices)),
        measured("bandit_rewards_total", *_labelled(names, rewards)),
        measured("bandit_open_tickets", *_labelled(names, waiting)),
        *arm_metrics(services),
    ]


def residual(service: ServedBandit) -> float:
    """Return the relative difference between pulls handed in here and the agent's own share.

    0 for policies that mix shares between agents, so that none has a share of its own, and where
    agents forget.
    """
    traits, replica = service.declared.traits, service.replica
    if traits.shares != OWN or traits.forgets:
        return 0.0
    counts = replica.agent.share().counts
    return float(abs(counts - replica.own_counts).sum() / max(1.0, float(replica.own_counts.sum())))


def _labelled(
    names: Sequence[str], values: Sequence[int]
) -> Iterator[tuple[dict[str, str], float]]:
    """Yield a value for each of the first bandits, and the sum of the rest."""
    for name, value in zip(names[:MOST_LABELS], values[:MOST_LABELS], strict=True):
        yield {"bandit": name}, float(value)
    if len(names) > MOST_LABELS:
        yield {"bandit": f"({OTHERS})"}, float(sum(values[MOST_LABELS:]))


def state_of(node: Node) -> dict[str, Any]:
    """Return which document an agent has, and what is wrong with it."""
    documents = node.settings.documents
    return {
        "version": documents.version,
        "digest": documents.digest.hex(),
        "alarm": documents.alarm,
    }


def document_metrics(node: Node) -> list[Metric]:
    """Return the same as metrics."""
    documents = node.settings.documents
    return [
        measured("document_version", ({}, documents.version)),
        measured("document_alarm", ({}, float(bool(documents.alarm)))),
    ]


def ruling(node: Node) -> dict[str, Any]:
    """Return the document, whom the agent believes, and the versions of its neighbours."""
    documents = node.settings.documents
    signed = documents.stored.signed if documents.stored else None
    return {
        "id": node.settings.node,
        "cluster": documents.cluster,
        **state_of(node),
        "operators": [key_text(key) for key in documents.keys],
        "neighbors": {
            name: peer.version if (peer := node.spread.peers.get(name)) else None
            for name in node.peers
        },
        "content": signed.content.decode() if signed else None,
        "signed": msgspec.to_builtins(signed) if signed else None,
    }


def adopt(node: Node, signed: bytes | bytearray, failure: str, now: float) -> dict[str, Any]:
    """Take a document, signed and as JSON; return what `ruling` does."""
    if failure:
        raise UnavailableError(failure)
    try:
        node.adopt(from_json(signed), now)
    except DiskError as error:
        raise UnavailableError(f"{error}; the document is not taken") from error
    return ruling(node)
