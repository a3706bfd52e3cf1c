"""What an application may ask of its agent: the contract here, its implementation beside it."""

from coopbandits.fleet.service.contract import (
    ArmEstimate,
    Choice,
    ExpiredTicketError,
    Metric,
    OtherRewardError,
    Receipt,
    Service,
    TooManyTicketsError,
    UnavailableError,
    UnknownTicketError,
)

__all__ = [
    "ArmEstimate",
    "Choice",
    "ExpiredTicketError",
    "Metric",
    "OtherRewardError",
    "Receipt",
    "Service",
    "TooManyTicketsError",
    "UnavailableError",
    "UnknownTicketError",
]
