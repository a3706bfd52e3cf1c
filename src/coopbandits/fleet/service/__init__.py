"""What an application may ask of its agent: the contract here, its implementation beside it."""

from coopbandits.fleet.service.contract import (
    DEFAULT,
    ArmEstimate,
    Choice,
    ExpiredTicketError,
    Metric,
    OtherRewardError,
    Receipt,
    Service,
    Stored,
    TooManyTicketsError,
    UnavailableError,
    UnknownTicketError,
    require_allowed,
    require_reward,
    require_ticket,
)

__all__ = [
    "DEFAULT",
    "ArmEstimate",
    "Choice",
    "ExpiredTicketError",
    "Metric",
    "OtherRewardError",
    "Receipt",
    "Service",
    "Stored",
    "TooManyTicketsError",
    "UnavailableError",
    "UnknownTicketError",
    "require_allowed",
    "require_reward",
    "require_ticket",
]
