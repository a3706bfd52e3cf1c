"""The ledger of a sweep: one folder per finished cell, written whole or not at all.

::

    DIR/cells/<id>/result.nc, meta.json     a finished cell, an ordinary saved result
    DIR/quarantine/<id>.json                a cell that failed, with its error

The id is a hash of the cell's settings, so a re-run finds what is there and resumes.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

import xarray as xr

from coopbandits.core.checks import require_count, require_flag
from coopbandits.core.errors import InputError
from coopbandits.core.policy import AnyPolicy
from coopbandits.network import Faults, Network
from coopbandits.network.faults import PERFECT
from coopbandits.plots.writing import write_text
from coopbandits.problems import Problem
from coopbandits.results import Result
from coopbandits.sim.clocks import Clocks
from coopbandits.sim.engine import AUTO
from coopbandits.sim.labels import agent_labels, arm_labels, policy_code, shared_settings
from coopbandits.sim.setup import (
    COUNTS,
    PRECISIONS,
    Setup,
    Stop,
    read_conditions,
    read_stop,
    read_world,
    recorded_rounds,
)
from coopbandits.sim.simulate import play, read_policy


@dataclass(frozen=True, eq=False)
class Cell:
    """One policy on one problem and network with one seed: the unit of a sweep.

    Text is read as by `simulate`, and what no id can tell is refused. All else is checked when the
    cell is played, so that a bad setting does not fail the whole sweep.
    Engines play the same, so that its engine is no part of what identifies a cell.
    """

    problem: Problem
    network: Network
    policy: AnyPolicy
    horizon: int
    runs: int = 1
    seed: int = 0
    shuffle_arms: bool = False
    faults: Faults = PERFECT
    clocks: Clocks | None = None
    stop: Stop | None = None
    engine: str = AUTO
    precision: str = PRECISIONS[0]

    def __post_init__(self) -> None:
        """Parse text, and reject what would have the id of another cell."""
        for name, least in COUNTS.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Integral):
                require_count(name, value, least)
            self._put(name, int(value))
        require_flag("shuffle_arms", self.shuffle_arms)
        problem, network = read_world(self.problem, self.network)
        faults, clocks = read_conditions(self.faults, self.clocks)
        self._put("problem", problem)
        self._put("network", network)
        self._put("policy", read_policy(self.policy))
        self._put("faults", faults)
        self._put("clocks", clocks)
        self._put("stop", read_stop(self.stop))

    def _put(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    @property
    def setup(self) -> Setup:
        """All but the policy, checked."""
        return Setup(
            self.problem, self.network, self.horizon, recorded_rounds(self.horizon), self.runs,
            self.seed, "", self.shuffle_arms, self.faults, self.clocks, self.stop, self.precision,
        )  # fmt: skip

    @property
    def settings(self) -> dict[str, Any]:
        """All that the cell's result is a function of, as plain data."""
        spelling = self.policy.spelling
        return {**shared_settings(self), "policy": spelling, **policy_code([self.policy])}

    @property
    def id(self) -> str:
        """A short hash of the settings."""
        text = json.dumps(self.settings, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def __str__(self) -> str:
        parts = [f"{self.policy.spelling} on {self.network.description}", f"seed {self.seed}"]
        parts += [self.faults.spelling] if self.faults else []
        parts += [f"{self.clocks.spelling} clocks"] if self.clocks else []
        return ", ".join(parts)


def run_cell(cell: Cell) -> Result:
    """Play one cell in one thread; what a worker process does."""
    return play(cell.setup, cell.policy, cell.engine, threads=1, progress=False)


class Ledger:
    """Finished and failed cells in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, cell: Cell) -> Path:
        return self.folder / "cells" / cell.id

    def load(self, cell: Cell) -> Result | None:
        """Return a finished cell's result; None if there is none that can be read."""
        try:
            result = Result.load(self.path(cell))
        except InputError:
            return None
        return Result(_renamed(result.dataset, cell), result.meta)

    def store(self, cell: Cell, result: Result) -> None:
        """Write a finished cell: into a temporary folder first, then renamed."""
        target = self.path(cell)
        part = target.with_name(f".{os.getpid()}.{target.name}")
        try:
            result.save(part)
            _remove(target)  # `load` could not read it
            part.rename(target)
        except OSError as error:
            raise InputError(
                f"cannot write {target}: {error.strerror}; make room there or choose another folder"
            ) from error
        finally:
            shutil.rmtree(part, ignore_errors=True)
        self._note(cell).unlink(missing_ok=True)

    def quarantine(self, cell: Cell, error: str) -> None:
        """Set a failed cell aside with its error."""
        entry = {"settings": cell.settings, "error": error}
        write_text(self._note(cell), json.dumps(entry, indent=2) + "\n")

    def quarantined(self, cell: Cell) -> str | None:
        """Return the error of a cell that was set aside, or None."""
        try:
            error: str = json.loads(self._note(cell).read_text())["error"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return error

    def _note(self, cell: Cell) -> Path:
        return self.folder / "quarantine" / f"{cell.id}.json"


def _renamed(data: xr.Dataset, cell: Cell) -> xr.Dataset:
    """Name arms and agents as the cell does: names are no part of its id, and may have changed."""
    data = data.assign_coords(arm=arm_labels(cell.problem))
    if "agent" not in data.dims:
        return data
    old = [name for name, coord in data.coords.items() if coord.dims == ("agent",)]
    return data.drop_vars(old).assign_coords(agent_labels(cell.network))


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
