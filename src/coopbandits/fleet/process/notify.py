"""Tells the service manager how an agent is: systemd's notification protocol, in a few lines.

systemd names a datagram socket in `NOTIFY_SOCKET`, and how often it wants to hear of the process in
`WATCHDOG_USEC`. Without these nothing is sent.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Mapping

READY, STOPPING, WATCHDOG = "READY=1", "STOPPING=1", "WATCHDOG=1"

log = logging.getLogger(__name__)


class ServiceManager:
    """Whoever started the process, if it wants to be told.

    Parameters
    ----------
    environment : mapping
        The variables of the process.

    Attributes
    ----------
    interval : float
        Seconds between two signs of life, half of what is asked for; 0 where none is.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        place = environment.get("NOTIFY_SOCKET", "")
        self._place = "\0" + place[1:] if place.startswith("@") else place
        self.interval = _interval(environment) if place else 0.0

    def tell(self, *lines: str) -> None:
        """Send what changed; a manager that does not listen stops no agent."""
        if not self._place:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                sock.setblocking(False)
                sock.sendto("\n".join(lines).encode(), self._place)
        except OSError as error:
            log.warning("the service manager cannot be told %s: %s", lines[0], error)

    def tell_reloading(self) -> None:
        """Say that settings are read anew, and when, by the clock that systemd compares."""
        self.tell("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    async def keep_telling(self) -> None:
        """Send a sign of life again and again, which only a live event loop does."""
        while self.interval:
            self.tell(WATCHDOG)
            await asyncio.sleep(self.interval)


def _interval(environment: Mapping[str, str]) -> float:
    meant = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    asked = environment.get("WATCHDOG_USEC", "")
    return int(asked) / 2e6 if meant and asked.isascii() and asked.isdigit() else 0.0
