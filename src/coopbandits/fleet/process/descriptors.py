"""File descriptors: enough for applications and neighbours together, so that neither runs out."""

from __future__ import annotations

import resource

from coopbandits.core.errors import InputError
from coopbandits.fleet.config import NodeConfig
from coopbandits.fleet.transport.tcp import MAX_CALLERS

OWN = 48
"""For the journal, the event loop, listening sockets, logs and libraries; about 20 are in use."""

PER_NEIGHBOR = 3
"""A link, one that it replaces, and one that is being dialled."""


def descriptors_needed(config: NodeConfig) -> int:
    """Return how many descriptors the budgets of a node add up to."""
    neighbors = MAX_CALLERS + PER_NEIGHBOR * config.most_links
    return OWN + neighbors + config.api_limits.max_connections


def reserve_descriptors(config: NodeConfig) -> None:
    """Raise this process's limit if it is too low.

    Raises
    ------
    InputError
        The system does not allow as many.
    """
    needed = descriptors_needed(config)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    except (OSError, ValueError) as error:
        raise InputError(
            f"this process may open {soft} files, but {config.api_limits.max_connections} "
            f"connections of applications and {config.most_links} neighbours take {needed}; "
            "raise the limit (LimitNOFILE, ulimit -n), or lower max_connections in [api_limits]"
        ) from error
