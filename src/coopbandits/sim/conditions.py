"""The conditions under which policies play: faults and clocks, and what goes with what."""

from __future__ import annotations

from typing import Any

from coopbandits.core.errors import InputError
from coopbandits.core.policy import Policy
from coopbandits.network import Faults, parse_faults
from coopbandits.network.faults import PERFECT
from coopbandits.sim.clocks import Clocks, parse_clocks
from coopbandits.sim.record import Task


def read_conditions(faults: Any, clocks: Any) -> tuple[Faults, Clocks | None]:
    """Return faults and clocks that were given as such or as texts, or refuse them."""
    if isinstance(faults, str):
        faults = parse_faults(faults)
    if isinstance(clocks, str):
        clocks = parse_clocks(clocks)
    if not isinstance(faults, Faults | None):
        raise InputError(f"faults is {faults!r}; give a text such as 'loss=0.3', or cb.Faults(…)")
    if not isinstance(clocks, Clocks | None):
        raise InputError(f"clocks is {clocks!r}; give a text such as 'poisson:ratio=10'")
    return faults or PERFECT, clocks


def check_conditions(task: Task) -> None:
    """Refuse what does not go together."""
    if task.faults:
        task.faults.schedule(task.network, task.seed, 0)  # refuses graphs that do not fit
    if task.clocks is None:
        return
    others = [kind for kind in task.faults.kinds if kind.loss_without_rounds is None]
    if others:
        raise InputError(
            f"fault {others[0].full_name()} is told in rounds, and with clocks there are none; "
            "of faults only loss goes with clocks"
        )
    if task.keep == "arms":
        raise InputError(
            "single arms cannot be kept with clocks, since agents pull unequally often; "
            'keep="agents" keeps the pulls of every agent'
        )
    if isinstance(task.policy, Policy) and task.policy.needs_common_round:
        raise InputError(
            f"policy {task.policy.spelling} needs rounds that all agents count together, and with "
            "clocks there are none; leave clocks out, or take a policy without such a need"
        )
