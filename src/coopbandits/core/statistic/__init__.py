"""What is added up: one pull becomes numbers that can be summed, mixed and read again."""

from coopbandits.core.statistic.arm_sums import ArmSums
from coopbandits.core.statistic.linear import LinearSums
from coopbandits.core.statistic.site_sums import SiteSums
from coopbandits.core.statistic.statistic import Layout, Registers, Statistic
from coopbandits.core.statistic.versioned import VersionedRegisters

__all__ = [
    "ArmSums",
    "Layout",
    "LinearSums",
    "Registers",
    "SiteSums",
    "Statistic",
    "VersionedRegisters",
]
