"""Fault schedules: what goes wrong between agents, as data, and round by round."""

from coopbandits.network.faults.absence import Crash, Join, Sleep, Speeds
from coopbandits.network.faults.faults import KINDS, PERFECT, Faults, parse_faults
from coopbandits.network.faults.kind import Kind
from coopbandits.network.faults.links import Links, directed_links
from coopbandits.network.faults.messages import Bursts, Delay, Loss
from coopbandits.network.faults.outages import Churn, Graphs, OneWay, Partition, Redraw
from coopbandits.network.faults.schedule import DOWN, LOST, Chunk, Schedule

__all__ = [
    "DOWN",
    "KINDS",
    "LOST",
    "PERFECT",
    "Bursts",
    "Chunk",
    "Churn",
    "Crash",
    "Delay",
    "Faults",
    "Graphs",
    "Join",
    "Kind",
    "Links",
    "Loss",
    "OneWay",
    "Partition",
    "Redraw",
    "Schedule",
    "Sleep",
    "Speeds",
    "directed_links",
    "parse_faults",
]
