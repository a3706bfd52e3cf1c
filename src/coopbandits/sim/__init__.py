"""Drives many agents at once: engines, tapes, sweeps."""

from coopbandits.sim.simulate import SimulationInterrupted, simulate

__all__ = ["SimulationInterrupted", "simulate"]
