"""What is added up: one pull becomes numbers that can be summed, mixed and read again."""

from coopbandits.core.statistic.arm_sums import ArmSums, SiteSums
from coopbandits.core.statistic.linear import LinearSums
from coopbandits.core.statistic.statistic import Layout, Registers, Statistic, VersionedRegisters

__all__ = [
    "ArmSums",
    "Layout",
    "LinearSums",
    "Registers",
    "SiteSums",
    "Statistic",
    "VersionedRegisters",
]
