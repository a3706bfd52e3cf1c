"""Fault schedules: what goes wrong between agents, as data, and round by round."""

from coopbandits.network.faults.absence import AWAY, FRESH, Crash, Join, Sleep, Speeds
from coopbandits.network.faults.faults import (
    FAULT_KINDS,
    KINDS,
    PERFECT,
    Faults,
    parse_faults,
    register_fault,
)
from coopbandits.network.faults.kind import Effect, Kind
from coopbandits.network.faults.links import Links, Rounds, directed_links, draws, place_keys
from coopbandits.network.faults.messages import Bursts, Delay, Loss
from coopbandits.network.faults.outages import Churn, Graphs, OneWay, Pairs, Partition, Redraw
from coopbandits.network.faults.schedule import DOWN, LOST, Chunk, Schedule

__all__ = [
    "AWAY",
    "DOWN",
    "FAULT_KINDS",
    "FRESH",
    "KINDS",
    "LOST",
    "PERFECT",
    "Bursts",
    "Chunk",
    "Churn",
    "Crash",
    "Delay",
    "Effect",
    "Faults",
    "Graphs",
    "Join",
    "Kind",
    "Links",
    "Loss",
    "OneWay",
    "Pairs",
    "Partition",
    "Redraw",
    "Rounds",
    "Schedule",
    "Sleep",
    "Speeds",
    "directed_links",
    "draws",
    "parse_faults",
    "place_keys",
    "register_fault",
]
