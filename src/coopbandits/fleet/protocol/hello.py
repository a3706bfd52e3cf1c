"""Whether a HELLO is that of the expected neighbour, and otherwise why not, in one sentence."""

from __future__ import annotations

from coopbandits.core.errors import InputError
from coopbandits.fleet.protocol.frames import VERSIONS, HelloFrame, common_version
from coopbandits.fleet.protocol.peers import Peer
from coopbandits.fleet.protocol.settings import BANDIT, NodeSettings


def check_hello(settings: NodeSettings, peer: Peer, frame: HelloFrame) -> None:
    """Refuse all but the expected neighbour, of the same cluster, epoch and configuration."""
    hello, stamp = frame.hello, frame.stamp
    if common_version(hello.versions) is None:
        newer = hello.versions[0] > VERSIONS[1]
        raise InputError(
            f"{peer.name} speaks {told_versions(hello.versions)} of the protocol, but "
            f"{settings.node} {told_versions(VERSIONS)}; upgrade coopbandits on "
            f"{settings.node if newer else peer.name}"
        )
    for what, theirs, own in (
        ("id", hello.node, peer.name),
        ("cluster", hello.cluster, settings.cluster),
        ("epoch", stamp.epoch, settings.epoch),
        ("bandit", stamp.bandit, BANDIT),
        ("configuration", hello.configuration, settings.configuration),
    ):
        if theirs != own:
            raise InputError(
                f"{peer.name} has {what} {short(theirs)}, but {settings.node} expects "
                f"{short(own)}; compare both files with: coopbandits agent --check"
            )
    if stamp.incarnation < peer.incarnation:
        raise InputError(
            f"{peer.name} has incarnation {stamp.incarnation}, but {peer.incarnation} was seen: "
            "an older process still runs, or a clock went back"
        )


def told_versions(versions: tuple[int, int]) -> str:
    """Return a range of versions in words."""
    low, high = versions
    return f"version {low}" if low == high else f"versions {low} to {high}"


def short(value: str | int) -> str:
    """Return a value for a sentence; a digest is cut to its first digits."""
    return repr(value[:12]) if isinstance(value, str) and len(value) == 64 else repr(value)
