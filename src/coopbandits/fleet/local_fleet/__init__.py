"""A fleet of real agents on one machine: processes, TLS and HTTP as in earnest, and trouble."""

from coopbandits.fleet.local_fleet.members import FleetError
from coopbandits.fleet.local_fleet.play import Outcome, play
from coopbandits.fleet.local_fleet.settings import Settings, make_settings, parse_seconds

__all__ = ["FleetError", "Outcome", "Settings", "make_settings", "parse_seconds", "play"]
