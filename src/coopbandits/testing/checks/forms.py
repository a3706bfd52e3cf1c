"""Compiled functions of a policy, held to what they play in plain Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from coopbandits.core.aggregate import Aggregation
from coopbandits.core.index.index import UNIT_REWARDS
from coopbandits.core.spelling import is_ours
from coopbandits.network import Network
from coopbandits.problems import BernoulliBandit, GaussianBandit
from coopbandits.sim import simulate
from coopbandits.testing.checks import finding

if TYPE_CHECKING:
    from coopbandits.testing.world import Trial


def compiled_form(trial: Trial) -> None:
    """An aggregation of one's own plays compiled what it plays in plain Python.

    Where numba cannot compile it, a note says why, and nothing is checked.
    """
    policy, spec = trial.policy, declared_aggregation(trial)
    if spec is None or is_ours(spec):
        return
    means = np.linspace(0.8, 0.3, trial.num_arms)
    has_range = policy.support == UNIT_REWARDS
    problem = BernoulliBandit(means) if has_range else GaussianBandit(means)
    for graph in ("cycle:4", "star:5"):
        for faults in ("none", "loss=0.3"):
            played = [
                simulate(
                    problem, Network.from_spec(graph), policy, trial.rounds, seed=trial.seed,
                    engine=engine, faults=faults, keep="arms", progress=False,
                )
                for engine in ("cpu", "reference")
            ]  # fmt: skip
            if played[0].meta["engines"] != ["cpu"]:
                return
            _expect_same_play(played[0].dataset, played[1].dataset, f"{graph}, faults {faults}")


def _expect_same_play(compiled: Any, plain: Any, where: str) -> None:
    arms, others = (each["arms"].values[0, 0] for each in (compiled, plain))  # (agent, round)
    differ = (arms != others).any(axis=0)
    if differ.any():
        at = int(differ.argmax())
        raise finding(
            f"agents chose arms {arms[:, at].tolist()} with compiled functions, and "
            f"{others[:, at].tolist()} in plain Python ({where}, round {at})",
            "the same; look for global variables, and for chance that does not come from words",
        )
    for name in ("values_sent", "messages_sent"):
        sent, other = (int(each[name].values.sum()) for each in (compiled, plain))
        if sent != other:
            raise finding(
                f"{name} is {sent} with compiled functions, and {other} in plain Python ({where})",
                "the same",
            )


def declared_aggregation(trial: Trial) -> Aggregation | None:
    """Return the aggregation on fields that a policy plays, if it is made of one."""
    parts = trial.policy.parts if trial.policy.plays_parts else None
    found = parts.aggregation if parts is not None else None
    return found if isinstance(found, Aggregation) else None
