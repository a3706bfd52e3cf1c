"""Whether a HELLO is that of the expected neighbour, and otherwise why not, in one sentence."""

from __future__ import annotations

from coopbandits.core.errors import InputError
from coopbandits.fleet.protocol.frames import HelloFrame
from coopbandits.fleet.protocol.peers import Peer
from coopbandits.fleet.protocol.settings import NodeSettings


def check_hello(settings: NodeSettings, peer: Peer, frame: HelloFrame) -> None:
    """Refuse all but the expected neighbour, of the same cluster, epoch and configuration."""
    hello, stamp = frame.hello, frame.stamp
    for what, theirs, own in (
        ("id", hello.node, peer.name),
        ("cluster", hello.cluster, settings.cluster),
        ("epoch", stamp.epoch, settings.epoch),
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


def short(value: str | int) -> str:
    """Return a value for a sentence; a digest is cut to its first digits."""
    return repr(value[:12]) if isinstance(value, str) and len(value) == 64 else repr(value)
