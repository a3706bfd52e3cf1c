"""When agents could have stopped, as a table."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import xarray as xr

from coopbandits.plots import Curve

HEADER = ("policy", "first agent", "last agent", "pulls until then", "stopped", "wrong")


@dataclass(frozen=True)
class StopSummary:
    """After how many rounds one policy's agents could have stopped.

    Attributes
    ----------
    policy : str
        Its spelling.
    first, last : float
        Rounds until the first agent could, and until all could: means over the runs in which all
        could, not-a-number where there is none.
    pulls : float
        Pulls of all agents until then, one per agent and round.
    stopped, wrong, runs : int
        In how many of the runs all agents could, and in how many some agent would have recommended
        an arm that is not good enough.
    """

    policy: str
    first: float
    last: float
    pulls: float
    stopped: int
    wrong: int
    runs: int

    @property
    def row(self) -> tuple[str, ...]:
        """The cells of one line of the table."""
        shown = ["–" if math.isnan(x) else f"{x:.0f}" for x in (self.first, self.last, self.pulls)]
        of_runs = (f"{count} of {self.runs}" for count in (self.stopped, self.wrong))
        return (self.policy, *shown, *of_runs)


def stop_curves(dataset: xr.Dataset, horizon: int) -> list[Curve]:
    """Return in which share of the runs all agents could have stopped, over the rounds."""
    found = []
    for policy in dataset["policy"].values:
        rounds = dataset["stop_round"].sel(policy=policy).values
        lasts = np.sort(rounds.max(axis=1)[(rounds >= 0).all(axis=1)])
        x = np.repeat([1, *lasts, horizon], 2)[1:-1]
        shares = np.arange(lasts.size + 1) / len(rounds)
        found.append(Curve(str(policy), x, np.repeat(shares, 2)))
    return found


def summarise_stops(dataset: xr.Dataset) -> tuple[StopSummary, ...]:
    """Return a line per policy; none where no rule was given."""
    if "stop_round" not in dataset:
        return ()
    found = []
    for policy in dataset["policy"].values:
        rounds = dataset["stop_round"].sel(policy=policy).values
        over = rounds[(rounds >= 0).all(axis=1)]
        firsts, lasts = over.min(axis=1), over.max(axis=1)
        last = float(lasts.mean()) if len(over) else math.nan
        found.append(
            StopSummary(
                policy=str(policy),
                first=float(firsts.mean()) if len(over) else math.nan,
                last=last,
                pulls=last * rounds.shape[1],
                stopped=len(over),
                wrong=int(dataset["stop_wrong"].sel(policy=policy).values.any(axis=1).sum()),
                runs=len(rounds),
            )
        )
    return tuple(found)
