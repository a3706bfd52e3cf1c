"""Bridges to other libraries: environments for PettingZoo and Gymnasium, learners of others.

Every library is an extra of this package. Names load on first use, so that each needs its own
library alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coopbandits.adapters.gymnasium import SingleBanditEnv
    from coopbandits.adapters.learner import Learner, LearnerPolicy
    from coopbandits.adapters.mabwiser import MABWiser
    from coopbandits.adapters.pettingzoo import ParallelBanditEnv
    from coopbandits.adapters.river import River

_HOME_OF = {
    "Learner": "learner",
    "LearnerPolicy": "learner",
    "MABWiser": "mabwiser",
    "ParallelBanditEnv": "pettingzoo",
    "River": "river",
    "SingleBanditEnv": "gymnasium",
}

__all__ = [
    "Learner",
    "LearnerPolicy",
    "MABWiser",
    "ParallelBanditEnv",
    "River",
    "SingleBanditEnv",
]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(f"coopbandits.adapters.{_HOME_OF[name]}"), name)
    raise AttributeError(f"module 'coopbandits.adapters' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
