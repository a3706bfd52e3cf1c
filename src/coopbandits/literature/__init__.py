"""The literature, one file per paper: rivals of our policies, and models of their own.

Each file opens with the paper, its algorithm and what was changed. **Rivals** are policies and
their parts, made of `coopbandits.core` alone: they play in every engine, and some in fleets.
`core.registry` finds them by name. **Other models** differ from the rest of the package in what an
agent is, sees or may do. They open with the paper's model and guarantee too, have drivers of their
own, and share random numbers and outcomes (`models`), which finds them by name for the command
line. Where the text was not available to us, a file says *reconstruction*: only the claims of the
abstract are the authors', and tests check these by simulation.

Names load on first use: an agent that plays a rival needs numpy alone.
"""

# mypy: implicit-reexport

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coopbandits.literature.awerbuch2008 import collaborate
    from coopbandits.literature.barnea2024 import CoopSE
    from coopbandits.literature.besson2018 import (
        TDFS,
        Collisions,
        MCTopM,
        RandTopM,
        RhoRand,
        Selfish,
        collision_bound,
        play_collisions,
    )
    from coopbandits.literature.cesabianchi2016 import Exp3Coop
    from coopbandits.literature.chakraborty2017 import pull_or_tell
    from coopbandits.literature.chawla2020 import GosInE
    from coopbandits.literature.dubey2020 import MPUCB
    from coopbandits.literature.hillel2013 import BestArm, many_exchanges, one_exchange
    from coopbandits.literature.kalathil2014 import Matched, auction, best_matching, ducb4
    from coopbandits.literature.kar2011 import one_observer
    from coopbandits.literature.kolla2018 import UCBNetwork
    from coopbandits.literature.korda2016 import PermutedBuffers
    from coopbandits.literature.lalitha2020 import DecBayesUCB, DecTS
    from coopbandits.literature.landgren2016 import UCL, CoopUCB, CoopUCB2, CoopUCL, InflatedUCB
    from coopbandits.literature.liu2025 import GSE
    from coopbandits.literature.models import Outcome
    from coopbandits.literature.nayyar2016 import de3
    from coopbandits.literature.shahrampour2017 import majority_vote
    from coopbandits.literature.wang2020a import DPE2
    from coopbandits.literature.wang2020b import ServerTotals
    from coopbandits.literature.xu2015 import global_feedback
    from coopbandits.literature.zhu2021a import DecKLUCB, DecUCB, TrackedMeans
    from coopbandits.literature.zhu2021b import FedUCB, GossipUCB
    from coopbandits.literature.zhu2023 import Liar, ResilientUCB, TrimmedMeans

_HOMES = {
    "awerbuch2008": "collaborate",
    "barnea2024": "CoopSE",
    "besson2018": "Collisions MCTopM RandTopM RhoRand Selfish TDFS collision_bound play_collisions",
    "cesabianchi2016": "Exp3Coop",
    "chakraborty2017": "pull_or_tell",
    "chawla2020": "GosInE",
    "dubey2020": "MPUCB",
    "hillel2013": "BestArm many_exchanges one_exchange",
    "kalathil2014": "Matched auction best_matching ducb4",
    "kar2011": "one_observer",
    "kolla2018": "UCBNetwork",
    "korda2016": "PermutedBuffers",
    "lalitha2020": "DecBayesUCB DecTS",
    "landgren2016": "CoopUCB CoopUCB2 CoopUCL InflatedUCB UCL",
    "liu2025": "GSE",
    "models": "Outcome",
    "nayyar2016": "de3",
    "shahrampour2017": "majority_vote",
    "wang2020a": "DPE2",
    "wang2020b": "ServerTotals",
    "xu2015": "global_feedback",
    "zhu2021a": "DecKLUCB DecUCB TrackedMeans",
    "zhu2021b": "FedUCB GossipUCB",
    "zhu2023": "Liar ResilientUCB TrimmedMeans",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
