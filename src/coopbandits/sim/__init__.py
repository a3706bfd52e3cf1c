"""Drives many agents: engines, tapes, sweeps."""

from coopbandits.sim.clocks import parse_clocks
from coopbandits.sim.compare import compare, merge
from coopbandits.sim.experiment import read_experiment
from coopbandits.sim.ledger import Cell
from coopbandits.sim.simulate import SimulationInterrupted, simulate
from coopbandits.sim.sweep import Sweep, SweepInterrupted, sweep

__all__ = [
    "Cell",
    "SimulationInterrupted",
    "Sweep",
    "SweepInterrupted",
    "compare",
    "merge",
    "parse_clocks",
    "read_experiment",
    "simulate",
    "sweep",
]
